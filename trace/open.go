package trace

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// OpenOptions choose what OpenWith maps.
type OpenOptions struct {
	// WithoutRecorded leaves out what the recording saw (the recorded column and the segment events). A plugin whose
	// strategy must not know the answers opens the trace so.
	WithoutRecorded bool
	// Trusted skips the checksums and the check of every record. Only for a file this process has checked before.
	Trusted bool
}

// Open maps a binary trace read-only. The columns of the trace lie in the mapping until the Closer is closed; heap use
// does not depend on the number of events. Every length and index is checked before it is trusted, so a damaged or
// hostile file yields ErrFormat and never a wild read later. The rules of handles are Validate's business, not Open's.
//
// A file must not be written to while it is open: cutting it short would fault the reader. Files made by this package are
// never changed after they appear under their name.
func Open(path string) (*Trace, io.Closer, error) { return OpenWith(path, OpenOptions{}) }

// OpenWith is Open with options.
func OpenWith(path string, o OpenOptions) (*Trace, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open trace: %w", err)
	}
	defer f.Close()
	m := new(mapping)
	t, err := m.load(f, o)
	if err != nil {
		m.Close()
		return nil, nil, fmt.Errorf("open trace %s: %w", path, err)
	}
	return t, m, nil
}

// mapping is the mapped parts of a file.
type mapping struct{ parts [][]byte }

// Close unmaps; the columns of the trace must not be touched afterwards.
func (m *mapping) Close() error {
	var first error
	for _, p := range m.parts {
		if err := unix.Munmap(p); err != nil && first == nil {
			first = err
		}
	}
	m.parts = nil
	return first
}

func (m *mapping) load(f *os.File, o OpenOptions) (*Trace, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, formatErr("not a regular file")
	}
	page := make([]byte, headerBytes)
	n, err := f.ReadAt(page, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	h, err := decodeHeader(page[:n], uint64(fi.Size()))
	if err != nil {
		return nil, err
	}
	var sec [secCount][]byte
	for _, s := range h.sections {
		if o.WithoutRecorded && (s.kind == secRecorded || s.kind == secSegmentEvents) {
			continue
		}
		if sec[s.kind], err = m.section(f, s); err != nil {
			return nil, err
		}
		if !o.Trusted && crc32.ChecksumIEEE(sec[s.kind]) != s.crc {
			return nil, formatErr("section %s is damaged: its checksum differs", sectionNames[s.kind])
		}
	}
	t, err := decode(h, &sec)
	if err != nil || o.Trusted {
		return t, err
	}
	return t, t.checkRecords()
}

// section maps one section.
func (m *mapping) section(f *os.File, s section) ([]byte, error) {
	if s.bytes == 0 {
		return nil, nil
	}
	lead := s.offset % uint64(os.Getpagesize())
	p, err := unix.Mmap(int(f.Fd()), int64(s.offset-lead), int(s.bytes+lead), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map section %s: %w", sectionNames[s.kind], err)
	}
	m.parts = append(m.parts, p)
	if s.kind == secEvents {
		// Read in order, once or a few times: ask for read-ahead. A refusal changes nothing.
		_ = unix.Madvise(p, unix.MADV_SEQUENTIAL)
	}
	return p[lead:], nil
}

// decode makes the trace over its sections.
func decode(h *header, sec *[secCount][]byte) (t *Trace, err error) {
	t = &Trace{
		Events:        asRecords[Event](sec[secEvents]),
		TimesNs:       asRecords[int64](sec[secTimes]),
		Recorded:      asRecords[Recorded](sec[secRecorded]),
		Extras:        asRecords[Extra](sec[secExtras]),
		SegmentEvents: asRecords[SegmentEvent](sec[secSegmentEvents]),
		Streams:       append([]uint64(nil), asRecords[uint64](sec[secStreams])...),
		Slots:         h.slots,
	}
	if t.Meta, err = decodeMeta(sec[secMeta]); err != nil {
		return nil, err
	}
	if len(t.Streams) < 1 || len(t.Streams) > MaxStreams || t.Streams[0] != 0 {
		return nil, formatErr("section streams: %d entries, the first must be the default stream 0", len(t.Streams))
	}
	if t.Pools, err = decodeStrings(sec[secPools], "pools", DefaultPoolName, MaxPools); err != nil {
		return nil, err
	}
	if t.Strings, err = decodeStrings(sec[secStrings], "strings", "", MaxStrings); err != nil {
		return nil, err
	}
	if len(sec[secState]) > 0 {
		if t.Start, err = decodeState(sec[secState]); err != nil {
			return nil, err
		}
	}
	return t, nil
}
