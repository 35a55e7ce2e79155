package ledger

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	// denseBits: values below 2^denseBits are counted one by one. 65,536 ticks are 20 µs or more on every counter we know.
	denseBits = 16
	// maxDistinct bounds the larger values that are counted one by one, too: an order of magnitude above the slow events
	// (one in a thousand) of a trace of 10 million.
	maxDistinct = 1 << 17
	// coarseBits: beyond that a value is counted in a bin of 1/2^coarseBits of its octave (0.02 %).
	coarseBits = 12
)

// counts is a multiset of times in bounded memory. Order statistics read from it are exact unless more than maxDistinct
// different values above 2^denseBits were added; those that came too late are known to one part in 4,096.
type counts struct {
	dense   [1 << denseBits]uint64
	table   []distinct // open addressing; count 0 = empty
	used    int
	coarse  []uint64 // by octave and part; nil until needed
	n       uint64
	max     uint64
	sum     sum128
	highest int // highest dense value counted, so that a reset is cheap
}

type distinct struct{ value, count uint64 }

func (c *counts) reset() {
	if c.n == 0 {
		return
	}
	clear(c.dense[:c.highest+1])
	clear(c.table)
	clear(c.coarse)
	c.used, c.n, c.max, c.sum, c.highest = 0, 0, 0, sum128{}, 0
}

// add counts a value k times.
func (c *counts) add(v, k uint64) {
	c.n += k
	c.sum.addProduct(v, k)
	c.max = max(c.max, v)
	if v < 1<<denseBits {
		c.dense[v] += k
		c.highest = max(c.highest, int(v))
		return
	}
	c.addLarge(v, k)
}

func (c *counts) addLarge(v, k uint64) {
	if 2*c.used >= len(c.table) && len(c.table) < 2*maxDistinct {
		c.grow()
	}
	mask := uint64(len(c.table) - 1)
	for i := v * 0x9E3779B97F4A7C15 >> 20 & mask; ; i = (i + 1) & mask { // Fibonacci hashing: 2^64 ÷ golden ratio
		d := &c.table[i]
		if d.count != 0 && d.value == v {
			d.count += k
			return
		}
		if d.count != 0 {
			continue
		}
		if c.used >= maxDistinct {
			break
		}
		*d = distinct{v, k}
		c.used++
		return
	}
	c.coarsely(v, k)
}

// coarsely counts a value in its bin.
func (c *counts) coarsely(v, k uint64) {
	if c.coarse == nil {
		c.coarse = make([]uint64, 64<<coarseBits)
	}
	c.coarse[coarseOf(v)] += k
}

func (c *counts) grow() {
	old := c.table
	c.table = make([]distinct, max(1024, 2*len(old)))
	mask := uint64(len(c.table) - 1)
	for _, d := range old {
		if d.count == 0 {
			continue
		}
		i := d.value * 0x9E3779B97F4A7C15 >> 20 & mask
		for c.table[i].count != 0 {
			i = (i + 1) & mask
		}
		c.table[i] = d
	}
}

// coarseOf returns the bin of a value of at least 2^denseBits, coarseRange its lowest value and width.
func coarseOf(v uint64) int {
	k := 63 - bits.LeadingZeros64(v)
	return k<<coarseBits | int(v>>(k-coarseBits)&(1<<coarseBits-1))
}

func coarseRange(bin int) (low, width uint64) {
	k := bin >> coarseBits
	width = 1 << (k - coarseBits)
	return 1<<k + uint64(bin&(1<<coarseBits-1))*width, width
}

// merge adds all of o. What o knows exactly stays exact.
func (c *counts) merge(o *counts) {
	sum := c.sum
	c.mergeAs(o, func(v uint64) uint64 { return v })
	c.sum = sum.plus(o.sum) // exact, where values are in bins too
}

// mergeAs adds all of o with every value passed through f, which does not fall.
func (c *counts) mergeAs(o *counts, f func(uint64) uint64) {
	if o.n == 0 {
		return
	}
	for v, k := range o.dense[:o.highest+1] {
		if k != 0 {
			c.add(f(uint64(v)), k)
		}
	}
	for _, d := range o.table {
		if d.count != 0 {
			c.add(f(d.value), d.count)
		}
	}
	for b, k := range o.coarse {
		if k != 0 {
			low, width := coarseRange(b)
			c.addCoarse(f(low+width/2), k)
		}
	}
	c.max = max(c.max, f(o.max))
}

// addCoarse counts a value that is itself the middle of a bin.
func (c *counts) addCoarse(v, k uint64) {
	if v < 1<<denseBits {
		c.add(v, k)
		return
	}
	c.n += k
	c.sum.addProduct(v, k)
	c.coarsely(v, k)
}

// sorted holds the values of a counts in order.
type sorted struct {
	values []counted
	n      uint64
}

// counted is a value, how often it came, and the half-width of the bin it was read from (0 = exact).
type counted struct{ value, count, half uint64 }

func (c *counts) sort() sorted {
	s := sorted{n: c.n}
	for v, k := range c.dense[:c.highest+1] {
		if k != 0 {
			s.values = append(s.values, counted{uint64(v), k, 0})
		}
	}
	for _, d := range c.table {
		if d.count != 0 {
			s.values = append(s.values, counted{d.value, d.count, 0})
		}
	}
	for b, k := range c.coarse {
		if k != 0 {
			low, width := coarseRange(b)
			s.values = append(s.values, counted{low + width/2, k, (width + 1) / 2})
		}
	}
	slices.SortFunc(s.values, func(a, b counted) int { return cmp.Compare(a.value, b.value) })
	return s
}

// quantile returns the order statistic number ⌈n × num ÷ den⌉ (from 1).
func (s *sorted) quantile(num, den uint64) counted {
	hi, lo := bits.Mul64(s.n, num)
	q, r := bits.Div64(hi, lo, den)
	if r != 0 {
		q++
	}
	q = max(q, 1)
	var seen uint64
	for _, v := range s.values {
		if seen += v.count; seen >= q {
			return v
		}
	}
	return counted{}
}
