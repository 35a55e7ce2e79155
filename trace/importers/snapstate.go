package importers

import (
	"fmt"
	"sort"

	"github.com/gpubench/gpubench/trace/pickle"
)

// blockState is the state of a block of a snapshot.
type blockState uint8

const (
	blockFree    blockState = iota // inactive
	blockLive                      // active_allocated
	blockPending                   // active_pending_free: freed by the program, other streams may still use it
)

// blockStates are the words of the writer, and the one of PyTorch's documentation for the pending state.
var blockStates = map[string]blockState{
	"inactive": blockFree, "active_allocated": blockLive,
	"active_pending_free": blockPending, "active_awaiting_free": blockPending,
}

// block is a block of a segment.
type block struct {
	addr, bytes uint64
	requested   uint64 // bytes asked for; stale when free
	state       blockState
	// For the start layout that is rebuilt from the end:
	initial int // 1 + index into the blocks live at the start; 0 = none
}

// segment is memory held from the device; for expandable segments one contiguous mapped range.
type segment struct {
	addr, bytes uint64
	device      int
	stream      uint16 // index into entryTable.streams
	pool        uint16 // index into entryTable.pools
	small       bool
	expandable  bool
	blocks      []block // in address order, without a gap
}

func (s *segment) end() uint64 { return s.addr + s.bytes }

// dict reads the fields of one dictionary and keeps the first error.
type dict struct {
	h   *pickle.Heap
	v   pickle.Value
	err error
}

func (d *dict) fail(key, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...))
	}
}

// uint returns the integer at a key, def when the key is absent; without a default the key is required.
func (d *dict) uint(key string, def ...uint64) uint64 {
	v, ok := d.h.Lookup(d.v, key)
	if !ok {
		if len(def) == 0 {
			d.fail(key, "missing")
			return 0
		}
		return def[0]
	}
	x, ok := d.h.Uint(v)
	if !ok {
		d.fail(key, "%s where an integer from 0 belongs", d.h.Kind(v).A())
	}
	return x
}

func (d *dict) text(key string) (string, bool) {
	v, ok := d.h.Lookup(d.v, key)
	if !ok {
		return "", false
	}
	s, ok := d.h.Text(v)
	if !ok {
		d.fail(key, "%s where a string belongs", d.h.Kind(v).A())
	}
	return s, ok
}

func (d *dict) bool(key string) bool {
	v, ok := d.h.Lookup(d.v, key)
	if !ok {
		return false
	}
	b, ok := d.h.Bool(v)
	if !ok {
		d.fail(key, "%s where a boolean belongs", d.h.Kind(v).A())
	}
	return b
}

// maxDevices bounds the device numbers of a snapshot.
const maxDevices = 1024

// readSegments reads the list of segments of all devices.
func (t *entryTable) readSegments(h *pickle.Heap, list pickle.Value) ([]segment, error) {
	if k := h.Kind(list); k != pickle.KindList && k != pickle.KindTuple {
		return nil, fmt.Errorf("segments: %s, not a list", k.A())
	}
	if _, streamed := h.Run(list); streamed {
		return nil, fmt.Errorf("segments: the list of a device's trace entries")
	}
	segs := make([]segment, 0, h.Len(list))
	for i := range h.Len(list) {
		s, err := t.readSegment(h, h.Item(list, i))
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
		if s.bytes > 0 {
			segs = append(segs, s)
		}
	}
	sort.SliceStable(segs, func(i, j int) bool {
		if segs[i].device != segs[j].device {
			return segs[i].device < segs[j].device
		}
		return segs[i].addr < segs[j].addr
	})
	for i := 1; i < len(segs); i++ {
		if a, b := &segs[i-1], &segs[i]; a.device == b.device && a.end() > b.addr {
			return nil, fmt.Errorf("segment 0x%x overlaps segment 0x%x", b.addr, a.addr)
		}
	}
	return segs, nil
}

func (t *entryTable) readSegment(h *pickle.Heap, v pickle.Value) (s segment, err error) {
	if k := h.Kind(v); k != pickle.KindDict {
		return s, fmt.Errorf("%s, not a dictionary", k.A())
	}
	d := &dict{h: h, v: v}
	device := d.uint("device", 0)
	s.addr, s.bytes = d.uint("address"), d.uint("total_size")
	if device >= maxDevices {
		d.fail("device", "%d, the most is %d", device, maxDevices-1)
	}
	s.device = int(device)
	if s.bytes > maxEntrySize || s.addr+s.bytes < s.addr {
		d.fail("total_size", "%d bytes at 0x%x pass the end of the address space", s.bytes, s.addr)
	}
	kind, given := d.text("segment_type")
	s.small = kind == "small" || !given && s.bytes == smallSegmentBytes
	s.expandable = d.bool("is_expandable")
	if raw, ok := h.Lookup(v, "stream"); ok {
		var e entry
		if err := t.set(h, &e, fieldStream, raw); err != nil {
			d.fail("stream", "%v", err)
		}
		s.stream = e.stream
	}
	if raw, ok := h.Lookup(v, "segment_pool_id"); ok && h.Kind(raw) != pickle.KindNone {
		if s.pool, err = t.pool(h, raw); err != nil {
			d.fail("segment_pool_id", "%v", err)
		}
	}
	if d.err != nil {
		return s, d.err
	}
	return s, s.readBlocks(h, v)
}

// readBlocks reads the blocks of a segment. Before PyTorch 2.1 they have no address: it follows from the sizes.
func (s *segment) readBlocks(h *pickle.Heap, v pickle.Value) error {
	list, ok := h.Lookup(v, "blocks")
	if k := h.Kind(list); !ok || k != pickle.KindList && k != pickle.KindTuple {
		return fmt.Errorf("blocks: missing, or not a list")
	}
	at := s.addr
	for i := range h.Len(list) {
		d := &dict{h: h, v: h.Item(list, i)}
		if k := h.Kind(d.v); k != pickle.KindDict {
			return fmt.Errorf("block %d: %s, not a dictionary", i, k.A())
		}
		b := block{addr: d.uint("address", at), bytes: d.uint("size")}
		state, _ := d.text("state")
		var known bool
		if b.state, known = blockStates[state]; !known {
			d.fail("state", "%q is not known", state)
		}
		b.requested = d.uint("requested_size", historySize(h, d.v, b.bytes))
		switch {
		case b.addr != at:
			d.fail("address", "0x%x, but the block before it ends at 0x%x", b.addr, at)
		case b.bytes > s.end()-at:
			d.fail("size", "%d bytes pass the end of the segment", b.bytes)
		case b.state != blockFree && b.requested > b.bytes:
			d.fail("requested_size", "%d bytes in a block of %d", b.requested, b.bytes)
		}
		if d.err != nil {
			return fmt.Errorf("block %d: %w", i, d.err)
		}
		at += b.bytes
		s.blocks = append(s.blocks, b)
	}
	if at != s.end() {
		return fmt.Errorf("blocks: they hold %d of the segment's %d bytes", at-s.addr, s.bytes)
	}
	return nil
}

// historySize returns the requested size that PyTorch 1.13 keeps in a block's history: its first entry is the live tenant.
func historySize(h *pickle.Heap, blk pickle.Value, def uint64) uint64 {
	history, ok := h.Lookup(blk, "history")
	if !ok || h.Kind(history) != pickle.KindList || h.Len(history) == 0 {
		return def
	}
	size, ok := h.Lookup(h.Item(history, 0), "real_size")
	if !ok {
		return def
	}
	if x, ok := h.Uint(size); ok {
		return x
	}
	return def
}
