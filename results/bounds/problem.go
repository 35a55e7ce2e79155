package bounds

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// MaxExactBuffers bounds the problems that Pack searches; larger ones are packed greedily only.
const MaxExactBuffers = 1024

// ErrBuffer says that a buffer cannot be packed.
var ErrBuffer = errors.New("bad buffer")

// Buffer is a block of memory with a known lifetime.
type Buffer struct {
	ID    string
	Lower int64  // first moment at which it is live
	Upper int64  // first moment at which it is no more
	Size  uint64 // bytes
}

// Packing is an offset for every buffer, in their order, and the height that results: the end of the highest buffer.
type Packing struct {
	Offsets []uint64
	Height  uint64
}

// MaxLive returns the maximum over time of the bytes that are live: no packing is lower.
func MaxLive(buffers []Buffer) uint64 {
	type edge struct {
		at    int64
		start bool
		size  uint64
	}
	edges := make([]edge, 0, 2*len(buffers))
	for _, b := range buffers {
		if b.Lower < b.Upper {
			edges = append(edges, edge{b.Lower, true, b.Size}, edge{b.Upper, false, b.Size})
		}
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

// Check returns an error that names two buffers which a packing lets overlap, or a buffer that ends above the height.
func (p *Packing) Check(buffers []Buffer) error {
	if len(p.Offsets) != len(buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(p.Offsets), len(buffers))
	}
	for i, a := range buffers {
		if p.Offsets[i]+a.Size > p.Height {
			return fmt.Errorf("buffer %s ends at %d, above the height %d", a.ID, p.Offsets[i]+a.Size, p.Height)
		}
		for j, b := range buffers[:i] {
			if a.Lower < b.Upper && b.Lower < a.Upper && p.Offsets[i] < p.Offsets[j]+b.Size && p.Offsets[j] < p.Offsets[i]+a.Size {
				return fmt.Errorf("buffers %s and %s overlap at %d", b.ID, a.ID, max(p.Offsets[i], p.Offsets[j]))
			}
		}
	}
	return nil
}

// problem is a set of buffers prepared for search: sizes in units of their greatest common divisor, lifetimes as ranges of
// sections, and for every buffer those whose lifetimes meet its own.
type problem struct {
	n        int
	unit     uint64
	size     []int32
	from, to []int32   // sections [from, to)
	sections int       // maximal ones only: see newProblem
	members  [][]int32 // by section
	load     []int32   // by section
	meets    [][]int32 // by buffer, ascending
	lower    int32     // the highest load
}

// maxUnits bounds sizes in units so that sums fit.
const maxUnits = 1 << 30

// newProblem prepares buffers with a positive size and lifetime. Sections whose members all live in a neighbouring one as
// well say nothing new and are dropped.
func newProblem(buffers []Buffer) (*problem, error) {
	p := &problem{n: len(buffers)}
	for _, b := range buffers {
		if b.Size == 0 || b.Lower >= b.Upper {
			return nil, fmt.Errorf("%w: %s: size %d, lifetime [%d, %d)", ErrBuffer, b.ID, b.Size, b.Lower, b.Upper)
		}
		p.unit = gcd(p.unit, b.Size)
	}
	var total uint64
	p.size = make([]int32, p.n)
	for i, b := range buffers {
		if total += b.Size / p.unit; total > maxUnits {
			return nil, fmt.Errorf("%w: %s: the sizes add up to more than %d units of %d bytes", ErrBuffer, b.ID, maxUnits, p.unit)
		}
		p.size[i] = int32(b.Size / p.unit)
	}
	p.cut(buffers)
	p.link()
	return p, nil
}

// cut makes the sections: a maximal set of buffers that live together begins where one starts and the next end is nearer
// than the next start.
func (p *problem) cut(buffers []Buffer) {
	starts, ends := make([]int64, 0, p.n), make([]int64, 0, p.n)
	for _, b := range buffers {
		starts, ends = append(starts, b.Lower), append(ends, b.Upper)
	}
	slices.Sort(starts)
	slices.Sort(ends)
	starts, ends = slices.Compact(starts), slices.Compact(ends)
	var at []int64 // one moment in each section
	for i, s := range starts {
		k, _ := slices.BinarySearch(ends, s+1)
		if i+1 == len(starts) || k < len(ends) && ends[k] <= starts[i+1] {
			at = append(at, s)
		}
	}
	p.sections = len(at)
	p.members, p.load = make([][]int32, p.sections), make([]int32, p.sections)
	p.from, p.to = make([]int32, p.n), make([]int32, p.n)
	for i, b := range buffers {
		f, _ := slices.BinarySearch(at, b.Lower)
		t, _ := slices.BinarySearch(at, b.Upper)
		p.from[i], p.to[i] = int32(f), int32(t)
		for s := f; s < t; s++ {
			p.members[s] = append(p.members[s], int32(i))
			p.load[s] += p.size[i]
			p.lower = max(p.lower, p.load[s])
		}
	}
}

func (p *problem) link() {
	p.meets = make([][]int32, p.n)
	for i := range p.n {
		for j := range p.n {
			if i != j && p.from[i] < p.to[j] && p.from[j] < p.to[i] {
				p.meets[i] = append(p.meets[i], int32(j))
			}
		}
	}
}

func gcd(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a | b
	}
	shift := bits.TrailingZeros64(a | b)
	a >>= bits.TrailingZeros64(a)
	for b != 0 {
		b >>= bits.TrailingZeros64(b)
		if a > b {
			a, b = b, a
		}
		b -= a
	}
	return a << shift
}
