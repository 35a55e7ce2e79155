package explore

import (
	"fmt"

	"github.com/gpubench/gpubench/pmm"
)

// kind is what an operation does.
type kind uint8

const (
	opAlloc kind = iota // a: size index, b: type<<1 | evict
	opFree
	opFreeWork
	opUnpin // b: owner
	opSplit
	opMerge
	opMark // b: list
	opLazyFree
	opFlush
	opEvict
	opEvictRoot  // a: root
	opEvictRange // a: first, b: last
	opRMAlloc    // a: log2 of the page, b: evict
	opRMRange    // a: how many roots
	opRMFree     // a: root
	opRelease
	opComplete
	opInjectSplit
	opInjectPMA
	opInjectPin
	opInjectMetadata // a: how many succeed
	opRefuse         // b: owner
)

// noDrop says that nothing runs while the mutex is dropped.
const noDrop = 0xff

// op is one operation on one state. Chunks are named as the state's own decoding names them.
type op struct {
	chunk pmm.Chunk
	kind  kind
	a, b  uint8
	drop  uint8 // at which drop of the mutex the inner operation runs
	inner uint8 // which one, in the order of innerOps
}

// evicts reports whether the operation may evict, so that the mutex may be dropped inside.
func (o op) evicts() bool {
	switch o.kind {
	case opAlloc:
		return o.b&1 == 1
	case opEvict, opEvictRoot, opEvictRange, opRMRange:
		return true
	case opRMAlloc:
		return o.b == 1
	}
	return false
}

// leaf is one leaf of the state at hand.
type leaf struct {
	chunk pmm.Chunk
	pmm.Info
}

// leaves lists all leaves that are not with PMA.
func (e *explorer) leaves(m *pmm.Model, out []leaf) []leaf {
	for r := range e.cfg.Roots {
		m.EachLeaf(m.RootChunk(r), func(c pmm.Chunk, in pmm.Info) bool {
			if in.State != pmm.PMAOwned {
				out = append(out, leaf{c, in})
			}
			return true
		})
	}
	return out
}

// usable reports whether a program may free, split or unpin this leaf: it is its own, not the lazy queue's and not the
// evictor's.
func (l *leaf) usable() bool {
	if l.Lazy || (l.State == pmm.TempPinned && l.InEviction) {
		return false
	}
	return l.State == pmm.Allocated || l.State == pmm.TempPinned
}

// enumerate lists every operation that a program may try on the model.
func (e *explorer) enumerate(m *pmm.Model, refusing uint64, ops []op) []op {
	add := func(k kind, c pmm.Chunk, a, b int) { ops = append(ops, op{c, k, uint8(a), uint8(b), noDrop, 0}) }
	for t := range e.sizes {
		for i := range e.sizes[t] {
			add(opAlloc, 0, i, t<<1)
			add(opAlloc, 0, i, t<<1|1)
		}
	}
	e.scan = e.leaves(m, e.scan[:0])
	lazy := false
	for i := range e.scan {
		l := &e.scan[i]
		lazy = lazy || l.Lazy
		if l.usable() {
			e.leafOps(l, add)
		}
	}
	for r := range e.cfg.Roots {
		e.rootOps(m, r, add)
	}
	if lazy {
		add(opFlush, 0, 0, 0)
	}
	add(opEvict, 0, 0, 0)
	add(opRMAlloc, 0, 21, 1)
	if e.cfg.Roots > 1 {
		add(opRMRange, 0, 2, 0)
	}
	add(opRelease, 0, 0, 0)
	if e.work {
		add(opComplete, 0, 0, 0)
	}
	if e.opts.Injections {
		add(opInjectPMA, 0, 1, 0)
		add(opInjectPin, 0, 1, 0)
		add(opInjectMetadata, 0, 0, 0)
		add(opInjectMetadata, 0, 2, 0)
		for b := range e.opts.Owners {
			if refusing>>b&1 == 0 {
				add(opRefuse, 0, 0, b)
			}
		}
	}
	return ops
}

// leafOps lists what can be done with one usable leaf.
func (e *explorer) leafOps(l *leaf, add func(k kind, c pmm.Chunk, a, b int)) {
	add(opFree, l.chunk, 0, 0)
	if e.work {
		add(opFreeWork, l.chunk, 0, 0)
	}
	if l.Size > e.sizes[l.Type][0] {
		add(opSplit, l.chunk, 0, 0)
		if e.opts.Injections {
			add(opInjectSplit, l.chunk, 0, 0)
		}
	}
	if l.Type == pmm.Kernel {
		return
	}
	if l.State == pmm.TempPinned {
		for b := range e.opts.Owners {
			add(opUnpin, l.chunk, 0, b)
		}
	}
	if e.opts.Lazy {
		add(opLazyFree, l.chunk, 0, 0)
	}
	if l.Size == pmm.RootBytes {
		for k := pmm.Unused; k <= pmm.Used; k++ {
			add(opMark, l.chunk, 0, int(k))
		}
	}
}

// rootOps lists what can be done with one root.
func (e *explorer) rootOps(m *pmm.Model, r int, add func(k kind, c pmm.Chunk, a, b int)) {
	in, _ := m.Info(m.RootChunk(r))
	switch {
	case in.State == pmm.PMAOwned:
		if free, unpinned, _ := m.Frames().RootState(r); free|unpinned != ^uint32(0) {
			add(opRMFree, 0, r, 0)
		}
	case in.State == pmm.Split:
		add(opMerge, m.RootChunk(r), 0, 0)
		fallthrough
	default:
		if in.Type == pmm.User {
			add(opEvictRoot, 0, r, 0)
			add(opEvictRange, 0, r, r)
		}
	}
}

// innerOps lists what another thread may do while the mutex is dropped.
func (e *explorer) innerOps(m *pmm.Model, ops []op) []op {
	for t := range e.sizes {
		ops = append(ops, op{0, opAlloc, 0, uint8(t << 1), noDrop, 0})
	}
	ops = append(ops, op{0, opRelease, 0, 0, noDrop, 0}, op{0, opEvict, 0, 0, noDrop, 0},
		op{0, opAlloc, uint8(len(e.sizes[0]) - 1), 1, noDrop, 0})
	e.inside = e.leaves(m, e.inside[:0])
	for i := range e.inside {
		if l := &e.inside[i]; l.usable() {
			ops = append(ops, op{l.chunk, opFree, 0, 0, noDrop, 0})
		}
	}
	return ops
}

// apply runs an operation. Calls that answer an error are transitions too.
func (e *explorer) apply(m *pmm.Model, o op) pmm.Status {
	switch o.kind {
	case opAlloc:
		var out [1]pmm.Chunk
		var tr pmm.Tracker
		t := pmm.Type(o.b >> 1)
		return m.Alloc(t, e.sizes[t][o.a], pmm.Flags(o.b&1), out[:], &tr)
	case opFree:
		return m.FreeChunk(o.chunk)
	case opFreeWork:
		return m.Free(o.chunk, m.Issue(0))
	case opUnpin:
		return m.Unpin(o.chunk, pmm.Block(o.b), 0)
	case opSplit:
		in, _ := m.Info(o.chunk)
		_, s := m.Split(o.chunk, e.below(in.Type, in.Size), nil)
		return s
	case opMerge:
		return m.Merge(o.chunk)
	case opMark:
		return m.MarkRoot(o.chunk, pmm.Mark(o.b))
	case opLazyFree:
		return m.LazyFree(o.chunk)
	case opFlush:
		m.Flush()
	case opEvict:
		_, s := m.TestEvict(-1)
		return s
	case opEvictRoot:
		_, s := m.TestEvict(int(o.a))
		return s
	case opEvictRange:
		return m.EvictRange(int(o.a), int(o.b))
	default:
		return e.applyRest(m, o)
	}
	return pmm.OK
}

func (e *explorer) applyRest(m *pmm.Model, o op) pmm.Status {
	switch o.kind {
	case opRMAlloc:
		var s pmm.Status
		e.pages, s = m.RMAlloc(e.pages[:0], 1, 1<<o.a, o.b == 1)
		return s
	case opRMRange:
		_, s := m.RMAllocRange(int(o.a), true)
		return s
	case opRMFree:
		free, _, _ := m.Frames().RootState(int(o.a))
		e.pages = e.pages[:0]
		for k := range uint64(32) {
			if free>>k&1 == 0 {
				e.pages = append(e.pages, uint64(o.a)*pmm.RootBytes+k<<16)
			}
		}
		return m.RMFree(e.pages, 64<<10)
	case opRelease:
		m.ReleaseFreeRoots()
	case opComplete:
		m.Complete(0)
	case opInjectSplit:
		return m.InjectSplit(o.chunk)
	case opInjectPMA:
		m.InjectPMAEvict(int(o.a))
	case opInjectPin:
		m.InjectPin(int(o.a))
	case opInjectMetadata:
		m.InjectMetadata(int(o.a))
	case opRefuse:
		e.refusing |= 1 << o.b
	}
	return pmm.OK
}

// below returns the next smaller size of a type.
func (e *explorer) below(t pmm.Type, size uint64) uint64 {
	for i, s := range e.sizes[t] {
		if s == size && i > 0 {
			return e.sizes[t][i-1]
		}
	}
	return 0
}

// describe names an operation for people.
func (e *explorer) describe(m *pmm.Model, o op) string {
	where := ""
	if in, ok := m.Info(o.chunk); ok && o.chunk != pmm.NoChunk {
		where = fmt.Sprintf(" %s 0x%x+%dK", in.Type, in.Addr, in.Size>>10)
	}
	switch o.kind {
	case opAlloc:
		t := pmm.Type(o.b >> 1)
		evict := ""
		if o.b&1 == 1 {
			evict = " evict"
		}
		return fmt.Sprintf("alloc %s %dK%s", t, e.sizes[t][o.a]>>10, evict)
	case opUnpin:
		return fmt.Sprintf("unpin%s owner %d", where, o.b)
	case opMark:
		return fmt.Sprintf("mark%s %s", where, pmm.Mark(o.b))
	case opEvictRoot, opRMFree:
		return fmt.Sprintf("%s root %d", kindNames[o.kind], o.a)
	case opEvictRange:
		return fmt.Sprintf("evict range of roots %d to %d", o.a, o.b)
	case opRMAlloc:
		return fmt.Sprintf("resource manager allocates a page of %d KiB, evict %d", 1<<o.a>>10, o.b)
	case opRMRange:
		return fmt.Sprintf("resource manager allocates %d contiguous roots, evicting", o.a)
	case opRefuse:
		return fmt.Sprintf("owner %d refuses its next eviction", o.b)
	case opInjectMetadata:
		return fmt.Sprintf("metadata allocation fails after %d", o.a)
	}
	return kindNames[o.kind] + where
}

var kindNames = [...]string{
	"alloc", "free", "free with work pending", "unpin", "split", "merge", "mark", "lazy free", "flush the lazy queue", "evict",
	"evict", "evict range", "resource manager allocates", "resource manager allocates a range", "resource manager frees", "hand back free roots", "complete all work",
	"inject a split error into", "the next eviction for PMA fails", "PMA refuses the next pin", "metadata allocation fails",
	"owner refuses",
}
