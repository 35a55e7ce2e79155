package importers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/pickle"
)

// Options choose what is imported and how. The zero value imports every device into memory.
type Options struct {
	Format Format // "" = told by content
	Device *int   // only this device; nil = every device
	Title  string // Meta.Title where the file states none; ImportFile takes the name of the file
	Limits pickle.Limits
	// ShortTags keeps of a stack the names of its functions only, without files and lines.
	ShortTags bool
	// Builder makes the builder of a device's trace; nil = trace.NewBuilder. With trace.CreateFile a trace of any length
	// is streamed to disk. It is called once for each device, when its first record is met.
	Builder func() (*trace.Builder, error)
}

// Result is what a file holds.
type Result struct {
	Format  Format
	Devices []Imported // in order of device numbers
	closer  io.Closer
}

// Close releases what the traces lie in (the mapping of a binary file). They must not be used afterwards.
func (r *Result) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// ErrNoDevice says that the device asked for is not in the file.
var ErrNoDevice = errors.New("no such device in the file")

// ImportFile imports a file. Every error is one line that begins with the file's name.
func ImportFile(path string, o Options) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if o.Title == "" {
		o.Title = titleOf(path)
	}
	res, err := open(f, path, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return res, nil
}

// titleOf is the name of the file without the endings of known formats.
func titleOf(path string) string {
	name := filepath.Base(path)
	for _, end := range []string{".gz", ".pickle", ".pkl", ".json", ".jsonl", ".csv", ".txt", ".log", ".trace"} {
		if len(name) > len(end) {
			name = strings.TrimSuffix(name, end)
		}
	}
	return strings.ToValidUTF8(name, "�")
}

// open takes binary traces by mapping the file, everything else by reading it.
func open(f *os.File, path string, o Options) (*Result, error) {
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		return nil, errors.New("it is a directory")
	}
	head := make([]byte, DetectBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if o.Format == FormatBinary || o.Format == "" && trace.IsBinary(head[:n]) {
		t, closer, err := trace.Open(path)
		if err != nil {
			return nil, err
		}
		return &Result{Format: FormatBinary, Devices: []Imported{{Trace: t, Facts: FactsOf(t)}}, closer: closer}, nil
	}
	return Import(io.MultiReader(bytes.NewReader(head[:n]), f), o)
}

// Import reads a recording. gzip is undone. A trace in the binary form needs ImportFile, because it is mapped.
func Import(r io.Reader, o Options) (*Result, error) {
	if o.Limits.Bytes == 0 {
		o.Limits.Bytes = pickle.DefaultMaxBytes
	}
	if o.Builder == nil {
		o.Builder = func() (*trace.Builder, error) { return trace.NewBuilder(), nil }
	}
	br := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		br = bufio.NewReaderSize(z, 64<<10)
	}
	if o.Format == "" {
		head, err := br.Peek(DetectBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read: %w", err)
		}
		if o.Format, err = Detect(head); err != nil {
			return nil, err
		}
	}
	res := &Result{Format: o.Format}
	var err error
	if res.Devices, err = read(br, o); err != nil {
		return nil, err
	}
	return res, nil
}

// read imports one format.
func read(r io.Reader, o Options) ([]Imported, error) {
	switch o.Format {
	case FormatSnapshotPickle, FormatSnapshotJSON:
		return importSnapshot(r, o)
	case FormatRMM:
		list, err := importRMM(limited(r, o), o.Title, o.Builder)
		if err != nil {
			return nil, err
		}
		return pick(list, o.Device)
	case FormatScript, FormatOperations:
		return importLines(limited(r, o), o)
	case FormatText:
		return importText(limited(r, o), o)
	case FormatBinary:
		return nil, errors.New("a binary trace is mapped: open it as a file")
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownFormat, string(o.Format))
}

// limited bounds the bytes of a text format, which is read as a stream; a file beyond the limit is an error.
func limited(r io.Reader, o Options) io.Reader {
	return &limitReader{r: r, left: o.Limits.Bytes, max: o.Limits.Bytes}
}

type limitReader struct {
	r         io.Reader
	left, max int64
}

// Read fails once the limit is passed, instead of pretending the end.
func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w: more than %d bytes of input", pickle.ErrLimit, l.max)
	}
	return n, err
}

func importLines(r io.Reader, o Options) ([]Imported, error) {
	b, err := o.Builder()
	if err != nil {
		return nil, err
	}
	importer := importScript
	if o.Format == FormatOperations {
		importer = importOperations
	}
	im, err := importer(r, o.Title, b)
	if err != nil {
		b.Abandon()
		return nil, err
	}
	return pick([]Imported{im}, o.Device)
}

// importText reads our own text form. Into a file, only the events are counted: the columns lie in the file, so call FactsOf
// with the opened trace.
func importText(r io.Reader, o Options) ([]Imported, error) {
	b, err := o.Builder()
	if err != nil {
		return nil, err
	}
	meta, err := trace.ParseInto(b, r, "")
	events := b.Len()
	var t *trace.Trace
	if err == nil {
		t, err = b.Finish(meta)
	}
	if err != nil {
		b.Abandon()
		var syntax *trace.SyntaxError
		if errors.As(err, &syntax) {
			err = fmt.Errorf("line %d: %w", syntax.Line, syntax.Err)
		}
		return nil, err
	}
	im := Imported{Trace: t, Facts: FactsOf(t)}
	im.Facts.Records = events
	return pick([]Imported{im}, o.Device)
}

// pick keeps one device.
func pick(list []Imported, device *int) ([]Imported, error) {
	if device == nil {
		return list, nil
	}
	have := make([]int, 0, len(list))
	for _, im := range list {
		if im.Trace.Meta.Device == *device {
			return []Imported{im}, nil
		}
		have = append(have, im.Trace.Meta.Device)
	}
	return nil, fmt.Errorf("%w: asked for %d, it has %v", ErrNoDevice, *device, have)
}

func importSnapshot(r io.Reader, o Options) ([]Imported, error) {
	s, err := readSnapshot(r, o.Format, o.Limits)
	if err != nil {
		return nil, err
	}
	s.t.frames.short = o.ShortTags
	devices := s.devices()
	if len(devices) == 0 {
		devices = []int{0} // a snapshot of a program that never used its GPU
	}
	if o.Device != nil {
		found := false
		for _, d := range devices {
			found = found || d == *o.Device
		}
		if !found {
			return nil, fmt.Errorf("%w: asked for %d, it has %v", ErrNoDevice, *o.Device, devices)
		}
		devices = []int{*o.Device}
	}
	var list []Imported
	for _, d := range devices {
		b, err := o.Builder()
		if err != nil {
			return nil, err
		}
		im, err := s.convert(d, b, o.Title)
		if err != nil {
			b.Abandon()
			return nil, fmt.Errorf("device %d: %w", d, err)
		}
		list = append(list, im)
	}
	return list, nil
}
