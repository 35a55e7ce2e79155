package pytorch

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/backends/recorded"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// stateOf writes the layout of an allocator down as a start state; slots maps addresses of live blocks to their slots.
func stateOf(a *Allocator, slots map[uint64]uint32) *trace.State {
	st := &trace.State{}
	for i := 1; i < len(a.blocks); i++ {
		if a.blocks[i].state == blockDead || a.blocks[i].prev != 0 {
			continue
		}
		var seg *trace.StateSegment
		for k := uint32(i); k != 0; k = a.blocks[k].next {
			b := &a.blocks[k]
			if b.state == blockUnmapped {
				seg = nil
				continue
			}
			if seg == nil {
				set := a.sets[b.set]
				st.Segments = append(st.Segments, trace.StateSegment{Addr: b.addr, Stream: set.stream, Small: set.pool.small(), Expandable: b.seg != 0})
				seg = &st.Segments[len(st.Segments)-1]
			}
			seg.Bytes += b.size
			sb := trace.StateBlock{Addr: b.addr, Bytes: b.size}
			if b.state == blockLive {
				sb.RequestedBytes, sb.Slot, sb.Handle = b.note, slots[b.addr], trace.Handle(slots[b.addr]+1)
			}
			seg.Blocks = append(seg.Blocks, sb)
		}
	}
	slices.SortFunc(st.Segments, func(x, y trace.StateSegment) int {
		if x.Addr < y.Addr {
			return -1
		}
		return 1
	})
	return st
}

// segmentLog is an ideal device that writes down what a snapshot would hold of its calls.
type segmentLog struct {
	*ideal.Device
	event uint64
	seen  []trace.SegmentEvent
	sizes map[uint64]uint64
}

func (d *segmentLog) add(k trace.SegmentEventKind, addr, size uint64) {
	d.seen = append(d.seen, trace.SegmentEvent{Event: d.event, Kind: k, Addr: addr, Bytes: size})
}

func (d *segmentLog) Malloc(n uint64) (uint64, trace.CallStatus) {
	addr, st := d.Device.Malloc(n)
	if st == trace.CallOK {
		d.sizes[addr] = n
		d.add(trace.SegmentAlloc, addr, n)
	}
	return addr, st
}

func (d *segmentLog) Free(addr uint64) trace.CallStatus {
	d.add(trace.SegmentFree, addr, d.sizes[addr])
	return d.Device.Free(addr)
}

func (d *segmentLog) Map(addr, n uint64, id backends.PhysID) trace.CallStatus {
	d.add(trace.SegmentMap, addr, n)
	return d.Device.Map(addr, n, id)
}

func (d *segmentLog) Unmap(addr, n uint64) trace.CallStatus {
	d.add(trace.SegmentUnmap, addr, n)
	return d.Device.Unmap(addr, n)
}

// scriptOp is an operation of a recording in testdata.
type scriptOp struct {
	Op   string
	ID   int
	Size uint64
	OK   int
	Skip int
}

func scriptOf(t *testing.T, name string) (total uint64, conf string, ops []scriptOp) {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(z)
	var h struct {
		Total uint64
		Conf  string
	}
	if err := dec.Decode(&h); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		var op scriptOp
		if err := dec.Decode(&op); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	return h.Total, h.Conf, ops
}

// player runs the operations of a script on one allocator.
type player struct {
	a    *Allocator
	live map[int]sdk.Block
}

func (p *player) do(op *scriptOp) (sdk.Block, trace.Status) {
	var b sdk.Block
	switch op.Op {
	case "a":
		st := p.a.Alloc(&sdk.Request{Size: op.Size}, &b)
		if st.Placed() && op.Size > 0 {
			p.live[op.ID] = b
		}
		return b, st
	case "f":
		if old, ok := p.live[op.ID]; ok {
			delete(p.live, op.ID)
			return b, p.a.Free(&old, 0)
		}
		return b, trace.StatusSkipped
	case "e":
		return b, p.a.Trim()
	}
	return b, trace.StatusUnsupported
}

// TestRestoreContinues cuts recordings in the middle: the layout there, taken over by a second allocator, goes on exactly
// like the first one, block for block and call for call. Above all: pages of expandable segments that came with the state
// are unmapped, and their reservation grows.
func TestRestoreContinues(t *testing.T) {
	for _, name := range []string{"train-grow-tight-expandable", "infer-tight-maxsplit-rounding", "frag-maxsplit20", "bounds-roundup"} {
		for _, part := range []int{10, 50, 90} {
			t.Run(fmt.Sprintf("%s-%d%%", name, part), func(t *testing.T) {
				total, conf, ops := scriptOf(t, name)
				continueAt(t, total, conf, ops, len(ops)*part/100)
			})
		}
	}
}

func continueAt(t *testing.T, total uint64, conf string, ops []scriptOp, cut int) {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: total})
	if err != nil {
		t.Fatal(err)
	}
	log := &segmentLog{Device: dev, sizes: map[uint64]uint64{}}
	raw, err := json.Marshal(Options{Conf: conf})
	if err != nil {
		t.Fatal(err)
	}
	env := &sdk.Env{Device: log, Options: raw, Streams: []uint64{0}}
	a, err := open(env)
	if err != nil {
		t.Fatal(err)
	}
	first := &player{a: a, live: map[int]sdk.Block{}}
	for i := range ops[:cut] {
		first.do(&ops[i])
	}
	slots := map[uint64]uint32{}
	for id, b := range first.live {
		slots[b.Addr] = uint32(id)
	}
	start := stateOf(a, slots)
	log.seen = nil
	tr := &trace.Trace{Start: start, Events: make([]trace.Event, len(ops)-cut), Recorded: make([]trace.Recorded, len(ops)-cut)}
	tr.Meta.CapacityBytes = total
	type step struct {
		b  sdk.Block
		st trace.Status
	}
	var want []step
	for i := range ops[cut:] {
		log.event = uint64(i)
		b, st := first.do(&ops[cut+i])
		want = append(want, step{b, st})
		if ops[cut+i].Op == "a" {
			tr.Recorded[i].Seen = 1
			if !st.Placed() {
				tr.Recorded[i].Status = trace.StatusFailed
			}
		}
	}
	tr.SegmentEvents = log.seen
	rec, err := recorded.New(tr, 0)
	if err != nil {
		t.Fatal(err)
	}
	adopt(t, rec, start)
	env.Device = rec
	second := &player{live: map[int]sdk.Block{}}
	if second.a, err = open(env); err != nil {
		t.Fatal(err)
	}
	if err := second.a.RestoreLayout(start, func(slot uint32, b sdk.Block) { second.live[int(slot)] = b }); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		rec.BeginEvent(uint64(i))
		b, st := second.do(&ops[cut+i])
		if b.Addr != want[i].b.Addr || b.Size != want[i].b.Size || st != want[i].st {
			t.Fatalf("operation %d: %+v %v, uncut %+v %v (%v)", cut+i, b, st, want[i].b, want[i].st, second.a.LastError())
		}
		if first, n := rec.Mismatches(); n > 0 {
			t.Fatalf("operation %d: %v", cut+i, first[0])
		}
	}
	for k := range statKinds {
		if got, want := second.a.Stat(k, PoolAll).Current, a.Stat(k, PoolAll).Current; got != want {
			t.Fatalf("%s is %d, uncut %d", statNames[k], got, want)
		}
	}
}

// adopt tells a device the segments of a start state as the replay loop does.
func adopt(t *testing.T, d backends.SegmentAdopter, st *trace.State) {
	t.Helper()
	for _, s := range st.Segments {
		piece := s.Bytes
		if s.Expandable {
			piece = ideal.PageBytes
		}
		for at := uint64(0); at < s.Bytes; at += piece {
			if st := d.Adopt(s.Addr+at, piece); st != trace.CallOK {
				t.Fatal(st.Err())
			}
		}
	}
}

// TestRestoreRefuses: states that the allocator cannot be in are refused with the address of what is wrong.
func TestRestoreRefuses(t *testing.T) {
	seg := func(s trace.StateSegment) *trace.State { return &trace.State{Segments: []trace.StateSegment{s}} }
	free := func(addr, n uint64) trace.StateBlock { return trace.StateBlock{Addr: addr, Bytes: n} }
	for _, c := range []struct {
		st   *trace.State
		want string
	}{
		{seg(trace.StateSegment{Addr: 0x1000}), "start state: segment 0x1000 has no bytes"},
		{seg(trace.StateSegment{Addr: 0x1000, Bytes: 1024, Blocks: []trace.StateBlock{free(0x1000, 512)}}),
			"start state: segment 0x1000: its blocks end at 0x1200, it ends at 0x1400"},
		{seg(trace.StateSegment{Addr: 0x1000, Bytes: 1024, Blocks: []trace.StateBlock{free(0x1000, 512), free(0x1200, 512)}}),
			"start state: segment 0x1000: two free blocks side by side at 0x1200"},
		{seg(trace.StateSegment{Addr: 0x1000, Bytes: 1024, Blocks: []trace.StateBlock{free(0x1200, 512)}}),
			"start state: segment 0x1000: the block at 0x1200 leaves a gap or is empty"},
		{seg(trace.StateSegment{Addr: 0x1000, Bytes: 100, Blocks: []trace.StateBlock{free(0x1000, 100)}}),
			"start state: segment 0x1000: the block at 0x1000 of 100 bytes is not in units of 512"},
		{seg(trace.StateSegment{Addr: 0x1000, Bytes: 1024, Expandable: true, Blocks: []trace.StateBlock{free(0x1000, 1024)}}),
			"start state: expandable segment 0x1000 of 1024 bytes is not whole pages of 20971520"},
	} {
		a, _ := newTest(t, 1<<30, Options{})
		err := a.RestoreLayout(c.st, func(uint32, sdk.Block) {})
		if !errors.Is(err, ErrLayout) || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	a, _ := newTest(t, 1<<30, Options{})
	var b sdk.Block
	a.Alloc(&sdk.Request{Size: 1}, &b)
	if err := a.RestoreLayout(&trace.State{}, nil); !errors.Is(err, ErrLayout) {
		t.Errorf("restored over live memory: %v", err)
	}
}

// TestRestoreOnIdeal: an expandable range taken over on a device that cannot map behind it. The free part is used, growth
// takes a reservation of its own, a pending block waits, and everything goes back.
func TestRestoreOnIdeal(t *testing.T) {
	a, dev := newTest(t, 1<<30, Options{Conf: "expandable_segments:True"})
	const base = 1<<44 + 5<<30
	st := &trace.State{Segments: []trace.StateSegment{{Addr: base, Bytes: 40 * miB, Expandable: true, Blocks: []trace.StateBlock{
		{Addr: base, Bytes: 15 * miB, RequestedBytes: 15*miB - 1, Handle: 7, Slot: 3},
		{Addr: base + 15*miB, Bytes: 5 * miB, Pending: true},
		{Addr: base + 20*miB, Bytes: 20 * miB},
	}}}}
	adopt(t, dev, st)
	dev.SetManualEvents(true)
	var live sdk.Block
	if err := a.RestoreLayout(st, func(slot uint32, b sdk.Block) {
		if slot != 3 {
			t.Fatalf("placed slot %d", slot)
		}
		live = b
	}); err != nil {
		t.Fatal(err)
	}
	if err := checkInvariants(a, dev); err != nil {
		t.Fatal(err)
	}
	alloc := func(n, want uint64) sdk.Block {
		t.Helper()
		var b sdk.Block
		if s := a.Alloc(&sdk.Request{Size: n}, &b); s != trace.StatusOK || b.Addr != want {
			t.Fatalf("alloc %d: %v at %#x, want %#x (%v)", n, s, b.Addr, want, a.LastError())
		}
		return b
	}
	x := alloc(20*miB, base+20*miB)
	y := alloc(24*miB, 1<<44) // the range is closed behind 40 MiB: a new reservation, the lowest one
	dev.CompleteAll()
	z := alloc(5*miB, base+15*miB) // the pending block came free
	for _, b := range []sdk.Block{x, y, z, live} {
		if s := a.Free(&b, 0); s != trace.StatusOK {
			t.Fatal(s, a.LastError())
		}
	}
	if s := a.Trim(); s != trace.StatusOK {
		t.Fatal(s, a.LastError())
	}
	if free, total := dev.MemInfo(); free != total || a.heldBytes != 0 {
		t.Fatalf("%d of %d bytes free, %d held", free, total, a.heldBytes)
	}
}
