package importers_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
)

var rewrite = flag.Bool("rewrite-recordings", false, "with -recordings: write the committed texts of the originals anew")

// fact is what is known of a published recording: the counts its collection states, and the figures of its final state,
// added up by a loader written independently in Python.
type fact struct {
	allocs, frees, segmentAllocs uint64
	liveAtStart                  int
	peakGiB                      float64 // requested bytes, to two digits
	segments, blocks, pools      int
	reserved, allocated          uint64
	proven                       bool
	text                         bool // committed as text
}

var known = map[string]fact{
	"complete-tiny":             {36, 26, 9, 0, 3.03, 9, 20, 1, 3781165056, 31719936, true, true},
	"complete-forward":          {785, 744, 31, 0, 0.38, 31, 64, 1, 463470592, 100296704, true, true},
	"complete-forward-backward": {3853, 3691, 65, 0, 0.64, 65, 213, 1, 786432000, 423759360, true, true},
	"windowed-forward":          {681, 681, 0, 137, 0.52, 29, 164, 1, 610271232, 525286400, true, true},
	"windowed-1721":             {1721, 1721, 0, 229, 12.97, 216, 455, 1, 14180941824, 1377753600, true, true},
	"windowed-training":         {7591, 7370, 1, 664, 11.57, 400, 1041, 1, 12660506624, 6838108672, true, true},
	"expandable-forward":        {1704, 1704, 0, 294, 12.78, 2, 297, 1, 13759414272, 13635803136, true, true},
	"head-slice":                {28, 4, 14, 0, 0.38, 14, 14, 1, 421527552, 0, false, false},
	"state-only":                {0, 0, 0, 839, 15.26, 259, 868, 1, 17133731840, 16397578240, true, false},
	"state-only-fragmented":     {0, 0, 0, 2524, 7.94, 499, 2974, 1, 16236150784, 8548367872, true, false},
	"state-only-torch2.0":       {0, 0, 0, 785, 5.29, 257, 948, 1, 7608467456, 5683450880, true, false},
	"state-only-torch2.0-oom":   {0, 0, 0, 460, 11.03, 176, 463, 1, 11844714496, 11840159744, true, false},
	"state-only-three-pools":    {0, 0, 0, 543, 23.18, 127, 638, 3, 26189234176, 24916034560, true, false},
}

const textDir = "../recordings"

// TestRecordings imports the committed originals, or with -recordings DIR every file below DIR: known ones must have the
// facts of the table (and give the committed text), others must load or be refused with one clear line.
func TestRecordings(t *testing.T) {
	files := testflags.RecordingFiles(t, "testdata/originals", func(name string) bool { return name != "NOTICE" })
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	for _, path := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".pickle")
		t.Run(name, func(t *testing.T) {
			res, err := importers.ImportFile(path, importers.Options{ShortTags: true, Title: name})
			want, isKnown := known[name]
			if err != nil {
				if isKnown || strings.ContainsAny(err.Error(), "\r\n") || !strings.HasPrefix(err.Error(), path+": ") {
					t.Fatalf("%q", err)
				}
				t.Logf("refused: %v", err)
				return
			}
			defer res.Close()
			for _, im := range res.Devices {
				if err := trace.Validate(im.Trace); err != nil {
					t.Error(err)
				}
			}
			if isKnown {
				checkFacts(t, name, res, want)
			}
		})
	}
}

func checkFacts(t *testing.T, name string, res *importers.Result, want fact) {
	if len(res.Devices) != 1 {
		t.Fatalf("%d devices, want 1", len(res.Devices))
	}
	im := res.Devices[0]
	f := im.Facts
	got := fact{f.Allocs, f.Frees, f.SegmentAllocs, f.LiveAtStart, roundGiB(f.LiveBytesMax), f.Segments, f.Blocks, f.Pools,
		f.ReservedBytes, f.AllocatedBytes, f.Proven, want.text}
	if got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if f.Consistent() != want.proven {
		t.Errorf("inconsistent: %v", f.Inconsistent)
	}
	if name == "head-slice" {
		found := false
		for _, w := range im.Trace.Meta.Warnings {
			found = found || strings.HasPrefix(w, "inconsistent: a block that the events leave live is not live in the final state (24 times)")
		}
		if !found {
			t.Errorf("the warnings do not say so: %q", im.Trace.Meta.Warnings)
		}
	}
	if want.text {
		compareText(t, name, im.Trace)
	}
}

func roundGiB(n uint64) float64 { return float64(int(float64(n)/(1<<30)*100+0.5)) / 100 }

func compareText(t *testing.T, name string, tr *trace.Trace) {
	var text bytes.Buffer
	if err := trace.Format(&text, tr); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(textDir, name+".trace.gz")
	if *rewrite {
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, z.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(text.Bytes(), unzip(t, path)) {
		t.Errorf("the text made from the original is not %s; look at both, then rewrite with -rewrite-recordings", path)
	}
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCommittedTexts holds the counts of the committed texts, which are read without the originals.
func TestCommittedTexts(t *testing.T) {
	n := 0
	for name, want := range known {
		if !want.text {
			continue
		}
		n++
		t.Run(name, func(t *testing.T) {
			res, err := importers.ImportFile(filepath.Join(textDir, name+".trace.gz"), importers.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tr, f := res.Devices[0].Trace, res.Devices[0].Facts
			if f.Allocs != want.allocs || f.Frees != want.frees || f.SegmentAllocs != want.segmentAllocs || f.LiveAtStart != want.liveAtStart ||
				roundGiB(f.LiveBytesMax) != want.peakGiB {
				t.Errorf("got %+v, want %+v", f, want)
			}
			if tr.Meta.Source != importers.SourceSnapshot || (tr.Start != nil) != (want.liveAtStart > 0 || want.segmentAllocs == 0) {
				t.Errorf("source %q, start %v", tr.Meta.Source, tr.Start != nil)
			}
			for i := range tr.Events {
				if e := &tr.Events[i]; e.Kind == trace.KindAlloc && (tr.Recorded[i].Seen != 1 || tr.Recorded[i].Granted < e.Size) {
					t.Fatalf("event %d: recorded %+v of an alloc of %d bytes", i, tr.Recorded[i], e.Size)
				}
			}
			for _, s := range tr.Strings {
				if strings.ContainsAny(s, `/\`) || strings.Contains(s, ".py") {
					t.Errorf("a tag names a file: %q", s)
				}
			}
		})
	}
	if files, _ := filepath.Glob(filepath.Join(textDir, "*.trace.gz")); len(files) != n {
		t.Errorf("%d files, %d known", len(files), n)
	}
}

// TestColdStart turns a rebuilt start into leading allocations.
func TestColdStart(t *testing.T) {
	res, err := importers.ImportFile(filepath.Join(textDir, "windowed-training.trace.gz"), importers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := res.Devices[0].Trace
	cold := importers.ColdStart(tr)
	if err := trace.Validate(cold); err != nil {
		t.Fatal(err)
	}
	f := importers.FactsOf(cold)
	if cold.Start != nil || f.Allocs != 7591+664 || f.Frees != 7370 || f.LiveBytesMax != res.Devices[0].Facts.LiveBytesMax {
		t.Errorf("start %v, facts %+v", cold.Start, f)
	}
	if got, want := cold.SegmentEvents[0].Event, tr.SegmentEvents[0].Event+664; got != want {
		t.Errorf("the segment event moved to %d, want %d", got, want)
	}
	if len(tr.Events)+664 != len(cold.Events) || tr.Start == nil {
		t.Error("the original was changed")
	}
	whole := importers.ColdStart(cold)
	if whole != cold {
		t.Error("a trace without a start state is not returned as it is")
	}
}
