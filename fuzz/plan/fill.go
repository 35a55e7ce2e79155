package plan

import (
	"math/bits"

	gofuzz "github.com/google/gofuzz"

	"github.com/gpubench/gpubench/trace"
)

// Fill draws a plan within the limits. This is the one file that knows gofuzz: whatever fills structs with random values from a seed
// can replace it. The same seed and limits give the same plan (gofuzz promises a constant translation of its source).
func Fill(seed uint64, l Limits) Plan {
	var p Plan
	f := gofuzz.NewWithSeed(int64(mix(seed)>>1)).NilChance(0).Funcs(
		func(s *Shape, c gofuzz.Continue) {
			*s = Shape(c.Intn(int(ShapeUniform)))
			if l.UniformOnly {
				*s = ShapeUniform
			}
		},
		func(m *SizeMix, c gofuzz.Continue) { c.FuzzNoCustom(m) },
		func(p *Plan, c gofuzz.Continue) { fillPlan(p, c, &l) },
	)
	f.Fuzz(&p)
	return p
}

// fillPlan draws the fields so that each is legal: the shape first, since it governs the rest.
func fillPlan(p *Plan, c gofuzz.Continue, l *Limits) {
	c.Fuzz(&p.Shape)
	var vary [trace.KindCount]uint8
	c.Fuzz(&vary)
	for k := range p.Weights {
		w := int(base[p.Shape][k])
		if !l.Kinds[k] {
			w = 0
		}
		// Swarm testing (Groce 2012): a kind is absent, rare, usual or frequent for the whole batch.
		if v := vary[k] >> 5; k != int(trace.KindAlloc) && k != int(trace.KindFree) {
			w = [8]int{0, w / 3, w, w, w, w, 2 * w, 3 * w}[v]
		}
		p.Weights[k] = uint8(min(w, 255))
	}
	p.fillSizes(c, l)
	length := max(1, l.LengthMax)
	p.LengthMax = 1 + c.Intn(length)
	if c.Intn(2) == 0 { // half of all batches are short programs: most bugs need few events, and many programs find them sooner
		p.LengthMax = 1 + c.Intn(min(length, 12))
	}
	p.LiveMax = 1 + c.Intn(1+min(p.LengthMax, 64))
	p.Streams, p.Pools = 1, 1
	if p.Shape != ShapeUniform {
		p.Streams += c.Intn(max(1, min(l.Streams, StreamsMax)))
		p.Pools += c.Intn(max(1, min(l.Pools, PoolsMax)))
	}
	if p.Shape == ShapeStreams {
		p.Streams = max(p.Streams, min(2, l.Streams))
	}
	p.AlignShare = [4]uint8{0, 0, 16, 96}[c.Intn(4)]
	p.Oldest, p.Newest = uint8(c.Intn(128)), uint8(c.Intn(128))
	if l.Variants > 1 && c.Intn(2) == 0 {
		p.Variant = c.Intn(l.Variants)
	}
}

// fillSizes draws the device, the arena and the mix of sizes.
func (p *Plan) fillSizes(c gofuzz.Continue, l *Limits) {
	page := max(l.PageBytes, 1)
	lo, hi := max(l.DeviceMin, page), max(l.DeviceMax, l.DeviceMin, page)
	span := bits.Len64(hi / lo)
	p.DeviceBytes = min(hi, lo<<c.Intn(span))
	if c.Intn(3) > 0 { // two of three are no power of two
		p.DeviceBytes = min(hi, p.DeviceBytes+uint64(c.Int63n(int64(p.DeviceBytes))))
	}
	p.DeviceBytes = max(page, p.DeviceBytes/page*page)
	p.ArenaBytes = p.DeviceBytes
	align := max(l.AlignBytes, 1)
	switch c.Intn(4) {
	case 0:
		p.ArenaBytes = max(align, p.DeviceBytes>>c.Intn(12))
	case 1:
		p.ArenaBytes = max(align, uint64(c.Int63n(int64(p.DeviceBytes)))/align*align)
	case 2: // not even a multiple of the alignment
		p.ArenaBytes = max(align, p.DeviceBytes>>c.Intn(8)+uint64(c.Intn(4096)))
		p.ArenaBytes = min(p.ArenaBytes, p.DeviceBytes)
	}
	m := sizesOf[p.Shape]
	var vary SizeMix
	c.Fuzz(&vary)
	scale := func(w, v uint8) uint8 { return uint8(min(255, int(w)*[4]int{0, 1, 1, 2}[v>>6])) }
	if p.Shape != ShapeUniform {
		m = SizeMix{Palette: scale(m.Palette, vary.Palette), Class: scale(m.Class, vary.Class), Boundary: scale(m.Boundary, vary.Boundary),
			Limit: scale(m.Limit, vary.Limit), Huge: scale(m.Huge, vary.Huge), Uniform: scale(m.Uniform, vary.Uniform), Tiny: scale(m.Tiny, vary.Tiny)}
		if m == (SizeMix{}) {
			m.Palette = 1
		}
	}
	top := bits.Len64(p.ArenaBytes)
	m.MaxLog2 = uint8(max(4, top-c.Intn(6)))
	p.Sizes = m
}
