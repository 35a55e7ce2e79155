package importers

import (
	"fmt"

	"github.com/gpubench/gpubench/trace/pickle"
)

// action is the kind of a trace entry of a PyTorch snapshot.
type action uint8

const (
	actUnknown action = iota
	actAlloc
	actFreeRequested
	actFreeCompleted
	actSegmentAlloc
	actSegmentFree
	actSegmentMap
	actSegmentUnmap
	actOOM
	actSnapshot
	actAnnotate
	actionCount
)

// actionNames are the actions of PyTorch 2.14 (c10/core/CachingDeviceAllocator.h, parseTraceEntryAction), and "free", which
// the memory_viz page takes for free_completed.
var actionNames = map[string]action{
	"alloc": actAlloc, "free_requested": actFreeRequested, "free_completed": actFreeCompleted, "free": actFreeCompleted,
	"segment_alloc": actSegmentAlloc, "segment_free": actSegmentFree, "segment_map": actSegmentMap,
	"segment_unmap": actSegmentUnmap, "oom": actOOM, "snapshot": actSnapshot, "annotate": actAnnotate,
}

// field is a key of a trace entry.
type field uint8

const (
	fieldUnknown field = iota // not looked at yet
	fieldIgnored
	fieldAction
	fieldAddr
	fieldSize
	fieldStream
	fieldTime
	fieldFrames
	fieldPool
	fieldDeviceFree
)

var fieldNames = map[string]field{
	"action": fieldAction, "addr": fieldAddr, "size": fieldSize, "stream": fieldStream, "time_us": fieldTime,
	"frames": fieldFrames, "pool_id": fieldPool, "device_free": fieldDeviceFree,
}

// entry is one trace entry in 32 bytes: a million of them are kept while a trace is rewound.
type entry struct {
	addr     uint64 // address; of an oom, the bytes the driver had free
	sizePool uint64 // size in the low sizeBits, pool table index above
	timeUs   int64
	tag      uint32
	stream   uint16 // index into entryTable.streams
	act      action
	flags    entryFlags
}

type entryFlags uint8

const (
	entryTimed  entryFlags = 1 << iota // timeUs is given
	entryPooled                        // the entry names its pool
)

const (
	sizeBits     = 48
	maxEntrySize = 1<<sizeBits - 1
	// maxEntries bounds the trace entries of a file, which take 32 bytes each: 8 GiB of memory, a pickle of some 15 GB.
	maxEntries = 1 << 28
)

func (e *entry) size() uint64 { return e.sizePool & maxEntrySize }
func (e *entry) pool() uint16 { return uint16(e.sizePool >> sizeBits) }

const chunkEntries = 1 << 14

// run is the entries of one device, in chunks so that growing copies nothing.
type run struct {
	chunks  [][]entry
	n       int
	unknown map[string]int // actions that are not known, counted
	shared  bool           // the list stands in the file more than once
}

func (r *run) at(i int) *entry { return &r.chunks[i/chunkEntries][i%chunkEntries] }

// done lets go of the chunks before entry i, unless two devices share the entries.
func (r *run) done(i int) {
	if k := i / chunkEntries; k > 0 && !r.shared {
		r.chunks[k-1] = nil
	}
}

func (r *run) add(e entry) {
	if r.n%chunkEntries == 0 {
		r.chunks = append(r.chunks, make([]entry, 0, chunkEntries))
	}
	last := len(r.chunks) - 1
	r.chunks[last] = append(r.chunks[last], e)
	r.n++
}

// Tokens say what stands in the place of something that was consumed.
const (
	tokenShift       = 56
	tokenNothing     = uint64(0) << tokenShift
	tokenFrame       = uint64(1) << tokenShift // + number of the frame
	tokenTag         = uint64(2) << tokenShift // + number of the tag
	tokenEntry       = uint64(3) << tokenShift // + run << tokenEntryBits + index
	tokenEntryBits   = 33
	tokenPayload     = 1<<tokenShift - 1
	tokenEntryMask   = 1<<tokenEntryBits - 1
	maxStreamsOrPool = 1 << 16
)

// entryTable collects the trace entries of all devices; it is the sink of the pickle reader.
type entryTable struct {
	runs    []*run
	frames  frameTable
	fields  []field  // by string number
	actions []action // by string number
	streams indexOf[uint64]
	pools   indexOf[[2]int64]
	total   int
}

func newEntryTable() *entryTable {
	t := &entryTable{frames: newFrameTable()}
	t.streams.of(0)
	t.pools.of([2]int64{})
	return t
}

// indexOf numbers values in order of first use.
type indexOf[T comparable] struct {
	list  []T
	index map[T]int
	last  T
	lastI int
}

func (x *indexOf[T]) of(v T) int {
	if len(x.list) > 0 && v == x.last {
		return x.lastI
	}
	i, ok := x.index[v]
	if !ok {
		if x.index == nil {
			x.index = map[T]int{}
		}
		i = len(x.list)
		x.list = append(x.list, v)
		x.index[v] = i
	}
	x.last, x.lastI = v, i
	return i
}

// Item takes one trace entry.
func (t *entryTable) Item(h *pickle.Heap, runNo int, item pickle.Value) (uint64, error) {
	for runNo >= len(t.runs) {
		t.runs = append(t.runs, &run{})
	}
	r := t.runs[runNo]
	if t.total >= maxEntries {
		return 0, fmt.Errorf("%w: more than %d trace entries", pickle.ErrLimit, maxEntries)
	}
	t.total++
	if token, ok := h.Token(item); ok {
		if token&^uint64(tokenPayload) != tokenEntry {
			return 0, fmt.Errorf("trace entry %d: something else than an entry", r.n)
		}
		from := t.runs[token&tokenPayload>>tokenEntryBits]
		r.add(*from.at(int(token & tokenEntryMask)))
		return token, nil
	}
	e, err := t.convert(h, item, r)
	if err != nil {
		return 0, fmt.Errorf("trace entry %d: %w", r.n, err)
	}
	r.add(e)
	return tokenEntry | uint64(runNo)<<tokenEntryBits | uint64(r.n-1), nil
}

// convert turns the dictionary of an entry into a record.
func (t *entryTable) convert(h *pickle.Heap, item pickle.Value, r *run) (e entry, err error) {
	if k := h.Kind(item); k != pickle.KindDict {
		return e, fmt.Errorf("%s, not a dictionary", k.A())
	}
	named, n := false, h.Len(item)
	for i := range n {
		key, v := h.Pair(item, i)
		id, ok := h.StringID(key)
		if !ok {
			continue
		}
		switch f := t.field(h, key, id); f {
		case fieldAction:
			named = true
			if e.act, err = t.action(h, v, r); err != nil {
				return e, err
			}
		case fieldIgnored:
		default:
			if err := t.set(h, &e, f, v); err != nil {
				name, _ := h.Text(key)
				return e, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if !named {
		r.miss("(no action)")
	}
	return e, nil
}

func (r *run) miss(name string) {
	if r.unknown == nil {
		r.unknown = map[string]int{}
	}
	if _, known := r.unknown[name]; !known && len(r.unknown) >= maxUnknownActions {
		name = "(others)"
	}
	r.unknown[name]++
}

// maxUnknownActions bounds the unknown actions that are counted by name.
const maxUnknownActions = 16

func (t *entryTable) field(h *pickle.Heap, key pickle.Value, id uint32) field {
	for int(id) >= len(t.fields) {
		t.fields = append(t.fields, make([]field, max(64, len(t.fields)))...)
	}
	if t.fields[id] == fieldUnknown {
		name, _ := h.Text(key)
		t.fields[id] = fieldIgnored
		if f, ok := fieldNames[name]; ok {
			t.fields[id] = f
		}
	}
	return t.fields[id]
}

func (t *entryTable) action(h *pickle.Heap, v pickle.Value, r *run) (action, error) {
	id, ok := h.StringID(v)
	if !ok {
		return 0, fmt.Errorf("action is %s, not a string", h.Kind(v).A())
	}
	for int(id) >= len(t.actions) {
		t.actions = append(t.actions, make([]action, max(64, len(t.actions)))...)
	}
	if t.actions[id] == actUnknown {
		name, _ := h.Text(v)
		if t.actions[id] = actionNames[name]; t.actions[id] == actUnknown {
			r.miss(name)
		}
	}
	return t.actions[id], nil
}

// set stores one field of an entry.
func (t *entryTable) set(h *pickle.Heap, e *entry, f field, v pickle.Value) error {
	switch f {
	case fieldFrames:
		return t.setTag(h, e, v)
	case fieldPool:
		return t.setPool(h, e, v)
	case fieldTime:
		us, ok := h.Int(v)
		if !ok {
			x, isNumber := h.Float(v)
			if !isNumber || x != x || x < -maxTimeUs || x > maxTimeUs {
				return fmt.Errorf("%s, not a time", h.Kind(v).A())
			}
			us = int64(x)
		}
		if us < -maxTimeUs || us > maxTimeUs {
			return fmt.Errorf("%d µs is no time", us)
		}
		e.timeUs, e.flags = us, e.flags|entryTimed
		return nil
	case fieldStream:
		bits, ok := h.Uint(v)
		if x, negative := h.Int(v); !ok && negative {
			bits, ok = uint64(x), true
		}
		if !ok {
			return fmt.Errorf("%s, not an integer", h.Kind(v).A())
		}
		i := t.streams.of(bits)
		if i >= maxStreamsOrPool {
			return fmt.Errorf("%w: more than %d streams", pickle.ErrLimit, maxStreamsOrPool)
		}
		e.stream = uint16(i)
		return nil
	}
	x, ok := h.Uint(v)
	if !ok {
		return fmt.Errorf("%s, not an integer from 0", h.Kind(v).A())
	}
	if f == fieldSize {
		if x > maxEntrySize {
			return fmt.Errorf("%d bytes is more than any device has", x)
		}
		e.sizePool = e.sizePool&^uint64(maxEntrySize) | x
		return nil
	}
	e.addr = x
	return nil
}

// maxTimeUs keeps times, and their differences in ns, within 63 bits: about 146 years before and after 1970.
const maxTimeUs = 1 << 52

func (t *entryTable) setPool(h *pickle.Heap, e *entry, v pickle.Value) error {
	i, err := t.pool(h, v)
	if err != nil {
		return err
	}
	e.sizePool = e.sizePool&maxEntrySize | uint64(i)<<sizeBits
	e.flags |= entryPooled
	return nil
}

// pool returns the number of a pool id, a tuple (or, in JSON, a list) of two integers.
func (t *entryTable) pool(h *pickle.Heap, v pickle.Value) (uint16, error) {
	k := h.Kind(v)
	if k != pickle.KindTuple && k != pickle.KindList || h.Len(v) != 2 {
		return 0, fmt.Errorf("%s, not a pair of integers", k.A())
	}
	a, okA := h.Int(h.Item(v, 0))
	b, okB := h.Int(h.Item(v, 1))
	if !okA || !okB {
		return 0, fmt.Errorf("not a pair of integers")
	}
	i := t.pools.of([2]int64{a, b})
	if i >= maxStreamsOrPool {
		return 0, fmt.Errorf("%w: more than %d pools", pickle.ErrLimit, maxStreamsOrPool)
	}
	return uint16(i), nil
}
