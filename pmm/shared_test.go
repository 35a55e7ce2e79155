package pmm_test

import (
	"sync"
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

// owner is a VA block for the tests of the locked form: a lock and the chunks it believes it has.
type owner struct {
	mu     sync.Mutex
	chunks []pmm.Chunk
}

// owners are all blocks; as the evictor they drop every chunk that lies below the root.
type owners struct {
	blocks [8]owner
	during func() // runs while the manager's mutex is dropped
}

func (o *owners) EvictBlock(m *pmm.Model, b pmm.Block, root int) pmm.Status {
	if o.during != nil {
		o.during()
	}
	w := &o.blocks[b]
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.chunks[:0]
	for _, c := range w.chunks {
		if in, _ := m.Info(c); in.Root != root {
			kept = append(kept, c)
		} else if s := m.MarkEvicted(c); s != pmm.OK {
			return s
		}
	}
	w.chunks = kept
	return pmm.OK
}

// TestSharedConcurrent runs 8 goroutines over a device that is too small for them, so that evictions are always in flight.
// Run it with -race.
func TestSharedConcurrent(t *testing.T) {
	rounds := 30_000
	if testing.Short() {
		rounds = 3_000
	}
	const roots = 24
	cfg := pmm.DefaultConfig(roots * pmm.RootBytes)
	cfg.BatchOrder = 2
	s, err := pmm.NewShared(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Audit()
	o := &owners{}
	s.SetEvictor(o)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			worker(t, s, o, g, rounds)
		}()
	}
	wg.Wait()
	if v := s.Check(); len(v) > 0 {
		t.Fatal(v[0])
	}
	if s.Stats().Evictions == 0 || s.MutexDrops() == 0 {
		t.Errorf("%d evictions, %d mutex drops: the test is too tame", s.Stats().Evictions, s.MutexDrops())
	}
	for b := range o.blocks {
		for _, c := range o.blocks[b].chunks {
			if st := s.FreeChunk(c); st != pmm.OK {
				t.Fatal(st)
			}
		}
	}
	s.Sync()
	s.ReleaseFreeRoots()
	if v := s.CheckEmpty(); len(v) > 0 {
		t.Fatal(v[0])
	}
	t.Logf("%d evictions, %d mutex drops, %d splits", s.Stats().Evictions, s.MutexDrops(), s.Stats().Splits)
}

// worker is one goroutine with its own block. It keeps the contract of Shared: what is ALLOCATED is touched under the
// block's lock only, and never while asking for an eviction.
func worker(t *testing.T, s *pmm.Shared, o *owners, g, rounds int) {
	rng := uint64(g)*2654435761 + 1
	next := func(n int) int {
		rng ^= rng << 13
		rng ^= rng >> 7
		rng ^= rng << 17
		return int(rng % uint64(n))
	}
	sizes := [...]uint64{4 << 10, 64 << 10, 64 << 10, pmm.RootBytes}
	w := &o.blocks[g]
	var kernel []pmm.Chunk
	for range rounds {
		switch next(8) {
		case 0, 1, 2:
			var out [1]pmm.Chunk
			st := s.Alloc(pmm.User, sizes[next(len(sizes))], pmm.Evict, out[:], nil)
			if st == pmm.OK {
				w.mu.Lock()
				if st := s.Unpin(out[0], pmm.Block(g), 0); st != pmm.OK {
					t.Error(st)
				}
				w.chunks = append(w.chunks, out[0])
				w.mu.Unlock()
			} else if st != pmm.MoreProcessingRequired && st != pmm.NoMemory {
				t.Error(st)
			}
		case 3, 4:
			w.mu.Lock()
			if n := len(w.chunks); n > 0 {
				i := next(n)
				if st := s.Free(w.chunks[i], s.Issue(next(2))); st != pmm.OK {
					t.Error(st)
				}
				w.chunks[i] = w.chunks[n-1]
				w.chunks = w.chunks[:n-1]
			}
			w.mu.Unlock()
		case 5:
			w.mu.Lock()
			if n := len(w.chunks); n > 0 {
				s.MarkRoot(w.chunks[next(n)], pmm.Mark(next(3)))
			}
			w.mu.Unlock()
		case 6:
			splitSome(t, s, w, next)
		case 7:
			if c, st := s.AllocKernel([...]uint64{256, 4 << 10}[next(2)]); st == pmm.OK {
				kernel = append(kernel, c)
			}
			if len(kernel) > 20 || (len(kernel) > 0 && next(3) == 0) {
				s.FreeChunk(kernel[0])
				kernel = kernel[1:]
			}
			if g == 0 && next(40) == 0 {
				if pages, st := s.RMAlloc(nil, 1+next(40), 64<<10, true); st == pmm.OK {
					s.RMFree(pages, 64<<10)
				}
				s.TestEvict(next(25) - 1)
			}
		}
	}
	s.FreeChunks(kernel)
}

// splitSome splits a chunk of the worker's block and keeps the pieces.
func splitSome(t *testing.T, s *pmm.Shared, w *owner, next func(int) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.chunks) == 0 || len(w.chunks) > 2000 {
		return
	}
	i := next(len(w.chunks))
	in, _ := s.Info(w.chunks[i])
	if in.Size == 4<<10 {
		return
	}
	kids := make([]pmm.Chunk, in.Size/(64<<10))
	size := uint64(64 << 10)
	if in.Size == size {
		kids, size = make([]pmm.Chunk, 16), 4<<10
	}
	if _, st := s.Split(w.chunks[i], size, kids); st != pmm.OK {
		t.Error(st)
		return
	}
	w.chunks[i] = kids[0]
	w.chunks = append(w.chunks, kids[1:]...)
}

// TestSharedMutexDropped proves that operations run between the steps of an eviction: while a block moves its pages, another
// goroutine splits, frees with a merge, and returns, which all need the manager's mutex.
func TestSharedMutexDropped(t *testing.T) {
	cfg := pmm.DefaultConfig(4 * pmm.RootBytes)
	cfg.BatchOrder = 0
	s, err := pmm.NewShared(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Audit()
	o := &owners{}
	s.SetEvictor(o)
	for i := range 3 {
		c, st := s.AllocUser(pmm.RootBytes, pmm.None, pmm.Block(i))
		if st != pmm.OK {
			t.Fatal(st)
		}
		o.blocks[i].chunks = []pmm.Chunk{c}
	}
	ran := 0
	o.during = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var out [1]pmm.Chunk
			if st := s.Alloc(pmm.User, 4<<10, pmm.None, out[:], nil); st != pmm.OK {
				t.Error(st)
			}
			if v := s.CheckInFlight(); len(v) > 0 {
				t.Error(v[0])
			}
			if st := s.FreeChunk(out[0]); st != pmm.OK {
				t.Error(st)
			}
		}()
		<-done
		ran++
	}
	before := s.Stats()
	picked, st := s.TestEvict(1)
	after := s.Stats()
	if st != pmm.OK || picked != 1 || ran != 1 {
		t.Fatalf("picked %d, %v; %d operations ran meanwhile", picked, st, ran)
	}
	if after.Splits-before.Splits != 2 || after.Merges-before.Merges != 2 {
		t.Errorf("%d splits and %d merges ran inside the eviction, want 2 and 2", after.Splits-before.Splits, after.Merges-before.Merges)
	}
	if v := s.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}
