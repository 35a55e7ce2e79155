package pmm_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm"
)

// conformanceRoots is the memory of the device in these tests: enough for 8,193 chunks of 256 bytes and the 2 MiB ones.
const conformanceRoots = 64

// conformance are the driver's own tests of its manager (uvm_pmm_test.c unless named) that the model can express.
var conformance = []struct {
	name string
	run  func(t *testing.T, h *harness)
}{
	{"basic, user", func(t *testing.T, h *harness) { basicTest(t, h, pmm.User) }},
	{"basic, kernel", func(t *testing.T, h *harness) { basicTest(t, h, pmm.Kernel) }},
	{"split, normal", func(t *testing.T, h *harness) { splitTest(t, h, splitNormal) }},
	{"split, then merge", func(t *testing.T, h *harness) { splitTest(t, h, splitMerge) }},
	{"split, injected error", func(t *testing.T, h *harness) { splitTest(t, h, splitInject) }},
	{"get_subchunks", subchunksTest},
	{"check_leak", leakTest},
	{"async_alloc", asyncTest},
	{"pmm_query", queryTest},
	{"evict_chunk", evictTest},
	{"pma_alloc_free", rmTest},
	{"alloc_free_root", rootTest},
	{"inject_pma_evict_error", injectPMATest},
	{"release_free_root_chunks", releaseTest},
	{"pma_get_batch_size", batchTest},
	{"query_pma_stats", statsTest},
	{"get_alloc_list", allocListTest},
	{"check_sizes (uvm_page_tree_test.c)", sizesTest},
	{"unpin and owner changes", unpinTest},
}

// notExpressible are the driver's tests that the model cannot express, each with the reason.
var notExpressible = map[string]string{
	"chunk_with_elevated_page":           "NUMA devices only: the model has no struct page and no reference counts; on others the driver answers NOTHING_TO_DO",
	"uvm_pmm_sysmem_test.c, mappings":    "chunks of host memory have DMA mappings on several GPUs; sizes, splits and references are tested in package managed",
	"uvm_mem_test.c, mapping and copies": "no CPU or GPU executes; sizes and page choice of uvm_mem are tested in package managed",
}

// unexercised are the invariants that no single-threaded conformance case can meet.
var unexercised = map[int]string{28: "needs the locked form: TestSharedLockOrder"}

// harness wraps a model whose calls are audited, with a shadow of who owns which bytes.
type harness struct {
	m      *pmm.Model
	owner  []pmm.Chunk // one per 256 bytes
	checks int
}

const grain = 256

func newHarness(t *testing.T) *harness {
	h := &harness{m: newModel(t, conformanceRoots), owner: make([]pmm.Chunk, conformanceRoots*pmm.RootBytes/grain)}
	h.m.Audit()
	return h
}

func (h *harness) check(t *testing.T) {
	t.Helper()
	if v := h.m.Check(); len(v) > 0 {
		t.Fatal(v[0])
	}
}

// fill writes a chunk's own pattern: the test fails if somebody else's is there.
func (h *harness) fill(t *testing.T, c pmm.Chunk) pmm.Info {
	t.Helper()
	in, ok := h.m.Info(c)
	if !ok {
		t.Fatalf("chunk %d is not known", c)
	}
	for i := in.Addr / grain; i < (in.Addr+in.Size)/grain; i++ {
		if h.owner[i] != pmm.NoChunk {
			t.Fatalf("chunk at 0x%x overlaps another at 0x%x", in.Addr, i*grain)
		}
		h.owner[i] = c
	}
	return in
}

// verify reads the pattern of a range back and wipes it.
func (h *harness) verify(t *testing.T, want pmm.Chunk, addr, size uint64) {
	t.Helper()
	for i := addr / grain; i < (addr+size)/grain; i++ {
		if h.owner[i] != want {
			t.Fatalf("0x%x: pattern of chunk %d, want %d", i*grain, h.owner[i], want)
		}
		h.owner[i] = pmm.NoChunk
	}
}

// alloc allocates one chunk and verifies everything that the driver's test does.
func (h *harness) alloc(t *testing.T, typ pmm.Type, size uint64) pmm.Chunk {
	t.Helper()
	var out [1]pmm.Chunk
	var tr pmm.Tracker
	if s := h.m.Alloc(typ, size, pmm.Evict, out[:], &tr); s != pmm.OK {
		t.Fatalf("alloc of %d bytes: %v", size, s)
	}
	in := h.fill(t, out[0])
	want := pmm.TempPinned
	if typ == pmm.Kernel {
		want = pmm.Allocated
	}
	if in.Size != size || in.Type != typ || in.State != want || in.Addr%size != 0 {
		t.Fatalf("alloc of %d bytes gave %+v", size, in)
	}
	if tr[1] != 0 {
		t.Fatalf("the returned tracker has work of another GPU: %v", tr)
	}
	return out[0]
}

func (h *harness) free(t *testing.T, c pmm.Chunk, work pmm.Tracker) {
	t.Helper()
	in, _ := h.m.Info(c)
	h.verify(t, c, in.Addr, in.Size)
	if s := h.m.Free(c, work); s != pmm.OK {
		t.Fatalf("free of 0x%x: %v", in.Addr, s)
	}
	if h.checks++; h.checks%1009 == 0 {
		h.check(t)
	}
}

func sizesOf(m *pmm.Model, typ pmm.Type) []uint64 {
	var sizes []uint64
	for b := uint64(1); b <= pmm.RootBytes; b <<= 1 {
		if m.SizesMask(typ)&b != 0 {
			sizes = append(sizes, b)
		}
	}
	return sizes
}

// basicTest: for each free pattern {at once, in order, in reverse, every third frees the oldest} allocate (a) (2M/size)+1
// chunks of each size ascending, (b) descending, (c) 33 rounds over all sizes ascending, (d) descending.
func basicTest(t *testing.T, h *harness, typ pmm.Type) {
	up := sizesOf(h.m, typ)
	down := make([]uint64, len(up))
	for i, s := range up {
		down[len(up)-1-i] = s
	}
	var plans [][]uint64
	for _, order := range [][]uint64{up, down} {
		var each, rounds []uint64
		for _, s := range order {
			for range pmm.RootBytes/s + 1 {
				each = append(each, s)
			}
		}
		for range 33 {
			rounds = append(rounds, order...)
		}
		plans = append(plans, each, rounds)
	}
	for pattern := range 4 {
		for _, plan := range plans {
			var live []pmm.Chunk
			for i, size := range plan {
				c := h.alloc(t, typ, size)
				if pattern == 0 {
					h.free(t, c, pmm.Tracker{})
					continue
				}
				live = append(live, c)
				if pattern == 3 && i%3 == 2 {
					h.free(t, live[0], pmm.Tracker{})
					live = live[1:]
				}
			}
			h.check(t)
			for len(live) > 0 {
				i := 0
				if pattern == 2 {
					i = len(live) - 1
				}
				h.free(t, live[i], pmm.Tracker{})
				live = append(live[:i], live[i+1:]...)
			}
			h.check(t)
		}
	}
}

const (
	splitNormal = iota
	splitMerge
	splitInject
)

// splitTest: each type, each parent size above the smallest, each smaller child size.
func splitTest(t *testing.T, h *harness, mode int) {
	for typ := pmm.User; typ <= pmm.Kernel; typ++ {
		sizes := sizesOf(h.m, typ)
		for p := 1; p < len(sizes); p++ {
			for _, child := range sizes[:p] {
				splitOne(t, h, mode, typ, sizes[p], child)
				h.check(t)
			}
		}
	}
}

func splitOne(t *testing.T, h *harness, mode int, typ pmm.Type, parent, child uint64) {
	c := h.alloc(t, typ, parent)
	before, _ := h.m.Info(c)
	two := make([]pmm.Chunk, 2)
	if n := h.m.Subchunks(c, 0, two); n != 1 || two[0] != c {
		t.Fatalf("subchunks of an unsplit chunk: %d, %v", n, two)
	}
	kids := make([]pmm.Chunk, parent/child)
	if mode == splitInject {
		h.m.InjectSplit(c)
		if _, s := h.m.Split(c, child, kids); s != pmm.NoMemory {
			t.Fatalf("split with an injected error: %v", s)
		}
		if after, _ := h.m.Info(c); after.State != before.State || after.Size != parent || after.Addr != before.Addr {
			t.Fatalf("after a failed split: %+v, was %+v", after, before)
		}
		h.check(t)
		h.free(t, c, pmm.Tracker{})
		return
	}
	if n, s := h.m.Split(c, child, kids); s != pmm.OK || n != len(kids) {
		t.Fatalf("split of %d into %d: %d, %v", parent, child, n, s)
	}
	h.check(t)
	for i, k := range kids {
		in, _ := h.m.Info(k)
		if in.Addr != before.Addr+uint64(i)*child || in.Size != child || in.Type != typ || in.State != before.State {
			t.Fatalf("child %d of 0x%x: %+v", i, before.Addr, in)
		}
	}
	if mode == splitMerge {
		if s := h.m.Merge(c); s != pmm.OK {
			t.Fatal(s)
		}
		if after, _ := h.m.Info(c); after.State != before.State || after.Size != parent || after.Addr != before.Addr {
			t.Fatalf("after the merge: %+v, was %+v", after, before)
		}
		h.check(t)
		h.free(t, c, pmm.Tracker{})
		return
	}
	for i, k := range kids {
		h.verify(t, c, before.Addr+uint64(i)*child, child)
		if s := h.m.FreeChunk(k); s != pmm.OK {
			t.Fatalf("free of child %d: %v", i, s)
		}
	}
}

func subchunksTest(t *testing.T, h *harness) {
	if n := h.m.Subchunks(pmm.NoChunk, 0, nil); n != 0 {
		t.Fatalf("no subchunks asked of no parent: %d", n)
	}
	c := h.alloc(t, pmm.User, pmm.RootBytes)
	kids := make([]pmm.Chunk, 512)
	if _, s := h.m.Split(c, 4<<10, kids); s != pmm.OK {
		t.Fatal(s)
	}
	for _, w := range []struct{ start, ask, want int }{{0, 512, 512}, {0, 256, 256}, {256, 512, 256}, {512, 8, 0}} {
		out := make([]pmm.Chunk, w.ask)
		if n := h.m.Subchunks(c, w.start, out); n != w.want {
			t.Fatalf("subchunks from %d, %d asked: %d, want %d", w.start, w.ask, n, w.want)
		}
		for i := range w.want {
			if out[i] != kids[w.start+i] {
				t.Fatalf("subchunk %d is %d, want %d", w.start+i, out[i], kids[w.start+i])
			}
		}
	}
	h.check(t)
	if s := h.m.Merge(c); s != pmm.OK {
		t.Fatal(s)
	}
	h.free(t, c, pmm.Tracker{})
}

// leakTest: as many chunks of a size as there are, twice; the counts must agree with the size of memory.
func leakTest(t *testing.T, h *harness) {
	for _, size := range sizesOf(h.m, pmm.User) {
		for range 2 {
			var live []pmm.Chunk
			var out [1]pmm.Chunk
			var s pmm.Status
			for s = pmm.OK; s == pmm.OK; {
				if s = h.m.Alloc(pmm.User, size, pmm.None, out[:], nil); s == pmm.OK {
					live = append(live, out[0])
				}
			}
			if s != pmm.NoMemory || out[0] != pmm.NoChunk {
				t.Fatalf("at the end of memory: %v, chunk %d", s, out[0])
			}
			if want := int(conformanceRoots * pmm.RootBytes / size); len(live) != want {
				t.Fatalf("%d chunks of %d bytes, want %d", len(live), size, want)
			}
			h.check(t)
			if s := h.m.FreeChunks(live); s != pmm.OK {
				t.Fatal(s)
			}
			h.check(t)
		}
	}
	// A batch that cannot be met leaves nothing behind.
	out := make([]pmm.Chunk, conformanceRoots+1)
	if s := h.m.Alloc(pmm.User, pmm.RootBytes, pmm.None, out, nil); s != pmm.NoMemory {
		t.Fatal(s)
	}
	for _, c := range out {
		if c != pmm.NoChunk {
			t.Fatal("a failed allocation returned a chunk")
		}
	}
	h.check(t)
}

// asyncTest: every second of n chunks is freed with work pending and allocated again.
func asyncTest(t *testing.T, h *harness) {
	const n = 200
	var live []pmm.Chunk
	for range n {
		live = append(live, h.alloc(t, pmm.User, 4<<10))
	}
	for i := 0; i < n; i += 2 {
		work := h.m.Issue(0)
		work.Add(h.m.Issue(1))
		h.free(t, live[i], work)
	}
	for i := 0; i < n; i += 2 {
		var out [1]pmm.Chunk
		var tr pmm.Tracker
		if s := h.m.Alloc(pmm.User, 4<<10, pmm.Evict, out[:], &tr); s != pmm.OK {
			t.Fatal(s)
		}
		if tr[1] != 0 || (i == 0 && tr[0] == 0) {
			t.Fatalf("tracker %v: want work of the own GPU only", tr)
		}
		h.fill(t, out[0])
		h.m.Wait(tr)
		if h.m.Pending(tr) != 0 {
			t.Fatal("work is pending after the wait")
		}
		live[i] = out[0]
	}
	h.check(t)
	for _, c := range live {
		h.free(t, c, pmm.Tracker{})
	}
	h.check(t)
}

func queryTest(t *testing.T, h *harness) {
	if got := h.m.SizesMask(pmm.User); got != 0x211000 {
		t.Fatalf("user sizes 0x%x", got)
	}
	var out [1]pmm.Chunk
	if s := h.m.Alloc(pmm.User, 8<<10, pmm.None, out[:], nil); s != pmm.InvalidArgument {
		t.Fatalf("a size that does not exist: %v", s)
	}
	if s := h.m.Alloc(2, 4<<10, pmm.None, out[:], nil); s != pmm.InvalidArgument {
		t.Fatalf("a type that does not exist: %v", s)
	}
	h.check(t)
}

func unpinned(t *testing.T, h *harness, size uint64, b pmm.Block) pmm.Chunk {
	t.Helper()
	c, s := h.m.AllocUser(size, pmm.None, b)
	if s != pmm.OK {
		t.Fatal(s)
	}
	return c
}

func evictTest(t *testing.T, h *harness) {
	if picked, s := h.m.TestEvict(-1); picked != -1 || s != pmm.OK {
		t.Fatalf("nothing to evict: %d, %v", picked, s)
	}
	if _, s := h.m.TestEvict(conformanceRoots); s != pmm.InvalidAddress {
		t.Fatalf("outside the device: %v", s)
	}
	// The batch has left free roots: those go first.
	c := unpinned(t, h, pmm.RootBytes, 3)
	if picked, s := h.m.TestEvict(-1); s != pmm.OK || picked == 0 {
		t.Fatalf("picked root %d, %v; want a free one", picked, s)
	}
	if picked, s := h.m.TestEvict(0); s != pmm.OK || picked != 0 {
		t.Fatalf("by address: %d, %v", picked, s)
	}
	if in, _ := h.m.Info(c); in.State == pmm.Allocated {
		t.Fatal("the chunk is still allocated")
	}
	k, s := h.m.AllocKernel(256)
	if s != pmm.OK {
		t.Fatal(s)
	}
	in, _ := h.m.Info(k)
	if picked, s := h.m.TestEvict(in.Root); picked != -1 || s != pmm.OK {
		t.Fatalf("a kernel root was evicted: %d, %v", picked, s)
	}
	h.check(t)
}

// rmTest: pinned pages of the resource manager, with eviction; the roots are PMA_OWNED before and after.
func rmTest(t *testing.T, h *harness) {
	for i := range conformanceRoots {
		unpinned(t, h, pmm.RootBytes, pmm.Block(i))
	}
	for _, page := range []uint64{64 << 10, 2 << 20} {
		pages, s := h.m.RMAlloc(nil, 5, page, true)
		if s != pmm.OK || len(pages) != 5 {
			t.Fatalf("5 pages of %d: %d, %v", page, len(pages), s)
		}
		for _, a := range pages {
			if in, _ := h.m.Info(h.m.RootChunk(int(a / pmm.RootBytes))); a%page != 0 || in.State != pmm.PMAOwned {
				t.Fatalf("page 0x%x: root is %s", a, in.State)
			}
		}
		h.check(t)
		if s := h.m.RMFree(pages, page); s != pmm.OK {
			t.Fatal(s)
		}
		if s := h.m.RMFree(pages, page); s != pmm.InvalidState {
			t.Fatalf("freed twice: %v", s)
		}
		h.check(t)
	}
	if _, s := h.m.RMAlloc(nil, 1, 4<<10, false); s != pmm.InvalidArgument {
		t.Fatalf("a page size that PMA does not serve: %v", s)
	}
	if s := h.m.EvictRange(10, 12); s != pmm.OK {
		t.Fatal(s)
	}
	if free := h.m.MemInfo().FreeRoots; free < 3 {
		t.Fatalf("%d free roots after evicting three", free)
	}
	h.check(t)
}

func rootTest(t *testing.T, h *harness) {
	var out [1]pmm.Chunk
	if s := h.m.Alloc(pmm.User, pmm.RootBytes, pmm.Evict|pmm.DontBatch, out[:], nil); s != pmm.OK {
		t.Fatal(s)
	}
	if used := h.m.MemInfo().UserBytes; used != pmm.RootBytes {
		t.Fatalf("%d bytes taken, want one root", used)
	}
	h.check(t)
	h.m.FreeChunk(out[0])
	if v := h.m.CheckEmpty(); len(v) > 0 {
		t.Fatal(v[0])
	}
}

func injectPMATest(t *testing.T, h *harness) {
	for i := range conformanceRoots {
		unpinned(t, h, pmm.RootBytes, pmm.Block(i))
	}
	h.m.InjectPMAEvict(2)
	if _, s := h.m.RMAlloc(nil, 3, pmm.RootBytes, true); s != pmm.NoMemory {
		t.Fatalf("the second eviction should have failed: %v", s)
	}
	if free := h.m.MemInfo().FreeRoots; free != 1 {
		t.Fatalf("%d free roots, want the one that was evicted and given back", free)
	}
	// For a range the error comes after the eviction.
	h.m.InjectPMAEvict(1)
	if s := h.m.EvictRange(20, 21); s != pmm.NoMemory {
		t.Fatal(s)
	}
	if free := h.m.MemInfo().FreeRoots; free != 2 {
		t.Fatalf("%d free roots, want root 20 too", free)
	}
	h.check(t)
}

func releaseTest(t *testing.T, h *harness) {
	c := h.alloc(t, pmm.User, pmm.RootBytes)
	if n := h.m.FreeListLen(pmm.User, pmm.RootBytes, true); n != conformanceRoots-1 {
		t.Fatalf("%d roots prefetched, want %d", n, conformanceRoots-1)
	}
	if n := h.m.ReleaseFreeRoots(); n != conformanceRoots-1 {
		t.Fatalf("%d roots released", n)
	}
	for typ := pmm.User; typ <= pmm.Kernel; typ++ {
		for _, zero := range []bool{false, true} {
			if n := h.m.FreeListLen(typ, pmm.RootBytes, zero); n != 0 {
				t.Fatalf("%d free %s roots left", n, typ)
			}
		}
	}
	h.check(t)
	h.free(t, c, pmm.Tracker{})
}

func batchTest(t *testing.T, h *harness) {
	cfg := h.m.Config()
	cfg.BatchOrder = 3
	for _, simulated := range []bool{false, true} {
		cfg.Simulated = simulated
		m, err := pmm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var out [1]pmm.Chunk
		m.Alloc(pmm.User, pmm.RootBytes, pmm.None, out[:], nil)
		want := uint64(pmm.RootBytes << cfg.BatchOrder)
		if simulated {
			want = pmm.RootBytes
		}
		if got := m.MemInfo().UserBytes; got != want {
			t.Fatalf("simulated %v: %d bytes from PMA, want %d", simulated, got, want)
		}
	}
	h.check(t)
}

func statsTest(t *testing.T, h *harness) {
	h.m.RMAlloc(nil, 3, 64<<10, false)
	in := h.m.MemInfo()
	if in.FreeBytes/(64<<10) != conformanceRoots*32-3 || in.FreeRoots != conformanceRoots-1 {
		t.Fatalf("PMA's free pages: %+v", in)
	}
	h.check(t)
}

func allocListTest(t *testing.T, h *harness) {
	c := unpinned(t, h, pmm.RootBytes, 1)
	addr := h.m.Addr(c)
	for _, k := range []pmm.Mark{pmm.Unused, pmm.Discarded, pmm.Used} {
		h.m.MarkRoot(c, k)
		if got, s := h.m.AllocListOf(addr); s != pmm.OK || got != k {
			t.Fatalf("marked %s, found on %s, %v", k, got, s)
		}
		h.check(t)
	}
	h.m.FreeChunk(c)
	if _, s := h.m.AllocListOf(addr); s != pmm.InvalidState {
		t.Fatalf("a free root is on an eviction list: %v", s)
	}
	if _, s := h.m.AllocListOf(1 << 50); s != pmm.InvalidAddress {
		t.Fatal(s)
	}
}

// sizesTest: the masks of every architecture; the kernel mask holds 256 and 4 KiB from Pascal on.
func sizesTest(t *testing.T, h *harness) {
	for _, a := range pmm.Archs {
		cfg, err := a.Config(64<<20, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		m, err := pmm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		wantUser, wantKernel := uint64(0x211000), uint64(0x211100)
		if a.Name == "Maxwell" {
			wantUser, wantKernel = 0x231000, 0x273000
		}
		if m.SizesMask(pmm.User) != wantUser || m.SizesMask(pmm.Kernel) != wantKernel {
			t.Fatalf("%s: user 0x%x kernel 0x%x", a.Name, m.SizesMask(pmm.User), m.SizesMask(pmm.Kernel))
		}
		c, s := m.AllocUser(4<<10, pmm.None, 0)
		if s != pmm.OK {
			t.Fatal(s)
		}
		m.FreeChunk(c)
		if v := m.Check(); len(v) > 0 {
			t.Fatal(v[0])
		}
	}
	h.check(t)
}

// unpinTest: what unpin accepts, an owner's eviction, and a chunk held by HMM.
func unpinTest(t *testing.T, h *harness) {
	c := unpinned(t, h, 64<<10, 5)
	if s := h.m.Unpin(c, 6, 0); s != pmm.InvalidState {
		t.Fatalf("unpinned twice: %v", s)
	}
	k, _ := h.m.AllocKernel(4 << 10)
	if s := h.m.Unpin(k, 6, 0); s != pmm.InvalidState {
		t.Fatalf("unpinned a kernel chunk: %v", s)
	}
	h.m.SetReferenced(c, true)
	if s := h.m.FreeChunk(c); s != pmm.OK {
		t.Fatal(s)
	}
	if in, _ := h.m.Info(c); in.State != pmm.Allocated {
		t.Fatalf("a held chunk was freed: %s", in.State)
	}
	h.check(t)
	if s := h.m.LazyFree(c); s != pmm.OK {
		t.Fatal(s)
	}
	h.check(t)
	if n := h.m.Flush(); n != 1 {
		t.Fatalf("%d chunks flushed", n)
	}
	h.check(t)
}

// TestConformance runs the driver's tests and compares the table of which invariants each one exercises.
func TestConformance(t *testing.T) {
	_ = testflags.GoldenDir
	var table strings.Builder
	met, ran := map[int]bool{}, 0
	for _, c := range conformance {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t)
			c.run(t, h)
			ran++
			rules := h.m.Exercised()
			for _, r := range rules {
				met[r] = true
			}
			fmt.Fprintf(&table, "%-36s %s\n", c.name, strings.Trim(fmt.Sprint(rules), "[]"))
		})
	}
	if ran < len(conformance) {
		return // a -run pattern chose some cases, or one has failed
	}
	for r := 1; r <= pmm.RulesCount; r++ {
		if _, excused := unexercised[r]; !met[r] && !excused {
			t.Errorf("no case exercises invariant %d: %s", r, pmm.InvariantRules[r-1].Text)
		}
	}
	for name, why := range notExpressible {
		if why == "" {
			t.Errorf("%s is left out without a reason", name)
		}
	}
	want, err := os.ReadFile("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	if table.String() != string(want) {
		t.Errorf("testdata/conformance.txt: the table of cases and invariants is now\n%s", table.String())
	}
}
