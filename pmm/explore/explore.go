package explore

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/gpubench/gpubench/pmm"
)

// Limits of an exploration.
const (
	// OwnersMax bounds Options.Owners.
	OwnersMax = 4
	// RootsMax bounds the roots of an explored model.
	RootsMax = 8
	// StatesLimit bounds Options.StatesMax.
	StatesLimit = 1 << 26
)

// Options choose the model and how far to go.
type Options struct {
	// Roots, BatchOrder, UserSizes and KernelSizes describe the model; see pmm.Config.
	Roots, BatchOrder      int
	UserSizes, KernelSizes uint64
	// Owners is the number of VA blocks.
	Owners int
	// DepthMax ends the exploration after sequences of that length; 0 is no limit.
	DepthMax int
	// StatesMax ends it after that many distinct states.
	StatesMax int
	// Injections adds the injected errors, Work frees with work pending, Lazy the lazy-free queue, Interleave the operations
	// of another thread at every place where an eviction drops the mutex.
	Injections, Work, Lazy, Interleave bool
	// Progress, when set, is called after every complete depth.
	Progress func(depth, states int, transitions uint64)
}

// DefaultOptions is a device of two roots with two sizes of each type, everything switched on.
func DefaultOptions() Options {
	return Options{
		Roots: 2, BatchOrder: 1, UserSizes: 1<<20 | pmm.RootBytes, KernelSizes: 1<<20 | pmm.RootBytes, Owners: 2, StatesMax: 1_000_000,
		Injections: true, Work: true, Lazy: true, Interleave: true,
	}
}

// ErrOptions is the error of options that cannot be explored.
var ErrOptions = errors.New("explore: bad options")

// Result is what an exploration found.
type Result struct {
	// States and Transitions count distinct states and operations run; Interleaved counts, of the latter, those with another
	// thread's operation inside.
	States                   int
	Transitions, Interleaved uint64
	// Depth is the longest sequence of which every one was run; Complete says that there are no further states at all.
	Depth    int
	Complete bool
	// Violation is the first broken invariant, nil when all held; Steps is a shortest sequence of operations that leads to it.
	Violation *pmm.Violation
	Steps     []string
	// Coverage counts the transitions of chunks.
	Coverage pmm.Coverage
}

// Statement says in one line, or one line a step, what was found.
func (r *Result) Statement() string {
	end := fmt.Sprintf("depth %d", r.Depth)
	if r.Complete {
		end = fmt.Sprintf("all there are, depth %d", r.Depth)
	}
	s := fmt.Sprintf("%d states, %d transitions, %s", r.States, r.Transitions, end)
	if r.Violation == nil {
		return s + ", no violation"
	}
	return fmt.Sprintf("%s: %v\nafter %d steps from an empty device:\n  %s", s, r.Violation, len(r.Steps), strings.Join(r.Steps, "\n  "))
}

// explorer is one exploration under way.
type explorer struct {
	opts  Options
	cfg   pmm.Config
	sizes [2][]uint64
	work  bool

	base, next *pmm.Model // the state at hand and its successor
	refusing   uint64     // owners that refuse, of next

	states []entry
	arena  []byte
	table  []uint32 // open addressing: index of a state + 1

	scan, inside []leaf
	pages        []uint64
	ops          []op
	rename       []pmm.Block
	enc          []byte

	plan  op // the operation that runs, for the evictor
	drops []uint8
	inops []op
	depth int    // nesting of evictions
	tell  bool   // describe what ran inside
	told  string // its description
	found *pmm.Violation
	res   Result
}

// entry is one state: where its encoding lies, its parent and how it came from there.
type entry struct {
	at     uint32
	hash   uint32
	parent uint32
	op     op
}

// Run explores.
func Run(o Options) (*Result, error) {
	e, err := newExplorer(o)
	if err != nil {
		return nil, err
	}
	e.insert(e.encode(e.base, 0), 0, op{})
	first := 0
	for {
		last := len(e.states)
		for i := first; i < last; i++ {
			if !e.expand(i) {
				return e.finish(), nil
			}
		}
		if len(e.states) == last {
			e.res.Complete = true
			return e.finish(), nil
		}
		e.res.Depth++
		if o.Progress != nil {
			o.Progress(e.res.Depth, len(e.states), e.res.Transitions)
		}
		if e.res.Depth == o.DepthMax {
			return e.finish(), nil
		}
		first = last
	}
}

func newExplorer(o Options) (*explorer, error) {
	if o.Roots < 1 || o.Roots > RootsMax {
		return nil, fmt.Errorf("%w: %d roots, want 1 to %d", ErrOptions, o.Roots, RootsMax)
	}
	if o.Owners < 1 || o.Owners > OwnersMax {
		return nil, fmt.Errorf("%w: %d owners, want 1 to %d", ErrOptions, o.Owners, OwnersMax)
	}
	if o.StatesMax < 1 || o.StatesMax > StatesLimit {
		return nil, fmt.Errorf("%w: %d states, want 1 to %d", ErrOptions, o.StatesMax, StatesLimit)
	}
	cfg := pmm.Config{
		Roots: o.Roots, BatchOrder: o.BatchOrder, UserSizes: o.UserSizes, KernelSizes: o.KernelSizes, Scrub: true, Oversubscription: true,
	}
	e := &explorer{opts: o, cfg: cfg, work: o.Work, table: make([]uint32, 1<<16)}
	var err error
	if e.base, err = pmm.New(cfg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if e.next, err = pmm.New(cfg); err != nil {
		return nil, err
	}
	for t := range e.sizes {
		for m := e.base.SizesMask(pmm.Type(t)); m != 0; m &= m - 1 {
			e.sizes[t] = append(e.sizes[t], 1<<bits.TrailingZeros64(m))
		}
	}
	e.next.Audit()
	e.next.SetEvictor(e)
	return e, nil
}

// finish adds up the result.
func (e *explorer) finish() *Result {
	e.res.States = len(e.states)
	e.res.Coverage = *e.next.Coverage()
	return &e.res
}

// expand runs every operation on a state. It returns false to end the exploration.
func (e *explorer) expand(i int) bool {
	refusing := e.load(i)
	ops := e.enumerate(e.base, refusing, e.ops[:0])
	for k := 0; k < len(ops); k++ {
		o := ops[k]
		if !e.step(i, o, refusing) {
			e.ops = ops
			return false
		}
		if e.opts.Interleave && o.drop == noDrop && o.evicts() {
			for d, n := range e.drops {
				for in := range n {
					v := o
					v.drop, v.inner = uint8(d), in
					ops = append(ops, v)
				}
			}
		}
	}
	e.ops = ops
	return true
}

// load decodes a state into base and returns who refuses.
func (e *explorer) load(i int) uint64 {
	end := uint32(len(e.arena))
	if i+1 < len(e.states) {
		end = e.states[i+1].at
	}
	rest, err := e.base.LoadState(e.arena[e.states[i].at:end])
	if err != nil || len(rest) != 1 {
		panic(fmt.Sprintf("explore: a state of our own does not decode: %v", err))
	}
	return uint64(rest[0])
}

// step runs one operation on a copy of base and files the state it leads to.
func (e *explorer) step(from int, o op, refusing uint64) bool {
	e.run(o, refusing)
	e.res.Transitions++
	if o.drop != noDrop {
		e.res.Interleaved++
	}
	if b := e.next.Breaches(); len(b) > 0 && e.found == nil {
		e.found = &b[0]
	}
	if e.found == nil && e.insert(e.encode(e.next, e.refusing), uint32(from), o) {
		if v := e.next.Check(); len(v) > 0 {
			e.found = &v[0]
		}
	}
	if e.found != nil {
		e.res.Violation = e.found
		e.res.Steps = e.trace(from, o)
		return false
	}
	return len(e.states) < e.opts.StatesMax
}

// run applies an operation to a copy of base.
func (e *explorer) run(o op, refusing uint64) pmm.Status {
	e.next.CopyFrom(e.base)
	e.refusing = refusing
	e.plan, e.drops, e.depth = o, e.drops[:0], 0
	return e.apply(e.next, o)
}

// EvictBlock is the block's side of an eviction, the mutex dropped. At the place that the plan names it first runs what
// another thread does meanwhile.
func (e *explorer) EvictBlock(m *pmm.Model, b pmm.Block, root int) pmm.Status {
	if e.depth == 0 {
		e.inops = e.innerOps(m, e.inops[:0])
		at := len(e.drops)
		e.drops = append(e.drops, uint8(min(len(e.inops), noDrop)))
		if int(e.plan.drop) == at && int(e.plan.inner) < len(e.inops) {
			in := e.inops[e.plan.inner]
			if e.tell {
				e.told = fmt.Sprintf(" (meanwhile, at drop %d of the mutex: %s)", at+1, e.describe(m, in))
			}
			e.depth++
			e.apply(m, in)
			e.depth--
			if v := m.CheckInFlight(); len(v) > 0 && e.found == nil {
				e.found = &v[0]
			}
		}
	}
	if e.refusing>>b&1 == 1 {
		e.refusing &^= 1 << b
		return pmm.NoMemory
	}
	m.MarkBlockEvicted(b, root)
	return pmm.OK
}

// encode returns the canonical encoding of a state.
func (e *explorer) encode(m *pmm.Model, refusing uint64) []byte {
	e.enc = m.AppendState(e.enc[:0], &e.rename)
	// Owners that own nothing come after those that do.
	out, seen := byte(0), uint64(0)
	for i, b := range e.rename {
		seen |= 1 << b
		out |= byte(refusing>>b&1) << i
	}
	for b, i := 0, len(e.rename); b < e.opts.Owners; b++ {
		if seen>>b&1 == 0 {
			out |= byte(refusing>>b&1) << i
			i++
		}
	}
	e.enc = append(e.enc, out)
	return e.enc
}

// insert files a state unless it is known, and reports whether it was new.
func (e *explorer) insert(enc []byte, parent uint32, o op) bool {
	h := hash(enc)
	mask := uint64(len(e.table) - 1)
	slot := h & mask
	for ; e.table[slot] != 0; slot = (slot + 1) & mask {
		i := int(e.table[slot] - 1)
		if e.states[i].hash != uint32(h>>32) {
			continue
		}
		end := uint32(len(e.arena))
		if i+1 < len(e.states) {
			end = e.states[i+1].at
		}
		if bytes.Equal(e.arena[e.states[i].at:end], enc) {
			return false
		}
	}
	e.states = append(e.states, entry{uint32(len(e.arena)), uint32(h >> 32), parent, o})
	e.arena = append(e.arena, enc...)
	e.table[slot] = uint32(len(e.states))
	if len(e.states)*2 > len(e.table) {
		e.grow()
	}
	return true
}

// grow doubles the table.
func (e *explorer) grow() {
	e.table = make([]uint32, 2*len(e.table))
	mask := uint64(len(e.table) - 1)
	for i := range e.states {
		end := uint32(len(e.arena))
		if i+1 < len(e.states) {
			end = e.states[i+1].at
		}
		slot := hash(e.arena[e.states[i].at:end]) & mask
		for e.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		e.table[slot] = uint32(i + 1)
	}
}

// hash mixes bytes, eight at a time.
func hash(b []byte) uint64 {
	const k = 0x9e3779b97f4a7c15
	h := uint64(len(b)) * k
	for len(b) >= 8 {
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		hi, lo := bits.Mul64(h^w, k)
		h = hi ^ lo
		b = b[8:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * k
		h ^= h >> 29
	}
	hi, lo := bits.Mul64(h^k, k)
	return hi ^ lo
}

// trace replays the way to a state and the operation that followed, and names the steps.
func (e *explorer) trace(from int, o op) []string {
	type step struct {
		from int
		op   op
	}
	path := []step{{from, o}}
	for i := from; i != 0; i = int(e.states[i].parent) {
		path = append(path, step{int(e.states[i].parent), e.states[i].op})
	}
	var out []string
	for k := len(path) - 1; k >= 0; k-- {
		refusing := e.load(path[k].from)
		text := e.describe(e.base, path[k].op)
		e.tell, e.told = true, ""
		s := e.run(path[k].op, refusing)
		out = append(out, text+e.told+" -> "+s.String())
	}
	return out
}
