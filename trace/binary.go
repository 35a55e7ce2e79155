package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"
)

// The binary form: one header page, then sections that each begin on a page boundary. docs/TRACES.md has it byte by byte.
const (
	binaryMagic   = "gpubtrc\n"
	binaryVersion = 1
	// sectionAlign lets a section be mapped alone on hosts with 4 KiB pages. On hosts with larger pages the mapping begins
	// a little earlier, which is harmless.
	sectionAlign = 4096
	headerBytes  = sectionAlign
	sectionTable = 64 // offset of the table of sections in the header
	sectionEntry = 32 // bytes of one entry
	headerCRC    = headerBytes - 4
)

type sectionKind uint32

// The sections. A file has each at most once; those marked * always.
const (
	secEvents        sectionKind = 1  // * Event records
	secTimes         sectionKind = 2  // int64 ns, one an event
	secRecorded      sectionKind = 3  // Recorded records, one an event
	secExtras        sectionKind = 4  // Extra records
	secSegmentEvents sectionKind = 5  // SegmentEvent records
	secStreams       sectionKind = 6  // * uint64 names
	secPools         sectionKind = 7  // * string table
	secStrings       sectionKind = 8  // * string table
	secMeta          sectionKind = 9  // * JSON
	secState         sectionKind = 10 // start state
	secCount                     = 11
)

var sectionNames = [secCount]string{"", "events", "times", "recorded", "extras", "segment events", "streams", "pools", "strings", "meta", "state"}

// recordBytes is the size of one record of the sections that hold records; 1 for the others.
var recordBytes = [secCount]uint64{
	secEvents: EventBytes, secTimes: 8, secRecorded: RecordedBytes, secExtras: ExtraBytes, secSegmentEvents: SegmentEventBytes,
	secStreams: 8, secPools: 1, secStrings: 1, secMeta: 1, secState: 1,
}

// section is one entry of the table in the header.
type section struct {
	kind   sectionKind
	crc    uint32 // CRC-32 (IEEE 802.3, as zlib's crc32) of the section's bytes
	offset uint64 // from the start of the file, a multiple of sectionAlign
	bytes  uint64
}

// header is the decoded header page.
type header struct {
	fileBytes uint64
	events    uint64
	slots     uint32
	sections  []section
}

// ErrFormat is the reason for which a binary file is refused: not one, damaged, or hostile.
var ErrFormat = errors.New("not a legal binary trace")

func formatErr(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func (h *header) encode() []byte {
	p := make([]byte, headerBytes)
	le := binary.LittleEndian
	copy(p, binaryMagic)
	le.PutUint32(p[8:], binaryVersion)
	le.PutUint32(p[12:], headerBytes)
	le.PutUint64(p[16:], h.fileBytes)
	le.PutUint64(p[24:], h.events)
	le.PutUint32(p[32:], h.slots)
	le.PutUint32(p[36:], uint32(len(h.sections)))
	for i, s := range h.sections {
		e := p[sectionTable+i*sectionEntry:]
		le.PutUint32(e, uint32(s.kind))
		le.PutUint32(e[4:], s.crc)
		le.PutUint64(e[8:], s.offset)
		le.PutUint64(e[16:], s.bytes)
		le.PutUint64(e[24:], recordBytes[s.kind])
	}
	le.PutUint32(p[headerCRC:], crc32.ChecksumIEEE(p[:headerCRC]))
	return p
}

// IsBinary reports whether a file that begins with these bytes is in the binary form; 8 bytes suffice.
func IsBinary(head []byte) bool {
	return len(head) >= len(binaryMagic) && string(head[:len(binaryMagic)]) == binaryMagic
}

// decodeHeader checks the header page against the true length of the file.
func decodeHeader(p []byte, fileBytes uint64) (*header, error) {
	le := binary.LittleEndian
	switch {
	case len(p) < headerBytes:
		return nil, formatErr("%d bytes are too few for the header of %d", len(p), headerBytes)
	case !IsBinary(p):
		return nil, formatErr("it does not begin with %q", binaryMagic)
	case le.Uint32(p[8:]) != binaryVersion:
		return nil, formatErr("version %d; this program reads version %d", le.Uint32(p[8:]), binaryVersion)
	case le.Uint32(p[headerCRC:]) != crc32.ChecksumIEEE(p[:headerCRC]):
		return nil, formatErr("damaged header: its checksum differs")
	case le.Uint32(p[12:]) != headerBytes:
		return nil, formatErr("header of %d bytes, want %d", le.Uint32(p[12:]), headerBytes)
	}
	h := &header{fileBytes: le.Uint64(p[16:]), events: le.Uint64(p[24:]), slots: le.Uint32(p[32:])}
	if h.fileBytes != fileBytes {
		return nil, formatErr("the file has %d bytes, its header says %d: cut short or appended to", fileBytes, h.fileBytes)
	}
	if h.events > MaxEvents || h.slots > MaxSlots {
		return nil, formatErr("%d events (MaxEvents %d), %d slots (MaxSlots %d)", h.events, uint64(MaxEvents), h.slots, MaxSlots)
	}
	return h, h.decodeSections(p)
}

func (h *header) decodeSections(p []byte) error {
	le := binary.LittleEndian
	n := le.Uint32(p[36:])
	if n > secCount {
		return formatErr("%d sections, at most %d exist", n, secCount-1)
	}
	var have [secCount]bool
	end := uint64(headerBytes)
	for i := range int(n) {
		e := p[sectionTable+i*sectionEntry:]
		s := section{kind: sectionKind(le.Uint32(e)), crc: le.Uint32(e[4:]), offset: le.Uint64(e[8:]), bytes: le.Uint64(e[16:])}
		if s.kind == 0 || s.kind >= secCount || have[s.kind] {
			return formatErr("section %d: unknown or repeated kind %d", i, s.kind)
		}
		have[s.kind] = true
		name := sectionNames[s.kind]
		if s.offset%sectionAlign != 0 || s.offset < end || s.offset > h.fileBytes || s.bytes > h.fileBytes-s.offset {
			return formatErr("section %s: bytes %d+%d do not lie in order inside the file of %d", name, s.offset, s.bytes, h.fileBytes)
		}
		end = s.offset + s.bytes
		if le.Uint64(e[24:]) != recordBytes[s.kind] || s.bytes%recordBytes[s.kind] != 0 {
			return formatErr("section %s: %d bytes of records of %d, want records of %d", name, s.bytes, le.Uint64(e[24:]), recordBytes[s.kind])
		}
		perEvent := s.kind == secEvents || s.kind == secTimes || s.kind == secRecorded
		if perEvent && s.bytes/recordBytes[s.kind] != h.events {
			return formatErr("section %s: %d records for %d events", name, s.bytes/recordBytes[s.kind], h.events)
		}
		h.sections = append(h.sections, s)
	}
	for _, k := range []sectionKind{secEvents, secStreams, secPools, secStrings, secMeta} {
		if !have[k] {
			return formatErr("section %s is missing", sectionNames[k])
		}
	}
	return nil
}

// asBytes views a slice of fixed records as the bytes of the binary form. Both supported architectures are little endian,
// and the records have no implicit padding (see the assertions below).
func asBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// asRecords views bytes of the binary form, aligned to a page, as records.
func asRecords[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// The records are as long as documented; a wrong size fails to compile.
var (
	_ [EventBytes]byte        = [unsafe.Sizeof(Event{})]byte{}
	_ [ExtraBytes]byte        = [unsafe.Sizeof(Extra{})]byte{}
	_ [RecordedBytes]byte     = [unsafe.Sizeof(Recorded{})]byte{}
	_ [SegmentEventBytes]byte = [unsafe.Sizeof(SegmentEvent{})]byte{}
	_ [OutcomeBytes]byte      = [unsafe.Sizeof(Outcome{})]byte{}
	_ [CallBytes]byte         = [unsafe.Sizeof(Call{})]byte{}
)
