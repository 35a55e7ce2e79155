package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// everythingFile is the binary form of the text that has everything.
func everythingFile(t testing.TB) []byte {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader(everything), "everything")
	must(t, err)
	path := filepath.Join(t.TempDir(), "everything")
	must(t, trace.WriteFile(path, tr))
	p, err := os.ReadFile(path)
	must(t, err)
	return p
}

func openBytes(t testing.TB, p []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t")
	must(t, os.WriteFile(path, p, 0o600))
	tr, c, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	// What Open let pass may be walked without a panic.
	_ = trace.Issues(tr, 0)
	trace.Hash(tr)
	var text bytes.Buffer
	return trace.Format(&text, tr)
}

func TestOpenRefuses(t *testing.T) {
	good := everythingFile(t)
	le := binary.LittleEndian
	at := func(section string, record, field int) func(p []byte) []byte {
		sizes := map[string]int{"events": 32, "times": 8, "recorded": 24, "extras": 40, "segment events": 32}
		return func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, section)
			return p[off+record*sizes[section]+field:]
		}
	}
	for _, c := range []struct {
		name   string
		reseal bool
		damage func(p []byte) []byte
		want   string
	}{
		{"empty", false, func(p []byte) []byte { return nil }, "too few"},
		{"cut short", false, func(p []byte) []byte { return p[:len(p)-1] }, "cut short"},
		{"half a header", false, func(p []byte) []byte { return p[:100] }, "too few"},
		{"not ours", false, func(p []byte) []byte { p[0] = 'x'; return p }, "does not begin"},
		{"newer version", true, func(p []byte) []byte { p[8] = 9; return p }, "version 9"},
		{"bit flip in the header", false, func(p []byte) []byte { p[24]++; return p }, "damaged header"},
		{"bit flip in an event", false, func(p []byte) []byte { at("events", 3, 8)(p)[0]++; return p }, "section events is damaged"},
		{"events beyond the file", true, func(p []byte) []byte { le.PutUint64(p[64+16:], 1<<40); return p }, "do not lie in order"},
		{"section offset wraps", true, func(p []byte) []byte { le.PutUint64(p[64+8:], 1<<64-4096); return p }, "do not lie in order"},
		{"two sections of a kind", true, func(p []byte) []byte { le.PutUint32(p[64+32:], 1); return p }, "repeated kind 1"},
		{"wrong count", true, func(p []byte) []byte { p[24]++; return p }, "records for"},
		{"too many sections", true, func(p []byte) []byte { p[36] = 200; return p }, "200 sections"},
		{"slots from nowhere", true, func(p []byte) []byte { le.PutUint32(p[32:], 1<<28); return p }, "268435456 slots for"},
		{"unknown kind", true, func(p []byte) []byte { at("events", 2, 0)(p)[0] = 99; return p }, "event 2: kind(99)"},
		{"stream index", true, func(p []byte) []byte { at("events", 1, 2)(p)[0] = 200; return p }, "stream 200 of"},
		{"slot index", true, func(p []byte) []byte { at("events", 1, 4)(p)[2] = 1; return p }, "slot"},
		{"handle 0", true, func(p []byte) []byte { le.PutUint64(at("events", 0, 8)(p), 0); return p }, "handle 0"},
		{"pool index", true, func(p []byte) []byte { at("events", 0, 24)(p)[1] = 7; return p }, "pool 1792 of"},
		{"alignment", true, func(p []byte) []byte { at("events", 0, 26)(p)[0] = 64; return p }, "2^64"},
		{"device", true, func(p []byte) []byte { at("events", 0, 27)(p)[0] = 3; return p }, "device 3"},
		{"tag index", true, func(p []byte) []byte { le.PutUint32(at("events", 0, 28)(p), 1<<30); return p }, "argument 1073741824"},
		{"extra out of order", true, func(p []byte) []byte { le.PutUint32(at("events", 1, 28)(p), 2); return p }, "extra 2, the next is 0"},
		{"tag of an extra", true, func(p []byte) []byte { le.PutUint32(at("extras", 0, 0)(p), 77); return p }, "tag 77 of"},
		{"time back", true, func(p []byte) []byte { le.PutUint64(at("times", 5, 0)(p), 0); return p }, "time goes back"},
		{"answer of no kind", true, func(p []byte) []byte { at("recorded", 0, 16)(p)[0] = 5; return p }, "recorded answer"},
		{"segment event beyond the end", true, func(p []byte) []byte { le.PutUint64(at("segment events", 2, 0)(p), 1<<50); return p }, "segment event 2"},
		{"string offsets", true, func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, "strings")
			le.PutUint32(p[off+8:], 1<<31)
			return p
		}, "string 0 spans"},
		{"string count", true, func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, "strings")
			le.PutUint32(p[off:], 1<<23)
			return p
		}, "strings in"},
		{"meta is no JSON", true, func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, "meta")
			p[off] = '!'
			return p
		}, "section meta"},
		{"state counts", true, func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, "state")
			le.PutUint64(p[off+8:], 1<<23)
			return p
		}, "segments and"},
		{"state with a gap", true, func(p []byte) []byte {
			off, _ := trace.SectionOffset(p, "state")
			le.PutUint64(p[off+16:], 0x1000)
			return p
		}, "illegal start state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.damage(bytes.Clone(good))
			if c.reseal {
				trace.Reseal(p)
			}
			err := openBytes(t, p)
			if !errors.Is(err, trace.ErrFormat) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
	if err := openBytes(t, good); err != nil {
		t.Errorf("the undamaged file: %v", err)
	}
}

func TestOpenWithoutRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	must(t, os.WriteFile(path, everythingFile(t), 0o600))
	tr, c, err := trace.OpenWith(path, trace.OpenOptions{WithoutRecorded: true})
	must(t, err)
	defer c.Close()
	if len(tr.Recorded) != 0 || len(tr.SegmentEvents) != 0 || len(tr.Events) == 0 || len(tr.TimesNs) != len(tr.Events) {
		t.Errorf("%d answers, %d segment events, %d events", len(tr.Recorded), len(tr.SegmentEvents), len(tr.Events))
	}
}

func TestOpenMissing(t *testing.T) {
	if _, _, err := trace.Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, _, err := trace.Open(t.TempDir()); !errors.Is(err, trace.ErrFormat) {
		t.Errorf("a directory: %v", err)
	}
}

// TestFileBuilderLeavesNothing: until it is finished, and when it fails, no file lies in the directory.
func TestFileBuilderLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	left := func() int {
		list, err := os.ReadDir(dir)
		must(t, err)
		return len(list)
	}
	path := filepath.Join(dir, "t")
	b, err := trace.CreateFile(path)
	must(t, err)
	b.At(1)
	must(t, b.Alloc(1, 1, trace.AllocArgs{}))
	b.Abandon()
	if n := left(); n != 0 {
		t.Errorf("%d files after Abandon", n)
	}
	b, err = trace.CreateFile(path)
	must(t, err)
	must(t, b.FreeWrong(1))
	if _, err := b.Finish(trace.Meta{Source: "rmm-csv"}); !errors.Is(err, trace.ErrNotAProgram) {
		t.Errorf("finish: %v", err)
	}
	if n := left(); n != 0 {
		t.Errorf("%d files after a Finish that failed", n)
	}
	if _, err := b.Finish(trace.Meta{}); !errors.Is(err, trace.ErrFinished) {
		t.Errorf("a second Finish: %v", err)
	}
	if _, err := trace.CreateFile(filepath.Join(dir, "no", "t")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// heapOf returns the bytes that f allocates.
func heapOf(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHeapDoesNotFollowTheTrace: building a file, opening and validating it cost the same heap for 20,000 and 400,000 events.
func TestHeapDoesNotFollowTheTrace(t *testing.T) {
	cost := func(n int) uint64 {
		path := filepath.Join(t.TempDir(), "t")
		return heapOf(func() {
			b, err := trace.CreateFile(path)
			must(t, err)
			b.At(7)
			churn(b, n, 500)
			_, err = b.Finish(trace.Meta{})
			must(t, err)
			tr, c, err := trace.Open(path)
			must(t, err)
			must(t, trace.Validate(tr))
			must(t, c.Close())
		})
	}
	cost(100)
	small, large := cost(20_000), cost(400_000)
	if float64(large) > 1.1*float64(small) {
		t.Errorf("heap %d bytes for 20,000 events, %d for 400,000", small, large)
	}
}

// FuzzOpen: no file, however its bytes are changed behind right checksums, makes Open or what comes after it panic.
func FuzzOpen(f *testing.F) {
	good := everythingFile(f)
	f.Add(uint32(0), uint64(0), uint32(40), uint64(1))
	f.Add(uint32(4096), uint64(1<<63), uint32(64), uint64(3))
	f.Fuzz(func(t *testing.T, a uint32, va uint64, b uint32, vb uint64) {
		p := bytes.Clone(good)
		for _, c := range []struct {
			at uint32
			v  uint64
		}{{a, va}, {b, vb}} {
			// Pages are mostly padding: aim at the first 1 KiB of a page.
			page, in := int(c.at>>10)%(len(p)/4096), int(c.at&1023)
			binary.LittleEndian.PutUint64(p[page*4096+in:], c.v)
		}
		trace.Reseal(p)
		if err := openBytes(t, p); err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("more than one line: %q", err)
		}
	})
}
