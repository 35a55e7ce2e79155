package goldentest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

// Invariants drives the strategy with random operations on a small arena and checks after each one, in books of its own:
// that a block is as large as asked, aligned, inside a segment and disjoint from all others; that what Inspect shows covers every
// segment exactly and agrees with the live blocks; where it is promised, that no two free blocks touch and that an allocation
// does not fail while a hole is large enough; and in the end that freeing everything restores whole segments and that Close
// leaves nothing on the device.
func Invariants(t *testing.T, desc sdk.Description, options string) {
	InvariantsBetween(t, desc, options, 16, 4096)
}

// InvariantsBetween is Invariants with capacities from minUnits to maxUnits units of 256 bytes.
func InvariantsBetween(t *testing.T, desc sdk.Description, options string, minUnits, maxUnits uint64) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.Uint64Range(minUnits, maxUnits).Draw(t, "capacity in units")
		m := &machine{desc: desc, script: &Script{CapacityBytes: units * 256, IDs: 256, Streams: 1}}
		var err error
		if m.p, err = NewPlayer(desc, Peer{Options: options}, m.script); err != nil {
			t.Skipf("the capacity is too small: %v", err)
		}
		size := rapid.OneOf(rapid.Uint64Range(1, 2048), rapid.Uint64Range(1, units*64), rapid.Uint64Range(1, units*300))
		align := rapid.SampledFrom([]uint64{0, 0, 0, 0, 512, 4096})
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) { m.alloc(t, size.Draw(t, "size"), align.Draw(t, "align")) },
			"free": func(t *rapid.T) {
				if len(m.live) > 0 {
					m.free(t, rapid.IntRange(0, len(m.live)-1).Draw(t, "which"))
				}
			},
			"": m.check,
		})
		for len(m.live) > 0 {
			m.free(t, 0)
		}
		m.finish(t)
	})
}

type machine struct {
	desc   sdk.Description
	script *Script
	p      *Player
	live   []liveBlock
}

type liveBlock struct {
	block     sdk.Block
	requested uint64
}

func (m *machine) promises(p sdk.Promise) bool { return slices.Contains(m.desc.Promises, p) }

func (m *machine) alloc(t *rapid.T, size, align uint64) {
	var b sdk.Block
	r := sdk.Request{Size: size, Align: align}
	st := m.p.Strategy.Alloc(&r, &b)
	if !st.Placed() {
		if hole := m.holeFor(size, align); m.promises(sdk.PromiseNoSpuriousFailure) && hole != nil {
			t.Fatalf("%d bytes aligned to %d failed (%v) while %d bytes are free at %d", size, align, st, hole.Bytes, hole.Addr)
		}
		return
	}
	if b.Size < size {
		t.Fatalf("%d bytes granted for %d", b.Size, size)
	}
	if b.Addr%m.desc.Alignment != 0 || align > 0 && b.Addr%align != 0 {
		t.Fatalf("address %d is not aligned to %d and %d", b.Addr, m.desc.Alignment, align)
	}
	m.live = append(m.live, liveBlock{b, size})
}

// holeFor returns a free block that could hold size bytes at the alignment.
func (m *machine) holeFor(size, align uint64) *sdk.InspectedBlock {
	size = (size + 255) &^ 255
	align = max(align, 256)
	for _, seg := range m.inspect().Segments {
		for i := range seg.Blocks {
			if b := &seg.Blocks[i]; b.State == "free" && b.Bytes >= size+(-b.Addr&(align-1)) {
				return b
			}
		}
	}
	return nil
}

func (m *machine) free(t *rapid.T, i int) {
	b := m.live[i].block
	if st := m.p.Strategy.Free(&b, 0); st != trace.StatusOK {
		t.Fatalf("free of %d: %v", b.Addr, st)
	}
	m.live = slices.Delete(m.live, i, i+1)
	if w, ok := m.p.Strategy.(sdk.WrongFreer); ok {
		if st := w.FreeWrong(&b, 0); st != trace.StatusInvalid && st != trace.StatusUnsupported {
			t.Fatalf("second free of %d: %v, want invalid", b.Addr, st)
		}
	}
}

func (m *machine) inspect() sdk.Inspection {
	if in, ok := m.p.Strategy.(sdk.Inspector); ok {
		return in.Inspect()
	}
	return sdk.Inspection{}
}

func (m *machine) check(t *rapid.T) {
	live := slices.Clone(m.live)
	slices.SortFunc(live, func(a, b liveBlock) int { return cmpUint(a.block.Addr, b.block.Addr) })
	for i := 1; i < len(live); i++ {
		if a, b := live[i-1].block, live[i].block; a.Addr+a.Size > b.Addr {
			t.Fatalf("blocks [%d, %d) and [%d, %d) overlap", a.Addr, a.Addr+a.Size, b.Addr, b.Addr+b.Size)
		}
	}
	in := m.inspect()
	var shown []sdk.InspectedBlock
	for _, seg := range in.Segments {
		if err := m.checkSegment(seg); err != nil {
			t.Fatal(err)
		}
		for _, b := range seg.Blocks {
			if b.State == "live" {
				shown = append(shown, b)
			}
		}
	}
	slices.SortFunc(shown, func(a, b sdk.InspectedBlock) int { return cmpUint(a.Addr, b.Addr) })
	if _, ok := m.p.Strategy.(sdk.Inspector); !ok {
		return
	}
	if len(shown) != len(live) {
		t.Fatalf("Inspect shows %d live blocks, want %d", len(shown), len(live))
	}
	for i := range shown {
		if b := live[i].block; shown[i].Addr > b.Addr || shown[i].Addr+shown[i].Bytes < b.Addr+b.Size {
			t.Fatalf("Inspect shows a live block %+v, want %+v", shown[i], b)
		}
	}
}

// checkSegment checks that the blocks of a segment tile it and, where promised, that free neighbours are joined.
func (m *machine) checkSegment(seg sdk.InspectedSegment) error {
	at := seg.Addr
	for i, b := range seg.Blocks {
		if b.Addr != at {
			return fmt.Errorf("segment at %d: block %d begins at %d, want %d", seg.Addr, i, b.Addr, at)
		}
		at += b.Bytes
		if i > 0 && b.State == "free" && seg.Blocks[i-1].State == "free" && m.promises(sdk.PromiseCoalesces) {
			return fmt.Errorf("segment at %d: free blocks at %d and %d touch", seg.Addr, seg.Blocks[i-1].Addr, b.Addr)
		}
	}
	if at != seg.Addr+seg.Bytes {
		return fmt.Errorf("segment at %d: blocks end at %d, want %d", seg.Addr, at, seg.Addr+seg.Bytes)
	}
	return nil
}

func (m *machine) finish(t *rapid.T) {
	for _, seg := range m.inspect().Segments {
		usable := slices.DeleteFunc(seg.Blocks, func(b sdk.InspectedBlock) bool { return b.State == "unmapped" })
		if m.promises(sdk.PromiseCoalesces) && len(usable) != 1 {
			t.Fatalf("everything is free, but segment at %d has %d blocks", seg.Addr, len(usable))
		}
	}
	if err := m.p.Strategy.Close(); err != nil {
		t.Fatal(err)
	}
	if free, total := m.p.Device.MemInfo(); free != total {
		t.Fatalf("after Close %d of %d bytes are free on the device", free, total)
	}
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
