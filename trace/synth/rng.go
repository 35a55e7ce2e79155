package synth

import (
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
)

// rng draws by integer arithmetic from PCG-DXSM, whose words math/rand/v2 fixes.
type rng struct{ pcg *rand.PCG }

// newRNG seeds by the seed and the name of the pattern, so that patterns of one seed are not alike.
func newRNG(seed uint64, pattern string) rng {
	h := fnv.New64a()
	h.Write([]byte(pattern))
	return rng{rand.NewPCG(seed, h.Sum64())}
}

// below returns a number in [0, n); 0 for n = 0. The bias of at most n/2^64 does not matter here.
func (r rng) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.pcg.Uint64(), n)
	return hi
}

// between returns a number in [lo, hi].
func (r rng) between(lo, hi uint64) uint64 { return lo + r.below(hi-lo+1) }

// percent reports true in p of 100 cases.
func (r rng) percent(p uint64) bool { return r.below(100) < p }

// ln2Q32 is ln 2 in 32.32 fixed point: floor(0.6931471805599453 × 2^32).
const ln2Q32 = 2977044471

// exponential returns a number of the exponential distribution with this mean: −mean · ln u for a uniform u, the logarithm
// taken bit by bit to 32 binary places.
func (r rng) exponential(mean uint64) uint64 {
	u := r.pcg.Uint64() | 1
	// u/2^64 = m·2^-(z+1) with m in [1, 2): -log2(u/2^64) = z + 1 - log2(m).
	z := uint64(bits.LeadingZeros64(u))
	m := u << z >> 1 // Q63: 2^62 ≤ m < 2^63 stands for [1, 2) as Q62
	log := uint64(0)
	for range 32 {
		hi, lo := bits.Mul64(m, m)
		m = hi<<2 | lo>>62 // m² in Q62
		log <<= 1
		if m >= 1<<63 {
			log |= 1
			m >>= 1
		}
	}
	neg := (z+1)<<32 - log // -log2(u) in Q32
	hi, lo := bits.Mul64(neg, ln2Q32)
	nats := hi<<32 | lo>>32 // -ln(u) in Q32
	hi, lo = bits.Mul64(nats, mean)
	return hi<<32 | lo>>32
}

// octaves draws sizes by a power law: the octave 2^k … 2^(k+1) is ratio/1000 times as likely as the one below it, and
// sizes are uniform within an octave.
type octaves struct {
	lo, hi uint64
	bounds []uint64 // lower bounds of the octaves
	cum    []uint64 // cumulated weights
}

func newOctaves(lo, hi, ratioPermille uint64) *octaves {
	o := &octaves{lo: lo, hi: hi}
	weight, sum := uint64(1)<<40, uint64(0)
	for at := lo; at <= hi && weight > 0; at *= 2 {
		sum += weight
		o.bounds = append(o.bounds, at)
		o.cum = append(o.cum, sum)
		weight = weight * ratioPermille / 1000
		if at > hi/2 {
			break
		}
	}
	return o
}

func (o *octaves) draw(r rng) uint64 {
	w := r.below(o.cum[len(o.cum)-1])
	k := 0
	for o.cum[k] <= w {
		k++
	}
	return r.between(o.bounds[k], min(2*o.bounds[k]-1, o.hi))
}
