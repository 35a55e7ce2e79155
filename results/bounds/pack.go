package bounds

// DefaultNodes is the effort of Bounds: some seconds of one core for hundreds of buffers, less for fewer.
const DefaultNodes = 500_000

// Effort bounds a search. It ends with whichever comes first; without both it goes on until it has an answer.
type Effort struct {
	Nodes int64       // steps; 0 = no bound. The result is a function of the buffers and this number
	Stop  func() bool // asked every thousand steps; nil = never
	Seed  uint64      // of the varied rankings
}

// Answer is the answer to "is there a packing of at most this height?".
type Answer uint8

// The answers.
const (
	Unknown    Answer = iota // the effort was used up
	Fits                     // yes, and the packing shows it
	Impossible               // no: the search was complete
)

// String returns the word in lower case.
func (a Answer) String() string { return [...]string{"unknown", "fits", "impossible"}[a] }

// solver holds what is common to the searches at several heights.
type solver struct {
	buffers []Buffer
	p       *problem
	left    int64 // nodes
	bounded bool
	effort  Effort
}

func newSolver(buffers []Buffer, e Effort) (*solver, error) {
	p, err := newProblem(buffers)
	if err != nil {
		return nil, err
	}
	return &solver{buffers: buffers, p: p, left: e.Nodes, bounded: e.Nodes > 0, effort: e}, nil
}

// Fit searches for a packing of at most capacity bytes.
func Fit(buffers []Buffer, capacity uint64, e Effort) (Packing, Answer, error) {
	if len(buffers) == 0 {
		return Packing{}, Fits, nil
	}
	s, err := newSolver(buffers, e)
	if err != nil {
		return Packing{}, Unknown, err
	}
	if MaxLive(buffers) > capacity {
		return Packing{}, Impossible, nil
	}
	p, a := s.fit(capacity, e.Nodes)
	return p, a, nil
}

// fit is Fit with at most nodes steps, or as many as are left when nodes is 0.
func (s *solver) fit(capacity uint64, nodes int64) (Packing, Answer) {
	units := int32(min(capacity/s.p.unit, maxUnits))
	if s.bounded && (nodes == 0 || nodes > s.left) {
		nodes = s.left
	}
	x := newSearch(s.p, units, s.effort.Stop)
	ranks := newRanking(s.p, s.effort.Seed)
	for round := 0; ; round++ {
		budget := ranks.budget(round)
		if s.bounded {
			budget = min(budget, nodes)
		}
		ranks.fill(x.rank, round)
		v := x.run(budget)
		if s.bounded {
			s.left -= x.nodes
			nodes -= x.nodes
		}
		switch {
		case v == found:
			return s.packing(x), Fits
		case v == failed && (s.p.exact && aligned(s.p)):
			return Packing{}, Impossible
		case v == failed, s.bounded && nodes <= 0, s.effort.Stop != nil && s.effort.Stop():
			return Packing{}, Unknown
		}
	}
}

// aligned reports whether no buffer demands an alignment above the unit: only then is every canonical packing tried.
func aligned(p *problem) bool {
	for _, a := range p.align {
		if a != 1 {
			return false
		}
	}
	return true
}

func (s *solver) packing(x *search) Packing {
	p := Packing{Offsets: make([]uint64, s.p.n)}
	for i, at := range x.at {
		p.Offsets[i] = uint64(at) * s.p.unit
		p.Height = max(p.Height, p.Offsets[i]+s.buffers[i].Size)
	}
	return p
}

// Pack searches for the lowest packing. It tries the maximum live bytes first, with half of the effort, then bisects between it and the
// best height so far with an eighth each. optimal says that no packing can be lower. The packing is at worst the greedy one.
func Pack(buffers []Buffer, e Effort) (best Packing, optimal bool, err error) {
	best = GreedyBySize(buffers)
	lower := MaxLive(buffers) // no packing is lower
	if best.Height == lower {
		return best, true, nil
	}
	s, err := newSolver(buffers, e)
	if err != nil {
		return best, false, err
	}
	if !s.bounded && e.Stop == nil {
		s.bounded, s.left = true, DefaultNodes
	}
	total := s.left
	proven := true // lower is proven
	for at, share := lower, total/2; ; share = total / 8 {
		p, answer := s.fit(at, share)
		switch answer {
		case Fits:
			best = p
			if p.Height <= lower {
				return best, proven, nil
			}
		case Impossible:
			lower = at + s.p.unit
		case Unknown:
			lower, proven = at+s.p.unit, false
		}
		if lower >= best.Height {
			return best, proven, nil
		}
		if s.bounded && s.left <= 0 || e.Stop != nil && e.Stop() {
			return best, false, nil
		}
		at = lower + (best.Height-lower)/2/s.p.unit*s.p.unit
		if at >= best.Height {
			return best, false, nil
		}
	}
}
