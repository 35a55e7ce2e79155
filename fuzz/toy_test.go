package fuzz

import (
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// toyBug is a mistake that the toy can make.
type toyBug int

const (
	toyClean        toyBug = iota
	toyMergeTooFar         // a free takes a byte range into the free list that reaches into the next live block
	toySizeWraps           // rounding up wraps near 2^64
	toyMisaligned          // the alignment asked is forgotten
	toyNoMerge             // free neighbours are not joined
	toyLastPiece           // a request for all that is free fails
	toyDoubleFree          // a free of what is dead is accepted
	toyPanics              // the third live block is one too many
	toyEndless             // asks the device for ever when it is full
	toyLeaks               // the arena is not given back
	toyForgetsReset        // what a reset should forget shows in the addresses
	toyWastes              // grants ten times what is asked
	toyPhantom             // a request that fails leaves a block behind
	toyGrowsMeta           // bookkeeping grows with every event
)

// toy is a first-fit allocator on one arena, of forty lines, in which every bug is one line.
type toy struct {
	env    *sdk.Env
	bug    toyBug
	base   uint64
	bytes  uint64
	free   []span
	live   []span
	meta   uint64
	resets uint64
}

const toyUnit = 256

// toyDescription promises everything that the toy keeps.
func toyDescription(bug toyBug) sdk.Description {
	return sdk.Description{Name: "toy", Version: "1", Arena: true, Alignment: toyUnit, WasteFactor: 1,
		Promises: []sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseNoSpuriousFailure, sdk.PromiseReclaims, sdk.PromiseBoundedWaste,
			sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			s := &toy{env: env, bug: bug, bytes: env.CapacityBytes / toyUnit * toyUnit}
			var st trace.CallStatus
			if s.base, st = env.Device.Malloc(max(s.bytes, toyUnit)); st != trace.CallOK {
				return nil, st.Err()
			}
			s.clear()
			return s, nil
		}}
}

func (s *toy) clear() {
	s.free, s.live = append(s.free[:0], span{s.base, s.bytes}), s.live[:0]
	if s.bug == toyForgetsReset && s.resets > 0 && s.bytes > toyUnit {
		s.free = append(s.free[:0], span{s.base, toyUnit}, span{s.base + toyUnit, s.bytes - toyUnit})
	}
}

func (s *toy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	s.meta += 1 << 16
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > 1<<62 && s.bug != toySizeWraps {
		return trace.StatusFailed
	}
	size := (r.Size + toyUnit - 1) / toyUnit * toyUnit
	if s.bug == toyWastes {
		size *= 10
	}
	align := max(r.Align, toyUnit)
	if s.bug == toyMisaligned {
		align = toyUnit
	}
	for i, f := range s.free {
		at := (f.addr + align - 1) / align * align
		if at-f.addr > f.size || f.size-(at-f.addr) < size || s.bug == toyLastPiece && f.size == size {
			continue
		}
		s.free = append(s.free[:i], s.free[i+1:]...)
		s.give(span{f.addr, at - f.addr})
		s.give(span{at + size, f.addr + f.size - at - size})
		s.live = append(s.live, span{at, size})
		if s.bug == toyPanics && len(s.live) == 3 {
			panic("toy: no room for a third")
		}
		*b = sdk.Block{Addr: at, Size: size}
		return trace.StatusOK
	}
	for s.bug == toyEndless {
		if _, st := s.env.Device.Malloc(s.bytes); st == trace.CallOK {
			break
		}
	}
	if s.bug == toyPhantom && len(s.free) > 0 {
		s.live, s.free = append(s.live, s.free[0]), s.free[1:]
	}
	return trace.StatusFailed
}

// give puts a range into the list of free ones, in order of addresses, and joins neighbours.
func (s *toy) give(r span) {
	if r.size == 0 {
		return
	}
	i := 0
	for i < len(s.free) && s.free[i].addr < r.addr {
		i++
	}
	s.free = append(s.free[:i], append([]span{r}, s.free[i:]...)...)
	for i := 1; i < len(s.free) && s.bug != toyNoMerge; {
		if a, b := s.free[i-1], s.free[i]; a.addr+a.size >= b.addr {
			s.free[i-1].size = b.addr + b.size - a.addr
			s.free = append(s.free[:i], s.free[i+1:]...)
			continue
		}
		i++
	}
}

func (s *toy) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	for i, l := range s.live {
		if l.addr == b.Addr && b.Size != 0 {
			s.live = append(s.live[:i], s.live[i+1:]...)
			if s.bug == toyMergeTooFar && l.addr+l.size < s.base+s.bytes && len(s.live) > 2 {
				l.size += toyUnit
			}
			s.give(l)
			return trace.StatusOK
		}
	}
	if b.Size == 0 || s.bug == toyDoubleFree {
		return trace.StatusOK
	}
	return trace.StatusInvalid
}

func (s *toy) FreeWrong(b *sdk.Block, st sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusInvalid
	}
	for _, l := range s.live {
		if l.addr == b.Addr {
			return trace.StatusInvalid // another's by now: the toy knows blocks by address only, and cannot tell
		}
	}
	return s.Free(b, st)
}

func (s *toy) Trim() trace.Status { return trace.StatusOK }

func (s *toy) Reset() trace.Status {
	s.resets++
	s.clear()
	return trace.StatusOK
}

func (s *toy) Close() error {
	if s.bug == toyLeaks && len(s.free) > 1 {
		return nil
	}
	return s.env.Device.Free(s.base).Err()
}

// Inspect shows the arena from its first byte to its last.
func (s *toy) Inspect() sdk.Inspection {
	seg := sdk.InspectedSegment{Addr: s.base, Bytes: s.bytes, Blocks: []sdk.InspectedBlock{}}
	for at := s.base; at < s.base+s.bytes; {
		b := sdk.InspectedBlock{Addr: at, State: "lost"}
		for _, f := range s.free {
			if f.addr == at {
				b.Bytes, b.State = f.size, "free"
			}
		}
		for _, l := range s.live {
			if l.addr == at {
				b.Bytes, b.State = l.size, "live"
			}
		}
		if b.Bytes == 0 {
			break
		}
		seg.Blocks = append(seg.Blocks, b)
		at += b.Bytes
	}
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{seg}}
	if in.MetaBytes = 1 + uint64(len(s.free)+len(s.live))*32; s.bug == toyGrowsMeta {
		in.MetaBytes += s.meta
	}
	return in
}
