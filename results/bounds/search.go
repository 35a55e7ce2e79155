package bounds

import (
	"cmp"
	"slices"
)

// search looks for a packing of at most capacity units by depth first search over canonical packings; see the package
// comment.
type search struct {
	p        *problem
	capacity int32
	rank     []int32 // preference among buffers at one offset, lower first
	least    []int32 // lowest offset that the placed buffers leave to a buffer
	at       []int32 // offset of a placed buffer
	placed   []bool
	rest     []int32   // by section: size of the members not yet placed
	members  [][]int32 // by section, kept nearly sorted by least, descending
	trail    []change
	stack    []int32 // placed buffers, in order
	spare    [][]int32
	nodes    int64
	budget   int64
	stop     func() bool
}

// change is what least of a buffer was before.
type change struct{ buffer, least int32 }

// verdict is how a search ended.
type verdict int8

const (
	failed  verdict = iota // there is no such packing
	found                  // at holds one
	stopped                // the effort was used up
)

// stopEvery is the number of nodes between two questions to the caller's stop: at most some milliseconds.
const stopEvery = 1024

func newSearch(p *problem, capacity int32, stop func() bool) *search {
	s := &search{p: p, capacity: capacity, stop: stop}
	s.rank, s.least, s.at, s.placed = make([]int32, p.n), make([]int32, p.n), make([]int32, p.n), make([]bool, p.n)
	s.rest = make([]int32, p.sections)
	for _, m := range p.members {
		s.members = append(s.members, slices.Clone(m))
	}
	return s
}

// run searches with the present rank for at most budget nodes.
func (s *search) run(budget int64) verdict {
	clear(s.least)
	clear(s.placed)
	copy(s.rest, s.p.load)
	s.trail, s.stack = s.trail[:0], s.stack[:0]
	s.nodes, s.budget = 0, budget
	for _, load := range s.p.load {
		if load > s.capacity {
			return failed
		}
	}
	all := make([]int32, s.p.n)
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Compare(s.p.from[a], s.p.from[b]) })
	return s.split(all, 0, -1)
}

func (s *search) list() []int32 {
	if n := len(s.spare); n > 0 {
		l := s.spare[n-1]
		s.spare = s.spare[:n-1]
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

// part solves buffers that hang together: the next one lies at last or higher, at last with a rank above lastRank.
func (s *search) part(buffers []int32, last, lastRank int32) verdict {
	if s.nodes++; s.nodes > s.budget || s.nodes%stopEvery == 0 && s.stop != nil && s.stop() {
		return stopped
	}
	candidates := s.candidates(buffers, last, lastRank)
	rest := s.list()
	result := failed
	for _, b := range candidates {
		o := s.least[b]
		mark, depth := len(s.trail), len(s.stack)
		lo, hi, lift, hat := s.place(b, o)
		if s.fits(lo, hi, lift, o) {
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
		s.undo(mark, depth)
		if result == stopped || !hat {
			break
		}
	}
	s.spare = append(s.spare, candidates, rest)
	return result
}

// candidates lists the buffers that may be placed next, the lowest first.
func (s *search) candidates(buffers []int32, last, lastRank int32) []int32 {
	roof := int32(1<<31 - 1) // a buffer that began above the end of another would come after it
	for _, b := range buffers {
		roof = min(roof, alignUp32(max(s.least[b], last), s.p.align[b])+s.p.size[b])
	}
	list := s.list()
	for _, b := range buffers {
		if l := s.least[b]; l > last && l < roof || l == last && s.rank[b] > lastRank {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b int32) int {
		if s.least[a] != s.least[b] {
			return int(s.least[a] - s.least[b])
		}
		return int(s.rank[a] - s.rank[b])
	})
	return list
}

// place puts b at o and lifts what meets it. It returns the sections touched, how high it lifted, and whether any unplaced buffer
// meets it.
func (s *search) place(b, o int32) (lo, hi, lift int32, hat bool) {
	p := s.p
	s.placed[b], s.at[b] = true, o
	s.stack = append(s.stack, b)
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
			s.least[j] = alignUp32(top, p.align[j])
			lift = max(lift, s.least[j])
			lo, hi = min(lo, p.from[j]), max(hi, p.to[j])
		}
	}
	return lo, hi, lift, hat
}

// undo takes back everything since the trail and the stack were that long: also the groups that were solved before one failed.
func (s *search) undo(mark, depth int) {
	p := s.p
	for _, b := range s.stack[depth:] {
		s.placed[b] = false
		for k := p.from[b]; k < p.to[b]; k++ {
			s.rest[k] += p.size[b]
		}
	}
	s.stack = s.stack[:depth]
	for len(s.trail) > mark {
		c := s.trail[len(s.trail)-1]
		s.trail = s.trail[:len(s.trail)-1]
		s.least[c.buffer] = c.least
	}
}

// fits reports whether every section in [lo, hi) can still hold its unplaced members, after some were lifted to at most lift, and
// none may begin below last any more.
func (s *search) fits(lo, hi, lift, last int32) bool {
	for k := lo; k < hi; k++ {
		if s.rest[k] == 0 {
			continue
		}
		if room := s.capacity - s.rest[k]; last > room || lift > room && !s.sectionFits(s.members[k], room) {
			return false
		}
	}
	return true
}

// sectionFits: whatever the order, the members that cannot begin below some offset lie above it one upon another. Offsets
// up to room need no check, since there is room for all members above them.
func (s *search) sectionFits(v []int32, room int32) bool {
	size, least := s.p.size, s.least
	for a := 1; a < len(v); a++ { // insertion sort: since the last call little has changed
		x := v[a]
		l := least[x]
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
		l := least[j]
		if l <= room {
			break
		}
		if sum += size[j]; l+sum > s.capacity {
			return false
		}
	}
	return true
}

func alignUp32(n, align int32) int32 {
	if align == 1 {
		return n
	}
	return (n + align - 1) / align * align
}
