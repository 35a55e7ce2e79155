package rmmarena

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/pool"
	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "rmm-arena"

type config struct {
	ArenaFraction float64 `json:"arena_fraction"`
	SizeClasses   bool    `json:"size_classes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:     Name,
		Version:  "24.10.00",
		Summary:  "RMM's arenas: superblocks of 1 MiB and more for each stream out of a global arena",
		Arena:    true,
		Promises: []sdk.Promise{sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		Options: arena.ObjectSchema(
			`"arena_fraction":{"type":"number","exclusiveMinimum":0,"maximum":1,"default":0.5,"description":"size of the global arena as a part of the capacity"}`,
			`"size_classes":{"type":"boolean","default":false,"description":"round sizes up to RMM_ARENA_USE_SIZE_CLASSES' table"}`),
		Deviations: rmm.Deviations(sdk.Deviation{
			ID: "rmm-arena-size-class-54k", Text: "With size classes one class is 54 KiB where the pattern has 56.", Section: "arena.hpp align_to_size_class"}),
		Alignment: rmm.UnitBytes,
		New:       open,
	}
}

// strategy implements sdk.Strategy, WrongFreer, Resetter and Inspector.
type strategy struct {
	dev     backends.Device
	streams backends.Streams // nil: the device has none
	classes bool
	addr    uint64
	bytes   uint64
	s       spans
	global  set
	arenas  []set // by stream
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{ArenaFraction: 0.5}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if !(cfg.ArenaFraction > 0 && cfg.ArenaFraction <= 1) {
		return nil, fmt.Errorf("%w: arena_fraction is %v, must be above 0 and at most 1", sdk.ErrOptions, cfg.ArenaFraction)
	}
	s := &strategy{dev: env.Device, classes: cfg.SizeClasses, s: spans{t: blocks.NewTable(1024)}}
	s.bytes = uint64(float64(arena.Limit(env, rmm.UnitBytes))*cfg.ArenaFraction) &^ (rmm.UnitBytes - 1)
	if s.bytes < minSuperblockBytes {
		return nil, fmt.Errorf("%s: the arena of %d bytes is smaller than a superblock of %d bytes; give a larger capacity or fraction", Name, s.bytes, minSuperblockBytes)
	}
	s.streams, _ = backends.As[backends.Streams](env.Device)
	var st trace.CallStatus
	if s.addr, st = s.dev.Malloc(s.bytes); st != trace.CallOK {
		return nil, fmt.Errorf("%s: arena of %d bytes: %w", Name, s.bytes, st.Err())
	}
	s.Reset()
	return s, nil
}

// Reset frees everything: the global arena has one superblock.
func (s *strategy) Reset() trace.Status {
	s.s.reset()
	for i := range s.arenas {
		s.arenas[i] = s.arenas[i][:0]
	}
	s.global = append(s.global[:0], s.s.add(s.s.t.New(s.addr, s.bytes), globalArena))
	return trace.StatusOK
}

func (s *strategy) arena(stream sdk.Stream) *set {
	for int(stream) >= len(s.arenas) {
		s.arenas = append(s.arenas, nil)
	}
	return &s.arenas[stream]
}

// Alloc is do_allocate. A request of 0 bytes changes nothing.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > rmm.MaxRequestBytes {
		return trace.StatusFailed
	}
	size := r.Size
	if r.Align > rmm.UnitBytes { // the original ignores it; here the block is larger by it
		size += r.Align - rmm.UnitBytes
	}
	size = s.round(size)
	status := trace.StatusOK
	i := s.allocate(size, r.Stream)
	if i == blocks.None {
		s.defragment()
		status = trace.StatusRecovered
		if i = s.allocate(size, r.Stream); i == blocks.None {
			return trace.StatusFailed
		}
	}
	k := &s.s.t.B[i]
	gap := pool.Gap(k.Addr, r.Align)
	b.Addr, b.Size, b.Ref = k.Addr+gap, k.Size-gap, s.s.t.Ref(i)
	return status
}

func (s *strategy) round(size uint64) uint64 {
	if s.classes {
		return sizeClass(size)
	}
	return rmm.RoundUp(size)
}

// allocate is arena::allocate.
func (s *strategy) allocate(size uint64, stream sdk.Stream) uint32 {
	if size > minSuperblockBytes {
		if k, ok := s.cut(size); ok {
			return s.s.take(k, size)
		}
		return blocks.None
	}
	own := s.arena(stream)
	k, ok := s.s.firstFit(*own, size)
	if !ok {
		if k, ok = s.cut(size); !ok {
			return blocks.None
		}
		s.s.remove(&s.global, k)
		s.s.sb[k].owner = int(stream)
		s.s.insert(own, k)
	}
	return s.s.take(k, size)
}

// cut is global_arena::first_fit: the first superblock that fits, or the head of it when it is empty and large enough. The
// superblock stays in the global set.
func (s *strategy) cut(size uint64) (uint32, bool) {
	k, ok := s.s.firstFit(s.global, size)
	if !ok {
		return 0, false
	}
	head := max(minSuperblockBytes, size)
	if sb := &s.s.sb[k]; sb.live == 0 && sb.bytes >= head+minSuperblockBytes {
		s.s.insert(&s.global, s.s.split(k, head))
	}
	return k, true
}

// defragment gives all superblocks of all arenas to the global arena, after everything on the device has finished.
func (s *strategy) defragment() {
	if s.streams != nil {
		s.streams.SyncDevice()
	}
	for a := range s.arenas {
		for _, k := range s.arenas[a] {
			s.s.sb[k].owner = globalArena
			s.s.insert(&s.global, k)
			s.s.coalesce(&s.global, k)
		}
		s.arenas[a] = s.arenas[a][:0]
	}
}

// Free is do_deallocate: the host waits for the stream when the block is large or lies in another stream's arena.
func (s *strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := s.live(b)
	if i == blocks.None {
		return trace.StatusInvalid
	}
	large := s.s.t.B[i].Size > minSuperblockBytes
	k := s.s.give(i)
	if owner := s.s.sb[k].owner; s.streams != nil && (large || owner != int(stream)) {
		s.streams.SyncStream(stream)
	}
	if s.s.sb[k].owner == globalArena {
		s.s.coalesce(&s.global, k)
	}
	return trace.StatusOK
}

func (s *strategy) live(b *sdk.Block) uint32 {
	i := s.s.t.Deref(b.Ref)
	if k := &s.s.t.B[i]; k.Free || k.Addr+k.Size != b.Addr+b.Size {
		return blocks.None
	}
	return i
}

// FreeWrong detects a deliberately wrong free: references carry a generation.
func (s *strategy) FreeWrong(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size != 0 && s.live(b) != blocks.None {
		return trace.StatusUnsupported
	}
	return trace.StatusInvalid
}

// Close gives the arena back.
func (s *strategy) Close() error {
	if st := s.dev.Free(s.addr); st != trace.CallOK {
		return fmt.Errorf("%s: give back the arena of %d bytes: %w", Name, s.bytes, st.Err())
	}
	return nil
}

// Inspect shows the blocks of all superblocks as one segment and the free memory of each arena.
func (s *strategy) Inspect() sdk.Inspection {
	seg := sdk.InspectedSegment{Addr: s.addr, Bytes: s.bytes}
	in := sdk.Inspection{Counters: map[string]uint64{}, MetaBytes: s.s.t.MetaBytes() + uint64(cap(s.s.sb))*uint64(unsafe.Sizeof(superblock{}))}
	lists := append([]set{s.global}, s.arenas...)
	for a, list := range lists {
		free := sdk.FreeList{Name: "global"}
		if a > 0 {
			free.Name = fmt.Sprintf("stream %d", a-1)
		}
		for _, k := range list {
			for i := s.s.sb[k].first; i != blocks.None; i = s.s.t.B[i].Next {
				b := &s.s.t.B[i]
				state := "live"
				if b.Free {
					state = "free"
					free.Len++
					free.Bytes += b.Size
				}
				seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
			}
		}
		in.Counters["superblocks "+free.Name] = uint64(len(list))
		in.FreeLists = append(in.FreeLists, free)
	}
	slices.SortFunc(seg.Blocks, func(a, b sdk.InspectedBlock) int { return cmp.Compare(a.Addr, b.Addr) })
	in.Segments = []sdk.InspectedSegment{seg}
	return in
}
