package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gpubench/gpubench/trace"
)

// Layout of a program. docs/PLUGINS.md has the same table with every byte.
const (
	ProgramMagic       uint64 = 0x4d4152474f525047 // the bytes "GPROGRAM"
	ResultMagic        uint64 = 0x544c555345524247 // the bytes "GBRESULT"
	ProgramVersion     uint32 = 1
	ProgramHeaderBytes        = 64
	ResultHeaderBytes         = 64

	// MaxProgramSlots bounds the slot table that a program makes the plugin keep.
	MaxProgramSlots = 1 << 20
	// MaxProgramTable bounds each of the tables of streams, pools and strings, and MaxProgramText all strings together.
	MaxProgramTable = 1 << 16
	MaxProgramText  = 1 << 22

	programHasTimes uint32 = 1 << 0
)

// Errors about programs and results, for errors.Is.
var (
	ErrProgram = errors.New("not a program")
	ErrResult  = errors.New("not a result")
)

// AppendProgram appends t as raw bytes. A trace with a start state, or beyond the limits, is no program. What a recording saw is left
// out: a strategy does not see it.
func AppendProgram(dst []byte, t *trace.Trace) ([]byte, error) {
	if t.Start != nil {
		return dst, fmt.Errorf("%w: it has a start state; replay it instead", ErrProgram)
	}
	text := 0
	for _, s := range t.Pools {
		text += len(s)
	}
	for _, s := range t.Strings {
		text += len(s)
	}
	h := programHeader{events: len(t.Events), extras: len(t.Extras), streams: len(t.Streams), pools: len(t.Pools),
		strings: len(t.Strings), text: text, slots: t.Slots, times: len(t.TimesNs) != 0}
	if err := h.check(); err != nil {
		return dst, err
	}
	dst = h.append(dst)
	dst = append(dst, bytesOf(t.Events)...)
	dst = append(dst, bytesOf(t.Extras)...)
	if h.times {
		if len(t.TimesNs) != len(t.Events) {
			return dst, fmt.Errorf("%w: %d times for %d events", ErrProgram, len(t.TimesNs), len(t.Events))
		}
		dst = append(dst, bytesOf(t.TimesNs)...)
	}
	dst = append(dst, bytesOf(t.Streams)...)
	for _, list := range [][]string{t.Pools, t.Strings} {
		for _, s := range list {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
		}
	}
	for _, list := range [][]string{t.Pools, t.Strings} {
		for _, s := range list {
			dst = append(dst, s...)
		}
	}
	return dst, nil
}

// programHeader is the first 64 bytes of a program.
type programHeader struct {
	events, extras, streams, pools, strings, text int
	slots                                         uint32
	times                                         bool
}

func (h *programHeader) check() error {
	switch {
	case h.events > MaxProgramEvents || h.extras > MaxProgramEvents:
		return fmt.Errorf("%w: %d events and %d extras, at most %d (MaxProgramEvents)", ErrProgram, h.events, h.extras, MaxProgramEvents)
	case h.slots > MaxProgramSlots:
		return fmt.Errorf("%w: %d slots, at most %d (MaxProgramSlots)", ErrProgram, h.slots, MaxProgramSlots)
	case h.streams > MaxProgramTable || h.pools > MaxProgramTable || h.strings > MaxProgramTable:
		return fmt.Errorf("%w: tables of %d streams, %d pools and %d strings, at most %d (MaxProgramTable)", ErrProgram, h.streams, h.pools,
			h.strings, MaxProgramTable)
	case h.streams < 1 || h.pools < 1 || h.strings < 1:
		return fmt.Errorf("%w: the tables lack the default stream, the default pool or the empty string", ErrProgram)
	case h.text > MaxProgramText:
		return fmt.Errorf("%w: %d bytes of strings, at most %d (MaxProgramText)", ErrProgram, h.text, MaxProgramText)
	}
	return nil
}

// bytes returns the length of the whole program. The limits keep it far from overflow.
func (h *programHeader) bytes() int {
	n := ProgramHeaderBytes + h.events*trace.EventBytes + h.extras*trace.ExtraBytes + 8*h.streams + 4*(h.pools+h.strings) + h.text
	if h.times {
		n += 8 * h.events
	}
	return n
}

func (h *programHeader) append(dst []byte) []byte {
	le := binary.LittleEndian
	var flags uint32
	if h.times {
		flags |= programHasTimes
	}
	dst = le.AppendUint64(dst, ProgramMagic)
	for _, v := range []uint32{ProgramVersion, flags, uint32(h.events), uint32(h.extras), h.slots, uint32(h.streams), uint32(h.pools),
		uint32(h.strings), uint32(h.text)} {
		dst = le.AppendUint32(dst, v)
	}
	return append(dst, make([]byte, ProgramHeaderBytes-8-9*4)...)
}

func parseProgramHeader(b []byte) (h programHeader, err error) {
	le := binary.LittleEndian
	if len(b) < ProgramHeaderBytes {
		return h, fmt.Errorf("%w: %d bytes, its header alone has %d", ErrProgram, len(b), ProgramHeaderBytes)
	}
	if m, v := le.Uint64(b), le.Uint32(b[8:]); m != ProgramMagic || v != ProgramVersion {
		return h, fmt.Errorf("%w: magic %#x, version %d; want %#x, %d", ErrProgram, m, v, ProgramMagic, ProgramVersion)
	}
	at := func(i int) uint32 { return le.Uint32(b[12+4*i:]) }
	if at(0)&^programHasTimes != 0 {
		return h, fmt.Errorf("%w: flags %#x", ErrProgram, at(0))
	}
	const tooMany = 1 << 30 // keeps the sums of bytes() below 2^63 whatever the file says; check has the real limits
	for i := 1; i <= 8; i++ {
		if at(i) > tooMany {
			return h, fmt.Errorf("%w: a table of %d entries", ErrProgram, at(i))
		}
	}
	h = programHeader{times: at(0)&programHasTimes != 0, events: int(at(1)), extras: int(at(2)), slots: at(3), streams: int(at(4)),
		pools: int(at(5)), strings: int(at(6)), text: int(at(7))}
	return h, h.check()
}

// DecodeProgram reads a program from raw bytes into t, whose slices it uses again, so that a long-lived decoder allocates
// only for strings. Lengths are checked; the indexes inside events are the loop's to check.
func DecodeProgram(b []byte, t *trace.Trace) error {
	h, err := parseProgramHeader(b)
	if err != nil {
		return err
	}
	if len(b) != h.bytes() {
		return fmt.Errorf("%w: %d bytes, its header describes %d", ErrProgram, len(b), h.bytes())
	}
	b = b[ProgramHeaderBytes:]
	t.Meta = trace.Meta{Source: trace.SourceProgram, CoversPercent: 100}
	t.Slots, t.Start, t.Recorded = h.slots, nil, nil
	t.Events, b = take(t.Events, h.events, b)
	t.Extras, b = take(t.Extras, h.extras, b)
	times := 0
	if h.times {
		times = h.events
	}
	t.TimesNs, b = take(t.TimesNs, times, b)
	t.Streams, b = take(t.Streams, h.streams, b)
	text := b[4*(h.pools+h.strings):]
	if t.Pools, b, text, err = takeStrings(t.Pools, h.pools, b, text); err != nil {
		return err
	}
	if t.Strings, _, text, err = takeStrings(t.Strings, h.strings, b, text); err != nil {
		return err
	}
	if len(text) != 0 {
		return fmt.Errorf("%w: %d bytes of strings belong to none", ErrProgram, len(text))
	}
	return nil
}

// take copies n records from the front of b into dst.
func take[T any](dst []T, n int, b []byte) ([]T, []byte) {
	if cap(dst) < n {
		dst = make([]T, n)
	}
	dst = dst[:n]
	return dst, b[copy(bytesOf(dst), b):]
}

// takeStrings reads n lengths from the front of b and as many strings from the front of text. A string that is unchanged
// is not made again.
func takeStrings(dst []string, n int, b, text []byte) (list []string, rest, textRest []byte, err error) {
	old := dst
	dst = dst[:0]
	for i := range n {
		size := int(binary.LittleEndian.Uint32(b[4*i:]))
		if size > len(text) {
			return nil, nil, nil, fmt.Errorf("%w: string %d of %d bytes, %d are left", ErrProgram, i, size, len(text))
		}
		if i < len(old) && old[i] == string(text[:size]) {
			dst = append(dst, old[i])
		} else {
			dst = append(dst, string(text[:size]))
		}
		text = text[size:]
	}
	return dst, b[4*n:], text, nil
}

// bytesOf views a slice of records as bytes.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
