package goldentest

import (
	"math"
	"math/rand/v2"
)

// A Load is one of the four kinds of trace on which strategies are compared for speed. Each is generated, endless in
// principle, and has the sizes, lifetimes and live set of the recorded script of the same name.
type Load struct {
	Name          string
	CapacityBytes uint64 // an arena in which nearly nothing fails: the search is measured, not the failure
	generate      func(g *loader, r *rand.Rand)
}

// Loads are the four kinds.
var Loads = []Load{
	{"powerlaw", 256 << 20, powerLaw},
	{"training", 3 << 30, training},
	{"serving", 2 << 30, serving},
	{"adversary", 48 << 20, adversary},
}

// Script returns the first n operations of the load. A slot of a block, its ID, is used again after the free, so that the
// table of live blocks is as small as that of a program.
func (l Load) Script(n int) *Script {
	g := &loader{max: n, s: &Script{CapacityBytes: l.CapacityBytes, Streams: 1}}
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for !g.full() {
		l.generate(g, r)
	}
	return g.s
}

// loader writes a script.
type loader struct {
	max   int
	s     *Script
	spare []uint32 // slots
	sizes []uint64 // by slot
	live  []uint32 // slots, for loads that free at random
	bytes uint64   // live
}

func (g *loader) full() bool { return len(g.s.Ops) >= g.max }

func (g *loader) alloc(size uint64) uint32 {
	var slot uint32
	if n := len(g.spare); n > 0 {
		slot, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		slot = uint32(g.s.IDs)
		g.s.IDs++
		g.sizes = append(g.sizes, 0)
	}
	g.sizes[slot] = size
	g.bytes += size
	if !g.full() {
		g.s.Ops = append(g.s.Ops, Op{ID: slot, Size: size})
	}
	return slot
}

func (g *loader) free(slots ...uint32) {
	for _, slot := range slots {
		g.bytes -= g.sizes[slot]
		g.spare = append(g.spare, slot)
		if !g.full() {
			g.s.Ops = append(g.s.Ops, Op{Free: true, ID: slot})
		}
	}
}

// powerLaw: sizes from 256 bytes to 1 MiB with the tail exponent 0.2 (the quantiles of the recorded script: a quarter below
// 766 bytes, half below 3,144, three quarters below 25,508), freed at random, at most four fifths of the capacity live.
func powerLaw(g *loader, r *rand.Rand) {
	const lo, hi, alpha, firstBlocks = 256.0, 1 << 20, 0.2, 2000
	for !g.full() {
		size := uint64(lo * math.Pow(1-r.Float64()*(1-math.Pow(lo/hi, alpha)), -1/alpha))
		for len(g.live) > firstBlocks && (g.bytes+size > 256<<20/5*4 || r.IntN(2) == 0) {
			i := r.IntN(len(g.live))
			g.free(g.live[i])
			g.live[i] = g.live[len(g.live)-1]
			g.live = g.live[:len(g.live)-1]
		}
		g.live = append(g.live, g.alloc(size))
	}
}

// training: iterations over 18 layers. The weights stay; forward keeps five activations a layer, backward frees them in
// reverse order beside short-lived gradients. The batch, and with it the sizes, changes with the iteration.
func training(g *loader, r *rand.Rand) {
	const layers = 18
	for range 200 {
		g.alloc(1<<20 + r.Uint64N(6)<<19)
	}
	for !g.full() {
		unit := (24 + r.Uint64N(8)) * 1024
		var kept [layers][5]uint32
		for l := range kept {
			k := &kept[l]
			k[0], k[1] = g.alloc(64*unit), g.alloc(192*unit)
			t := g.alloc(128 * unit)
			g.free(t)
			k[2], k[3], k[4] = g.alloc(unit/4), g.alloc(64*unit), g.alloc(256*unit)
			t, u := g.alloc(256*unit), g.alloc(64*unit)
			g.free(u, t)
		}
		grad := g.alloc(64 * unit)
		for l := layers - 1; l >= 0; l-- {
			k := &kept[l]
			g.free(k[4])
			t := g.alloc(256 * unit)
			g.free(k[3], k[2])
			next := g.alloc(64 * unit)
			u := g.alloc(192 * unit)
			g.free(t, grad, k[1])
			t = g.alloc(unit / 2)
			g.free(t, u, k[0])
			grad = next
		}
		g.free(grad)
	}
}

// serving: weights, then a decoding step after the other for about eight sequences: short-lived layer buffers of the sizes of
// the batch, and the sequences' cache buffers, which are replaced by larger ones as they grow.
func serving(g *loader, r *rand.Rand) {
	const sequences = 8
	for range 36 {
		g.alloc(8<<20 + r.Uint64N(9)<<21)
	}
	type sequence struct {
		slot   uint32
		tokens uint64
		left   int
	}
	admit := func() sequence {
		n := 16 + r.Uint64N(256)
		return sequence{g.alloc(n * 32768), n, 4 + r.IntN(24)}
	}
	var running []sequence
	for range sequences {
		running = append(running, admit())
	}
	for !g.full() {
		i := r.IntN(sequences)
		s := &running[i]
		rows := 4 + r.Uint64N(5)
		for range 4 {
			hidden := g.alloc(rows * 16384)
			inner := g.alloc(rows * 65536)
			logits := g.alloc(rows * 4096)
			g.free(logits, inner, hidden)
		}
		prefix := g.alloc(rows * 2048)
		s.tokens += 16
		grown := g.alloc(s.tokens * 32768)
		g.free(prefix, s.slot)
		s.slot = grown
		if s.left--; s.left == 0 {
			g.free(s.slot)
			*s = admit()
		}
	}
}

// adversary: rounds that fill nine tenths of 24 MiB with one size, free most of it in address order so that islands stay,
// fill again with a size just above two of the holes' units, and so on, the sizes doubling from 4,096 to 16,640 bytes.
func adversary(g *loader, r *rand.Rand) {
	var islands []uint32
	for _, phase := range []struct {
		size, keepOf8 uint64
	}{{4096, 1}, {8448, 0}, {8192, 1}, {16640, 2}} {
		var fresh []uint32
		for g.bytes+phase.size < 24<<20/10*9 {
			fresh = append(fresh, g.alloc(phase.size))
		}
		for _, slot := range fresh {
			if r.Uint64N(8) < phase.keepOf8 {
				islands = append(islands, slot)
			} else {
				g.free(slot)
			}
		}
	}
	g.free(islands...)
}
