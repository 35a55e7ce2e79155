package bounds

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// The rankings, tried in turn: W is the length of the lifetime, N the number of sections in it, S the size, T the highest load
// among the sections of the lifetime. MiniMalloc's WAT, TAW and TWA are among them; lengths in sections tell apart what happens
// in busy times.
const (
	rankW   = iota // W, then W·S
	rankNS         // N·S
	rankS          // S
	rankMix        // N and S raised to random powers
	rankTWS        // T, then W·S
	rankTW         // T, then W, then S
	rankN          // N, then N·S
	rankWS         // W·S
	numRanks
)

const (
	// firstBudgetNodes is enough for an easy problem of some hundred buffers when nothing goes wrong.
	firstBudgetNodes = 2000
	// roundsPerBudget is how many tries there are at one budget: each ranking pure and varied.
	roundsPerBudget = 2 * numRanks
	// noise is by how much a varied ranking moves a buffer at most, as a share of its key: enough to change the order of buffers of
	// the same kind, not enough to put the short-lived before the long-lived.
	noise = 0.3
)

// ranking makes the ranks of the tries.
type ranking struct {
	p     *problem
	r     *rand.Rand
	total []float64 // by buffer: the highest load among its sections
	key   []float64
	order []int32
}

func newRanking(p *problem, seed uint64) *ranking {
	k := &ranking{p: p, r: rand.New(rand.NewPCG(seed, 1)), total: make([]float64, p.n), key: make([]float64, p.n), order: make([]int32, p.n)}
	for i := range p.n {
		for _, load := range p.load[p.from[i]:p.to[i]] {
			k.total[i] = max(k.total[i], float64(load))
		}
	}
	return k
}

// budget returns the nodes of a round.
func (k *ranking) budget(round int) int64 {
	return int64(firstBudgetNodes * math.Pow(1.5, float64(min(round/roundsPerBudget, 80))))
}

// fill sets the ranks of a round: every other turn through the rankings is varied.
func (k *ranking) fill(rank []int32, round int) {
	kind, varied := round%numRanks, round/numRanks%2 == 1
	e, f := 1.0, 1.0
	if kind == rankMix && varied {
		e, f = 2*k.r.Float64(), 2*k.r.Float64()
	}
	for i := range k.key {
		w, n, z, t := k.p.width[i], float64(k.p.to[i]-k.p.from[i]), float64(k.p.size[i]), k.total[i]
		var key float64
		switch kind { // the first figure decides, the next ones among equals
		case rankW:
			key = w*widthScale + w*z
		case rankNS:
			key = n * z
		case rankS:
			key = z
		case rankMix:
			key = e*math.Log(n) + f*math.Log(z)
		case rankTWS:
			key = t*totalScale + w*z
		case rankTW:
			key = t*totalScale + w*tieScale + z
		case rankN:
			key = n*sectionScale + n*z
		case rankWS:
			key = w * z
		}
		if varied {
			if kind == rankMix {
				key += k.r.Float64()
			} else {
				key *= 1 + noise*k.r.Float64()
			}
		}
		k.key[i], k.order[i] = key, int32(i)
	}
	slices.SortFunc(k.order, func(a, b int32) int { return cmp.Or(cmp.Compare(k.key[b], k.key[a]), cmp.Compare(a, b)) })
	for at, i := range k.order {
		rank[i] = int32(at)
	}
}

// The scales put a buffer's first figure before its second; with figures too large for them the order is a different one, not a
// wrong one.
const (
	widthScale   = 1e14
	sectionScale = 1e9
	totalScale   = 1e12
	tieScale     = 1e5
)
