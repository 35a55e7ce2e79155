package direct

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "direct"

// Alignment is the alignment of device addresses that every device guarantees.
const Alignment = 256

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "the device's own allocator: one device call an allocation and a free",
		Promises: []sdk.Promise{
			sdk.PromiseCoalesces, sdk.PromiseReclaims, sdk.PromiseBoundedWaste, sdk.PromiseBoundedMetadata,
			sdk.PromiseDeterministic, sdk.PromiseStreamSafe, sdk.PromiseReturnsOnFree,
		},
		WasteFactor: 1,
		Options:     arena.ObjectSchema(),
		Alignment:   Alignment,
		New:         open,
	}
}

// strategy implements sdk.Strategy, StreamUser, Trimmer and Resetter.
type strategy struct {
	dev     backends.Device
	streams backends.Streams // nil: the device has no streams
	many    bool             // the trace has several streams
	blocks  []block
	spare   uint32 // head of the unused entries, linked by next
	first   uint32 // head of the live blocks
}

// block is one live block; Block.Ref is its index. Entry 0 is unused.
type block struct {
	addr       uint64
	prev, next uint32
	used       bool // on another stream than its own
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	if err := sdk.DecodeOptions(env.Options, &struct{}{}); err != nil {
		return nil, err
	}
	s := &strategy{dev: env.Device, many: len(env.Streams) > 1, blocks: make([]block, 1, 1024)}
	s.streams, _ = backends.As[backends.Streams](env.Device)
	return s, nil
}

// Alloc is one Malloc. An alignment above the device's asks for that much more; where the device's address has it anyway,
// nothing is lost.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	size := r.Size
	if r.Align > Alignment {
		if size += r.Align - Alignment; size < r.Size {
			return trace.StatusFailed
		}
	}
	addr, st := s.dev.Malloc(size)
	switch {
	case st == trace.CallOK:
	case st.OutOfMemory():
		return trace.StatusFailed
	default:
		return trace.StatusError
	}
	i := s.spare
	if i != 0 {
		s.spare = s.blocks[i].next
	} else {
		i = uint32(len(s.blocks))
		s.blocks = append(s.blocks, block{})
	}
	s.blocks[i] = block{addr: addr, next: s.first}
	s.blocks[s.first].prev = i
	s.first = i
	if r.Align > Alignment {
		addr += -addr & (r.Align - 1)
	}
	b.Addr, b.Size, b.Ref = addr, r.Size, uint64(i)
	return trace.StatusOK
}

// Free waits for the streams where needed and gives the memory back.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := uint32(b.Ref)
	if s.streams != nil {
		if s.blocks[i].used {
			s.streams.SyncDevice()
		} else if s.many {
			s.streams.SyncStream(stream)
		}
	}
	if s.dev.Free(s.blocks[i].addr) != trace.CallOK {
		return trace.StatusError
	}
	s.unlink(i)
	return trace.StatusOK
}

func (s *strategy) unlink(i uint32) {
	b := s.blocks[i]
	if b.prev != 0 {
		s.blocks[b.prev].next = b.next
	} else {
		s.first = b.next
	}
	if b.next != 0 {
		s.blocks[b.next].prev = b.prev
	}
	s.blocks[i] = block{next: s.spare}
	s.spare = i
}

// Use notes that the host must wait before the block is given back.
func (s *strategy) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size != 0 {
		s.blocks[b.Ref].used = true
	}
	return trace.StatusOK
}

// Trim has nothing to give back.
func (s *strategy) Trim() trace.Status { return trace.StatusOK }

// Reset gives every live block back.
func (s *strategy) Reset() trace.Status {
	status := trace.StatusOK
	for s.first != 0 {
		if s.dev.Free(s.blocks[s.first].addr) != trace.CallOK {
			status = trace.StatusError
		}
		s.unlink(s.first)
	}
	return status
}

// Close gives every live block back.
func (s *strategy) Close() error {
	if s.Reset() != trace.StatusOK {
		return trace.CallInvalidValue.Err()
	}
	return nil
}
