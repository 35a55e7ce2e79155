package bounds

import (
	"cmp"
	"slices"
)

// search looks for a packing of at most capacity units by depth first search over canonical packings.
type search struct {
	p        *problem
	capacity int32
	rank     []int32 // preference among buffers at one offset, lower first
	least    []int32 // lowest offset that the placed buffers leave to a buffer
	at       []int32 // offset of a placed buffer
	placed   []bool
	rest     []int32 // by section: size of the members not yet placed
	trail    []change
	nodes    int64
	budget   int64
	members  [][]int32
	pool     [][]int32
}

type change struct{ buffer, least int32 }

type verdict int8

const (
	failed verdict = iota
	found
	stopped
)

func newSearch(p *problem, capacity int32) *search {
	s := &search{p: p, capacity: capacity}
	s.rank, s.least, s.at, s.placed = make([]int32, p.n), make([]int32, p.n), make([]int32, p.n), make([]bool, p.n)
	s.rest = make([]int32, p.sections)
	for _, m := range p.members {
		s.members = append(s.members, slices.Clone(m))
	}
	return s
}

func (s *search) run(budget int64) verdict {
	clear(s.least)
	clear(s.placed)
	copy(s.rest, s.p.load)
	s.trail = s.trail[:0]
	s.nodes, s.budget = 0, budget
	all := make([]int32, s.p.n)
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Compare(s.p.from[a], s.p.from[b]) })
	return s.split(all, 0, -1)
}

func (s *search) list() []int32 {
	if n := len(s.pool); n > 0 {
		l := s.pool[n-1]
		s.pool = s.pool[:n-1]
		return l[:0]
	}
	return make([]int32, 0, s.p.n)
}

// split solves the independent parts of the buffers, which are sorted by from and not placed, one after another.
func (s *search) split(buffers []int32, last, lastRank int32) verdict {
	p := s.p
	for begin := 0; begin < len(buffers); {
		end, to := begin+1, p.to[buffers[begin]]
		for end < len(buffers) && p.from[buffers[end]] < to {
			to = max(to, p.to[buffers[end]])
			end++
		}
		if v := s.part(buffers[begin:end], last, lastRank); v != found {
			return v
		}
		begin = end
	}
	return found
}

// part solves buffers that hang together.
func (s *search) part(buffers []int32, last, lastRank int32) verdict {
	p := s.p
	if s.nodes++; s.nodes > s.budget {
		return stopped
	}
	roof := int32(1<<31 - 1)
	for _, b := range buffers {
		roof = min(roof, max(s.least[b], last)+p.size[b])
	}
	cand := s.list()
	for _, b := range buffers {
		if l := s.least[b]; l > last && l < roof || l == last && s.rank[b] > lastRank {
			cand = append(cand, b)
		}
	}
	slices.SortFunc(cand, func(a, b int32) int {
		if s.least[a] != s.least[b] {
			return int(s.least[a] - s.least[b])
		}
		return int(s.rank[a] - s.rank[b])
	})
	rest := s.list()
	result := failed
	for _, b := range cand {
		o := s.least[b]
		mark := len(s.trail)
		lo, hi, hat := s.place(b, o)
		if s.fits(lo, hi, o) {
			rest = rest[:0]
			for _, x := range buffers {
				if x != b {
					rest = append(rest, x)
				}
			}
			result = s.split(rest, o, s.rank[b])
		}
		if result == found {
			break
		}
		s.undo(b, mark)
		if result == stopped || !hat {
			break
		}
	}
	s.pool = append(s.pool, cand, rest)
	return result
}

// place puts b at o and lifts what meets it. It returns the sections touched, and whether any unplaced buffer meets it.
func (s *search) place(b, o int32) (lo, hi int32, hat bool) {
	p := s.p
	s.placed[b], s.at[b] = true, o
	lo, hi = p.from[b], p.to[b]
	for k := lo; k < hi; k++ {
		s.rest[k] -= p.size[b]
	}
	top := o + p.size[b]
	for _, j := range p.meets[b] {
		if s.placed[j] {
			continue
		}
		hat = true
		if s.least[j] < top {
			s.trail = append(s.trail, change{j, s.least[j]})
			s.least[j] = top
			lo, hi = min(lo, p.from[j]), max(hi, p.to[j])
		}
	}
	return lo, hi, hat
}

func (s *search) undo(b int32, mark int) {
	p := s.p
	s.placed[b] = false
	for k := p.from[b]; k < p.to[b]; k++ {
		s.rest[k] += p.size[b]
	}
	for len(s.trail) > mark {
		c := s.trail[len(s.trail)-1]
		s.trail = s.trail[:len(s.trail)-1]
		s.least[c.buffer] = c.least
	}
}

// fits reports whether every section in [lo, hi) can still hold its unplaced members.
func (s *search) fits(lo, hi, last int32) bool {
	for k := lo; k < hi; k++ {
		if rest := s.rest[k]; rest != 0 {
			if last+rest > s.capacity || !s.sectionFits(s.members[k], rest, last) {
				return false
			}
		}
	}
	return true
}

// sectionFits: whatever the order, the members that cannot begin below some offset lie above it one upon another. The
// members are kept sorted by least, descending, from one call to the next, so that sorting them again costs little.
func (s *search) sectionFits(v []int32, rest, last int32) bool {
	room := s.capacity - rest
	worst := int32(0)
	for _, j := range v {
		if !s.placed[j] && s.least[j] > worst {
			worst = s.least[j]
		}
	}
	if worst <= room {
		return true
	}
	size, least := s.p.size, s.least
	for a := 1; a < len(v); a++ {
		x := v[a]
		l := least[x]
		if least[v[a-1]] >= l {
			continue
		}
		c := a
		for c > 0 && least[v[c-1]] < l {
			v[c] = v[c-1]
			c--
		}
		v[c] = x
	}
	var sum int32
	for _, j := range v {
		if s.placed[j] {
			continue
		}
		sum += size[j]
		l := least[j]
		if l <= room {
			break
		}
		if l+sum > s.capacity {
			return false
		}
	}
	return true
}
