package trace_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// TestDocs: the examples of docs/TRACES.md are legal text, and its table of events names every kind with its number.
func TestDocs(t *testing.T) {
	p, err := os.ReadFile("../docs/TRACES.md")
	must(t, err)
	doc := string(p)
	examples := 0
	for _, m := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		if _, err := trace.Parse(strings.NewReader(m[1]), "docs/TRACES.md"); err != nil {
			t.Errorf("%v in the example\n%s", err, m[1])
		}
		examples++
	}
	if examples < 2 {
		t.Errorf("found %d examples", examples)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)`.*? \\| (\\d+) \\| ").FindAllStringSubmatch(doc, -1)
	numbers := map[string]string{}
	for _, r := range rows {
		for _, word := range strings.Fields(r[1]) {
			numbers[word+" "+r[2]] = r[1]
		}
	}
	for k := trace.KindAlloc; int(k) < trace.KindCount; k++ {
		if numbers[k.String()+" "+strconv.Itoa(int(k))] == "" {
			t.Errorf("the table of events lacks %s with the number %d", k, k)
		}
	}
}

// TestHashIsFixed: a content hash written down anywhere must stay true.
func TestHashIsFixed(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(everything), "everything")
	must(t, err)
	const want = "94440731776e0464c42831a6f4870e1ac724be1b31e47548c6acf28c8d8fe40a"
	if got := trace.Hash(tr); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	empty, err := trace.Parse(strings.NewReader(""), "empty")
	must(t, err)
	// SHA-256 of "gpubench content 1\n" alone.
	if got := trace.Hash(empty); got != "dbc834f0f0b1635906a4c20fd72cd670d9f975cdd6846bc90f29251f63dbb3a0" {
		t.Errorf("empty: %s", got)
	}
}
