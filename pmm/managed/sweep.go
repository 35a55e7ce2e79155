package managed

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpubench/gpubench/pmm"
)

// Pattern is an order of touching blocks.
type Pattern uint8

// The patterns of a sweep.
const (
	// Scan touches each block four times in a row and goes on to the next, once over the working set and again.
	Scan Pattern = iota
	// Loop goes round the working set, touching each block once.
	Loop
	// Uniform touches any block, all equally likely.
	Uniform
	// Zipf touches block of rank k with a likelihood proportional to 1/k.
	Zipf
	patterns
)

var patternNames = [...]string{"scan", "loop", "random", "zipf"}

// String returns the pattern's name.
func (p Pattern) String() string { return patternNames[p] }

// Patterns returns all patterns.
func Patterns() []Pattern { return []Pattern{Scan, Loop, Uniform, Zipf} }

// Policies returns all policies.
func Policies() []Policy { return []Policy{DriverOrder, LRU, Clock, Random, Belady} }

// Sequence returns n touches over a working set of blocks.
func (p Pattern) Sequence(blocks, n int, seed uint64) []int {
	out := make([]int, n)
	x := seed*2654435769 + 0x9e3779b97f4a7c15
	var cumulative []float64
	if p == Zipf {
		sum := 0.0
		for k := range blocks {
			sum += 1 / float64(k+1)
			cumulative = append(cumulative, sum)
		}
	}
	for i := range out {
		switch p {
		case Scan:
			out[i] = i / 4 % blocks
		case Loop:
			out[i] = i % blocks
		case Uniform:
			out[i] = int(xorshift(&x) % uint64(blocks))
		case Zipf:
			u := float64(xorshift(&x)>>11) / (1 << 53) * cumulative[blocks-1]
			lo, hi := 0, blocks-1
			for lo < hi {
				if mid := (lo + hi) / 2; cumulative[mid] <= u {
					lo = mid + 1
				} else {
					hi = mid
				}
			}
			out[i] = lo
		}
	}
	return out
}

// SweepPoint is one cell of a sweep.
type SweepPoint struct {
	Pattern Pattern
	Policy  Policy
	// Ratio is working set ÷ capacity.
	Ratio float64
	// Touches is how many blocks were touched, Misses how many of these touches had to move or make pages, Evictions how
	// many blocks were moved out.
	Touches, Misses, Evictions uint64
	// MissRatio is Misses ÷ Touches.
	MissRatio float64
	// ModelNs is the time on the model's clock.
	ModelNs int64
}

// SweepOptions choose a sweep.
type SweepOptions struct {
	// Config is the device; its memory is the capacity.
	Config pmm.Config
	// Ratios are the working sets as shares of the capacity.
	Ratios []float64
	// Rounds is the number of touches as a multiple of the working set.
	Rounds int
	Seed   uint64
}

// DefaultSweep is a device of 32 roots and working sets of half to twice its memory.
func DefaultSweep() SweepOptions {
	cfg := pmm.DefaultConfig(32 * pmm.RootBytes)
	cfg.Costs = pmm.DefaultCosts()
	return SweepOptions{Config: cfg, Ratios: []float64{0.5, 0.75, 1, 1.125, 1.25, 1.5, 2}, Rounds: 16, Seed: 1}
}

// Sweep runs every pattern under every policy for every ratio.
func Sweep(o SweepOptions) ([]SweepPoint, error) {
	var out []SweepPoint
	for _, pat := range Patterns() {
		for _, ratio := range o.Ratios {
			for _, pol := range Policies() {
				p, err := sweepOne(o, pat, pol, ratio)
				if err != nil {
					return nil, fmt.Errorf("%s at %.2f under %s: %w", pat, ratio, pol, err)
				}
				out = append(out, p)
			}
		}
	}
	return out, nil
}

func sweepOne(o SweepOptions, pat Pattern, pol Policy, ratio float64) (SweepPoint, error) {
	m, err := pmm.New(o.Config)
	if err != nil {
		return SweepPoint{}, err
	}
	opts := DefaultOptions()
	opts.Policy, opts.Seed = pol, o.Seed
	s, err := New(m, opts)
	if err != nil {
		return SweepPoint{}, err
	}
	blocks := int(math.Round(ratio * float64(o.Config.Roots)))
	r, err := s.Alloc(uint64(blocks) * BlockBytes)
	if err != nil {
		return SweepPoint{}, err
	}
	seq := pat.Sequence(blocks, blocks*o.Rounds, o.Seed)
	first, _ := r.Blocks()
	future := make([]pmm.Block, len(seq))
	for i, b := range seq {
		future[i] = first + pmm.Block(b)
	}
	s.SetFuture(future)
	for _, b := range seq {
		if err := r.Touch(uint64(b)*BlockBytes, BlockBytes, Device); err != nil {
			return SweepPoint{}, err
		}
	}
	st := s.Stats()
	return SweepPoint{
		Pattern: pat, Policy: pol, Ratio: ratio, Touches: st.Touches, Misses: st.Misses, Evictions: st.Evictions,
		MissRatio: float64(st.Misses) / float64(st.Touches), ModelNs: m.NowNs(),
	}, nil
}

// SweepTable renders a sweep: one table a pattern, a row a ratio, miss ratios by policy.
func SweepTable(points []SweepPoint) string {
	var b strings.Builder
	for _, pat := range Patterns() {
		fmt.Fprintf(&b, "%s: share of touches that miss, by working set ÷ capacity\n  ratio", pat)
		for _, pol := range Policies() {
			fmt.Fprintf(&b, " %8s", pol)
		}
		row := -1.0
		for _, p := range points {
			if p.Pattern != pat {
				continue
			}
			if p.Ratio != row {
				row = p.Ratio
				fmt.Fprintf(&b, "\n  %5.3f", p.Ratio)
			}
			fmt.Fprintf(&b, " %7.1f%%", 100*p.MissRatio)
		}
		b.WriteString("\n")
	}
	return b.String()
}
