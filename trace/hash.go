package trace

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Hash returns the content hash of a trace: SHA-256, in hexadecimal, over its events, times, recorded answers, segment
// events and start state in a canonical encoding. It is the identity of the workload: equal for the text and the binary
// form, whatever the order of the tables and the numbers of the slots; source, title, warnings and the rest of Meta do not
// enter it. The records must be legal, as Parse and Open guarantee.
//
// docs/TRACES.md describes the encoding. Strings, streams and pools are hashed by value where they first occur and by
// their rank after that, so that no table is needed.
func Hash(t *Trace) string {
	sum := sha256.New()
	h := hasher{t: t, w: bufio.NewWriterSize(sum, 1<<16), sum: sum,
		streams: make([]uint32, len(t.Streams)), pools: make([]uint32, len(t.Pools)), strings: make([]uint32, len(t.Strings))}
	h.w.WriteString("gpubench content 1\n")
	h.state()
	segs := 0
	segments := func(i uint64) {
		for ; segs < len(t.SegmentEvents) && t.SegmentEvents[segs].Event == i; segs++ {
			h.segment(&t.SegmentEvents[segs])
		}
	}
	for i := range t.Events {
		segments(uint64(i))
		h.event(i)
	}
	segments(uint64(len(t.Events)))
	h.w.Flush()
	return hex.EncodeToString(sum.Sum(nil))
}

// hasher writes the canonical encoding. The rank tables hold 1 + the rank of a table entry, 0 before its first use.
type hasher struct {
	t                       *Trace
	w                       *bufio.Writer
	sum                     hash.Hash
	streams, pools, strings []uint32
	nStreams, nPools        uint32
	nStrings                uint32
	buf                     [64]byte
}

// The first byte of each item that is not an event; kinds of events are below 64.
const (
	hashState   = 0xf0
	hashSegment = 0xf1 // a segment of the start state
	hashBlock   = 0xf2 // a block of the start state
	hashSegEv   = 0xf3
	hashTime    = 0xf4 // the time of the event that follows, when it differs from that of the event before
	hashSaw     = 0xf5 // the recorded answer of the event before
	hashExtra   = 0xf7 // thread, old handle, place and offset of the event before
	hashName    = 0xf6 // a name used for the first time
)

func (h *hasher) stream(i uint16) uint32 {
	if h.streams[i] == 0 {
		h.nStreams++
		h.streams[i] = h.nStreams
		h.put(hashName, 1, h.t.Streams[i])
	}
	return h.streams[i]
}

func (h *hasher) pool(i uint16) uint32 {
	if h.pools[i] == 0 {
		h.nPools++
		h.pools[i] = h.nPools
		h.text(2, h.t.Pools[i])
	}
	return h.pools[i]
}

func (h *hasher) string(i uint32) uint32 {
	if h.strings[i] == 0 {
		h.nStrings++
		h.strings[i] = h.nStrings
		h.text(3, h.t.Strings[i])
	}
	return h.strings[i]
}

func (h *hasher) text(kind byte, s string) {
	h.put(hashName, kind, uint64(len(s)))
	h.w.WriteString(s)
}

// put writes a code, a byte and 64-bit words.
func (h *hasher) put(code, b byte, words ...uint64) {
	p := append(h.buf[:0], code, b)
	for _, w := range words {
		p = binary.LittleEndian.AppendUint64(p, w)
	}
	h.w.Write(p)
}

func (h *hasher) state() {
	if h.t.Start == nil {
		return
	}
	h.put(hashState, 0, uint64(len(h.t.Start.Segments)))
	for i := range h.t.Start.Segments {
		s := &h.t.Start.Segments[i]
		stream, pool := h.stream(s.Stream), h.pool(s.Pool)
		h.put(hashSegment, byte(bit(s.Small, 0)|bit(s.Expandable, 1)), s.Addr, s.Bytes, uint64(stream)<<32|uint64(pool), uint64(len(s.Blocks)))
		for j := range s.Blocks {
			b := &s.Blocks[j]
			h.put(hashBlock, byte(bit(b.Pending, 0)), b.Bytes, b.RequestedBytes, uint64(b.Handle))
		}
	}
}

func (h *hasher) segment(s *SegmentEvent) {
	stream := h.stream(s.Stream)
	h.put(hashSegEv, byte(s.Kind), s.Addr, s.Bytes, uint64(stream))
}

// event writes event i: time, record, extra, answer.
func (h *hasher) event(i int) {
	t := h.t
	if len(t.TimesNs) > 0 && (i == 0 || t.TimesNs[i] != t.TimesNs[i-1]) {
		h.put(hashTime, 0, uint64(t.TimesNs[i]))
	}
	ev := &t.Events[i]
	x := t.extra(ev)
	var stream, pool, name uint32
	if ev.Kind.usesStream() {
		stream = h.stream(ev.Stream)
	}
	if ev.Kind.usesPool() {
		pool = h.pool(ev.Pool)
	}
	switch {
	case ev.Kind == KindWait:
		name = h.stream(uint16(ev.Aux))
	case ev.Kind.takesTag():
		if x.Tag != 0 {
			name = h.string(x.Tag)
		}
	case ev.Kind.auxIsString():
		name = h.string(ev.Aux)
	default:
		name = ev.Aux
	}
	p := append(h.buf[:0], byte(ev.Kind), byte(ev.Flags&^FlagExtra), ev.AlignLog2, 0)
	p = binary.LittleEndian.AppendUint32(p, stream)
	p = binary.LittleEndian.AppendUint32(p, pool)
	p = binary.LittleEndian.AppendUint32(p, name)
	p = binary.LittleEndian.AppendUint64(p, uint64(ev.Handle))
	p = binary.LittleEndian.AppendUint64(p, ev.Size)
	h.w.Write(p)
	if ev.Kind.takesTag() && (ev.Kind == KindRealloc || ev.Kind == KindTouch || x.Thread != 0) {
		h.put(hashExtra, 0, uint64(x.Thread), uint64(x.Handle2), uint64(x.Arg), x.Offset)
	}
	if len(t.Recorded) > 0 && t.Recorded[i].Seen != 0 {
		r := &t.Recorded[i]
		h.put(hashSaw, byte(r.Status), r.Addr, r.Granted)
	}
}
