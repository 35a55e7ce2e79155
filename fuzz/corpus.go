package fuzz

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

const (
	// corpusMax bounds a corpus; beyond it, it is minimised.
	corpusMax = 2048
	// entryBytesMax bounds the text of an entry that is read.
	entryBytesMax = 1 << 20
	// entryExt is the extension of an entry's file.
	entryExt = ".txt"
)

// Entry is a program of the corpus: it reached edges that none before it had reached.
type Entry struct {
	Ops   []plan.Op
	Edges []uint16 // those that were new when it came
}

func newEntry(ops []plan.Op, edges []uint16) Entry {
	return Entry{Ops: slices.Clone(ops), Edges: slices.Clone(edges)}
}

// text is the entry's program as text.
func (e *Entry) text() []byte {
	var b bytes.Buffer
	t := plan.NewWriter(nil).Write(e.Ops, 0)
	if err := trace.Format(&b, t); err != nil {
		panic(fmt.Sprintf("fuzz: a program of our own cannot be written: %v", err))
	}
	return b.Bytes()
}

// name is the name of the entry's file: a hash of its text.
func name(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]) + entryExt
}

// minimiseCorpus keeps, of the entries, a set that has every edge: the greedy cover, short programs first. Its size is within a factor
// of ln n of the smallest one.
func minimiseCorpus(list []Entry) []Entry {
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b Entry) int {
		// Most edges for each event first.
		return len(b.Edges)*max(len(a.Ops), 1) - len(a.Edges)*max(len(b.Ops), 1)
	})
	var seen Edges
	keep := order[:0]
	for _, e := range order {
		fresh := false
		for _, x := range e.Edges {
			fresh = seen.Add(x) || fresh
		}
		if fresh {
			keep = append(keep, e)
		}
	}
	return keep[:min(len(keep), corpusMax)]
}

// writeEntry writes an entry below dir, if it is not there.
func writeEntry(dir string, e *Entry) error {
	text := e.text()
	path := filepath.Join(dir, name(text))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return writeFileAtomic(path, text)
}

// ReadCorpus reads the programs below a directory, in the order of their names. Files that are no programs are named in the
// second result and left out.
func ReadCorpus(dir string) ([]Entry, []error, error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("corpus: %w", err)
	}
	var list []Entry
	var problems []error
	for _, f := range files {
		if f.IsDir() || !strings.HasSuffix(f.Name(), entryExt) {
			continue
		}
		t, err := readProgram(filepath.Join(dir, f.Name()))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, Entry{Ops: plan.Ops(nil, t)})
	}
	return list, problems, nil
}

// readProgram reads a program from its text.
func readProgram(path string) (*trace.Trace, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > entryBytesMax {
		return nil, fmt.Errorf("%s: %d bytes; a program has at most %d", path, info.Size(), entryBytesMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := trace.Parse(bytes.NewReader(text), path)
	if err != nil {
		return nil, err
	}
	if err := trace.Validate(t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// writeFileAtomic writes a file that is there whole or not at all, also after a crash.
func writeFileAtomic(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
