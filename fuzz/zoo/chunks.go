package zoo

import (
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	chunkUnitBytes = 64 << 10
	rootLevel      = 5 // a root chunk has 2^5 units
	rootBytes      = chunkUnitBytes << rootLevel
)

// root is a chunk of 2 MiB from the device, cut in halves down to 64 KiB. Its chunks belong to one owner.
type root struct {
	addr  uint64
	owner int
	live  int // live and pending chunks
}

// chunk is a live or pending part of a root.
type chunk struct {
	addr   uint64
	level  int
	first  int // level when it was handed out
	root   int32
	serial uint64
	users  []sdk.Stream // other streams that use it
}

// chunks is a small physical memory manager: root chunks are split and merged, belong to the owner of a stream, are pinned by
// chunks that a stream still uses, and are evicted to another owner when the device and the limit have no more.
type chunks struct {
	dev      backends.Device
	streams  backends.Streams // nil: none
	bug      bug
	limit    uint64
	held     uint64
	notAdded uint64 // see limitAddedLate
	roots    []root // those at noRoot are not in use
	owners   map[sdk.Stream]int
	nextID   int
	lastGone int                          // owner of the stream that was destroyed last; see ownerReused
	free     [][rootLevel + 1][]freeChunk // by owner
	live     map[uint64]*chunk
	pending  []*chunk
	serial   uint64
}

type freeChunk struct {
	addr uint64
	root int32
}

const noRoot = ^uint64(0)

func openChunks(env *sdk.Env, b bug) (sdk.Strategy, error) {
	c := &chunks{dev: env.Device, bug: b}
	c.streams, _ = backends.As[backends.Streams](env.Device)
	c.limit = down(env.CapacityBytes, rootBytes)
	if b == limitRoundedUp {
		c.limit = up(env.CapacityBytes, rootBytes)
	}
	c.clear()
	return c, nil
}

func (c *chunks) clear() {
	c.held, c.notAdded, c.roots, c.nextID, c.lastGone = 0, 0, c.roots[:0], 0, -1
	c.owners, c.live = map[sdk.Stream]int{}, map[uint64]*chunk{}
	c.free, c.pending = nil, nil
}

// ownerOf is the owner of a stream's chunks.
func (c *chunks) ownerOf(s sdk.Stream) int {
	if id, ok := c.owners[s]; ok {
		return id
	}
	id := c.nextID
	if c.bug == ownerReused && c.lastGone >= 0 {
		id, c.lastGone = c.lastGone, -1
	} else {
		c.nextID++
		c.free = append(c.free, [rootLevel + 1][]freeChunk{})
	}
	c.owners[s] = id
	return id
}

func levelOf(size uint64) int { return bits.Len64((size - 1) / chunkUnitBytes) }

// Alloc takes the lowest chunk of the smallest level that the stream's owner has, a new root, or one that is evicted.
func (c *chunks) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	level := levelOf(max(r.Size, r.Align))
	if level > rootLevel {
		return trace.StatusRefused
	}
	owner := c.ownerOf(r.Stream)
	st := trace.StatusOK
	f, ok := c.claim(owner, level)
	if !ok && !c.grow(owner) {
		if !c.evict(owner) {
			return trace.StatusFailed
		}
		st = trace.StatusRecovered
	}
	if !ok {
		f, _ = c.claim(owner, level)
	}
	c.serial++
	c.live[f.addr] = &chunk{addr: f.addr, level: level, first: level, root: f.root, serial: c.serial}
	c.roots[f.root].live++
	*b = sdk.Block{Addr: f.addr, Size: chunkUnitBytes << level, Ref: c.serial}
	return st
}

// claim takes a free chunk of an owner and splits it down to the level.
func (c *chunks) claim(owner, level int) (freeChunk, bool) {
	lists := &c.free[owner]
	from := level
	for from <= rootLevel && len(lists[from]) == 0 {
		from++
	}
	if from > rootLevel {
		return freeChunk{}, false
	}
	f := slices.MinFunc(lists[from], func(x, y freeChunk) int {
		if x.addr < y.addr {
			return -1
		}
		return 1
	})
	lists[from] = slices.DeleteFunc(lists[from], func(x freeChunk) bool { return x == f })
	for from > level {
		from--
		lists[from] = append(lists[from], freeChunk{f.addr + chunkUnitBytes<<from, f.root})
	}
	return f, true
}

// grow takes a root from the device.
func (c *chunks) grow(owner int) bool {
	if c.held+rootBytes > c.limit {
		return false
	}
	addr, st := c.dev.Malloc(rootBytes)
	if st != trace.CallOK {
		return false
	}
	if c.bug == limitAddedLate { // another thread adds between this one's check and its add
		c.held += c.notAdded
		c.notAdded = rootBytes
	} else {
		c.held += rootBytes
	}
	i := slices.IndexFunc(c.roots, func(r root) bool { return r.addr == noRoot })
	if i < 0 {
		i = len(c.roots)
		c.roots = append(c.roots, root{})
	}
	c.roots[i] = root{addr: addr, owner: owner}
	c.free[owner][rootLevel] = append(c.free[owner][rootLevel], freeChunk{addr, int32(i)})
	return true
}

// evict gives a wholly free root of another owner to this one, when all its work is done. Roots with chunks in use are pinned.
func (c *chunks) evict(owner int) bool {
	for i := 0; i < len(c.roots); {
		if left, _ := c.dev.MemInfo(); left >= rootBytes && c.grow(owner) { // somebody gave memory back
			return true
		}
		r := &c.roots[i]
		if r.addr == noRoot || r.live > 0 {
			if c.bug != evictSameRoot || r.addr == noRoot {
				i++
			}
			continue
		}
		if !c.unlist(int32(i)) {
			i++
			continue
		}
		c.settle()
		r.owner = owner
		c.free[owner][rootLevel] = append(c.free[owner][rootLevel], freeChunk{r.addr, int32(i)})
		return true
	}
	return false
}

// unlist takes a wholly free root out of its owner's list; false when it is not there, but in parts.
func (c *chunks) unlist(i int32) bool {
	list := &c.free[c.roots[i].owner][rootLevel]
	n := len(*list)
	*list = slices.DeleteFunc(*list, func(f freeChunk) bool { return f.root == i })
	return len(*list) < n
}

// settle waits for all work, as the device's own free does.
func (c *chunks) settle() {
	if c.streams != nil {
		c.streams.SyncDevice()
	}
}

// Use pins a chunk that another stream uses: after its free it waits for that stream.
func (c *chunks) Use(b *sdk.Block, s sdk.Stream) trace.Status {
	if k := c.known(b); k != nil && !slices.Contains(k.users, s) {
		k.users = append(k.users, s)
	}
	return trace.StatusOK
}

func (c *chunks) known(b *sdk.Block) *chunk {
	if k := c.live[b.Addr]; k != nil && k.serial == b.Ref && b.Ref != 0 {
		return k
	}
	return nil
}

// Free gives a chunk back to the owner of its root, at once or when its users have completed.
func (c *chunks) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Ref == 0 {
		return trace.StatusOK
	}
	k := c.known(b)
	if k == nil {
		return trace.StatusInvalid
	}
	delete(c.live, b.Addr)
	if len(k.users) > 0 && c.streams != nil {
		c.pending = append(c.pending, k)
		return trace.StatusOK
	}
	c.release(k, c.roots[k.root].owner)
	return trace.StatusOK
}

// release puts a chunk on the free lists of an owner and merges it with its buddies up to the root.
func (c *chunks) release(k *chunk, owner int) {
	r := &c.roots[k.root]
	r.live--
	level := k.level
	if c.bug == releaseAtOldLevel {
		level = k.first
	}
	lists := &c.free[owner]
	at := k.addr - r.addr
	for level < rootLevel && !(c.bug == lastChildNotMerged && r.live == 0) {
		buddy := freeChunk{r.addr + (at ^ chunkUnitBytes<<level), k.root}
		if !slices.Contains(lists[level], buddy) {
			break
		}
		lists[level] = slices.DeleteFunc(lists[level], func(f freeChunk) bool { return f == buddy })
		at &^= chunkUnitBytes << level
		level++
	}
	lists[level] = append(lists[level], freeChunk{r.addr + at, k.root})
}
