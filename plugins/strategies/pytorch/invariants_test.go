package pytorch

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// newTest opens an allocator over an ideal device.
func newTest(t rapid.TB, totalBytes uint64, o Options) (*Allocator, *ideal.Device) {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: totalBytes})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := open(&sdk.Env{Device: dev, Options: raw, Streams: []uint64{0, 0x7f20, 0x10, 0x9000}})
	if err != nil {
		t.Fatal(err)
	}
	return a, dev
}

// census is what a walk over all blocks finds.
type census struct {
	free, unmapped map[uint32][]uint32 // by set
	gauges         [poolKinds][statKinds]uint64
	active         map[*privatePool]uint64
	spans          [][2]uint64 // of segments
}

// checkInvariants verifies the structure of the allocator against a walk over its blocks, and the device's books.
func checkInvariants(a *Allocator, dev *ideal.Device) error {
	c := &census{free: map[uint32][]uint32{}, unmapped: map[uint32][]uint32{}, active: map[*privatePool]uint64{}}
	for i := 1; i < len(a.blocks); i++ {
		if a.blocks[i].state == blockDead || a.blocks[i].prev != 0 {
			continue
		}
		if err := c.segment(a, uint32(i)); err != nil {
			return err
		}
	}
	slices.SortFunc(c.spans, func(x, y [2]uint64) int {
		if x[0] < y[0] {
			return -1
		}
		return 1
	})
	for k := 1; k < len(c.spans); k++ {
		if c.spans[k-1][1] > c.spans[k][0] {
			return fmt.Errorf("segments [%d, %d) and [%d, %d) overlap", c.spans[k-1][0], c.spans[k-1][1], c.spans[k][0], c.spans[k][1])
		}
	}
	for k := 1; k < len(a.sets); k++ {
		if err := checkSet(a, a.sets[k], c.free[uint32(k)], c.unmapped[uint32(k)]); err != nil {
			return fmt.Errorf("free set %d: %w", k, err)
		}
	}
	for p := range poolKinds {
		for k := range statKinds {
			s := a.Stat(k, p)
			if s.Current != int64(c.gauges[p][k]) || s.Allocated-s.Freed != s.Current || s.Peak < s.Current {
				return fmt.Errorf("%s.%s is %+v, the blocks say %d", statNames[k], poolNames[p], s, c.gauges[p][k])
			}
		}
	}
	for pp, n := range c.active {
		if pp.active != n {
			return fmt.Errorf("private pool %d counts %d active blocks, there are %d", pp.id, pp.active, n)
		}
	}
	free, total := dev.MemInfo()
	if held := c.gauges[PoolAll][StatReservedBytes]; a.heldBytes != held || total-free != held {
		return fmt.Errorf("held %d, in blocks %d, charged by the device %d", a.heldBytes, held, total-free)
	}
	return nil
}

// segment walks one segment from its head.
func (c *census) segment(a *Allocator, head uint32) error {
	h := &a.blocks[head]
	set := a.sets[h.set]
	kind := set.pool.kind
	add := func(k StatKind, n uint64) {
		c.gauges[PoolAll][k] += n
		c.gauges[kind][k] += n
	}
	end, before := h.addr, uint32(0)
	for i := head; i != 0; i = a.blocks[i].next {
		b := &a.blocks[i]
		if b.addr != end || b.prev != before || b.set != h.set || b.seg != h.seg || b.size == 0 || b.size%minBlockBytes != 0 {
			return fmt.Errorf("block %d %+v does not follow block %d, which ends at %d", i, *b, before, end)
		}
		if before != 0 && b.state == a.blocks[before].state && (b.state == blockFree || b.state == blockUnmapped) {
			return fmt.Errorf("blocks %d and %d are both %s and not joined", before, i, stateNames[b.state])
		}
		if (b.uses != 0) != (b.state == blockDeferred) && b.state != blockLive || (b.events != 0) != (b.state == blockPending) {
			return fmt.Errorf("block %d %+v: uses and events do not fit its state", i, *b)
		}
		switch {
		case b.state == blockUnmapped:
			c.unmapped[b.set] = append(c.unmapped[b.set], i)
		case b.state == blockFree:
			c.free[b.set] = append(c.free[b.set], i)
			if b.isSplit() && b.seg == 0 {
				add(StatInactiveSplit, 1)
				add(StatInactiveSplitBytes, b.size)
			}
		default:
			if pp := set.pool.private; pp != nil {
				c.active[pp]++
			}
			add(StatActive, 1)
			add(StatActiveBytes, b.size)
			add(StatRequestedBytes, b.note)
			if b.state == blockLive {
				add(StatAllocation, 1)
				add(StatAllocatedBytes, b.size)
			}
		}
		if b.state != blockUnmapped {
			add(StatReservedBytes, b.size)
		}
		end, before = b.addr+b.size, i
	}
	c.spans = append(c.spans, [2]uint64{h.addr, end})
	if h.seg == 0 {
		add(StatSegment, 1)
		return nil
	}
	if sg := &a.segments[h.seg]; !sg.inUse || sg.base != h.addr || sg.base+sg.size != end {
		return fmt.Errorf("blocks [%d, %d) are not the reservation %+v", h.addr, end, *sg)
	}
	return nil
}

// checkSet compares a free set with the free and unmapped blocks that a walk found for it, forwards and backwards.
func checkSet(a *Allocator, s *freeSet, free, unmapped []uint32) error {
	slices.SortFunc(free, func(i, j uint32) int {
		if before(&a.blocks[i], a.blocks[j].size, a.blocks[j].addr) {
			return -1
		}
		return 1
	})
	var up, down []uint32
	bytes := uint64(0)
	for i := s.from(a.blocks, 0, 0); i != 0; i = s.after(a.blocks, i) {
		up = append(up, i)
		bytes += a.blocks[i].size
	}
	for i := s.until(a.blocks, 1<<62, 0); i != 0; i = s.until(a.blocks, a.blocks[i].size, a.blocks[i].addr) {
		down = append(down, i)
	}
	slices.Reverse(down)
	if !slices.Equal(up, free) || !slices.Equal(down, free) || s.count != uint64(len(free)) || s.bytes != bytes {
		return fmt.Errorf("holds %v upwards, %v downwards, counts %d blocks and %d bytes; free are %v", up, down, s.count, s.bytes, free)
	}
	slices.SortFunc(unmapped, func(i, j uint32) int { return int(int64(a.blocks[i].addr - a.blocks[j].addr)) })
	if !slices.Equal(s.unmapped, unmapped) {
		return fmt.Errorf("unmapped set holds %v, unmapped are %v", s.unmapped, unmapped)
	}
	return nil
}

// propertyConfs are settings under which the property test runs; every rule of the search is on in one of them.
var propertyConfs = []string{"", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4",
	"max_split_size_mb:32,garbage_collection_threshold:0.3,per_process_memory_fraction:0.8",
	"expandable_segments:True,garbage_collection_threshold:0.2,per_process_memory_fraction:0.9", "large_segment_size_mb:12"}

// propertyRun is one random program.
type propertyRun struct {
	t    *rapid.T
	a    *Allocator
	dev  *ideal.Device
	live []sdk.Block
	sum  Stat // of allocated_bytes, from what the program saw
}

// TestInvariants runs random programs on a small device with many failures, injected ones too, and verifies after every
// event that blocks tile their segments, free sets hold exactly the free blocks in order, nothing live overlaps, and all
// statistics equal what the blocks say.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.SampledFrom([]uint64{48 << 20, 200 << 20, 1 << 30}).Draw(t, "total")
		a, dev := newTest(t, total, Options{Conf: rapid.SampledFrom(propertyConfs).Draw(t, "conf")})
		r := &propertyRun{t: t, a: a, dev: dev}
		for range rapid.IntRange(1, 120).Draw(t, "events") {
			r.step()
			if err := checkInvariants(a, dev); err != nil {
				t.Fatal(err)
			}
			if got := a.Stat(StatAllocatedBytes, PoolAll); got != r.sum {
				t.Fatalf("allocated_bytes is %+v, the program saw %+v", got, r.sum)
			}
		}
		r.finish()
	})
}

func (r *propertyRun) step() {
	t, a := r.t, r.a
	switch kind := rapid.IntRange(0, 29).Draw(t, "kind"); {
	case kind < 13:
		r.alloc()
	case kind < 20 && len(r.live) > 0:
		r.free(rapid.IntRange(0, len(r.live)-1).Draw(t, "which"))
	case kind == 20 && len(r.live) > 0:
		b := r.live[rapid.IntRange(0, len(r.live)-1).Draw(t, "which")]
		if st := a.Use(&b, sdk.Stream(rapid.IntRange(0, 3).Draw(t, "stream"))); st != trace.StatusOK {
			t.Fatalf("use: %v", st)
		}
	case kind == 21:
		if st := a.Trim(); st != trace.StatusOK && a.opErr != ErrPoolCount {
			t.Fatalf("trim: %v %v", st, a.LastError())
		}
	case kind == 22:
		a.PoolBegin(sdk.Pool(rapid.IntRange(1, 3).Draw(t, "pool")))
	case kind == 23 || kind == 24:
		a.PoolEnd(0)
	case kind == 25:
		a.PoolRelease(sdk.Pool(rapid.IntRange(1, 3).Draw(t, "pool")))
	case kind == 26:
		r.dev.SetManualEvents(rapid.Bool().Draw(t, "manual"))
	case kind == 27:
		r.dev.CompleteAll()
	case kind == 28:
		r.dev.FailNext(uint64(rapid.IntRange(1, 6).Draw(t, "call")))
	case kind == 29:
		conf := "expandable_segments:False,max_split_size_mb:32"
		if rapid.Bool().Draw(t, "expandable") {
			conf = "expandable_segments:True,max_split_size_mb:32"
		}
		if a.cfg.maxSplitBytes == unlimited { // oversize blocks are counted at both ends of a life
			conf = conf[:len(conf)-len(",max_split_size_mb:32")]
		}
		if st := a.Set("conf", conf); st != trace.StatusOK {
			t.Fatalf("set: %v %v", st, a.LastError())
		}
	}
}

func (r *propertyRun) alloc() {
	t := r.t
	var n uint64
	if rapid.Bool().Draw(t, "small") {
		n = rapid.Uint64Range(0, 3<<20).Draw(t, "size")
	} else {
		n = rapid.Uint64Range(1<<20, 70<<20).Draw(t, "size")
	}
	var b sdk.Block
	st := r.a.Alloc(&sdk.Request{Size: n, Stream: sdk.Stream(rapid.IntRange(0, 3).Draw(t, "stream"))}, &b)
	switch st {
	case trace.StatusFailed:
		return
	case trace.StatusError:
		if err := r.a.LastError(); err != ErrPoolCount && err != ErrSplitRelease && err != ErrPoolUnknown {
			t.Fatalf("alloc %d: %v", n, r.a.LastError())
		}
		return
	case trace.StatusOK, trace.StatusRecovered:
	default:
		t.Fatalf("alloc %d: %v", n, st)
	}
	if n == 0 {
		return
	}
	if b.Size < n || b.Addr%minBlockBytes != 0 {
		t.Fatalf("alloc %d: %+v", n, b)
	}
	for _, o := range r.live {
		if b.Addr < o.Addr+o.Size && o.Addr < b.Addr+b.Size {
			t.Fatalf("alloc %d: %+v overlaps live %+v", n, b, o)
		}
	}
	r.live = append(r.live, b)
	r.sum.Current += int64(b.Size)
	r.sum.Allocated += int64(b.Size)
	r.sum.Peak = max(r.sum.Peak, r.sum.Current)
}

func (r *propertyRun) free(i int) {
	b := r.live[i]
	st := r.a.Free(&b, sdk.Stream(rapid.IntRange(0, 3).Draw(r.t, "stream")))
	if st == trace.StatusError && r.a.LastError() == ErrPoolDeleted {
		return
	}
	if st != trace.StatusOK {
		r.t.Fatalf("free %+v: %v %v", b, st, r.a.LastError())
	}
	r.live = append(r.live[:i], r.live[i+1:]...)
	r.sum.Current -= int64(b.Size)
	r.sum.Freed += int64(b.Size)
	if st := r.a.Free(&b, 0); st != trace.StatusInvalid {
		r.t.Fatalf("second free of %+v: %v", b, st)
	}
}

// finish frees everything and closes; the device must be whole again.
func (r *propertyRun) finish() {
	for i := len(r.live) - 1; i >= 0; i-- {
		r.free(i)
	}
	if err := r.a.Close(); err != nil {
		r.t.Fatal(err)
	}
	if free, total := r.dev.MemInfo(); free != total {
		r.t.Fatalf("%d of %d bytes free after close", free, total)
	}
}

// TestFeature: a different abstract state has a different feature, and the same program has the same.
func TestFeature(t *testing.T) {
	seen := map[uint32]string{}
	run := func() (features []uint32) {
		a, dev := newTest(t, 64*miB, Options{})
		dev.SetManualEvents(true)
		var b, c sdk.Block
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"open", func() {}},
			{"split", func() { a.Alloc(&sdk.Request{Size: 2 * miB}, &b) }},
			{"second segment", func() { a.Alloc(&sdk.Request{Size: 19 * miB}, &c) }},
			{"pending", func() { a.Free(&c, 1) }},
			{"failed", func() { a.Alloc(&sdk.Request{Size: 60 * miB}, &c) }},
			{"routed", func() { a.PoolBegin(1) }},
			{"wrong", func() { a.PoolBegin(1) }},
		} {
			step.do()
			features = append(features, a.Feature())
			if other, dup := seen[a.Feature()]; dup && other != step.name {
				t.Errorf("%s and %s look alike: %#x", step.name, other, a.Feature())
			}
			seen[a.Feature()] = step.name
		}
		return features
	}
	if x, y := run(), run(); !slices.Equal(x, y) {
		t.Errorf("the same program gives %#x and %#x", x, y)
	}
}
