package trace

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// IndexAtTime returns the index of the first event at ns or later; len(Events) when there is none. The trace must have
// times.
func IndexAtTime(t *Trace, ns int64) (uint64, error) {
	if len(t.TimesNs) == 0 && len(t.Events) > 0 {
		return 0, fmt.Errorf("%w: the trace has no times: name an event or a mark instead", ErrArgument)
	}
	return uint64(sort.Search(len(t.TimesNs), func(i int) bool { return t.TimesNs[i] >= ns })), nil
}

// IndexOfMark returns the index of the first mark with this key and value.
func IndexOfMark(t *Trace, key string, value uint64) (uint64, error) {
	for i := range t.Events {
		ev := &t.Events[i]
		if ev.Kind == KindMark && ev.Size == value && t.Strings[ev.Aux] == key {
			return uint64(i), nil
		}
	}
	return 0, fmt.Errorf("%w: no mark %s=%d in the trace", ErrArgument, key, value)
}

// ParseBound reads where to cut a trace: an event's index (48211), a time (@12.5ms) or a mark (iteration=2). "" is the end.
func ParseBound(t *Trace, s string) (uint64, error) {
	if s == "" {
		return uint64(len(t.Events)), nil
	}
	if strings.HasPrefix(s, "@") {
		ns, err := parseTime([]byte(s[1:]))
		if err != nil {
			return 0, err
		}
		return IndexAtTime(t, ns)
	}
	if i := strings.LastIndexByte(s, '='); i > 0 {
		v, err := strconv.ParseUint(s[i+1:], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: mark %q: its value is no whole number", ErrArgument, s)
		}
		return IndexOfMark(t, s[:i], v)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q: write an event's number, a time such as @12.5ms, or a mark such as iteration=2", ErrArgument, s)
	}
	if n > uint64(len(t.Events)) {
		return 0, fmt.Errorf("%w: event %d: the trace has %d", ErrArgument, n, len(t.Events))
	}
	return n, nil
}
