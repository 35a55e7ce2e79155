package pmm

import (
	"strings"
	"testing"
)

// corruptible is a device with something of everything: root 0 a whole user chunk, root 1 split into user chunks with one
// pinned, root 2 split down to 256 bytes for kernel use, root 3 free and zero, roots 4 and 5 with PMA.
func corruptible(t *testing.T) *Model {
	t.Helper()
	cfg := DefaultConfig(6 * RootBytes)
	cfg.BatchOrder = 0
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Audit()
	mustAlloc := func(typ Type, size uint64, flags Flags, n int) []Chunk {
		out := make([]Chunk, n)
		if s := m.Alloc(typ, size, flags, out, nil); s != OK {
			t.Fatal(s)
		}
		return out
	}
	m.Unpin(mustAlloc(User, RootBytes, None, 1)[0], 1, 0)
	m.Unpin(mustAlloc(User, 4<<10, None, 2)[0], 2, 0)
	mustAlloc(Kernel, 256, None, 1)
	c := mustAlloc(User, RootBytes, None, 1)
	m.setState(int32(c[0]), Free, Freed) // as a prefetched root
	m.pinnedRoots--
	m.updateLists(int32(c[0]))
	if v := m.Check(); len(v) > 0 {
		t.Fatalf("before anything is corrupted: %v", v[0])
	}
	return m
}

// kids returns the first child of a root.
func (m *Model) kids(root int) int32 { return m.nodes[root+1].child }

// TestCheckerNotices breaks each invariant that Check looks at, in one or more ways, and demands that Check names it.
func TestCheckerNotices(t *testing.T) {
	for _, c := range []struct {
		rule   int
		name   string
		damage func(m *Model)
	}{
		{1, "a root moved", func(m *Model) { m.nodes[1].addr += 4096 }},
		{1, "a root with a parent", func(m *Model) { m.nodes[2].parent = 1 }},
		{2, "a size that is not in the mask", func(m *Model) { m.nodes[m.kids(1)+1].log2 = 13 }},
		{2, "the smallest size is split", func(m *Model) {
			k := m.nodes[m.kids(1)].child
			m.nodes[k].state, m.nodes[k].child = Split, 1
		}},
		{3, "a child in the wrong place", func(m *Model) { m.nodes[m.kids(1)+3].addr += 64 << 10 }},
		{3, "a child of the wrong type", func(m *Model) { m.nodes[m.kids(1)+3].typ = Kernel }},
		{4, "children without a split", func(m *Model) { m.nodes[m.kids(1)+3].child = 9 }},
		{4, "a split without children", func(m *Model) { m.nodes[3].child = 0 }},
		{5, "a leaf that is with PMA", func(m *Model) { m.nodes[m.kids(1)+3].state = PMAOwned }},
		{5, "a split chunk with an owner", func(m *Model) { m.nodes[2].block = 3 }},
		{6, "a wrong count of children", func(m *Model) { m.nodes[2].allocated++ }},
		{7, "a family with nothing allocated", func(m *Model) {
			k := m.nodes[m.kids(1)].child
			m.nodes[k].state, m.nodes[k+1].state = Free, Free
		}},
		{8, "a wrong count of pinned leaves", func(m *Model) { m.nodes[2].pinned = 0 }},
		{8, "a wrong count of pinned roots", func(m *Model) { m.pinnedRoots = 1 }},
		{8, "a wrong count of evictions", func(m *Model) { m.inEviction = 1 }},
		{8, "an eviction at rest", func(m *Model) { m.startEvictionLocked(1) }},
		{9, "leaves that do not cover the root", func(m *Model) { m.nodes[m.kids(1)+3].log2 = 12 }},
		{10, "a free chunk on no list", func(m *Model) { m.unlink(m.kids(1) + 3) }},
		{10, "a free chunk on the other type's list", func(m *Model) { m.moveTail(m.kids(1)+3, freeListID(Kernel, 2, false)) }},
		{10, "an allocated chunk on a free list", func(m *Model) { m.moveTail(m.nodes[m.kids(1)].child, freeListID(User, 0, false)) }},
		{10, "a wrong length", func(m *Model) { m.lists[freeListID(User, 1, false)].n++ }},
		{10, "a broken link", func(m *Model) { m.nodes[m.kids(1)+3].prev = 0 }},
		{11, "a small chunk on a zero list", func(m *Model) {
			m.nodes[m.kids(1)+3].zero = true
			m.moveTail(m.kids(1)+3, freeListID(User, 1, true))
		}},
		{12, "an allocated root on no eviction list", func(m *Model) { m.unlink(1) }},
		{12, "a pinned root on an eviction list", func(m *Model) { m.moveTail(2, evictBase) }},
		{12, "a pinned chunk on a free list", func(m *Model) { m.moveTail(m.nodes[m.kids(1)].child+1, freeListID(User, 0, false)) }},
		{12, "a kernel root on an eviction list", func(m *Model) { m.moveTail(3, evictBase) }},
		{13, "a root with PMA that has an owner", func(m *Model) { m.nodes[5].block = 1 }},
		{13, "a root with PMA on a list", func(m *Model) { m.moveTail(5, evictBase) }},
		{14, "an allocated user chunk without owner", func(m *Model) { m.nodes[1].block = NoBlock }},
		{14, "a kernel chunk with an owner", func(m *Model) { m.nodes[m.nodes[m.nodes[m.kids(2)].child].child].block = 1 }},
		{14, "a free chunk that is held", func(m *Model) { m.nodes[m.kids(1)+3].flags |= flagReferenced }},
		{17, "a kernel root in eviction", func(m *Model) { m.nodes[3].flags |= flagInEviction }},
		{21, "memory in use that PMA thinks free", func(m *Model) { m.frames.Free(0, 1, false, 0) }},
		{21, "a kernel root that PMA thinks evictable", func(m *Model) { m.nodes[1].typ = Kernel }},
		{23, "a root with PMA that has work pending", func(m *Model) { m.trackers[4] = m.Issue(0) }},
		{29, "a mask without 2 MiB", func(m *Model) { m.sizes[User].n-- }},
		{30, "a free kernel root", func(m *Model) { m.nodes[4].typ = Kernel }},
		{RuleTransition, "an illegal transition", func(m *Model) { m.setState(1, PMAOwned, Freed) }},
		{16, "a free of a free chunk", func(m *Model) { m.freeLocked(m.kids(1) + 3) }},
		{16, "a merge of unlike children", func(m *Model) { m.mergeLocked(2) }},
		{18, "an eviction of a pinned root", func(m *Model) { m.startEvictionLocked(2) }},
		{22, "a chunk of another size", func(m *Model) { m.auditAlloc(User, 64<<10, []Chunk{1}) }},
		{24, "a root that goes to PMA while allocated", func(m *Model) { m.freeRoot(1, true) }},
		{27, "a root that comes from PMA twice", func(m *Model) { m.initRoot(0, User, true, false) }},
		{26, "a kernel root in an evict-range", func(m *Model) { m.EvictRange(2, 2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := corruptible(t)
			c.damage(m)
			for _, v := range m.Check() {
				if v.Rule == c.rule {
					if text := v.Error(); c.rule != RuleTransition && !strings.Contains(text, InvariantRules[c.rule-1].Text) {
						t.Errorf("the message does not say what should hold: %s", text)
					}
					return
				}
			}
			t.Errorf("nobody noticed that invariant %d is broken; found %v", c.rule, m.Check())
		})
	}
}

// TestCheckEmptyNotices: what has not been given back is reported.
func TestCheckEmptyNotices(t *testing.T) {
	m := corruptible(t)
	found := map[string]bool{}
	for _, v := range m.CheckEmpty() {
		if v.Rule == 25 {
			for _, word := range []string{"root 0", "free list", "used", "descriptors"} {
				if strings.Contains(v.What, word) {
					found[word] = true
				}
			}
		}
	}
	if len(found) != 4 {
		t.Errorf("found %v, want a root, a free list, an eviction list and descriptors", found)
	}
}

// TestMutexRule: a last child freed without the mutex is noticed in the locked form.
func TestMutexRule(t *testing.T) {
	s, err := NewShared(DefaultConfig(2 * RootBytes))
	if err != nil {
		t.Fatal(err)
	}
	s.Audit()
	var out [1]Chunk
	if st := s.Alloc(User, 64<<10, None, out[:], nil); st != OK {
		t.Fatal(st)
	}
	s.freeLocked(int32(out[0]))
	if b := s.Breaches(); len(b) != 1 || b[0].Rule != 28 {
		t.Errorf("%v", b)
	}
}
