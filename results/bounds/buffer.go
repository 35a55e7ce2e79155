package bounds

import (
	"cmp"
	"fmt"
	"slices"
)

// Buffer is a block of memory with a known lifetime. Times are of any unit.
type Buffer struct {
	ID        string
	Lower     int64  // first moment at which it is live
	Upper     int64  // first moment at which it is no more
	Size      uint64 // bytes
	Alignment uint64 // its offset is a multiple; 0 and 1 demand nothing
	Gaps      []Span // moments between Lower and Upper at which it needs no memory; ascending, disjoint
}

// Span is the moments [Lower, Upper).
type Span struct{ Lower, Upper int64 }

func (b *Buffer) meets(c *Buffer) bool { return b.Lower < c.Upper && c.Lower < b.Upper }

// Packing is an offset for every buffer, in their order, and the height that results: the end of the highest buffer.
type Packing struct {
	Offsets []uint64
	Height  uint64
}

// Check returns an error that names two buffers which the packing lets overlap, one that is not aligned, or one that ends above the height;
// nil for a correct packing.
func (p *Packing) Check(buffers []Buffer) error {
	if len(p.Offsets) != len(buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(p.Offsets), len(buffers))
	}
	for i := range buffers {
		a, at := &buffers[i], p.Offsets[i]
		if at+a.Size > p.Height {
			return fmt.Errorf("buffer %s ends at %d, above the height %d", a.ID, at+a.Size, p.Height)
		}
		if a.Alignment > 1 && at%a.Alignment != 0 {
			return fmt.Errorf("buffer %s lies at %d, no multiple of %d", a.ID, at, a.Alignment)
		}
		for j := range buffers[:i] {
			b := &buffers[j]
			if a.meets(b) && at < p.Offsets[j]+b.Size && p.Offsets[j] < at+a.Size {
				return fmt.Errorf("buffers %s and %s overlap at %d", b.ID, a.ID, max(at, p.Offsets[j]))
			}
		}
	}
	return nil
}

// MaxLive returns the maximum over time of the bytes that are live: no packing is lower.
func MaxLive(buffers []Buffer) uint64 {
	type edge struct {
		at    int64
		start bool
		size  uint64
	}
	var edges []edge
	span := func(lower, upper int64, size uint64) {
		if lower < upper {
			edges = append(edges, edge{lower, true, size}, edge{upper, false, size})
		}
	}
	for _, b := range buffers {
		at := b.Lower
		for _, g := range b.Gaps {
			span(at, g.Lower, b.Size)
			at = g.Upper
		}
		span(at, b.Upper, b.Size)
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.start == b.start {
			return c
		}
		if a.start { // ends come first: lifetimes are half-open
			return 1
		}
		return -1
	})
	var live, most uint64
	for _, e := range edges {
		if !e.start {
			live -= e.size
			continue
		}
		live += e.size
		most = max(most, live)
	}
	return most
}

// GreedyBySize places the buffers in order of falling size, equal ones in order of their start, each at the lowest offset where it
// overlaps no buffer placed before that lives at the same time. It compares every two buffers.
func GreedyBySize(buffers []Buffer) Packing {
	order := make([]int, len(buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &buffers[i], &buffers[j]
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Lower, b.Lower), cmp.Compare(i, j))
	})
	p := Packing{Offsets: make([]uint64, len(buffers))}
	var near []int
	for k, i := range order {
		b := &buffers[i]
		near = near[:0]
		for _, j := range order[:k] {
			if b.meets(&buffers[j]) {
				near = append(near, j)
			}
		}
		slices.SortFunc(near, func(i, j int) int { return cmp.Compare(p.Offsets[i], p.Offsets[j]) })
		at := uint64(0)
		for _, j := range near {
			if p.Offsets[j] >= at && p.Offsets[j]-at >= b.Size {
				break
			}
			at = max(at, alignUp(p.Offsets[j]+buffers[j].Size, b.Alignment))
		}
		p.Offsets[i] = at
		p.Height = max(p.Height, at+b.Size)
	}
	return p
}

func alignUp(n, align uint64) uint64 {
	if align <= 1 {
		return n
	}
	return (n + align - 1) / align * align
}
