package managed_test

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/managed"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

func space(t *testing.T, roots int, o managed.Options) *managed.Space {
	t.Helper()
	cfg := pmm.DefaultConfig(uint64(roots) * pmm.RootBytes)
	cfg.Costs = pmm.DefaultCosts()
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Audit()
	s, err := managed.New(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func alloc(t *testing.T, s *managed.Space, bytes uint64) *managed.Range {
	t.Helper()
	r, err := s.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func touch(t *testing.T, r *managed.Range, offset, length uint64, by managed.Processor) {
	t.Helper()
	if err := r.Touch(offset, length, by); err != nil {
		t.Fatal(err)
	}
}

func healthy(t *testing.T, s *managed.Space) {
	t.Helper()
	if v := s.Model().Check(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestFaultsAndBatches: without the prefetcher 600 pages are 600 faults in batches of 256, 256 and 88; the second touch
// hits. The host wrote the first 100 pages, so those are copied and the rest of the chunks is zero already.
func TestFaultsAndBatches(t *testing.T) {
	o := managed.DefaultOptions()
	o.Prefetch.Enable = false
	s := space(t, 8, o)
	r := alloc(t, s, 4*mib)
	touch(t, r, 0, 100*4*kib, managed.Host)
	if s.Stats().HostFaults != 0 {
		t.Error("a first touch by the host is no fault of ours")
	}
	touch(t, r, 0, 600*4*kib, managed.Device)
	st := s.Stats()
	if st.Faults != 600 || st.Batches != 3 || st.ToDeviceBytes != 100*4*kib || st.ZeroedBytes != 0 {
		t.Errorf("%+v", st)
	}
	t0 := s.Model().NowNs()
	touch(t, r, 0, 600*4*kib, managed.Device)
	if got := s.Stats(); got.Faults != 600 || s.Model().NowNs() != t0 {
		t.Errorf("a hit costs %d ns and makes %d faults", s.Model().NowNs()-t0, got.Faults-600)
	}
	if r.ResidentBytes() != 600*4*kib {
		t.Errorf("%d bytes resident", r.ResidentBytes())
	}
	healthy(t, s)
}

// TestPrefetchTree works the tree through by hand. A fault on page 0 grows to its big page, 16 pages: 64 KiB. 16 of the 32
// pages of the next subtree are 50 %, not more than 51, so it stops there. A fault in the second big page makes 32 of 32,
// but 32 of 64 is again 50 %. A fault in the third: 48 of 64 are 75 %, so the subtree of 64 pages comes, and 64 of 128 stop
// it.
func TestPrefetchTree(t *testing.T) {
	s := space(t, 8, managed.DefaultOptions())
	r := alloc(t, s, 2*mib)
	for i, want := range []uint64{16, 32, 64} {
		touch(t, r, uint64(i)*64*kib, 1, managed.Device)
		if got := r.ResidentBytes() / (4 * kib); got != want {
			t.Errorf("after fault %d: %d pages, want %d", i+1, got, want)
		}
	}
	if st := s.Stats(); st.PrefetchedBytes != (64-3)*4*kib || st.Faults != 3 {
		t.Errorf("%+v", st)
	}
	// One page of every second big page of the rest makes half the block, and no subtree is over the threshold. Then one
	// fault tips them all: 32 of 32 pages, 48 of 64, 96 of 128, 192 of 256, 384 of 512.
	for p := uint64(128); p < 512; p += 32 {
		touch(t, r, p*4*kib, 1, managed.Device)
	}
	if got := r.ResidentBytes(); got != mib {
		t.Errorf("%d bytes resident, want half the block", got)
	}
	touch(t, r, 144*4*kib, 1, managed.Device)
	if got := r.ResidentBytes(); got != 2*mib {
		t.Errorf("%d bytes resident, want the whole block", got)
	}
	healthy(t, s)
}

// TestThrashing moves one page to and fro. The detector counts moves within 500 us: the third event makes the page thrash,
// ten naps follow, then it is pinned on the host for 150 ms, where the device reaches it without faults.
func TestThrashing(t *testing.T) {
	o := managed.DefaultOptions()
	o.Prefetch.Enable = false
	s := space(t, 8, o)
	r := alloc(t, s, 2*mib)
	touch(t, r, 0, 1, managed.Host)
	moves := 0
	for s.Stats().Pins == 0 && moves < 100 {
		touch(t, r, 0, 1, managed.Device)
		if s.Stats().Pins == 0 {
			touch(t, r, 0, 1, managed.Host)
		}
		moves++
	}
	st := s.Stats()
	if st.Throttles != 10 || st.Pins != 1 {
		t.Fatalf("after %d rounds: %d naps and %d pins, want 10 and 1", moves, st.Throttles, st.Pins)
	}
	// Moves 1 to 3 are the first and events 1 and 2; the third event and all that follow nap: 3 + 10 moves, the 14th pins.
	if want := 7; moves != want {
		t.Errorf("pinned in round %d, want %d", moves, want)
	}
	touch(t, r, 0, 1, managed.Device)
	touch(t, r, 0, 1, managed.Host)
	if got := s.Stats(); got.Faults != st.Faults || got.HostFaults != st.HostFaults || got.RemoteAccesses <= st.RemoteAccesses {
		t.Errorf("the pinned page still moves: %+v", got)
	}
	s.Model().AdvanceNs(300 * 500_000)
	touch(t, r, 0, 1, managed.Device)
	if got := s.Stats(); got.Faults != st.Faults+1 || r.ResidentBytes() != 4*kib {
		t.Errorf("after the pin ran out: %+v", got)
	}
	healthy(t, s)
}

// TestTail: a range of 2 MiB + 64 KiB + 12 KiB is a whole block and one of a 64 KiB chunk and three of 4 KiB.
func TestTail(t *testing.T) {
	s := space(t, 8, managed.DefaultOptions())
	r := alloc(t, s, 2*mib+64*kib+10*kib)
	if r.Bytes() != 2*mib+76*kib {
		t.Fatalf("%d bytes", r.Bytes())
	}
	touch(t, r, 0, r.Bytes(), managed.Device)
	st := s.Model().FragStats()
	if st.Sizes[pmm.User][0].Allocated != 3 || st.Sizes[pmm.User][1].Allocated != 1 || st.Sizes[pmm.User][2].Allocated != 1 {
		t.Errorf("%+v", st.Sizes[pmm.User])
	}
	if err := r.Free(); err != nil {
		t.Fatal(err)
	}
	if err := r.Free(); !errors.Is(err, managed.ErrRange) {
		t.Errorf("freed twice: %v", err)
	}
	s.Model().ReleaseFreeRoots()
	if v := s.Model().CheckEmpty(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestEvictionKeepsData: with twice as much as fits, what was evicted comes back by copy, never as new zeroes, and every
// page is in exactly one place.
func TestEvictionKeepsData(t *testing.T) {
	for _, pol := range managed.Policies()[:4] {
		o := managed.DefaultOptions()
		o.Policy = pol
		s := space(t, 4, o)
		r := alloc(t, s, 16*mib+100*kib)
		for range 3 {
			touch(t, r, 0, r.Bytes(), managed.Device)
			healthy(t, s)
		}
		st := s.Stats()
		if st.Evictions == 0 || st.EvictedBytes != st.ToHostBytes {
			t.Errorf("%s: %+v", pol, st)
		}
		if back := st.ToDeviceBytes; back != st.EvictedBytes-(r.Bytes()-r.ResidentBytes()) {
			t.Errorf("%s: %d bytes came back of %d evicted, %d are still out", pol, back, st.EvictedBytes, r.Bytes()-r.ResidentBytes())
		}
	}
}

// TestPrefetchAndDiscard: explicit moves make no faults; a block without resident pages goes first when room is needed, a
// discarded one is not copied.
func TestPrefetchAndDiscard(t *testing.T) {
	s := space(t, 2, managed.DefaultOptions())
	a, b, c := alloc(t, s, 2*mib), alloc(t, s, 2*mib), alloc(t, s, 2*mib)
	for _, r := range []*managed.Range{a, b} {
		if err := r.Prefetch(0, 2*mib, managed.Device); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Discard(0, 2*mib); err != nil {
		t.Fatal(err)
	}
	touch(t, c, 0, 2*mib, managed.Device)
	st := s.Stats()
	if a.ResidentBytes() != 2*mib || st.ToHostBytes != 0 || st.Evictions != 1 {
		t.Errorf("the older but used block went, or the discarded one was copied: %+v", st)
	}
	if err := a.Prefetch(0, 2*mib, managed.Host); err != nil {
		t.Fatal(err)
	}
	if a.ResidentBytes() != 0 || s.Stats().ToHostBytes != 2*mib {
		t.Error("prefetch to the host moved nothing")
	}
	touch(t, b, 0, 1, managed.Device)
	if c.ResidentBytes() != 2*mib {
		t.Error("a used block was evicted before an unused one")
	}
	healthy(t, s)
}

// TestErrors: what does not fit is refused, and when everything is pinned a touch says so.
func TestErrors(t *testing.T) {
	s := space(t, 2, managed.DefaultOptions())
	r := alloc(t, s, 2*mib)
	for _, err := range []error{r.Touch(2*mib, 1, managed.Device), r.Touch(0, 0, managed.Host), r.Prefetch(1, 2*mib, managed.Device), r.Discard(0, 3*mib)} {
		if !errors.Is(err, managed.ErrRange) {
			t.Errorf("%v", err)
		}
	}
	if _, err := s.Alloc(0); !errors.Is(err, managed.ErrSize) {
		t.Errorf("%v", err)
	}
	o := managed.DefaultOptions()
	o.Prefetch.ThresholdPercent = 0
	if _, err := managed.New(s.Model(), o); !errors.Is(err, managed.ErrOptions) {
		t.Errorf("%v", err)
	}
	if _, st := s.Model().RMAlloc(nil, 2, 2*mib, false); st != pmm.OK {
		t.Fatal(st)
	}
	if err := r.Touch(0, 1, managed.Device); !errors.Is(err, pmm.NoMemory) {
		t.Errorf("with all memory pinned: %v", err)
	}
	healthy(t, s)
}

// TestMem: the page sizes and counts of the driver's own allocations (uvm_mem_test.c).
func TestMem(t *testing.T) {
	s := space(t, 64, managed.DefaultOptions())
	h := managed.NewHostMemory(64 * mib)
	for _, w := range []struct {
		p    managed.MemParams
		n    int
		page uint64
	}{
		{managed.MemParams{Bytes: 1}, 1, 4 * kib},
		{managed.MemParams{Bytes: 4*kib - 1, Zero: true}, 1, 4 * kib},
		{managed.MemParams{Bytes: 4 * kib}, 1, 4 * kib},
		{managed.MemParams{Bytes: 7 * 4 * kib}, 7, 4 * kib},
		{managed.MemParams{Bytes: 4*mib + 1, PageBytes: 2 * mib}, 3, 2 * mib},
		{managed.MemParams{Bytes: 60 * kib, OnDevice: true}, 15, 4 * kib},
		{managed.MemParams{Bytes: 64 * kib, OnDevice: true}, 1, 64 * kib},
		{managed.MemParams{Bytes: 100 * kib, OnDevice: true}, 2, 64 * kib},
		{managed.MemParams{Bytes: 2 * mib, OnDevice: true}, 1, 2 * mib},
		{managed.MemParams{Bytes: 5 * mib, OnDevice: true}, 3, 2 * mib},
		{managed.MemParams{Bytes: 100 * mib, OnDevice: true, PageBytes: 2 * mib}, 50, 2 * mib},
	} {
		mem, err := managed.AllocMem(s.Model(), h, w.p)
		if err != nil {
			t.Fatalf("%+v: %v", w.p, err)
		}
		if n, page := mem.Chunks(); n != w.n || page != w.page || mem.Bytes() != uint64(w.n)*w.page {
			t.Errorf("%+v: %d chunks of %d, want %d of %d", w.p, n, page, w.n, w.page)
		}
		healthy(t, s)
		mem.Free()
		mem.Free()
	}
	for err, p := range map[error]managed.MemParams{
		managed.ErrZeroOnDevice: {Bytes: 1, OnDevice: true, Zero: true},
		managed.ErrSize:         {},
		managed.ErrPageSize:     {Bytes: 1, OnDevice: true, PageBytes: 8 * kib},
		managed.ErrHostMemory:   {Bytes: 65 * mib},
		pmm.NoMemory:            {Bytes: 1 << 40, OnDevice: true},
	} {
		if _, got := managed.AllocMem(s.Model(), h, p); !errors.Is(got, err) {
			t.Errorf("%+v: %v, want %v", p, got, err)
		}
	}
	if h.UsedBytes() != 0 {
		t.Errorf("%d bytes of host memory left behind", h.UsedBytes())
	}
}

// TestHostChunks: recursive split and merge, and children freed in any order (uvm_pmm_sysmem_test.c without mappings).
func TestHostChunks(t *testing.T) {
	h := managed.NewHostMemory(4 * mib)
	c, err := h.Alloc(2 * mib)
	if err != nil {
		t.Fatal(err)
	}
	kids, err := c.Split()
	if err != nil || len(kids) != 32 || kids[5].Offset() != 5*64*kib {
		t.Fatalf("%d children, %v", len(kids), err)
	}
	pages, err := kids[3].Split()
	if err != nil || len(pages) != 16 || pages[1].Offset() != 3*64*kib+4*kib {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if _, err := pages[0].Split(); !errors.Is(err, managed.ErrHostChunk) {
		t.Errorf("split of a page: %v", err)
	}
	if _, err := managed.MergeHost(pages[1:]); !errors.Is(err, managed.ErrHostChunk) {
		t.Errorf("merge of a part: %v", err)
	}
	if back, err := managed.MergeHost(pages); err != nil || back != kids[3] {
		t.Fatalf("%v", err)
	}
	if back, err := managed.MergeHost(kids); err != nil || back != c {
		t.Fatalf("%v", err)
	}
	kids, _ = c.Split()
	for i := range kids {
		if h.UsedBytes() != 2*mib {
			t.Fatalf("%d bytes after %d frees", h.UsedBytes(), i)
		}
		kids[(i*7)%32].Free()
	}
	if h.UsedBytes() != 0 {
		t.Errorf("%d bytes left after the last child", h.UsedBytes())
	}
}

// TestAccessedBy: an evicted block with the advice is reached on the host without faults; explicit prefetch brings it back,
// and without the advice it faults.
func TestAccessedBy(t *testing.T) {
	s := space(t, 1, managed.DefaultOptions())
	a, b := alloc(t, s, 2*mib), alloc(t, s, 2*mib)
	touch(t, a, 0, 2*mib, managed.Device)
	if err := a.AdviseAccessedBy(true); err != nil {
		t.Fatal(err)
	}
	touch(t, b, 0, 2*mib, managed.Device)
	st := s.Stats()
	touch(t, a, 0, 2*mib, managed.Device)
	if got := s.Stats(); got.Faults != st.Faults || got.RemoteAccesses != st.RemoteAccesses+512 || b.ResidentBytes() != 2*mib {
		t.Errorf("%+v", got)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if err := a.AdviseAccessedBy(false); err != nil {
		t.Fatal(err)
	}
	touch(t, a, 0, 1, managed.Device)
	if got := s.Stats(); got.Faults != st.Faults+1 || a.ResidentBytes() == 0 {
		t.Errorf("%+v", got)
	}
	healthy(t, s)
}
