package bfc

import (
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/pool"
)

// Tags of chunks, kept in Block.User; the free ones of the first two are the free lists of the pool (ChunkTag in openxla/xla
// 80c095fc, xla/tsl/framework/bfc_allocator.h).
const (
	tagLower = iota // all chunks without spatial partitioning
	tagUpper
	tagGap // the one free chunk between both ends, in no list
)

// tagged is what chunks with tags and times of free need beyond the pool. A chunk's time of free is in Block.Max, which the
// index by size leaves alone; 0 is none.
type tagged struct {
	gap       uint32   // the central gap, None when it is used up
	counter   uint64   // the last time of free (SharedCounter)
	completed uint64   // times of free up to it are safe: one below safe_frontier_
	stamped   []uint64 // timestamped_chunks_: references, oldest first
	merging   []uint64 // scratch of mergeStamped
	unmerged  bool     // completed has moved, or a forced merge put chunks back, since the last walk of stamped
}

// findTagged is FindTaggedChunkPtr, then FindChunkPtrInCentralGap. A request that is limited takes no chunk whose time of free
// is not yet safe.
func (s *strategy) findTagged(n, align uint64, tag uint32, limited bool, b *sdk.Block) bool {
	t, l := s.p.T, s.p.List(tag)
	i := l.BestFit(t, n)
	for i != blocks.None && !s.serves(&t.B[i], n, align, tag, limited) {
		i = l.After(t, i)
	}
	if i == blocks.None {
		if i = s.tagged.gap; i == blocks.None || !s.serves(&t.B[i], n, align, tag, limited) {
			return false
		}
	}
	s.removeFree(i)
	if tag == tagUpper {
		i = s.takeHigh(i, n, align)
	} else {
		i = s.takeLow(i, n, align)
	}
	s.handOut(i, b)
	return true
}

// serves reports whether a free chunk can hold n bytes aligned at the end that the tag names.
func (s *strategy) serves(c *blocks.Block, n, align uint64, tag uint32, limited bool) bool {
	if limited && c.Max > s.tagged.completed || c.Size < n {
		return false
	}
	if tag == tagUpper {
		return (c.Addr+c.Size-n)&^(align-1) >= c.Addr
	}
	return c.Size-n >= pool.Gap(c.Addr, align)
}

// splits is the decision whether more than n bytes of a chunk that has size bytes are worth keeping (ShouldSplitChunk).
func (s *strategy) splits(size, n uint64, exact bool) bool {
	if exact {
		return size > n
	}
	return size >= 2*n || size-n >= s.cfg.SplitLimitBytes
}

// takeLow is AllocateChunkFromLowEnd for chunk i, which is in no list: what alignment costs becomes a lower hole; the rest of
// the gap stays the gap.
func (s *strategy) takeLow(i uint32, n, align uint64) uint32 {
	t := s.p.T
	if gap := pool.Gap(t.B[i].Addr, align); gap > 0 {
		rest := s.split(i, gap)
		t.B[i].User = tagLower
		s.insertFree(i)
		i = rest
	}
	if s.splits(t.B[i].Size, n, s.cfg.LowerSplit == splitExact || t.B[i].User == tagGap) {
		s.insertFree(s.split(i, n))
	}
	t.B[i].User = tagLower
	return i
}

// takeHigh is AllocateChunkFromHighEnd: the block lies as high in the chunk as alignment lets it, and what is below stays what it
// was. A hole of the upper end that is not worth splitting is handed out whole.
func (s *strategy) takeHigh(i uint32, n, align uint64) uint32 {
	t := s.p.T
	c := &t.B[i]
	exact := s.cfg.UpperSplit == splitExact || c.User == tagGap
	at := (c.Addr + c.Size - n) &^ (align - 1)
	if pad := pool.Gap(c.Addr, align); !s.splits(c.Size-pad, n, exact) && !exact {
		at = c.Addr + pad
	}
	if below := at - c.Addr; below > 0 {
		rest := s.split(i, below)
		s.insertFree(i)
		i = rest
	}
	t.B[i].User = tagUpper
	if s.splits(t.B[i].Size, n, exact) {
		s.insertFree(s.split(i, n))
	}
	return i
}

// split is SplitChunk: the new chunk inherits tag and time of free. It is in no list yet.
func (s *strategy) split(i uint32, n uint64) uint32 {
	rest := s.p.T.SplitHigh(i, n)
	s.p.T.B[rest].Max = s.p.T.B[i].Max
	return rest
}

// insertFree is InsertFreeChunk.
func (s *strategy) insertFree(i uint32) {
	b := &s.p.T.B[i]
	if b.User != tagGap {
		s.p.Insert(i, b.User)
		return
	}
	b.Free = true
	s.tagged.gap = i
}

// removeFree is RemoveFreeChunk.
func (s *strategy) removeFree(i uint32) {
	if i != s.tagged.gap {
		s.p.Remove(i)
		return
	}
	s.p.T.B[i].Free = false
	s.tagged.gap = blocks.None
}

// freeTagged is DeallocateRawInternal.
func (s *strategy) freeTagged(i uint32) {
	b := &s.p.T.B[i]
	if s.cfg.Timestamps {
		s.tagged.counter++
		b.Max = s.tagged.counter
		s.insertFree(i)
		s.tagged.stamped = append(s.tagged.stamped, s.p.T.Ref(i))
		return
	}
	b.Max = 0
	s.returnToGap(i)
	s.insertFree(s.coalesce(i, false))
}

// returnToGap is ReturnBoundaryChunkToGap: a chunk at the border of its end becomes gap.
func (s *strategy) returnToGap(i uint32) {
	if !s.cfg.SpatialPartitioning {
		return
	}
	b := &s.p.T.B[i]
	beyond := b.Next
	if b.User == tagUpper {
		beyond = b.Prev
	}
	if b.User != tagGap && (beyond == blocks.None || s.p.T.B[beyond].User != b.User) {
		b.User = tagGap
	}
}

// coalesce is TryToCoalesce: chunk i, in no list, joins its free neighbours without a time of free, or all when forced. It returns
// the whole, in no list.
func (s *strategy) coalesce(i uint32, forced bool) uint32 {
	t := s.p.T
	if !forced && t.B[i].Max > 0 {
		return i
	}
	joinable := func(k uint32) bool { return t.B[k].Free && (forced || t.B[k].Max == 0) }
	if next := t.B[i].Next; joinable(next) {
		s.removeFree(next)
		s.join(i)
	}
	if prev := t.B[i].Prev; joinable(prev) {
		s.removeFree(prev)
		s.join(prev)
		return prev
	}
	return i
}

// join is MergeChunks of chunk i and the next: unlike tags make gap, the later time of free counts.
func (s *strategy) join(i uint32) {
	b, next := &s.p.T.B[i], &s.p.T.B[s.p.T.B[i].Next]
	if b.User != next.User {
		b.User = tagGap
	}
	b.Max = max(b.Max, next.Max)
	s.p.T.AbsorbNext(i)
}

// mergeStamped is MergeTimestampedChunks. Without need it joins the chunks whose times of free are safe. With a need it joins
// others too, oldest first, until one of need bytes comes about, and reports whether one did.
func (s *strategy) mergeStamped(need uint64) (made bool) {
	g, t := &s.tagged, s.p.T
	g.merging = g.merging[:0]
	kept := g.stamped[:0]
	for _, ref := range g.stamped {
		i := t.Deref(ref)
		if i == blocks.None || !t.B[i].Free || i == g.gap {
			continue // joined to another or allocated again
		}
		switch b := &t.B[i]; {
		case b.Max <= g.completed:
			b.Max = 0
			g.merging = append(g.merging, ref)
		case need > 0:
			g.merging = append(g.merging, ref)
		default:
			kept = append(kept, ref)
		}
	}
	g.stamped, g.unmerged = kept, need > 0
	for _, ref := range g.merging {
		i := t.Deref(ref)
		if i == blocks.None {
			continue
		}
		if made {
			g.stamped = append(g.stamped, ref)
			continue
		}
		s.removeFree(i)
		if t.B[i].Max == 0 || need > 0 {
			s.returnToGap(i)
		}
		whole := s.coalesce(i, need > 0)
		s.insertFree(whole)
		if need > 0 {
			if whole != i && t.B[whole].Max > 0 {
				g.stamped = append(g.stamped, t.Ref(whole))
			}
			made = t.B[whole].Size >= need
		}
	}
	return made
}

// pendingAt returns the addresses of the free chunks whose time of free is not yet safe.
func (s *strategy) pendingAt() map[uint64]bool {
	at := map[uint64]bool{}
	for _, seg := range s.p.Segments {
		for i := seg.First; i != blocks.None; i = s.p.T.B[i].Next {
			if b := &s.p.T.B[i]; b.Free && b.Max > s.tagged.completed {
				at[b.Addr] = true
			}
		}
	}
	return at
}
