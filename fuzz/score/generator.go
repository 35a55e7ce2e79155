package score

import (
	"fmt"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

// The kinds of generators.
const (
	Plans   = "plans"
	Uniform = "uniform"
	Rapid   = "rapid"
	Bytes   = "bytes"
)

// Generators lists the kinds, the fuzzer's own first.
func Generators() []string { return []string{Plans, Uniform, Rapid, Bytes} }

// Generator makes programs.
type Generator interface {
	// Batch begins batch n and returns the sizes of the device and of the arena for its programs.
	Batch(n uint64) (deviceBytes, arenaBytes uint64)
	// Program makes the next program. It is valid until the next call.
	Program() *trace.Trace
}

// learner is a generator that wants to know what came of its programs.
type learner interface {
	learn(t *trace.Trace, outcomes []trace.Outcome)
}

// NewGenerator returns a generator of a kind for targets within the limits. The same seed gives the same programs.
func NewGenerator(kind string, l plan.Limits, seed uint64) (Generator, error) {
	l.LengthMax = min(l.LengthMax, programEventsMax)
	switch kind {
	case Plans:
		return &planned{limits: l, seed: seed, gen: plan.NewGenerator(l)}, nil
	case Uniform:
		l.UniformOnly = true
		return &planned{limits: l, seed: seed, gen: plan.NewGenerator(l)}, nil
	case Rapid:
		return newRapid(l, seed), nil
	case Bytes:
		return newBytes(l, seed), nil
	}
	return nil, fmt.Errorf("generator %q is none of %v", kind, Generators())
}

const (
	// programEventsMax bounds the programs of every generator, so that none has an advantage by length.
	programEventsMax = 100
	// swarmEvery is the number of programs with the same set of kinds of events, as in campaigns.
	swarmEvery = 8
)

// planned makes programs from plans, one plan a batch.
type planned struct {
	limits plan.Limits
	seed   uint64
	gen    *plan.Generator
	src    *plan.Random
	i      int
}

func (g *planned) Batch(n uint64) (deviceBytes, arenaBytes uint64) {
	p := plan.Fill(g.seed+n*0x9E3779B97F4A7C15, g.limits) // 2^64 ÷ golden ratio: neighbouring batches get unrelated plans
	g.gen.SetPlan(p)
	g.src, g.i = plan.NewRandom(g.seed, n), 0
	return p.DeviceBytes, p.ArenaBytes
}

func (g *planned) Program() *trace.Trace {
	if g.i%swarmEvery == 0 {
		g.gen.Swarm(g.src)
	}
	g.i++
	return g.gen.Program(g.src)
}

// decoder makes events of the draws of a source, without knowledge of allocators beyond which events there are: what a careful
// author of a property test writes in an hour.
type decoder struct {
	limits plan.Limits
	kinds  []trace.Kind
	ops    []plan.Op
	w      *plan.Writer
}

func newDecoder(l plan.Limits) decoder {
	d := decoder{limits: l, w: plan.NewWriter(l.Settings)}
	for k := range l.Kinds {
		if kind := trace.Kind(k); l.Kinds[k] {
			d.kinds = append(d.kinds, kind)
			for n := 0; n < 3 && (kind == trace.KindAlloc || kind == trace.KindFree); n++ { // these make most of any program
				d.kinds = append(d.kinds, kind)
			}
		}
	}
	return d
}

// sizes draws device and arena: pages up to the limit, and any number of bytes up to the device.
func (d *decoder) sizes(src plan.Source) (deviceBytes, arenaBytes uint64) {
	page := max(d.limits.PageBytes, 1)
	deviceBytes = page * uint64(1+src.Draw(int(d.limits.DeviceMax/page)))
	arenaBytes = max(d.limits.AlignBytes, uint64(1+src.Draw(int(deviceBytes))))
	return deviceBytes, arenaBytes
}

// program draws a program.
func (d *decoder) program(src plan.Source) *trace.Trace {
	d.ops = d.ops[:0]
	next := trace.Handle(1)
	for n := 1 + src.Draw(d.limits.LengthMax); n > 0; n-- {
		o := plan.Op{Kind: d.kinds[src.Draw(len(d.kinds))]}
		switch o.Kind {
		case trace.KindAlloc, trace.KindRealloc:
			o.Handle, o.Size, o.Stream = next, size(src), uint16(src.Draw(max(d.limits.Streams, 1)))
			if o.Kind == trace.KindRealloc {
				o.Old = trace.Handle(1 + src.Draw(int(next)))
			} else if src.Draw(4) == 0 {
				o.AlignLog2 = uint8(src.Draw(13))
			}
			next++
		case trace.KindFree, trace.KindFreeWrong, trace.KindUse:
			o.Handle = trace.Handle(1 + src.Draw(int(next)))
			if o.Kind == trace.KindUse {
				o.Stream = uint16(src.Draw(max(d.limits.Streams, 1)))
			}
		case trace.KindWait:
			o.Stream, o.On = uint16(src.Draw(plan.StreamsMax)), uint16(src.Draw(plan.StreamsMax))
		case trace.KindComplete, trace.KindSync, trace.KindStreamDestroy:
			o.Stream = uint16(src.Draw(plan.StreamsMax))
		case trace.KindEvents:
			o.Size = uint64(src.Draw(2))
		case trace.KindFailNext:
			o.Size = 1 + uint64(src.Draw(4))
		case trace.KindCheckpoint, trace.KindRestore:
			o.Text = "c1"
		case trace.KindMark:
			o.Text = "iteration"
		}
		d.ops = append(d.ops, o)
	}
	return d.w.Write(d.ops, 0)
}

// size draws a size: its number of bits evenly, then the bits.
func size(src plan.Source) uint64 {
	k := src.Draw(65)
	v := uint64(src.Draw(1<<16))<<48 | uint64(src.Draw(1<<16))<<32 | uint64(src.Draw(1<<16))<<16 | uint64(src.Draw(1<<16))
	if k == 0 {
		return 0
	}
	return v>>(64-k) | 1<<(k-1)
}
