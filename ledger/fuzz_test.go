package ledger

import (
	"encoding/json"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// hostile makes events, outcomes and calls out of bytes: small numbers, so that addresses, slots, handles and physical
// memory meet often, and now and then the largest ones.
type hostile struct{ data []byte }

func (h *hostile) next() byte {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return b
}

func (h *hostile) number() uint64 {
	switch b := h.next(); {
	case b < 0xF0:
		return uint64(b%16) * 64
	case b < 0xF8:
		return ^uint64(0) - uint64(b&7)*64
	default:
		return uint64(b&7) << 20
	}
}

var hostileCalls = []trace.CallKind{trace.CallMalloc, trace.CallFree, trace.CallReserve, trace.CallUnreserve, trace.CallCreate, trace.CallRelease,
	trace.CallMap, trace.CallUnmap, trace.CallEventRecord, trace.CallEventQuery, trace.CallStreamWait, trace.CallStreamSync, trace.CallDeviceSync,
	trace.CallMemInfo, trace.CallHostMalloc, trace.CallHostFree, trace.CallCopy, trace.CallManaged, trace.CallMove, trace.CallExtent,
	trace.CallShare, trace.CallSpill, trace.CallUnspill, trace.CallCheckpoint, trace.CallDropped, 99, 255}

func (h *hostile) event() (trace.Event, trace.Outcome) {
	kind := trace.Kind(h.next() % 26)
	if h.next()%2 == 0 {
		kind = trace.KindAlloc + trace.Kind(h.next()%4)
	}
	slot := uint32(h.next() % 8)
	ev := trace.Event{Kind: kind, Flags: trace.Flags(h.next() & 15), Slot: slot, Handle: trace.Handle(slot + 1), Size: h.number(),
		Stream: uint16(h.next() % 4), AlignLog2: h.next() % 70, Aux: uint32(h.next() % 5)}
	o := trace.Outcome{Status: trace.Status(h.next() % 11), Addr: h.number(), Granted: h.number(), PolicyTicks: uint32(h.next())}
	if o.Status > 2 && h.next()%2 == 0 {
		o.Status = trace.StatusOK
	}
	return ev, o
}

func (h *hostile) call(event uint64) trace.Call {
	kind := hostileCalls[int(h.next())%len(hostileCalls)]
	c := trace.Call{Event: event, Kind: kind, Addr: h.number(), Size: h.number(), Aux: h.number(), Stream: uint32(h.next() % 4)}
	if h.next() > 240 {
		c.Status = trace.CallStatus(h.next() % 10)
	}
	if kind == trace.CallCreate || kind == trace.CallMap || kind == trace.CallRelease {
		c.Aux /= 256 // few handles, so that they are mapped twice
	}
	return c
}

// FuzzFeed: whatever a plugin answers, the ledger does not break. Afterwards the books tile their regions, and the report is valid JSON.
func FuzzFeed(f *testing.F) {
	seed := rng(1)
	for range 40 {
		data := make([]byte, 2000)
		for i := range data {
			data[i] = byte(seed.next())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &hostile{data: data}
		cfg := Config{Extras: []trace.Extra{{}, {Handle2: 1, Slot2: 0}, {Handle2: 2, Slot2: 1, Tag: 1}, {Handle2: 4, Slot2: 3}}, Strings: []string{"", "a"},
			DeviceTotalBytes: h.number(), DevicePageBytes: h.number(), LimitBytes: h.number(), AlignmentBytes: uint64(h.next() & 64),
			Timing: true, Hostages: true, Series: true, PictureRects: 16}
		l := New(cfg)
		for n := uint64(0); len(h.data) > 0; n++ {
			ev, o := h.event()
			var calls []trace.Call
			for range h.next() % 4 {
				calls = append(calls, h.call(n))
			}
			o.Calls = uint16(len(calls))
			if err := l.Feed(n, []trace.Event{ev}, nil, []trace.Outcome{o}, calls); err != nil {
				t.Fatal(err)
			}
			checkTiling(t, &l.dev)
			checkTiling(t, &l.host)
		}
		l.Closed()
		r := l.Finish()
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

// checkTiling walks a space: every region is covered by its items and gaps, without holes and overlaps.
func checkTiling(t *testing.T, s *space) {
	t.Helper()
	end, covered, free, largest := uint64(0), true, uint64(0), uint64(0)
	var at, held uint64
	for c := s.idx.next(noCursor); c.dir >= 0; c = s.idx.next(c) {
		id := s.idx.id(c)
		it := &s.items[id]
		if it.size == 0 {
			if !covered || it.addr < end {
				t.Fatalf("region at 0x%x: the one before ends at 0x%x, covered up to 0x%x", it.addr, end, at)
			}
			end = it.addr + s.meta[id].bytes
			held += s.meta[id].bytes
			at = it.addr
		}
		if it.addr != at {
			t.Fatalf("item at 0x%x, expected at 0x%x", it.addr, at)
		}
		at = it.end() + it.gap
		covered = at == end
		free, largest = free+it.gap, max(largest, it.gap)
	}
	if !covered || free != s.gaps.total || held != s.held || largest != s.largest() {
		t.Fatalf("covered %v, free %d (%d), held %d (%d), largest %d (%d)", covered, free, s.gaps.total, held, s.held, largest, s.largest())
	}
}
