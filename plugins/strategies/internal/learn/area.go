package learn

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/holdback"
	"github.com/gpubench/gpubench/trace"
)

// Area is memory prepared by a plan: one segment in which ranges are taken at planned addresses. Each belongs to a stream, whose work may
// reuse it in order; a range freed or used by another stream is held back until that one has completed.
type Area struct {
	dev     backends.Device
	held    *holdback.Holder
	release func(uint32)
	space   *blocks.Space
	Base    uint64
	Bytes   uint64
	live    int
	numbers []entry // [0] unused
	spare   uint32
}

// entry is a live or held range.
type entry struct {
	addr   uint64
	stream sdk.Stream
	live   bool
	gen    uint32
	spare  uint32
}

// NewArea returns an area without memory.
func NewArea(env *sdk.Env) *Area {
	a := &Area{dev: env.Device, held: holdback.New(env), numbers: make([]entry, 1)}
	a.release = a.give
	return a
}

// Open takes the memory from the device.
func (a *Area) Open(bytes uint64) bool {
	addr, st := a.dev.Malloc(bytes)
	if st != trace.CallOK {
		return false
	}
	a.Base, a.Bytes = addr, bytes
	a.space = blocks.NewSpace(addr, addr+bytes)
	return true
}

// Close gives the memory back; false when a range is live and it stays.
func (a *Area) Close() bool {
	if a.Bytes == 0 {
		return true
	}
	a.held.WaitAll(a.release)
	if a.live > 0 {
		return false
	}
	a.Discard()
	return true
}

// Discard gives the memory back whatever lives there.
func (a *Area) Discard() trace.CallStatus {
	a.held.Close()
	if a.Bytes == 0 {
		return trace.CallOK
	}
	st := a.dev.Free(a.Base)
	a.Base, a.Bytes, a.space, a.live = 0, 0, nil, 0
	return st
}

// Live returns the number of ranges that are taken and not yet freed, or freed and held back.
func (a *Area) Live() int { return a.live }

// Has reports whether an address lies in the area.
func (a *Area) Has(addr uint64) bool { return addr-a.Base < a.Bytes }

// Take takes [Base+offset, Base+offset+size) for a stream; false when not all of it is free.
func (a *Area) Take(offset, size uint64, s sdk.Stream, b *sdk.Block) bool {
	a.held.Collect(a.release)
	addr := a.Base + offset
	if !a.space.TakeAt(addr, size) {
		return false
	}
	i := a.spare
	if i != 0 {
		a.spare = a.numbers[i].spare
	} else {
		i = uint32(len(a.numbers))
		a.numbers = append(a.numbers, entry{})
	}
	e := &a.numbers[i]
	*e = entry{addr: addr, stream: s, live: true, gen: e.gen + 1}
	a.live++
	b.Addr, b.Size, b.Ref = addr, size, uint64(e.gen)<<32|uint64(i)
	return true
}

func (a *Area) find(b *sdk.Block) uint32 {
	i := uint32(b.Ref)
	if i == 0 || uint64(i) >= uint64(len(a.numbers)) {
		return 0
	}
	if e := &a.numbers[i]; !e.live || e.gen != uint32(b.Ref>>32) || e.addr != b.Addr {
		return 0
	}
	return i
}

// Use notes a use on a stream.
func (a *Area) Use(b *sdk.Block, s sdk.Stream) trace.Status {
	i := a.find(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	a.held.Use(i, s)
	return trace.StatusOK
}

// Free gives a range back, at once or when the streams that used it have completed.
func (a *Area) Free(b *sdk.Block, s sdk.Stream) trace.Status {
	i := a.find(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	e := &a.numbers[i]
	e.live = false
	if s != e.stream {
		a.held.Use(i, s)
	}
	if !a.held.Put(i, e.stream) {
		a.give(i)
	}
	return trace.StatusOK
}

// FreeWrong says what a deliberately wrong free is.
func (a *Area) FreeWrong(b *sdk.Block) trace.Status {
	if a.find(b) == 0 {
		return trace.StatusInvalid
	}
	return trace.StatusUnsupported
}

func (a *Area) give(i uint32) {
	a.space.Give(a.numbers[i].addr)
	a.live--
	a.numbers[i].spare = a.spare
	a.spare = i
}

// Inspect appends the area as a segment.
func (a *Area) Inspect(in *sdk.Inspection) {
	in.MetaBytes += uint64(cap(a.numbers)) * 32
	if a.Bytes == 0 {
		return
	}
	seg := sdk.InspectedSegment{Addr: a.Base, Bytes: a.Bytes}
	var taken []sdk.InspectedBlock
	for i := range a.numbers {
		e := &a.numbers[i]
		size, ok := a.space.Size(e.addr)
		if i == 0 || !ok || !e.live && !a.held.Holds(uint32(i)) {
			continue
		}
		state := "live"
		if !e.live {
			state = "pending"
		}
		taken = append(taken, sdk.InspectedBlock{Addr: e.addr, Bytes: size, State: state})
	}
	seg.Blocks = tile(taken, a.Base, a.Bytes)
	in.Segments = append(in.Segments, seg)
}

// StreamOf returns the stream for which a live range was taken.
func (a *Area) StreamOf(b *sdk.Block) sdk.Stream { return a.numbers[a.find(b)].stream }
