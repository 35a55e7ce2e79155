package zoo

import (
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Realloc leaves the block where it is if it is large enough, else moves it.
func (t *tlsf) Realloc(old *sdk.Block, r *sdk.Request, b *sdk.Block) trace.Status {
	i := t.known(old)
	if i != 0 && r.Size != 0 {
		size, ok := t.round(r.Size)
		if t.bug == reallocWithoutLimit {
			size, ok = max(up(r.Size, tlsfUnitBytes), tlsfUnitBytes), true
		}
		if ok && size <= t.nodes[i].size && t.front(i, r.Align) == 0 {
			t.hand(i, r, b)
			return trace.StatusOK
		}
	}
	st := t.Alloc(r, b)
	if !st.Placed() {
		return st
	}
	return t.Free(old, r.Stream)
}

// FreeWrong refuses a free of what is not live.
func (t *tlsf) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusInvalid }

// Trim has nothing to give: the arena stays.
func (t *tlsf) Trim() trace.Status { return trace.StatusOK }

// Reset frees everything.
func (t *tlsf) Reset() trace.Status {
	t.chain = newChain(t.bug)
	clear(t.lists[:])
	clear(t.any[:])
	if t.bug != counterKeptByReset {
		t.used = 0
	}
	t.fill()
	if t.bug != resetEmptiesList {
		t.put(t.first)
	}
	return trace.StatusOK
}

// Defragment slides live blocks down into the free block before them. Blocks of a demanded alignment stay.
func (t *tlsf) Defragment() trace.Status {
	target, moved := uint64(0), false
	for i := t.first; i != 0; {
		n := &t.nodes[i]
		m := n.next
		if n.state != free || m == 0 || t.nodes[m].state != live || t.nodes[m].align > tlsfUnitBytes {
			i = n.next
			continue
		}
		if !moved || t.bug != secondMoveToFirstPlace {
			target, moved = n.addr, true
		}
		t.log.Note(trace.Call{Kind: trace.CallMove, Aux: t.nodes[m].addr, Addr: target, Size: t.nodes[m].size})
		t.swap(i, m, target)
		if next := t.nodes[i].next; next != 0 && t.nodes[next].state == free {
			t.take(next)
			t.take(i)
			t.join(i)
			t.put(i)
		}
	}
	return trace.StatusOK
}

// swap exchanges the free block i and the live block m behind it, which gets the address target.
func (t *tlsf) swap(i, m int32, target uint64) {
	f, b := &t.nodes[i], &t.nodes[m]
	f.addr += b.size
	b.addr = target
	before, after := f.prev, b.next
	b.prev, b.next, f.prev, f.next = before, i, m, after
	if before != 0 {
		t.nodes[before].next = m
	} else {
		t.first = m
	}
	if after != 0 {
		t.nodes[after].prev = i
	}
}

// Close gives the arena back.
func (t *tlsf) Close() error {
	if st := t.dev.Free(t.base); st != trace.CallOK {
		return fmt.Errorf("tlsf: giving the arena back: %w", st.Err())
	}
	return nil
}

// Inspect shows the blocks, the lists and the bytes in use.
func (t *tlsf) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{"used_bytes": t.used}, MetaBytes: t.metaBytes()}
	in.Segments = []sdk.InspectedSegment{{Addr: t.base, Bytes: t.bytes, Blocks: t.picture(t.first)}}
	for k := t.next(0); k < tlsfLists; k = t.next(k + 1) {
		f := sdk.FreeList{Name: fmt.Sprintf("list %d", k), Len: uint64(len(t.lists[k]))}
		for _, i := range t.lists[k] {
			f.Bytes += t.nodes[i].size
		}
		in.FreeLists = append(in.FreeLists, f)
	}
	return in
}
