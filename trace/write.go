package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// flushEvents is how many events a builder that writes a file keeps before it writes them: 64 KiB of records, past the
// size where larger writes gain anything.
const flushEvents = 2048

// fileWriter writes the binary form, section after section. Nothing lies under the final name before commit.
type fileWriter struct {
	path string
	f    *os.File
	w    *bufio.Writer
	at   uint64
	head header
	cur  section
}

const writeBufferBytes = 1 << 18

func newFileWriter(path string) (*fileWriter, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("create trace file: %w", err)
	}
	fw := &fileWriter{path: path, f: f, w: bufio.NewWriterSize(f, writeBufferBytes)}
	if _, err := fw.w.Write(make([]byte, headerBytes)); err != nil {
		fw.abandon()
		return nil, fmt.Errorf("create trace file: %w", err)
	}
	fw.at = headerBytes
	return fw, nil
}

// begin starts a section at the next page boundary.
func (fw *fileWriter) begin(kind sectionKind) error {
	if pad := -fw.at % sectionAlign; pad != 0 {
		if _, err := fw.w.Write(make([]byte, pad)); err != nil {
			return err
		}
		fw.at += pad
	}
	fw.cur = section{kind: kind, offset: fw.at}
	return nil
}

// Write adds bytes to the section begun last.
func (fw *fileWriter) Write(p []byte) (int, error) {
	fw.cur.crc = crc32.Update(fw.cur.crc, crc32.IEEETable, p)
	fw.at += uint64(len(p))
	fw.cur.bytes += uint64(len(p))
	return fw.w.Write(p)
}

func (fw *fileWriter) end() { fw.head.sections = append(fw.head.sections, fw.cur) }

// section writes one whole section.
func (fw *fileWriter) section(kind sectionKind, p []byte) error {
	if err := fw.begin(kind); err != nil {
		return err
	}
	if _, err := fw.Write(p); err != nil {
		return err
	}
	fw.end()
	return nil
}

// tables writes the sections that are small.
func (fw *fileWriter) tables(t *Trace) error {
	meta, err := json.Marshal(t.Meta)
	if err != nil {
		return err
	}
	if len(meta) > maxMetaBytes {
		return limitError("maxMetaBytes", maxMetaBytes)
	}
	if err := errors.Join(fw.section(secStreams, asBytes(t.Streams)), fw.section(secPools, encodeStrings(t.Pools)),
		fw.section(secStrings, encodeStrings(t.Strings)), fw.section(secMeta, meta)); err != nil {
		return err
	}
	if t.Start != nil {
		return fw.section(secState, encodeState(t.Start))
	}
	return nil
}

// commit writes the header and gives the file its final name.
func (fw *fileWriter) commit(events uint64, slots uint32) error {
	fw.head.events, fw.head.slots, fw.head.fileBytes = events, slots, fw.at
	err := fw.w.Flush()
	if err == nil {
		_, err = fw.f.WriteAt(fw.head.encode(), 0)
	}
	if err == nil {
		err = fw.f.Chmod(0o644)
	}
	if err == nil {
		err = fw.f.Close()
	}
	if err == nil {
		err = os.Rename(fw.f.Name(), fw.path)
	}
	if err != nil {
		fw.abandon()
		return fmt.Errorf("write trace file %s: %w", fw.path, err)
	}
	return nil
}

func (fw *fileWriter) abandon() {
	fw.f.Close()
	os.Remove(fw.f.Name())
}

// WriteFile writes a trace in the binary form. The file appears under its name only when it is whole; it is not synced.
func WriteFile(path string, t *Trace) error {
	fw, err := newFileWriter(path)
	if err != nil {
		return err
	}
	write := func(kind sectionKind, p []byte) {
		if err == nil && (len(p) > 0 || kind == secEvents) {
			err = fw.section(kind, p)
		}
	}
	write(secEvents, asBytes(t.Events))
	write(secTimes, asBytes(t.TimesNs))
	write(secRecorded, asBytes(t.Recorded))
	write(secExtras, asBytes(t.Extras))
	write(secSegmentEvents, asBytes(t.SegmentEvents))
	if err == nil {
		err = fw.tables(t)
	}
	if err != nil {
		fw.abandon()
		return fmt.Errorf("write trace file %s: %w", path, err)
	}
	return fw.commit(uint64(len(t.Events)), t.Slots)
}

// sideFile is a nameless temporary file for a section that grows beside the events.
type sideFile struct {
	f *os.File
	w *bufio.Writer
}

func newSideFile(dir string) (*sideFile, error) {
	f, err := os.CreateTemp(dir, ".gpubench-side-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // it lives as long as it is open, also when we crash
		f.Close()
		return nil, err
	}
	return &sideFile{f: f, w: bufio.NewWriterSize(f, writeBufferBytes)}, nil
}

// fileTarget is the file side of a Builder: events go straight to the file, the other columns to side files that are
// appended at the end.
type fileTarget struct {
	*fileWriter
	side [secCount]*sideFile
}

// CreateFile returns a builder that writes a binary file. Until Finish nothing lies under path. Finish returns a Trace
// without its columns, which lie in the file: Open it to read them. A builder that is not finished must be abandoned with
// Abandon.
func CreateFile(path string) (*Builder, error) {
	fw, err := newFileWriter(path)
	if err != nil {
		return nil, err
	}
	b := NewBuilder()
	b.file = &fileTarget{fileWriter: fw}
	if err := fw.begin(secEvents); err != nil {
		fw.abandon()
		return nil, err
	}
	return b, nil
}

// Abandon gives up a builder: the file it was writing is removed. After Finish it does nothing.
func (b *Builder) Abandon() {
	if b.file != nil && !b.done {
		b.file.close()
		b.file.abandon()
	}
	b.done = true
	b.fail(ErrFinished)
}

func (ft *fileTarget) close() {
	for _, s := range ft.side {
		if s != nil {
			s.f.Close()
		}
	}
}

// flush writes the records of c and forgets them.
func (ft *fileTarget) flush(c *columns) error {
	_, err := ft.Write(asBytes(c.ev))
	err = errors.Join(err, ft.zeros(secTimes, 8*c.zeroNs), ft.append(secTimes, asBytes(c.ns)),
		ft.zeros(secRecorded, RecordedBytes*c.zeroRc), ft.append(secRecorded, asBytes(c.rec)),
		ft.append(secExtras, asBytes(c.ex)), ft.append(secSegmentEvents, asBytes(c.seg)))
	if err != nil {
		return fmt.Errorf("write trace file %s: %w", ft.path, err)
	}
	c.flushed()
	return nil
}

func (ft *fileTarget) append(kind sectionKind, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	s := ft.side[kind]
	if s == nil {
		var err error
		if s, err = newSideFile(filepath.Dir(ft.path)); err != nil {
			return err
		}
		ft.side[kind] = s
	}
	_, err := s.w.Write(p)
	return err
}

func (ft *fileTarget) zeros(kind sectionKind, n uint64) error {
	for n > 0 {
		k := min(n, uint64(len(zeroPage)))
		if err := ft.append(kind, zeroPage[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

var zeroPage [4096]byte // never written to

// finish appends the side files and the tables.
func (ft *fileTarget) finish(c *columns, t *Trace) error {
	defer ft.close()
	if err := ft.flush(c); err != nil {
		return err
	}
	ft.end()
	for kind, s := range ft.side {
		if s == nil {
			continue
		}
		if err := ft.copySide(sectionKind(kind), s); err != nil {
			return fmt.Errorf("write trace file %s: %w", ft.path, err)
		}
	}
	if err := ft.tables(t); err != nil {
		return fmt.Errorf("write trace file %s: %w", ft.path, err)
	}
	return nil
}

func (ft *fileTarget) copySide(kind sectionKind, s *sideFile) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := ft.begin(kind); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{ft}, struct{ io.Reader }{s.f}, make([]byte, writeBufferBytes)); err != nil {
		return err
	}
	ft.end()
	return nil
}
