package script

import (
	"slices"

	"github.com/gpubench/gpubench/pmm"
)

// kind is what an entity is at the moment.
type kind uint8

const (
	leaf  kind = iota // a chunk that can be used
	split             // a chunk with entities below
	lazy              // queued for a lazy free
	ext               // pages of an RM client
	dead
)

// entity is something that a script names by number. Numbers count up from 0 and are never reused.
type entity struct {
	kind   kind
	chunk  pmm.Chunk
	parent int32 // entity it was split from, or -1
	first  int32 // entities below while split: first..first+n-1
	n      int32
	live   int32 // of those, how many are not dead
	block  pmm.Block
	pages  []uint64 // of an ext entity
	page   uint64   // their size in bytes
}

// runner holds what a script refers to.
type runner struct {
	m      *pmm.Model
	ents   []entity
	fail   [blocks]bool // the next eviction from the block fails
	out    outcome
	census pmm.Census
	chunks []pmm.Chunk
	lazy   []int32
	tags   []int32
}

// outcome is what one operation reports.
type outcome struct {
	status            string
	ids, addrs        []uint64
	addr              uint64
	info              pmm.Info
	extra             int
	hasAddr, hasChunk bool
	hasExtra          bool
}

func newRunner(m *pmm.Model) *runner {
	r := &runner{m: m}
	m.SetEvictor(r)
	return r
}

// add makes a new entity and returns its number.
func (r *runner) add(e entity) int32 {
	r.ents = append(r.ents, e)
	id := int32(len(r.ents) - 1)
	if e.kind == leaf {
		r.m.SetTag(e.chunk, id)
	}
	return id
}

// get returns the entity of a number, or nil.
func (r *runner) get(id uint64) *entity {
	if id >= uint64(len(r.ents)) {
		return nil
	}
	return &r.ents[id]
}

// kill makes an entity dead, and every split entity above that has nothing live below it any more.
func (r *runner) kill(id int32) {
	for id >= 0 {
		e := &r.ents[id]
		if e.kind == dead {
			return
		}
		e.kind = dead
		p := e.parent
		if p < 0 {
			return
		}
		if r.ents[p].live--; r.ents[p].live > 0 {
			return
		}
		id = p
	}
}

// killBelow makes all that was split from an entity dead, without asking what is above.
func (r *runner) killBelow(id int32) {
	e := r.ents[id]
	for k := e.first; k < e.first+e.n; k++ {
		if r.ents[k].kind == split {
			r.killBelow(k)
		}
		r.ents[k].kind = dead
	}
}

// EvictBlock is the eviction of a VA block as in the recordings: its chunks under the root are marked evicted in the order
// of their numbers.
func (r *runner) EvictBlock(m *pmm.Model, b pmm.Block, root int) pmm.Status {
	if r.fail[b] {
		r.fail[b] = false
		return pmm.NoMemory
	}
	r.tags = r.tags[:0]
	m.EachLeaf(m.RootChunk(root), func(_ pmm.Chunk, in pmm.Info) bool {
		if in.State == pmm.Allocated && in.Block == b {
			r.tags = append(r.tags, in.Tag)
		}
		return true
	})
	slices.Sort(r.tags)
	for _, id := range r.tags {
		if s := m.MarkEvicted(r.ents[id].chunk); s != pmm.OK {
			return s
		}
		r.kill(id)
	}
	return pmm.OK
}
