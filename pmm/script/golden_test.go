package script_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm/script"
)

// scripts returns the .ops files of testdata, or of the directory given by -golden.
func scripts(t testing.TB) []string {
	return testflags.GoldenFiles(t, "testdata", func(name string) bool { return strings.HasSuffix(name, ".ops") })
}

// recording reads NAME.jsonl.gz or NAME.jsonl beside NAME.ops.
func recording(t testing.TB, ops string) []byte {
	t.Helper()
	base := strings.TrimSuffix(ops, ".ops")
	if b, err := os.ReadFile(base + ".jsonl"); err == nil {
		return b
	}
	f, err := os.Open(base + ".jsonl.gz")
	if err != nil {
		t.Fatalf("a script without its recording: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	return b
}

// TestGoldenDriver replays scripts and compares every line, and so every field and the order of every list, with what the
// driver's own code did. Every invariant is checked after every step.
func TestGoldenDriver(t *testing.T) {
	for _, ops := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(ops), ".ops"), func(t *testing.T) {
			in, err := os.ReadFile(ops)
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.SplitAfter(recording(t, ops), []byte("\n"))
			var out bytes.Buffer
			if err := script.Run(bytes.NewReader(in), &out, script.Options{Check: true}); err != nil {
				t.Error(err)
			}
			got := bytes.SplitAfter(out.Bytes(), []byte("\n"))
			for i := range max(len(got), len(want)) {
				var g, w []byte
				if i < len(got) {
					g = got[i]
				}
				if i < len(want) {
					w = want[i]
				}
				if !bytes.Equal(g, w) {
					t.Fatalf("line %d differs\n got %s\nwant %s", i+1, g, w)
				}
			}
		})
	}
}
