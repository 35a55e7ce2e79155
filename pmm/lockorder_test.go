package pmm

import "testing"

// TestSharedLockOrder runs every kind of call on the locked form in one goroutine and verifies that each lock is taken
// below all that are held (invariant 28), and that none is held when a block is asked to move out.
func TestSharedLockOrder(t *testing.T) {
	cfg := DefaultConfig(6 * RootBytes)
	cfg.BatchOrder = 1
	s, err := NewShared(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Audit()
	var held []level
	taken := map[level]bool{}
	s.lk.trace = func(at level, taking bool) {
		if !taking {
			for i := len(held) - 1; i >= 0; i-- {
				if held[i] == at {
					held = append(held[:i], held[i+1:]...)
					return
				}
			}
			t.Fatalf("lock %d dropped but not held", at)
		}
		for _, h := range held {
			if h >= at {
				t.Fatalf("lock %d taken while %d is held", at, h)
			}
		}
		taken[at] = true
		held = append(held, at)
	}
	s.SetEvictor(evictorFunc(func(m *Model, b Block, root int) Status {
		if len(held) != 0 {
			t.Errorf("locks %v are held while a block moves out", held)
		}
		if b == 9 {
			return NoMemory
		}
		m.MarkBlockEvicted(b, root)
		return OK
	}))
	exerciseAll(t, s.Model)
	if len(held) != 0 || len(taken) != int(levelList)+1 {
		t.Errorf("held at the end: %v; levels taken: %v", held, taken)
	}
	if v := s.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}

type evictorFunc func(*Model, Block, int) Status

func (f evictorFunc) EvictBlock(m *Model, b Block, root int) Status { return f(m, b, root) }

// exerciseAll calls everything once, with splits, merges, evictions that work and one that fails.
func exerciseAll(t *testing.T, m *Model) {
	for i := range 5 {
		if _, s := m.AllocUser(RootBytes, Evict, Block(i)); s != OK {
			t.Fatal(s)
		}
	}
	var out [2]Chunk
	if s := m.Alloc(User, 4<<10, Evict, out[:], nil); s != OK {
		t.Fatal(s)
	}
	m.Free(out[0], m.Issue(1))
	m.Unpin(out[1], 9, 0)
	if s := m.EvictRange(m.rootIndexOf(int32(out[1])), m.rootIndexOf(int32(out[1]))); s != NoMemory {
		t.Fatalf("block 9 refuses: %v", s)
	}
	m.FreeChunk(out[1])
	if s := m.Alloc(Kernel, 256, Evict, out[:], nil); s != OK {
		t.Fatal(s)
	}
	if pages, s := m.RMAlloc(nil, 33, 64<<10, true); s != OK {
		t.Fatal(s)
	} else {
		m.RMFree(pages, 64<<10)
	}
	m.TestEvict(-1)
	c, s := m.AllocUser(RootBytes, Evict, 1)
	if s != OK {
		t.Fatal(s)
	}
	kids := make([]Chunk, 32)
	m.Split(c, 64<<10, kids)
	m.Merge(c)
	m.MarkRoot(c, Discarded)
	m.LazyFree(c)
	m.Flush()
	m.FreeChunks(out[:])
	m.Sync()
	m.Defrag()
	m.FragStats()
	m.EmergencyDefrag(3)
	var census Census
	m.Census(&census)
	m.PhaseOf(0)
	m.MemInfo()
}
