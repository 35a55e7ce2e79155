package trace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

// TestForms holds, for random traces: the text form, the binary form written whole, and the binary form written streaming
// all give back the same trace, the same hash and the same text; Validate finds nothing.
func TestForms(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := trace.NewBuilder()
		meta := drawTrace(t, b, 60)
		tr, err := b.Finish(meta)
		if err != nil {
			t.Fatal(err)
		}
		if err := trace.Validate(tr); err != nil {
			t.Fatalf("validate: %v", err)
		}
		var text bytes.Buffer
		if err := trace.Format(&text, tr); err != nil {
			t.Fatal(err)
		}
		parsed, err := trace.Parse(bytes.NewReader(text.Bytes()), "t")
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		canon, err := trace.Canonical(tr)
		if err != nil {
			t.Fatal(err)
		}
		equalTraces(t, "parse of format", parsed, canon)
		var again bytes.Buffer
		if err := trace.Format(&again, parsed); err != nil {
			t.Fatal(err)
		}
		if again.String() != text.String() {
			t.Fatalf("format of parse:\n%s\nwant\n%s", again.String(), text.String())
		}

		whole, streamed := filepath.Join(dir, "whole"), filepath.Join(dir, "streamed")
		if err := trace.WriteFile(whole, parsed); err != nil {
			t.Fatal(err)
		}
		fb, err := trace.CreateFile(streamed)
		if err != nil {
			t.Fatal(err)
		}
		m, err := trace.ParseInto(fb, bytes.NewReader(text.Bytes()), "t")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fb.Finish(m); err != nil {
			t.Fatal(err)
		}
		wb, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		sb, err := os.ReadFile(streamed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wb, sb) {
			t.Fatal("the file written streaming differs from the one written whole")
		}
		opened, closer, err := trace.Open(whole)
		if err != nil {
			t.Fatal(err)
		}
		defer closer.Close()
		equalTraces(t, "open of write", opened, parsed)
		if h := trace.Hash(tr); h != trace.Hash(parsed) || h != trace.Hash(opened) {
			t.Fatal("the hash depends on the form")
		}
	})
}

// equalTraces compares everything; empty and nil count as equal, as do a nil and an empty start state's block lists.
func equalTraces(t interface{ Fatalf(string, ...any) }, what string, got, want *trace.Trace) {
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"meta", got.Meta, want.Meta}, {"events", got.Events, want.Events}, {"times", got.TimesNs, want.TimesNs},
		{"recorded", got.Recorded, want.Recorded}, {"extras", got.Extras, want.Extras},
		{"segment events", got.SegmentEvents, want.SegmentEvents}, {"strings", got.Strings, want.Strings},
		{"streams", got.Streams, want.Streams}, {"pools", got.Pools, want.Pools}, {"slots", got.Slots, want.Slots},
	} {
		g, w := reflect.ValueOf(c.got), reflect.ValueOf(c.want)
		if g.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(c.got, c.want) {
			t.Fatalf("%s: %s differ:\n got %+v\nwant %+v", what, c.name, c.got, c.want)
		}
	}
	if (got.Start == nil) != (want.Start == nil) {
		t.Fatalf("%s: start state: got %v, want %v", what, got.Start, want.Start)
	}
	if got.Start == nil {
		return
	}
	if len(got.Start.Segments) != len(want.Start.Segments) {
		t.Fatalf("%s: %d segments, want %d", what, len(got.Start.Segments), len(want.Start.Segments))
	}
	for i, g := range got.Start.Segments {
		w := want.Start.Segments[i]
		if len(g.Blocks) == 0 && len(w.Blocks) == 0 {
			g.Blocks, w.Blocks = nil, nil
		}
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("%s: segment %d:\n got %+v\nwant %+v", what, i, g, w)
		}
	}
}

// FuzzParse: no text makes Parse panic; what it accepts is written in canonical form, which is a fixed point.
func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add("h1 = alloc 0\nfree! h2\nfree h1\nfree! h1\n")
	f.Add("# gpubench trace 1\n# source x\nstate\nsegment 0x10 32\n block h1 16\n block pending 16 requested=3\nend\nfree h1")
	f.Add("set \"a b\"=\"c\\nd\"\nmark \"\\xff\"=3 @1.5us\nalloc")
	f.Fuzz(func(t *testing.T, s string) {
		tr, err := trace.Parse(strings.NewReader(s), "fuzz")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of more than one line: %q", err)
			}
			return
		}
		if err := trace.Validate(tr); err != nil {
			t.Fatalf("Parse let pass what Validate refuses: %v", err)
		}
		var text bytes.Buffer
		if err := trace.Format(&text, tr); err != nil {
			t.Fatal(err)
		}
		again, err := trace.Parse(bytes.NewReader(text.Bytes()), "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		equalTraces(t, "fuzz", again, tr)
		var text2 bytes.Buffer
		if err := trace.Format(&text2, again); err != nil || text2.String() != text.String() {
			t.Fatalf("not canonical (%v):\n%s\n%s", err, text.String(), text2.String())
		}
		if trace.Hash(again) != trace.Hash(tr) {
			t.Fatal("hash")
		}
	})
}
