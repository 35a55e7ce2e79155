package bounds

import (
	"errors"
	"fmt"
	"slices"
)

// ErrBuffer says that a buffer cannot be packed.
var ErrBuffer = errors.New("bad buffer")

// problem is a set of buffers prepared for search: sizes in units of their greatest common divisor, lifetimes as ranges of
// sections, and for every buffer those whose lifetimes meet its own.
type problem struct {
	n        int
	unit     uint64
	exact    bool // the unit divides all sizes
	size     []int32
	align    []int32   // 1: none
	width    []float64 // lifetimes in the buffers' own time
	from, to []int32   // sections [from, to)
	sections int
	members  [][]int32 // by section
	load     []int32   // by section
	meets    [][]int32 // by buffer, ascending
}

// maxUnits bounds the sum of all sizes, in units, so that sums of offsets fit 32 bits.
const maxUnits = 1 << 30

// newProblem prepares buffers with a positive size and lifetime.
func newProblem(buffers []Buffer) (*problem, error) {
	p := &problem{n: len(buffers), exact: true}
	var total uint64
	for _, b := range buffers {
		if b.Size == 0 || b.Lower >= b.Upper {
			return nil, fmt.Errorf("%w: %s: size %d, lifetime [%d, %d)", ErrBuffer, b.ID, b.Size, b.Lower, b.Upper)
		}
		p.unit = gcd(p.unit, b.Size)
		if b.Alignment > 1 {
			p.unit = gcd(p.unit, b.Alignment)
		}
		if total += alignUp(b.Size, b.Alignment); total < b.Size || total > 1<<62 {
			return nil, fmt.Errorf("%w: %s: the sizes add up to more than 2^62 bytes", ErrBuffer, b.ID)
		}
	}
	for total/max(p.unit, 1)+uint64(p.n) > maxUnits {
		p.unit *= 2
		p.exact = false
	}
	for _, b := range buffers {
		p.size = append(p.size, int32((b.Size+p.unit-1)/p.unit))
		p.align = append(p.align, int32(max(1, (b.Alignment+p.unit-1)/p.unit)))
		p.width = append(p.width, float64(b.Upper-b.Lower))
	}
	for _, b := range buffers {
		if b.Alignment > p.unit && b.Alignment%p.unit != 0 {
			return nil, fmt.Errorf("%w: %s: alignment %d is no multiple of the unit of %d bytes", ErrBuffer, b.ID, b.Alignment, p.unit)
		}
	}
	p.cut(buffers)
	p.link()
	return p, nil
}

// cut makes the sections: a maximal set of buffers that live together begins where one starts, when an end comes before the
// next start.
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
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
