package bfc

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/pool"
	"github.com/gpubench/gpubench/trace"
)

const (
	// Name is the name of the strategy.
	Name = "bfc"
	// unitBytes is kMinAllocationSize.
	unitBytes = 256
	// firstRegionBytes is the first region with growth.
	firstRegionBytes = 2 << 20
	// defaultSplitLimitBytes is kMaxInternalFragmentation: what may be left unsplit.
	defaultSplitLimitBytes = 128 << 20
	// backpedalFactor shrinks the size of a region that the device refuses (kBackpedalFactor, a float in the original).
	backpedalFactor float32 = 0.9
	// maxRequestBytes bounds a request so that rounding cannot overflow.
	maxRequestBytes = 1 << 61
)

type config struct {
	AllowGrowth       bool   `json:"allow_growth"`
	SplitLimitBytes   uint64 `json:"split_limit_bytes"`
	CoalesceRegions   bool   `json:"coalesce_regions"`
	GarbageCollection bool   `json:"garbage_collection"`

	Timestamps          bool   `json:"timestamps"`
	SpatialPartitioning bool   `json:"spatial_partitioning"`
	LowerSplit          string `json:"lower_split"`
	UpperSplit          string `json:"upper_split"`
}

// Values of lower_split and upper_split (HoleSplitPolicy).
const (
	splitBFC   = "bfc"
	splitExact = "exact"
)

func (c *config) check() error {
	switch {
	case c.SplitLimitBytes == 0:
		return fmt.Errorf("%w: split_limit_bytes is 0, must be at least 1", sdk.ErrOptions)
	case c.SpatialPartitioning && c.AllowGrowth:
		return fmt.Errorf("%w: spatial_partitioning needs the one region of a pool that does not grow; set allow_growth to false", sdk.ErrOptions)
	}
	for name, v := range map[string]string{"lower_split": c.LowerSplit, "upper_split": c.UpperSplit} {
		if v != splitBFC && v != splitExact {
			return fmt.Errorf("%w: %s is %q, must be %q or %q", sdk.ErrOptions, name, v, splitBFC, splitExact)
		}
		if v == splitExact && !c.SpatialPartitioning {
			return fmt.Errorf("%w: %s is a rule of spatial_partitioning, which is not set", sdk.ErrOptions, name)
		}
	}
	return nil
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:     Name,
		Version:  "2024-06",
		Summary:  "TensorFlow's and XLA's best fit with coalescing, growing by doubling regions",
		Arena:    true,
		Promises: []sdk.Promise{sdk.PromiseCoalesces, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic},
		Options: arena.ObjectSchema(
			`"allow_growth":{"type":"boolean","default":false,"description":"grow by doubling regions instead of taking the whole limit at the first request"}`,
			`"split_limit_bytes":{"type":"integer","minimum":1,"default":134217728,"description":"a chunk is split when at least this would be left, or when it is twice the request"}`,
			`"coalesce_regions":{"type":"boolean","default":false,"description":"a region that begins where another ends becomes part of it"}`,
			`"garbage_collection":{"type":"boolean","default":false,"description":"give back regions without a chunk in use when the pool cannot be extended"}`,
			`"timestamps":{"type":"boolean","default":false,"description":"freed chunks carry the time of their free and join others only when the default stream has completed it"}`,
			`"spatial_partitioning":{"type":"boolean","default":false,"description":"requests of a pool are served from the upper end, others from the lower; needs allow_growth false"}`,
			`"lower_split":{"enum":["bfc","exact"],"default":"bfc","description":"how holes of the lower end are split with spatial_partitioning"}`,
			`"upper_split":{"enum":["bfc","exact"],"default":"bfc","description":"how holes of the upper end are split with spatial_partitioning"}`),
		Deviations: []sdk.Deviation{
			{ID: "bfc-unsplit-chunks", Text: "A chunk below twice the request and with less than the split limit left is handed out whole.", Section: "bfc_allocator.cc FindChunkPtr"},
			{ID: "bfc-keeps-regions", Text: "Regions are given back only by garbage collection.", Section: "bfc_allocator.cc DeallocateFreeRegions"},
			{ID: "bfc-one-stream", Text: "Without timestamps freed memory is reused at once on any stream.", Section: "bfc_allocator.cc DeallocateRaw"},
		},
		Alignment: unitBytes,
		New:       open,
	}
}

// stats are the figures of AllocatorStats, as the original counts them: chunks, not requests.
type stats struct {
	allocs, bytesInUse, bytesInUsePeak, largestAlloc, poolPeak uint64
}

// strategy implements sdk.Strategy, Completer, WrongFreer, Resetter and Inspector.
type strategy struct {
	dev        backends.Device
	cfg        config
	limit      uint64
	nextRegion uint64 // curr_region_allocation_bytes_
	p          *pool.Pool
	special    bool // timestamps or spatial partitioning: see tagged.go
	tagged     tagged
	stats      stats
	calls      [][2]uint64 // what the device gave, address and bytes: regions that coalesce are still given back one by one
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	cfg := config{SplitLimitBytes: defaultSplitLimitBytes, LowerSplit: splitBFC, UpperSplit: splitBFC}
	if err := sdk.DecodeOptions(env.Options, &cfg); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &strategy{dev: env.Device, cfg: cfg, limit: arena.Limit(env, 1), special: cfg.Timestamps || cfg.SpatialPartitioning, p: pool.New()}
	if s.limit < unitBytes {
		return nil, fmt.Errorf("%s: the capacity of %d bytes is less than one unit of %d bytes; give a larger capacity", Name, env.CapacityBytes, unitBytes)
	}
	s.rewind()
	return s, nil
}

// rewind sets the size of the next region to the first one's.
func (s *strategy) rewind() {
	if s.nextRegion = roundUp(s.limit); s.cfg.AllowGrowth {
		s.nextRegion = roundUp(min(s.limit, firstRegionBytes))
	}
}

// Alloc is AllocateRawInternal.
func (s *strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	if r.Size > maxRequestBytes {
		return trace.StatusFailed
	}
	n := roundUp(r.Size)
	need := n
	if r.Align > unitBytes {
		need += r.Align - unitBytes
	}
	if s.special {
		return s.allocTagged(r, n, need, b)
	}
	if s.find(n, r.Align, b) || s.extend(need) && s.find(n, r.Align, b) {
		return trace.StatusOK
	}
	if s.cfg.GarbageCollection && s.dropFreeRegions(need) && s.extend(need) && s.find(n, r.Align, b) {
		return trace.StatusRecovered
	}
	return trace.StatusFailed
}

// allocTagged is Alloc with tags and times of free. Requests of a pool come from the upper end. The default stream reuses what
// it freed at once, as kernels on it run in order; a request on another stream is limited to chunks that are safe.
func (s *strategy) allocTagged(r *sdk.Request, n, need uint64, b *sdk.Block) trace.Status {
	align := max(r.Align, unitBytes)
	tag, limited := uint32(tagLower), s.cfg.Timestamps && r.Stream != 0
	if s.cfg.SpatialPartitioning && r.Pool != 0 {
		tag = tagUpper
	}
	if s.tagged.unmerged {
		s.mergeStamped(0)
	}
	if s.findTagged(n, align, tag, limited, b) || s.extend(need) && s.findTagged(n, align, tag, limited, b) {
		return trace.StatusOK
	}
	if !limited && len(s.tagged.stamped) > 0 && s.mergeStamped(n) && s.findTagged(n, align, tag, limited, b) {
		return trace.StatusRecovered
	}
	if s.cfg.GarbageCollection && s.dropFreeRegions(need) && s.extend(need) && s.findTagged(n, align, tag, limited, b) {
		return trace.StatusRecovered
	}
	return trace.StatusFailed
}

// Completed hears that the default stream has got as far as this: the times of free so far are safe (SetSafeFrontier).
func (s *strategy) Completed(stream sdk.Stream, all, _ bool) trace.Status {
	if s.cfg.Timestamps && (all || stream == 0) {
		s.tagged.unmerged = s.tagged.unmerged || s.tagged.completed < s.tagged.counter
		s.tagged.completed = s.tagged.counter
	}
	return trace.StatusOK
}

// handOut fills in the block for chunk i and counts it.
func (s *strategy) handOut(i uint32, b *sdk.Block) {
	k := &s.p.T.B[i]
	b.Addr, b.Size, b.Ref = k.Addr, k.Size, s.p.T.Ref(i)
	s.stats.allocs++
	s.stats.bytesInUse += k.Size
	s.stats.bytesInUsePeak = max(s.stats.bytesInUsePeak, s.stats.bytesInUse)
	s.stats.largestAlloc = max(s.stats.largestAlloc, k.Size)
}

// find is FindChunkPtr.
func (s *strategy) find(n, align uint64, b *sdk.Block) bool {
	var i uint32
	if align <= unitBytes {
		i = s.p.Best(0, n)
	} else {
		i = s.p.BestAligned(0, n, align)
	}
	if i == blocks.None {
		return false
	}
	gap := uint64(0)
	if align > unitBytes {
		gap = pool.Gap(s.p.T.B[i].Addr, align)
	}
	keep := uint64(0)
	if size := s.p.T.B[i].Size - gap; size >= 2*n || size-n >= s.cfg.SplitLimitBytes {
		keep = n
	}
	s.handOut(s.p.Cut(i, gap, keep), b)
	return true
}

// extend is Extend.
func (s *strategy) extend(n uint64) bool {
	available := (s.limit - s.p.Bytes()) / unitBytes * unitBytes
	if n > available {
		return false
	}
	increased := false
	for n > s.nextRegion {
		s.nextRegion *= 2
		increased = true
	}
	bytes := min(s.nextRegion, available)
	addr, st := s.dev.Malloc(bytes)
	for st != trace.CallOK {
		// The original multiplies in single precision. It can stand still at one unit; its successor takes at least one unit off.
		bytes = min(roundUp(uint64(float32(bytes)*backpedalFactor)), bytes-unitBytes)
		if bytes < n {
			return false
		}
		addr, st = s.dev.Malloc(bytes)
	}
	if !increased {
		s.nextRegion *= 2
	}
	s.calls = append(s.calls, [2]uint64{addr, bytes})
	s.addRegion(addr, bytes)
	s.stats.poolPeak = max(s.stats.poolPeak, s.p.Bytes())
	return true
}

// addRegion enters memory as a region, or as the end of one that it touches.
func (s *strategy) addRegion(addr, bytes uint64) {
	if s.cfg.CoalesceRegions {
		for k := range s.p.Segments {
			if r := &s.p.Segments[k]; r.Addr+r.Bytes == addr {
				s.addChunk(s.p.ExtendSegment(k, bytes))
				return
			}
		}
	}
	s.addChunk(s.p.AddSegment(addr, bytes))
}

// addChunk makes fresh memory a free chunk, joined to what is free below it.
func (s *strategy) addChunk(i uint32) {
	if !s.special {
		s.p.Give(i, tagLower)
		return
	}
	if s.cfg.SpatialPartitioning {
		s.p.T.B[i].User = tagGap
	}
	s.insertFree(s.coalesce(i, false))
}

// dropFreeRegions is DeallocateFreeRegions: all regions without a chunk in use, if with them n bytes come below the limit.
func (s *strategy) dropFreeRegions(n uint64) bool {
	if s.cfg.SpatialPartitioning {
		return false // one region: when all of it is free it has served the request or is too small for it
	}
	free := uint64(0)
	for k := range s.p.Segments {
		if r := &s.p.Segments[k]; s.p.WhollyFree(r) {
			free += r.Bytes
		}
	}
	if free == 0 || n > s.limit-s.p.Bytes()+free {
		return false
	}
	s.p.DropSegments(func(r *pool.Segment) bool {
		if !s.p.WhollyFree(r) {
			return false
		}
		s.giveBack(r.Addr, r.Bytes)
		return true
	})
	return true
}

// giveBack frees the device memory in [addr, addr+bytes), which may have come in several pieces.
func (s *strategy) giveBack(addr, bytes uint64) (status trace.CallStatus) {
	kept := s.calls[:0]
	for _, c := range s.calls {
		if c[0] < addr || c[0] >= addr+bytes {
			kept = append(kept, c)
		} else if st := s.dev.Free(c[0]); st != trace.CallOK {
			status = st
		}
	}
	s.calls = kept
	return status
}

// Free is DeallocateRawInternal.
func (s *strategy) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	i := s.live(b)
	if i == blocks.None {
		return trace.StatusInvalid
	}
	s.stats.bytesInUse -= s.p.T.B[i].Size
	if s.special {
		s.freeTagged(i)
	} else {
		s.p.Give(i, tagLower)
	}
	return trace.StatusOK
}

func (s *strategy) live(b *sdk.Block) uint32 {
	i := s.p.T.Deref(b.Ref)
	if k := &s.p.T.B[i]; k.Free || k.Addr != b.Addr {
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

// Reset gives all regions back and begins anew.
func (s *strategy) Reset() trace.Status {
	s.p.Reset()
	s.rewind()
	s.tagged = tagged{stamped: s.tagged.stamped[:0], merging: s.tagged.merging[:0]}
	s.stats = stats{}
	if st := s.giveBack(0, ^uint64(0)); st != trace.CallOK {
		return trace.StatusError
	}
	return trace.StatusOK
}

// Close gives all regions back.
func (s *strategy) Close() error {
	if st := s.giveBack(0, ^uint64(0)); st != trace.CallOK {
		return fmt.Errorf("%s: give back a region: %w", Name, st.Err())
	}
	return nil
}

// Inspect shows the regions and the free chunks.
func (s *strategy) Inspect() sdk.Inspection {
	largest := s.p.List(tagLower).Largest(s.p.T)
	in := sdk.Inspection{Segments: []sdk.InspectedSegment{}}
	s.p.Inspect(&in, func(list int) string { return [...]string{"chunks", "upper chunks"}[list] })
	if s.special {
		gap := s.p.T.B[s.tagged.gap].Size
		largest = max(largest, s.p.List(tagUpper).Largest(s.p.T), gap)
		if s.cfg.SpatialPartitioning {
			in.FreeLists = append(in.FreeLists, sdk.FreeList{Name: "central gap", Len: min(gap, 1), Bytes: gap})
		}
		pending := s.pendingAt()
		for k := range in.Segments {
			for j := range in.Segments[k].Blocks {
				if b := &in.Segments[k].Blocks[j]; pending[b.Addr] {
					b.State = "pending"
				}
			}
		}
		in.MetaBytes += uint64(cap(s.tagged.stamped)+cap(s.tagged.merging)) * 8
	}
	in.Counters = map[string]uint64{
		"regions": uint64(len(s.p.Segments)), "pool_bytes": s.p.Bytes(), "pool_bytes_max": s.stats.poolPeak, "next_region_bytes": s.nextRegion,
		"allocs": s.stats.allocs, "in_use_bytes": s.stats.bytesInUse, "in_use_bytes_max": s.stats.bytesInUsePeak,
		"largest_alloc_bytes": s.stats.largestAlloc, "largest_free_bytes": largest,
	}
	return in
}

func roundUp(n uint64) uint64 { return (n + unitBytes - 1) &^ (unitBytes - 1) }
