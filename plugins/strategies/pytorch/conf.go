package pytorch

import (
	"strconv"
	"strings"
)

// ConfOf returns the settings string under which a recording was made, from the allocator settings that a memory snapshot
// holds (trace.Meta.Settings): the string itself, and what a program set by other means and the string does not name.
// A memory fraction is not recorded; a program that set one must be given it as an option of its own.
func ConfOf(recorded map[string]string) string {
	conf := recorded["PYTORCH_CUDA_ALLOC_CONF"]
	named := map[string]bool{}
	for _, tok := range lex(conf, false) {
		named[tok] = true
	}
	var more []string
	if conf != "" {
		more = append(more, conf)
	}
	add := func(key, value string) {
		if !named[key] && value != "" {
			more = append(more, key+":"+value)
		}
	}
	if recorded[keyExpandable] == "True" {
		add(keyExpandable, "True")
	}
	if n, err := strconv.ParseInt(recorded["max_split_size"], 10, 64); err == nil && n > 0 {
		add(keyMaxSplit, strconv.FormatInt(n/miB, 10))
	}
	if f, err := strconv.ParseFloat(recorded[keyGC], 64); err == nil && f > 0 {
		add(keyGC, recorded[keyGC])
	}
	return strings.Join(more, ",")
}
