// Package recordings holds the recordings that are part of the program, so that it has real work to do on a fresh machine:
// allocations that PyTorch programs of other people made, in the text form of traces, gzipped. Only facts were taken (sizes,
// order, streams, times, addresses, segments, and function names as tags); NOTICE names their origin.
package recordings

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"sort"
	"strings"
)

//go:embed *.trace.gz
var files embed.FS

const suffix = ".trace.gz"

// Names lists the bundled recordings, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), suffix))
	}
	sort.Strings(out)
	return out
}

// Open returns the text form of a bundled recording.
func Open(name string) (io.ReadCloser, error) {
	f, err := files.Open(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("there is no bundled recording %q; there are %s", name, strings.Join(Names(), ", "))
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("bundled recording %s: %w", name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}
