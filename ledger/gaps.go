package ledger

import "math/bits"

// Free ranges are binned by size: one bin a power of two, each cut into 1<<subBits equal parts.
const (
	subBits = 4
	numBins = 64 << subBits
)

const (
	// trackMin and trackMax bound the ranges that are entered in bins: see gapSet. 4,096 entries of 16 bytes fit the
	// second-level cache; 512 must go before all items are read again, so that the reading costs a few items an event.
	trackMin = 512
	trackMax = 4096
)

// gapSet is a multiset of free ranges by size with its exact maximum. The bytes are counted for all ranges, but only the
// largest ones, those in bins from low on, are entered in their bin: the maximum needs no others, and most ranges are
// small, come and go. When too many are entered, low rises and the lower bins are forgotten; when the last one has gone,
// space.largest reads all items and chooses low anew.
//
// The range of the highest non-empty bin that is largest is remembered with the number of ranges as large as it; only
// when the last of them goes is that one bin read again. Known weak case: thousands of ranges of slightly different sizes
// in the top sixteenth of an octave, the largest taken each time.
type gapSet struct {
	low     int // lowest bin in use
	tracked int // ranges entered
	raiseAt int // number entered at which low rises
	octaves uint64
	subs    [64]uint16
	bins    [numBins]gapBin
	total   uint64
	// classBytes[k] is the sum of the ranges in [2^k, 2^(k+1)).
	classBytes [64]uint64
	// classSum[k] and totalSum are those values summed over all states counted so far, up to stamp.
	classSum   [64]sum128
	classStamp [64]uint64
	totalSum   sum128
	totalStamp uint64
}

type gapBin struct {
	entries  []gapEntry
	max      uint64
	maxCount int // ranges as large as max; 0 = max is not known
}

type gapEntry struct {
	size uint64
	item uint32
}

// sum128 is a sum of products that may exceed 64 bits (bytes × events).
type sum128 struct{ hi, lo uint64 }

func (s *sum128) addProduct(a, b uint64) {
	hi, lo := bits.Mul64(a, b)
	var c uint64
	s.lo, c = bits.Add64(s.lo, lo, 0)
	s.hi += hi + c
}

func (s sum128) plus(t sum128) sum128 {
	lo, c := bits.Add64(s.lo, t.lo, 0)
	return sum128{s.hi + t.hi + c, lo}
}

func (s sum128) float() float64 { return float64(float64(s.hi)*(1<<64)) + float64(s.lo) }

func (g *gapSet) reset() {
	for o := g.octaves; o != 0; o &= o - 1 {
		k := bits.TrailingZeros64(o)
		for b := k << subBits; b < (k+1)<<subBits; b++ {
			g.bins[b].entries, g.bins[b].maxCount = g.bins[b].entries[:0], 0
		}
		g.subs[k] = 0
	}
	g.octaves, g.total = 0, 0
	g.low, g.tracked, g.raiseAt = 0, 0, trackMax
	clear(g.classBytes[:])
	clear(g.classSum[:])
	clear(g.classStamp[:])
	g.totalSum, g.totalStamp = sum128{}, 0
}

// binOf returns the bin of a size above 0.
func binOf(size uint64) int {
	k := 63 - bits.LeadingZeros64(size)
	return k<<subBits | int(size<<(63-k)>>(63-subBits)&(1<<subBits-1))
}

// put enters a range, if it is large enough, and returns its place in its bin.
func (g *gapSet) put(size uint64, item uint32) uint32 {
	b := binOf(size)
	if b < g.low {
		return 0
	}
	if g.tracked >= g.raiseAt {
		if g.raise(); b < g.low {
			return 0
		}
	}
	g.tracked++
	bin := &g.bins[b]
	if len(bin.entries) == 0 {
		g.octaves |= 1 << (b >> subBits)
		g.subs[b>>subBits] |= 1 << (b & (1<<subBits - 1))
		bin.max, bin.maxCount = size, 1
	} else if bin.maxCount > 0 {
		if size > bin.max {
			bin.max, bin.maxCount = size, 1
		} else if size == bin.max {
			bin.maxCount++
		}
	}
	bin.entries = append(bin.entries, gapEntry{size, item})
	return uint32(len(bin.entries) - 1)
}

// take removes the range at a place of its bin. The item whose range moved into the place is returned (or the removed
// one itself, when it was the last).
func (g *gapSet) take(size uint64, pos, item uint32) (moved uint32) {
	b := binOf(size)
	if b < g.low {
		return item
	}
	g.tracked--
	bin := &g.bins[b]
	last := len(bin.entries) - 1
	e := bin.entries[last]
	bin.entries[pos] = e
	bin.entries = bin.entries[:last]
	if bin.maxCount > 0 && size == bin.max {
		bin.maxCount--
	}
	if last == 0 {
		g.emptied(b)
	}
	return e.item
}

func (g *gapSet) emptied(b int) {
	g.subs[b>>subBits] &^= 1 << (b & (1<<subBits - 1))
	if g.subs[b>>subBits] == 0 {
		g.octaves &^= 1 << (b >> subBits)
	}
}

// raise lets low rise as far as leaves trackMin ranges.
func (g *gapSet) raise() {
	kept, b := 0, numBins
	for b > g.low && kept < trackMin {
		b--
		kept += len(g.bins[b].entries)
	}
	for d := g.low; d < b; d++ {
		if len(g.bins[d].entries) > 0 {
			g.bins[d].entries, g.bins[d].maxCount = g.bins[d].entries[:0], 0
			g.emptied(d)
		}
	}
	g.low, g.tracked, g.raiseAt = b, kept, max(trackMax, 2*kept)
}

// account moves bytes between the classes when a range changes from old to new bytes (0 = no range), at state number now.
func (g *gapSet) account(oldSize, newSize, now uint64) {
	if d := now - g.totalStamp; d != 0 {
		g.totalSum.addProduct(g.total, d)
		g.totalStamp = now
	}
	g.total += newSize - oldSize
	if oldSize != 0 {
		k := 63 - bits.LeadingZeros64(oldSize)
		g.flush(k, now)
		g.classBytes[k] -= oldSize
	}
	if newSize != 0 {
		k := 63 - bits.LeadingZeros64(newSize)
		g.flush(k, now)
		g.classBytes[k] += newSize
	}
}

func (g *gapSet) flush(k int, now uint64) {
	if d := now - g.classStamp[k]; d != 0 {
		g.classSum[k].addProduct(g.classBytes[k], d)
		g.classStamp[k] = now
	}
}

// flushAll brings all sums up to state number now.
func (g *gapSet) flushAll(now uint64) {
	for k := range g.classBytes {
		g.flush(k, now)
	}
	if d := now - g.totalStamp; d != 0 {
		g.totalSum.addProduct(g.total, d)
		g.totalStamp = now
	}
}

// largest returns the size of the largest range entered; 0 when there is none.
func (g *gapSet) largest() uint64 {
	if g.octaves == 0 {
		return 0
	}
	k := 63 - bits.LeadingZeros64(g.octaves)
	b := k<<subBits | (15 - bits.LeadingZeros16(g.subs[k]))
	bin := &g.bins[b]
	if bin.maxCount == 0 {
		bin.max = 0
		for i := range bin.entries {
			if s := bin.entries[i].size; s > bin.max {
				bin.max, bin.maxCount = s, 1
			} else if s == bin.max {
				bin.maxCount++
			}
		}
	}
	return bin.max
}
