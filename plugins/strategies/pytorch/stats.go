package pytorch

// Stat is one statistic as torch.cuda.memory_stats shows it (c10/core/CachingDeviceAllocator.h, struct Stat).
//
// Numbers are signed as in the original: the two oversize statistics can fall below zero when max_split_size_mb is
// lowered between a block's increase and its decrease.
type Stat struct {
	Current   int64 `json:"current"`
	Peak      int64 `json:"peak"`
	Allocated int64 `json:"allocated"` // sum of all increases
	Freed     int64 `json:"freed"`     // sum of all decreases
}

// StatKind numbers the statistics that are kept for all, small_pool and large_pool.
type StatKind int

// The statistics, named as the keys of torch.cuda.memory_stats.
const (
	StatAllocation         StatKind = iota // live blocks
	StatSegment                            // segments from cudaMalloc
	StatActive                             // live blocks and blocks waiting for other streams
	StatInactiveSplit                      // free blocks with a neighbour, expandable segments left out
	StatAllocatedBytes                     // bytes of live blocks
	StatReservedBytes                      // bytes held from the device
	StatActiveBytes                        // bytes of active blocks
	StatInactiveSplitBytes                 // bytes of the blocks of StatInactiveSplit
	StatRequestedBytes                     // bytes asked for by active blocks
	statKinds
)

var statNames = [statKinds]string{"allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
	"active_bytes", "inactive_split_bytes", "requested_bytes"}

// PoolKind selects a column of a statistic.
type PoolKind int

// The columns.
const (
	PoolAll PoolKind = iota
	PoolSmall
	PoolLarge
	poolKinds
)

var poolNames = [poolKinds]string{"all", "small_pool", "large_pool"}

// gauge is how a Stat is kept. allocated is current + freed, and a peak can only be passed just before a decrease, so an
// increase is one addition.
type gauge struct{ current, freed, peak int64 }

func (g *gauge) stat() Stat {
	return Stat{Current: g.current, Peak: max(g.peak, g.current), Allocated: g.current + g.freed, Freed: g.freed}
}

func (g *gauge) inc(n uint64) { g.current += int64(n) }

func (g *gauge) dec(n uint64) {
	if g.current > g.peak {
		g.peak = g.current
	}
	g.current -= int64(n)
	g.freed += int64(n)
}

// stats is DeviceStats.
type stats struct {
	gauges                               [poolKinds][statKinds]gauge
	oversizeAllocations, oversizeSegment gauge
	counts                               Counts
}

// Counts are the statistics that only grow, under their names in torch.cuda.memory_stats.
type Counts struct {
	AllocRetries   uint64 `json:"num_alloc_retries"`    // last attempts after everything cached was given back
	OOMs           uint64 `json:"num_ooms"`             // failed allocations
	SyncAllStreams uint64 `json:"num_sync_all_streams"` // waits for all outstanding events
	DeviceAllocs   uint64 `json:"num_device_alloc"`     // segments obtained, and maps of an expandable segment
	DeviceFrees    uint64 `json:"num_device_free"`      // segments given back, and unmaps
	OOMRejections  uint64 `json:"num_oom_rejections"`   // of the failures, those forbidden with throw_on_cudamalloc_oom
}

func (s *stats) inc(p PoolKind, k StatKind, n uint64) {
	s.gauges[PoolAll][k].inc(n)
	s.gauges[p][k].inc(n)
}

func (s *stats) dec(p PoolKind, k StatKind, n uint64) {
	s.gauges[PoolAll][k].dec(n)
	s.gauges[p][k].dec(n)
}

// change applies a signed net change, as free_block does for the inactive split blocks.
func (s *stats) change(p PoolKind, k StatKind, n int64) {
	if n > 0 {
		s.inc(p, k, uint64(n))
	} else if n < 0 {
		s.dec(p, k, uint64(-n))
	}
}

// Stat returns a statistic.
func (a *Allocator) Stat(k StatKind, p PoolKind) Stat { return a.st.gauges[p][k].stat() }

// Counts returns the statistics that only grow.
func (a *Allocator) Counts() Counts { return a.st.counts }

// Stats returns every statistic under the flat keys of torch.cuda.memory_stats, for example
// reserved_bytes.all.peak or num_alloc_retries, in two's complement. max_split_size is 2^64 − 1 when unlimited (−1 there).
func (a *Allocator) Stats() map[string]uint64 {
	m := make(map[string]uint64, 4*(int(statKinds)*int(poolKinds)+2)+8)
	put := func(name string, s Stat) {
		m[name+".current"], m[name+".peak"] = uint64(s.Current), uint64(s.Peak)
		m[name+".allocated"], m[name+".freed"] = uint64(s.Allocated), uint64(s.Freed)
	}
	for p := range poolKinds {
		for k := range statKinds {
			put(statNames[k]+"."+poolNames[p], a.Stat(k, p))
		}
	}
	put("oversize_allocations", a.st.oversizeAllocations.stat())
	put("oversize_segments", a.st.oversizeSegment.stat())
	c := &a.st.counts
	m["num_alloc_retries"], m["num_ooms"], m["num_sync_all_streams"] = c.AllocRetries, c.OOMs, c.SyncAllStreams
	m["num_device_alloc"], m["num_device_free"] = c.DeviceAllocs, c.DeviceFrees
	m["max_split_size"] = a.cfg.maxSplitBytes
	if a.rules.hasLargeSegment {
		m["num_oom_rejections"] = c.OOMRejections
	}
	return m
}
