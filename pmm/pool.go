package pmm

import (
	"errors"
	"fmt"
)

// Pool [model only] holds roots and serves chunks from them; it never grows. The driver has nothing like it: its nearest
// relative is the batch of 64 roots that PMA hands out. Inside the pool the manager's rules hold: requests are served from
// the smallest chunk that is large enough, splits go size by size into the first child, frees merge eagerly, lists are FIFO.
type Pool struct {
	m     *Model
	typ   Type
	roots []Chunk
	free  [SizesMax][]Chunk // FIFO by size index
	kids  map[Chunk]family  // of split chunks
	up    map[Chunk]Chunk   // parent of a child
	out   map[Chunk]bool    // handed out
}

// family is what a split chunk of a pool has below it.
type family struct {
	first Chunk
	n     int
	idle  int // children that are in the free lists
}

// The errors of a pool beside Status.
var (
	// ErrPoolBusy: Destroy found chunks that have not been returned.
	ErrPoolBusy = errors.New("pmm: pool has chunks that were not returned")
	// ErrPoolForeign: the chunk was not handed out by this pool, or was returned before.
	ErrPoolForeign = errors.New("pmm: chunk was not handed out by this pool")
)

// NewPool takes as many roots as bytes need, rounded up. The roots are pinned: nobody evicts a pool.
func (m *Model) NewPool(t Type, bytes uint64) (*Pool, error) {
	n := (bytes + RootBytes - 1) / RootBytes
	if bytes == 0 || n > uint64(m.cfg.Roots) {
		return nil, fmt.Errorf("pmm: a pool of %d bytes on a device of %d: %w", bytes, uint64(m.cfg.Roots)*RootBytes, NoMemory)
	}
	p := &Pool{m: m, typ: t, roots: make([]Chunk, n), kids: map[Chunk]family{}, up: map[Chunk]Chunk{}, out: map[Chunk]bool{}}
	if s := m.Alloc(t, RootBytes, None, p.roots, nil); s != OK {
		return nil, fmt.Errorf("pmm: a pool of %d roots: %w", n, s)
	}
	last := m.sizes[t].n - 1
	p.free[last] = append(p.free[last], p.roots...)
	return p, nil
}

// Alloc returns a chunk of the smallest size that holds bytes. NoMemory when the pool is exhausted, InvalidArgument when no
// chunk is that large.
func (p *Pool) Alloc(bytes uint64) (Chunk, error) {
	s := &p.m.sizes[p.typ]
	want := 0
	for want < s.n && bytesOf(s.log2[want]) < bytes {
		want++
	}
	if want == s.n || bytes == 0 {
		return NoChunk, fmt.Errorf("pmm: %d bytes from a pool: %w", bytes, InvalidArgument)
	}
	have := want
	for have < s.n && len(p.free[have]) == 0 {
		have++
	}
	if have == s.n {
		return NoChunk, fmt.Errorf("pmm: %d bytes from a pool: %w", bytes, NoMemory)
	}
	c := p.free[have][0]
	p.free[have] = p.free[have][1:]
	p.busy(c)
	for ; have > want; have-- {
		size := bytesOf(s.log2[have-1])
		kids := make([]Chunk, bytesOf(s.log2[have])/size)
		if _, st := p.m.Split(c, size, kids); st != OK {
			p.giveBack(c, have)
			return NoChunk, fmt.Errorf("pmm: splitting a pool's chunk: %w", st)
		}
		p.kids[c] = family{kids[0], len(kids), len(kids) - 1}
		for _, k := range kids {
			p.up[k] = c
		}
		p.free[have-1] = append(p.free[have-1], kids[1:]...)
		c = kids[0]
	}
	p.out[c] = true
	return c, nil
}

// busy tells the parent of a chunk that it has left the free lists.
func (p *Pool) busy(c Chunk) {
	if parent, ok := p.up[c]; ok {
		f := p.kids[parent]
		f.idle--
		p.kids[parent] = f
	}
}

// Free returns a chunk to the pool.
func (p *Pool) Free(c Chunk) error {
	if !p.out[c] {
		return ErrPoolForeign
	}
	delete(p.out, c)
	in, ok := p.m.Info(c)
	if !ok {
		return ErrPoolForeign
	}
	p.giveBack(c, int(p.m.sizes[p.typ].index[log2Of(in.Size)]))
	return nil
}

// giveBack puts a chunk on its free list, and merges its family when it was the last one out.
func (p *Pool) giveBack(c Chunk, size int) {
	for {
		parent, ok := p.up[c]
		if !ok {
			break
		}
		f := p.kids[parent]
		if f.idle+1 < f.n {
			f.idle++
			p.kids[parent] = f
			break
		}
		p.drop(f, size)
		p.m.Merge(parent)
		delete(p.kids, parent)
		c = parent
		size++
	}
	p.free[size] = append(p.free[size], c)
}

// drop takes a family off the free list of its size and forgets whose children they were.
func (p *Pool) drop(f family, size int) {
	keep := p.free[size][:0]
	for _, k := range p.free[size] {
		if k < f.first || k >= f.first+Chunk(f.n) {
			keep = append(keep, k)
		}
	}
	p.free[size] = keep
	for k := f.first; k < f.first+Chunk(f.n); k++ {
		delete(p.up, k)
	}
}

// Destroy gives the roots back to the manager. All chunks must have been returned.
func (p *Pool) Destroy() error {
	if n := len(p.out); n > 0 {
		return fmt.Errorf("%w: %d", ErrPoolBusy, n)
	}
	for _, c := range p.roots {
		if s := p.m.FreeChunk(c); s != OK {
			return fmt.Errorf("pmm: freeing a pool's root: %w", s)
		}
	}
	p.roots = nil
	return nil
}
