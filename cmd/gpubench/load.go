package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/recordings"
)

// bundledPrefix names a recording that is part of the program.
const bundledPrefix = "bundled:"

// loaded is a recording made ready for plugins: its binary form lies in a file that they map.
type loaded struct {
	harness.Recording
	facts  importers.Facts
	format importers.Format
	closer io.Closer
}

// loadRecordings imports every device of a recording into files of dir. name is a path, or bundled:NAME.
func loadRecordings(name, dir string, device *int) ([]loaded, error) {
	var paths []string
	opts := importers.Options{Device: device, Builder: func() (*trace.Builder, error) {
		p := filepath.Join(dir, fmt.Sprintf("%s.%d.trace", safeName(name), len(paths)))
		paths = append(paths, p)
		return trace.CreateFile(p)
	}}
	res, err := importAny(name, opts)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	var out []loaded
	for i := range res.Devices {
		im := &res.Devices[i]
		var path string
		if i < len(paths) {
			path = paths[i]
		} else if path, err = filepath.Abs(name); err != nil { // the binary form is mapped where it lies
			return nil, err
		}
		l, err := openLoaded(path)
		if err != nil {
			return nil, errors.Join(err, closeAll(out))
		}
		l.Name, l.Path, l.facts, l.format = recordingName(name, im, len(res.Devices)), name, im.Facts, res.Format
		out = append(out, *l)
	}
	return out, nil
}

// importAny imports a file, or a bundled recording.
func importAny(name string, opts importers.Options) (*importers.Result, error) {
	bundled, ok := strings.CutPrefix(name, bundledPrefix)
	if !ok {
		return importers.ImportFile(name, opts)
	}
	r, err := recordings.Open(bundled)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	opts.Title = bundled
	return importers.Import(r, opts)
}

// openLoaded maps a binary trace and takes its measure.
func openLoaded(path string) (*loaded, error) {
	t, closer, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	return &loaded{closer: closer, Recording: harness.Recording{
		BinaryPath: path, Trace: t, SHA256: trace.Hash(t), LowerBound: trace.Describe(t).Live.BytesMax,
	}}, nil
}

func closeAll(list []loaded) error {
	var err error
	for _, l := range list {
		err = errors.Join(err, l.closer.Close())
	}
	return err
}

func recordingName(name string, im *importers.Imported, devices int) string {
	base := strings.TrimPrefix(name, bundledPrefix)
	base = filepath.Base(base)
	for _, end := range []string{".gz", ".pickle", ".csv", ".txt", ".trace"} {
		base = strings.TrimSuffix(base, end)
	}
	if devices > 1 {
		return fmt.Sprintf("%s device %d", base, im.Trace.Meta.Device)
	}
	return base
}

// safeName makes a file name from a path.
func safeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, filepath.Base(strings.TrimPrefix(s, bundledPrefix)))
}

// tempDir makes a directory for binary forms that no run directory keeps.
func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "gpubench-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
