package script

import (
	"github.com/gpubench/gpubench/pmm"
)

const (
	// allocMax bounds the chunks of one alloc and the pages of one pma_alloc.
	allocMax = 1 << 20
	// leavesMax is the most leaves that a root can have: 2 MiB of 64 bytes.
	leavesMax = pmm.RootBytes / 64
	gpuOwn    = 0
	gpuOther  = 1
)

// do runs one operation and leaves its outcome in r.out.
func (r *runner) do(op Op) {
	r.out = outcome{ids: r.out.ids[:0], addrs: r.out.addrs[:0], status: pmm.OK.String()}
	a := op.Args
	switch op.Name {
	case "alloc":
		r.alloc(a)
	case "unpin":
		r.unpin(a)
	case "free":
		r.free(a)
	case "split":
		r.split(a)
	case "merge":
		r.merge(a)
	case "mark":
		r.mark(a)
	case "subchunks":
		r.subchunks(a)
	case "evict":
		r.evict(-1)
	case "evict_phys":
		r.evictPhys(a[0])
	case "pma_alloc":
		r.pmaAlloc(a)
	case "pma_free":
		r.pmaFree(a)
	case "pma_evict_range":
		r.evictRange(a)
	case "release":
		r.m.ReleaseFreeRoots()
	case "sync":
		r.m.Sync()
	case "lazyfree":
		r.lazyfree(a)
	case "flush":
		r.m.Flush()
		for _, id := range r.lazy {
			r.kill(id)
		}
		r.lazy = r.lazy[:0]
	case "complete":
		if a[0] >= pmm.GPUs {
			r.reject("args")
			return
		}
		r.m.Complete(int(a[0]))
	default:
		r.injections(op)
	}
}

func (r *runner) injections(op Op) {
	a := op.Args
	if op.Name != "inject_split" && a[0] > allocMax {
		r.reject("args")
		return
	}
	switch op.Name {
	case "inject_split":
		if e := r.chunk(a[0], leaf); e != nil {
			r.status(r.m.InjectSplit(e.chunk))
			r.show(e.chunk)
		}
	case "inject_evict":
		if a[0] >= blocks || a[1] > 1 {
			r.reject("args")
			return
		}
		r.fail[a[0]] = a[1] == 1
	case "inject_pma":
		r.m.InjectPMAEvict(int(a[0]))
	case "inject_pin":
		r.m.InjectPin(int(a[0]))
	case "inject_kmem":
		r.m.InjectMetadata(int(a[0]))
	}
}

func (r *runner) reject(why string)   { r.out.status = "REJECT:" + why }
func (r *runner) status(s pmm.Status) { r.out.status = s.String() }

// show reports the state of the first chunk concerned.
func (r *runner) show(c pmm.Chunk) {
	if in, ok := r.m.Info(c); ok {
		r.out.info, r.out.hasChunk = in, true
		r.out.addr, r.out.hasAddr = in.Addr, true
	}
}

// chunk returns the entity of a number if it is of one of the kinds; otherwise it rejects the operation.
func (r *runner) chunk(id uint64, kinds ...kind) *entity {
	e := r.get(id)
	if e != nil {
		for _, k := range kinds {
			if e.kind == k {
				return e
			}
		}
	}
	r.reject("id")
	return nil
}

func (r *runner) alloc(a []uint64) {
	typ, size, flags, n, trk := a[0], a[1], a[2], a[3], a[4]
	if typ > uint64(pmm.Kernel) || flags > uint64(pmm.FlagsMask) || n > allocMax || trk > 1 {
		r.reject("args")
		return
	}
	if size == 0 || size&(size-1) != 0 || r.m.SizesMask(pmm.Type(typ))&size == 0 {
		r.reject("size")
		return
	}
	if cap(r.chunks) < int(n) {
		r.chunks = make([]pmm.Chunk, n)
	}
	out := r.chunks[:n]
	var tr pmm.Tracker
	var tp *pmm.Tracker
	if trk == 1 {
		tp = &tr
	}
	s := r.m.Alloc(pmm.Type(typ), size, pmm.Flags(flags), out, tp)
	r.status(s)
	if trk == 1 {
		r.out.extra, r.out.hasExtra = r.m.Pending(tr), true
	}
	if s != pmm.OK {
		return
	}
	for _, c := range out {
		id := r.add(entity{kind: leaf, chunk: c, parent: -1, block: pmm.NoBlock})
		r.out.ids = append(r.out.ids, uint64(id))
		r.out.addrs = append(r.out.addrs, r.m.Addr(c))
	}
	if n > 0 {
		r.show(out[0])
	}
}

func (r *runner) unpin(a []uint64) {
	e := r.chunk(a[0], leaf)
	if e == nil {
		return
	}
	if a[1] >= blocks {
		r.reject("args")
		return
	}
	if in, _ := r.m.Info(e.chunk); in.State != pmm.TempPinned || in.Type != pmm.User {
		r.reject("state")
		return
	}
	r.status(r.m.Unpin(e.chunk, pmm.Block(a[1]), 0))
	e.block = pmm.Block(a[1])
	r.show(e.chunk)
}

func (r *runner) free(a []uint64) {
	e := r.chunk(a[0], leaf)
	if e == nil {
		return
	}
	var work pmm.Tracker
	switch a[1] {
	case 0:
	case 1:
		work = r.m.Issue(gpuOwn)
	case 2:
		work = r.m.Issue(gpuOther)
	default:
		r.reject("args")
		return
	}
	r.status(r.m.Free(e.chunk, work))
	r.kill(int32(a[0]))
}

func (r *runner) split(a []uint64) {
	e := r.chunk(a[0], leaf)
	if e == nil {
		return
	}
	in, _ := r.m.Info(e.chunk)
	size := a[1]
	if size == 0 || size&(size-1) != 0 || size >= in.Size || r.m.SizesMask(in.Type)&size == 0 {
		r.reject("size")
		return
	}
	n := int(in.Size / size)
	if cap(r.chunks) < n {
		r.chunks = make([]pmm.Chunk, n)
	}
	out := r.chunks[:n]
	c := e.chunk
	_, s := r.m.Split(c, size, out)
	r.status(s)
	if s != pmm.OK {
		r.show(c)
		return
	}
	first := int32(len(r.ents))
	e.kind, e.first, e.n, e.live = split, first, int32(n), int32(n)
	block := e.block
	for _, k := range out {
		r.add(entity{kind: leaf, chunk: k, parent: int32(a[0]), block: block})
	}
	r.out.ids = append(r.out.ids, uint64(first), uint64(first)+uint64(n)-1)
	r.show(out[0])
}

// allLive reports whether every leaf below an entity is live.
func (r *runner) allLive(id int32) bool {
	e := &r.ents[id]
	if e.kind != split {
		return e.kind == leaf
	}
	for k := e.first; k < e.first+e.n; k++ {
		if !r.allLive(k) {
			return false
		}
	}
	return true
}

func (r *runner) merge(a []uint64) {
	e := r.chunk(a[0], split)
	if e == nil {
		return
	}
	if !r.allLive(int32(a[0])) || r.m.Merge(e.chunk) != pmm.OK {
		r.reject("not mergeable")
		return
	}
	r.killBelow(int32(a[0]))
	e.kind = leaf
	in, _ := r.m.Info(e.chunk)
	e.block = in.Block
	r.m.SetTag(e.chunk, int32(a[0]))
	r.show(e.chunk)
}

func (r *runner) mark(a []uint64) {
	e := r.chunk(a[0], leaf)
	if e == nil {
		return
	}
	if a[1] > uint64(pmm.Used) {
		r.reject("args")
		return
	}
	if in, _ := r.m.Info(e.chunk); in.Size != pmm.RootBytes || in.Type != pmm.User {
		r.reject("size")
		return
	}
	r.status(r.m.MarkRoot(e.chunk, pmm.Mark(a[1])))
	r.show(e.chunk)
}

func (r *runner) subchunks(a []uint64) {
	e := r.chunk(a[0], leaf, split)
	if e == nil {
		return
	}
	if a[1] > allocMax || a[2] > allocMax {
		r.reject("args")
		return
	}
	if !r.allLive(int32(a[0])) {
		r.reject("freed leaves")
		return
	}
	out := make([]pmm.Chunk, min(a[2], leavesMax))
	n := r.m.Subchunks(e.chunk, int(a[1]), out)
	r.out.extra, r.out.hasExtra = n, true
	if n > 0 {
		r.show(out[0])
	}
}

func (r *runner) evict(root int) {
	picked, s := r.m.TestEvict(root)
	r.status(s)
	r.out.hasExtra = true
	if picked >= 0 {
		r.out.addr, r.out.hasAddr = uint64(picked)*pmm.RootBytes, true
		r.out.extra = bit(s == pmm.OK)
	}
}

// kernelRoot reports whether a root is in the manager's hands and of kernel type.
func (r *runner) kernelRoot(root int) bool {
	in, _ := r.m.Info(r.m.RootChunk(root))
	return in.State != pmm.PMAOwned && in.Type == pmm.Kernel
}

func (r *runner) evictPhys(root uint64) {
	if root >= uint64(r.m.Config().Roots) {
		r.status(pmm.InvalidAddress)
		return
	}
	if r.kernelRoot(int(root)) {
		r.reject("kernel")
		return
	}
	r.evict(int(root))
}

func (r *runner) evictRange(a []uint64) {
	if a[0] > a[1] || a[1] >= uint64(r.m.Config().Roots) {
		r.reject("range")
		return
	}
	for i := int(a[0]); i <= int(a[1]); i++ {
		if r.kernelRoot(i) {
			r.reject("kernel")
			return
		}
	}
	r.status(r.m.EvictRange(int(a[0]), int(a[1])))
}

func (r *runner) pmaAlloc(a []uint64) {
	if a[0] == 0 || a[0] > allocMax || (a[1] != 16 && a[1] != 21) || a[2] > 1 {
		r.reject("args")
		return
	}
	page := uint64(1) << a[1]
	pages, s := r.m.RMAlloc(nil, int(a[0]), page, a[2] == 1)
	r.status(s)
	if s != pmm.OK {
		return
	}
	id := r.add(entity{kind: ext, parent: -1, pages: pages, page: page})
	r.out.ids = append(r.out.ids, uint64(id))
	r.out.addr, r.out.hasAddr = pages[0], true
}

func (r *runner) pmaFree(a []uint64) {
	e := r.chunk(a[0], ext)
	if e == nil {
		return
	}
	r.status(r.m.RMFree(e.pages, e.page))
	e.kind, e.pages = dead, nil
}

func (r *runner) lazyfree(a []uint64) {
	e := r.chunk(a[0], leaf)
	if e == nil {
		return
	}
	if in, _ := r.m.Info(e.chunk); in.Type != pmm.User {
		r.reject("type")
		return
	}
	r.status(r.m.LazyFree(e.chunk))
	e.kind = lazy
	r.lazy = append(r.lazy, int32(a[0]))
	r.show(e.chunk)
}
