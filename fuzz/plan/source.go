package plan

import (
	"math/bits"
	"math/rand/v2"
)

// Source is where every decision of a generator comes from. One generator has three modes, by its source: Random for campaigns, Bytes
// for corpora and `go test -fuzz`, Odometer for all programs there are.
type Source interface {
	// Draw returns a number of [0, bound). bound is at least 1.
	Draw(bound int) int
}

// Random draws from a PCG-DXSM generator (math/rand/v2), so that a seed gives the same draws on every machine and in every
// release.
type Random struct{ pcg rand.PCG }

// NewRandom returns a source for a seed and a number of a stream of that seed: the batch, the program.
func NewRandom(seed, stream uint64) *Random {
	r := new(Random)
	r.Seed(seed, stream)
	return r
}

// Seed starts anew.
func (r *Random) Seed(seed, stream uint64) { r.pcg.Seed(seed, mix(stream)) }

// Draw returns the upper half of a product: no division, and a bias below 2^-32 for the bounds that generators use (Lemire
// 2019, without the rejection).
func (r *Random) Draw(bound int) int {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(bound))
	return int(hi)
}

// Uint64 returns 64 random bits: seeds of further sources.
func (r *Random) Uint64() uint64 { return r.pcg.Uint64() }

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): neighbouring numbers give unrelated ones.
func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Bytes draws from a string of bytes: one byte where the bound is at most 256, else two, or four. After the end every draw is 0, which
// generators make the simplest choice; so a shorter input is a simpler program.
type Bytes struct {
	data []byte
	at   int
}

// NewBytes returns a source that reads data, which it keeps.
func NewBytes(data []byte) *Bytes { return &Bytes{data: data} }

// Empty reports whether everything was drawn.
func (b *Bytes) Empty() bool { return b.at >= len(b.data) }

// Draw reads the next bytes.
func (b *Bytes) Draw(bound int) int {
	n := 1
	if bound > 1<<16 {
		n = 4
	} else if bound > 1<<8 {
		n = 2
	}
	v := uint64(0)
	for range n {
		if b.at < len(b.data) {
			v = v<<8 | uint64(b.data[b.at])
			b.at++
		}
	}
	return int(v % uint64(bound))
}

// Odometer draws every sequence of decisions once: run the generator, call Next, run it again, until Next reports that the last
// sequence was drawn. The generator must make the same draws after the same answers (TigerBeetle's exhaustigen has the
// idea).
type Odometer struct {
	wheels []wheel
	at     int
}

// wheel is one decision: what was answered, and out of how many.
type wheel struct{ value, bound int }

// Draw shows the next wheel, and puts one on, at 0, where there is none.
func (o *Odometer) Draw(bound int) int {
	if o.at == len(o.wheels) {
		o.wheels = append(o.wheels, wheel{0, bound})
	}
	w := &o.wheels[o.at]
	w.bound = bound
	o.at++
	return w.value
}

// Next turns to the next sequence. It is false when there is none.
func (o *Odometer) Next() bool {
	o.wheels = o.wheels[:o.at] // wheels that the last run did not look at belong to other decisions
	for i := len(o.wheels) - 1; i >= 0; i-- {
		if w := &o.wheels[i]; w.value+1 < w.bound {
			w.value++
			o.wheels = o.wheels[:i+1]
			o.at = 0
			return true
		}
	}
	o.wheels, o.at = o.wheels[:0], 0
	return false
}

// Reset starts from the first sequence.
func (o *Odometer) Reset() { o.wheels, o.at = o.wheels[:0], 0 }
