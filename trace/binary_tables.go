package trace

import (
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"
)

// encodeStrings writes a string table: count u32, count+1 offsets u32, the bytes. String i is bytes[offset i : offset i+1].
func encodeStrings(list []string) []byte {
	n := 0
	for _, s := range list {
		n += len(s)
	}
	p := make([]byte, 0, 4+4*(len(list)+1)+n)
	le := binary.LittleEndian
	p = le.AppendUint32(p, uint32(len(list)))
	at := uint32(0)
	p = le.AppendUint32(p, at)
	for _, s := range list {
		at += uint32(len(s))
		p = le.AppendUint32(p, at)
	}
	for _, s := range list {
		p = append(p, s...)
	}
	return p
}

// decodeStrings reads a string table; first is what its entry 0 must be. The strings are copies.
func decodeStrings(p []byte, name, first string, limit int) ([]string, error) {
	le := binary.LittleEndian
	if len(p) < 8 {
		return nil, formatErr("section %s: %d bytes are too few", name, len(p))
	}
	n := int(le.Uint32(p))
	if n < 1 || n > limit || len(p) < 8+4*n {
		return nil, formatErr("section %s: %d strings in %d bytes (at least 1, at most %d)", name, n, len(p), limit)
	}
	text := p[8+4*n:]
	if len(text) > MaxStringsBytes {
		return nil, formatErr("section %s: %v", name, limitError("MaxStringsBytes", MaxStringsBytes))
	}
	all := string(text)
	list := make([]string, n)
	at := uint32(0)
	if le.Uint32(p[4:]) != 0 {
		return nil, formatErr("section %s: its first string does not begin at 0", name)
	}
	for i := range list {
		end := le.Uint32(p[8+4*i:])
		if end < at || int(end) > len(all) || end-at > MaxStringBytes {
			return nil, formatErr("section %s: string %d spans bytes %d to %d of %d", name, i, at, end, len(all))
		}
		list[i] = all[at:end]
		at = end
	}
	if int(at) != len(all) {
		return nil, formatErr("section %s: %d bytes belong to no string", name, len(all)-int(at))
	}
	if list[0] != first {
		return nil, formatErr("section %s: entry 0 is %q, want %q", name, list[0], first)
	}
	return list, nil
}

// metaJSON is Meta in the binary form and in JSON reports.
type metaJSON struct {
	Source        string            `json:"source"`
	CoversPercent float64           `json:"covers_percent"`
	Device        int               `json:"device"`
	CapacityBytes uint64            `json:"capacity_bytes"`
	Settings      map[string]string `json:"settings,omitempty"`
	Title         string            `json:"title,omitempty"`
	Warnings      []string          `json:"warnings,omitempty"`
	Skipped       uint64            `json:"skipped"`
}

// MarshalJSON writes the fields in snake case with their units last.
func (m Meta) MarshalJSON() ([]byte, error) { return json.Marshal(metaJSON(m)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Meta) UnmarshalJSON(p []byte) error {
	var j metaJSON
	if err := json.Unmarshal(p, &j); err != nil {
		return err
	}
	*m = Meta(j)
	return nil
}

// maxMetaBytes bounds the JSON of the meta section.
const maxMetaBytes = MaxStringsBytes

func decodeMeta(p []byte) (m Meta, err error) {
	if len(p) > maxMetaBytes {
		return m, formatErr("section meta: %d bytes, at most %d", len(p), maxMetaBytes)
	}
	if err := json.Unmarshal(p, &m); err != nil {
		return m, formatErr("section meta: %v", err)
	}
	if err := m.check(); err != nil {
		return m, formatErr("section meta: %v", err)
	}
	return m, nil
}

func validUTF8(list ...string) bool {
	for _, s := range list {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// Sizes of the records of the state section.
const (
	stateHeadBytes    = 16
	stateSegmentBytes = 32
	stateBlockBytes   = 40
)

// encodeState writes the state section: two counts u64, the segments, then the blocks of all segments in order.
func encodeState(s *State) []byte {
	le := binary.LittleEndian
	blocks := 0
	for i := range s.Segments {
		blocks += len(s.Segments[i].Blocks)
	}
	p := make([]byte, 0, stateHeadBytes+stateSegmentBytes*len(s.Segments)+stateBlockBytes*blocks)
	p = le.AppendUint64(p, uint64(len(s.Segments)))
	p = le.AppendUint64(p, uint64(blocks))
	for i := range s.Segments {
		seg := &s.Segments[i]
		p = le.AppendUint64(p, seg.Addr)
		p = le.AppendUint64(p, seg.Bytes)
		p = le.AppendUint32(p, uint32(len(seg.Blocks)))
		p = le.AppendUint16(p, seg.Stream)
		p = le.AppendUint16(p, seg.Pool)
		p = le.AppendUint64(p, bit(seg.Small, 0)|bit(seg.Expandable, 1))
	}
	for i := range s.Segments {
		for _, b := range s.Segments[i].Blocks {
			p = le.AppendUint64(p, b.Addr)
			p = le.AppendUint64(p, b.Bytes)
			p = le.AppendUint64(p, b.RequestedBytes)
			p = le.AppendUint64(p, uint64(b.Handle))
			p = le.AppendUint32(p, b.Slot)
			p = le.AppendUint32(p, uint32(bit(b.Pending, 0)))
		}
	}
	return p
}

func bit(v bool, n uint) uint64 {
	if v {
		return 1 << n
	}
	return 0
}

// decodeState reads the state section; indexes and shape are checked by State.check and State.checkSlots.
func decodeState(p []byte) (*State, error) {
	le := binary.LittleEndian
	if len(p) < stateHeadBytes {
		return nil, formatErr("section state: %d bytes are too few", len(p))
	}
	segs, blocks := le.Uint64(p), le.Uint64(p[8:])
	if segs > MaxSegments || blocks > MaxBlocks || uint64(len(p)) != stateHeadBytes+stateSegmentBytes*segs+stateBlockBytes*blocks {
		return nil, formatErr("section state: %d segments and %d blocks in %d bytes", segs, blocks, len(p))
	}
	s := &State{Segments: make([]StateSegment, segs)}
	all := make([]StateBlock, blocks)
	q := p[stateHeadBytes+stateSegmentBytes*segs:]
	for i := range all {
		r := q[i*stateBlockBytes:]
		all[i] = StateBlock{Addr: le.Uint64(r), Bytes: le.Uint64(r[8:]), RequestedBytes: le.Uint64(r[16:]),
			Handle: Handle(le.Uint64(r[24:])), Slot: le.Uint32(r[32:]), Pending: le.Uint32(r[36:])&1 != 0}
	}
	for i := range s.Segments {
		r := p[stateHeadBytes+i*stateSegmentBytes:]
		n, flags := uint64(le.Uint32(r[16:])), le.Uint64(r[24:])
		if n > uint64(len(all)) {
			return nil, formatErr("section state: segment %d has %d blocks, %d are left", i, n, len(all))
		}
		s.Segments[i] = StateSegment{Addr: le.Uint64(r), Bytes: le.Uint64(r[8:]), Stream: le.Uint16(r[20:]), Pool: le.Uint16(r[22:]),
			Small: flags&1 != 0, Expandable: flags&2 != 0, Blocks: all[:n:n]}
		all = all[n:]
	}
	if len(all) != 0 {
		return nil, formatErr("section state: %d blocks belong to no segment", len(all))
	}
	return s, nil
}
