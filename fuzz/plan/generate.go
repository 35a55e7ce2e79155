package plan

import (
	"math/bits"

	"github.com/gpubench/gpubench/trace"
)

const (
	kindTable    = 128 // entries of the table that a kind is drawn from
	paletteSizes = 6
	cycleMax     = 10 // repetitions of a cyclic phase: the bug zoo's cyclic bugs need 2 to 10
)

// Generator makes programs from a plan. It keeps all its memory from program to program.
type Generator struct {
	plan     Plan
	limits   Limits
	w        *Writer
	kinds    [kindTable]trace.Kind
	ways     [64]sizeWay
	palette  [paletteSizes]uint64
	live     []block
	dead     []trace.Handle
	bytes    uint64 // live, requested
	next     trace.Handle
	phase    []Op
	src      Source
	settings []string
	prologue []Op // what makes the state that of a fresh target, ahead of every program
}

// block is a live handle as the generator knows it.
type block struct {
	h      trace.Handle
	size   uint64
	stream uint16
}

// sizeWay is one way to draw a size.
type sizeWay uint8

const (
	wayPalette sizeWay = iota
	wayClass
	wayBoundary
	wayLimit
	wayHuge
	wayUniform
	wayTiny
)

// NewGenerator returns a generator for targets within the limits.
func NewGenerator(l Limits) *Generator {
	return &Generator{limits: l, w: NewWriter(l.Settings), settings: l.Settings}
}

// SetPlan takes another plan, and the kinds of events that it weighs.
func (g *Generator) SetPlan(p Plan) {
	g.plan = p
	// Nothing of an earlier plan is left: a batch depends on its plan and its source alone.
	g.live, g.dead, g.bytes, g.next = g.live[:0], g.dead[:0], 0, 1
	for i := range g.palette {
		g.palette[i] = max(g.limits.AlignBytes, 1)
	}
	g.w.SetStreams(p.Streams)
	fillTable(g.kinds[:], g.plan.Weights[:], kindOf)
	m := &p.Sizes
	fillTable(g.ways[:], []uint8{m.Palette, m.Class, m.Boundary, m.Limit, m.Huge, m.Uniform, m.Tiny}, func(i int) sizeWay { return sizeWay(i) })
}

// Again takes the plan at hand once more, as SetPlan did.
func (g *Generator) Again() { g.SetPlan(g.plan) }

// SetPrologue has every program begin with these ops: for targets that go on from program to program.
func (g *Generator) SetPrologue(ops []Op) { g.prologue = ops }

// Swarm chooses the kinds of events that the next programs have at all: allocs and frees, and about half of the others. Programs that
// lack a kind reach states that programs with a little of everything do not (Groce et al., Swarm Testing, 2012).
func (g *Generator) Swarm(src Source) {
	weights := g.plan.Weights
	if g.plan.Shape != ShapeUniform {
		mask := src.Draw(1 << 24)
		for k := range weights {
			if mask>>k&1 == 1 && trace.Kind(k) != trace.KindAlloc && trace.Kind(k) != trace.KindFree {
				weights[k] = 0
			}
		}
	}
	fillTable(g.kinds[:], weights[:], kindOf)
}

func kindOf(i int) trace.Kind { return trace.Kind(i) }

// Writer returns the writer that programs are written with.
func (g *Generator) Writer() *Writer { return g.w }

// fillTable fills a table with indexes in proportion to their weights; each with a weight has an entry at least, as far as there
// is room.
func fillTable[T any](table []T, weights []uint8, of func(i int) T) {
	sum := 0
	for _, w := range weights {
		sum += int(w)
	}
	at := 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		n := max(1, int(w)*len(table)/sum)
		for ; n > 0 && at < len(table); n-- {
			table[at] = of(i)
			at++
		}
	}
	for filled := max(at, 1); at < len(table); at++ {
		table[at] = table[at%filled]
	}
}

// Program makes a program. It is valid until the next call.
func (g *Generator) Program(src Source) *trace.Trace {
	g.begin(src)
	n := g.w.Len() + 1 + src.Draw(g.plan.LengthMax)
	if g.plan.Shape == ShapeCyclic {
		g.cycles(n)
		return g.w.Trace()
	}
	for tries := 2 * n; g.w.Len() < n && tries > 0; tries-- {
		g.step()
	}
	return g.w.Trace()
}

// Begin starts an empty program in the writer, after the prologue.
func (g *Generator) Begin() *Writer {
	g.w.Begin()
	for i := range g.prologue {
		g.w.Add(&g.prologue[i])
	}
	return g.w
}

// begin starts a program and draws its palette of sizes.
func (g *Generator) begin(src Source) {
	g.src = src
	g.Begin()
	g.live, g.dead, g.bytes, g.next = g.live[:0], g.dead[:0], 0, 1
	if g.plan.Sizes.Palette > 0 {
		for i := range g.palette[:1+src.Draw(paletteSizes)] {
			way := wayClass
			if src.Draw(2) == 1 {
				way = wayUniform
			}
			g.palette[i] = g.drawSize(way)
		}
	}
	if g.plan.Shape == ShapeStreams && g.limits.Kinds[trace.KindEvents] && src.Draw(4) > 0 {
		g.w.Add(&Op{Kind: trace.KindEvents, Size: 1})
	}
}

// cycles makes a phase, then repeats it with new handles.
func (g *Generator) cycles(n int) {
	times := 2 + g.src.Draw(cycleMax-1)
	from := g.w.Len()
	each := max(2, (n-from)/times)
	for tries := 2 * each; g.w.Len() < from+each && tries > 0; tries-- {
		g.step()
	}
	t := g.w.Trace()
	g.phase = g.phase[:0]
	for i := from; i < len(t.Events); i++ {
		g.phase = append(g.phase, OpAt(t, i))
	}
	// What the phase leaves live, it frees at its end, in three of four programs.
	if g.src.Draw(4) > 0 {
		for _, b := range g.live {
			o := Op{Kind: trace.KindFree, Handle: b.h}
			g.w.Add(&o)
			g.phase = append(g.phase, o)
		}
	}
	stride := g.next
	for i := 1; i < times; i++ {
		shift := stride * trace.Handle(i)
		for _, o := range g.phase {
			if o.Handle != 0 {
				o.Handle += shift
			}
			if o.Old != 0 {
				o.Old += shift
			}
			g.w.Add(&o)
		}
	}
}

// step draws an event. Nothing is added when what was drawn is not legal here.
func (g *Generator) step() {
	kind := g.kinds[g.src.Draw(kindTable)]
	if len(g.live) >= g.plan.LiveMax && kind == trace.KindAlloc && g.src.Draw(4) > 0 {
		kind = trace.KindFree
	}
	switch kind {
	case trace.KindAlloc:
		g.alloc()
	case trace.KindFree:
		g.free()
	case trace.KindRealloc:
		g.realloc()
	case trace.KindFreeWrong:
		g.freeWrong()
	default:
		g.rare(kind)
	}
}

func (g *Generator) alloc() {
	o := Op{Kind: trace.KindAlloc, Handle: g.next, Size: g.size(), Stream: g.stream()}
	if g.plan.Pools > 1 {
		o.Pool = uint16(g.src.Draw(g.plan.Pools))
	}
	if a := g.plan.AlignShare; a > 0 && g.limits.AlignMax > 1 && g.src.Draw(256) < int(a) {
		o.AlignLog2 = uint8(g.src.Draw(bits.Len64(g.limits.AlignMax)))
	}
	if g.w.Add(&o) {
		g.next++
		g.bytes += o.Size
		g.live = append(g.live, block{o.Handle, o.Size, o.Stream})
	}
}

// pick draws a live block, -1 if there is none.
func (g *Generator) pick() int {
	if len(g.live) == 0 {
		return -1
	}
	d := g.src.Draw(256)
	switch {
	case d < int(g.plan.Newest):
		return len(g.live) - 1
	case d < int(g.plan.Newest)+int(g.plan.Oldest):
		return 0
	}
	return g.src.Draw(len(g.live))
}

func (g *Generator) remove(i int) {
	g.bytes -= g.live[i].size
	g.dead = append(g.dead, g.live[i].h)
	copy(g.live[i:], g.live[i+1:])
	g.live = g.live[:len(g.live)-1]
}

func (g *Generator) free() {
	i := g.pick()
	if i < 0 {
		g.alloc()
		return
	}
	o := Op{Kind: trace.KindFree, Handle: g.live[i].h}
	if g.plan.Streams > 1 && g.src.Draw(16) == 0 {
		o.Flags, o.Stream = trace.FlagStream, g.stream()
	}
	g.w.Add(&o)
	g.remove(i)
}

func (g *Generator) realloc() {
	i := g.pick()
	if i < 0 {
		return
	}
	o := Op{Kind: trace.KindRealloc, Handle: g.next, Old: g.live[i].h, Size: g.size(), Stream: g.live[i].stream}
	if g.w.Add(&o) {
		g.next++
		g.remove(i)
		g.bytes += o.Size
		g.live = append(g.live, block{o.Handle, o.Size, o.Stream})
	}
}

func (g *Generator) freeWrong() {
	h := g.next + HandlesMax/2 // never made
	if len(g.dead) > 0 && g.src.Draw(8) > 0 {
		h = g.dead[len(g.dead)-1-g.src.Draw(len(g.dead))]
	}
	g.w.Add(&Op{Kind: trace.KindFreeWrong, Handle: h})
}

func (g *Generator) stream() uint16 {
	if g.plan.Streams <= 1 {
		return 0
	}
	return uint16(g.src.Draw(g.plan.Streams))
}

// rare draws the arguments of the other kinds.
func (g *Generator) rare(kind trace.Kind) {
	o := Op{Kind: kind}
	switch kind {
	case trace.KindUse, trace.KindTouch, trace.KindPrefetch:
		if !g.argumentsOfUse(&o) {
			return
		}
	case trace.KindWait:
		o.Stream, o.On = g.stream(), g.stream()
	case trace.KindComplete, trace.KindSync:
		if o.Stream = g.stream(); g.src.Draw(4) == 0 {
			o.Flags = trace.FlagAll
		}
	case trace.KindStreamDestroy:
		if o.Stream = g.stream(); o.Stream == 0 {
			return // the default stream cannot be destroyed
		}
	case trace.KindPoolBegin, trace.KindPoolEnd, trace.KindPoolRelease:
		o.Pool = uint16(1 + g.src.Draw(PoolsMax-1))
		for p := uint16(1); kind == trace.KindPoolEnd && p < PoolsMax; p++ {
			if g.w.open[p] > 0 {
				o.Pool = p
			}
		}
	case trace.KindSet:
		if len(g.settings) == 0 {
			return
		}
		o.Text = g.settings[g.src.Draw(len(g.settings))]
	case trace.KindMark:
		o.Text, o.Size = "iteration", uint64(g.src.Draw(4))
	case trace.KindEvents:
		o.Size = uint64(g.src.Draw(2))
	case trace.KindFailNext:
		o.Size = 1 + uint64(g.src.Draw(4))
	case trace.KindCheckpoint, trace.KindRestore:
		o.Text = checkpointNames[g.src.Draw(CheckpointsMax)]
	}
	if g.w.Add(&o) && (kind == trace.KindReset || kind == trace.KindRestore) && len(g.live)+len(g.dead) > 0 {
		g.relive()
	}
}

func (g *Generator) argumentsOfUse(o *Op) bool {
	i := g.pick()
	if i < 0 {
		return false
	}
	b := &g.live[i]
	o.Handle = b.h
	switch o.Kind {
	case trace.KindUse:
		o.Stream = g.stream()
	case trace.KindTouch:
		o.By = trace.Place(g.src.Draw(2))
		if b.size > 0 {
			o.Offset = uint64(g.src.Draw(int(min(b.size, 1<<30))))
			o.Size = 1 + uint64(g.src.Draw(int(min(b.size-o.Offset, 1<<30))))
		}
	default:
		o.On = uint16(g.src.Draw(2))
	}
	return true
}

// relive makes the list of live blocks again after an event that changed it wholly.
func (g *Generator) relive() {
	g.live, g.bytes = g.live[:0], 0
	t := g.w.Trace()
	for i := range t.Events {
		if ev := &t.Events[i]; ev.Kind.TakesMemory() && g.w.Live(ev.Handle) {
			g.live = append(g.live, block{ev.Handle, ev.Size, ev.Stream})
			g.bytes += ev.Size
		}
	}
}

func (g *Generator) size() uint64 { return g.drawSize(g.ways[g.src.Draw(len(g.ways))]) }
