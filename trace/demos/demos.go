// Package demos holds five traces of at most ten events. Each is the smallest form of a public bug report about a GPU
// memory allocator, tells its story in a comment at its head, and fits on one screen. They are the first thing to replay:
// what fails, and with which strategies, can be checked by hand.
//
// The sizes are those of the reports where they name them, scaled to whole MiB where they do not.
package demos

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

//go:embed *.trace
var files embed.FS

// suffix ends the file names.
const suffix = ".trace"

// Names returns the names of the demos, sorted.
func Names() []string {
	list, err := fs.Glob(files, "*"+suffix)
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for i, name := range list {
		list[i] = strings.TrimSuffix(name, suffix)
	}
	slices.Sort(list)
	return list
}

// Text returns a demo as it is written, with its story.
func Text(name string) (string, error) {
	p, err := files.ReadFile(name + suffix)
	if err != nil {
		return "", fmt.Errorf("no demo %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return string(p), nil
}

// Open returns a demo as a trace.
func Open(name string) (*trace.Trace, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return trace.Parse(strings.NewReader(text), name+suffix)
}
