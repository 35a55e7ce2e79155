package pmm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

// TestConfigErrors: what cannot be is refused with the thing that is wrong and its bounds.
func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(*pmm.Config){
		"0 roots":                   func(c *pmm.Config) { c.Roots = 0 },
		"524289 roots":              func(c *pmm.Config) { c.Roots = pmm.RootsMax + 1 },
		"batch order 9":             func(c *pmm.Config) { c.BatchOrder = 9 },
		"no chunk is larger":        func(c *pmm.Config) { c.UserSizes = 4 << 20 },
		"7 sizes, at most 6":        func(c *pmm.Config) { c.KernelSizes = 0x3f000 },
		"smallest supported":        func(c *pmm.Config) { c.KernelSizes = 32 },
		"scrub time -1":             func(c *pmm.Config) { c.ScrubNsPerFrame = -1 },
		"cost sync_ns is -3":        func(c *pmm.Config) { c.Costs.SyncNs = pmm.Cost{Value: -3, Uncalibrated: true} },
		"cost map_ns has no source": func(c *pmm.Config) { c.Costs.MapNs = pmm.Cost{Value: 3} },
		"the largest is":            func(c *pmm.Config) { c.Costs.MapNs = pmm.Cost{Value: 1 << 60, Source: "x"} },
	} {
		cfg := pmm.DefaultConfig(8 * pmm.RootBytes)
		change(&cfg)
		if _, err := pmm.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestArchs: Maxwell cannot evict, all others decide alike.
func TestArchs(t *testing.T) {
	for _, a := range pmm.Archs {
		found, err := pmm.ArchByName(strings.ToUpper(a.Name))
		if err != nil || found.Name != a.Name {
			t.Errorf("%s: %v", a.Name, err)
		}
		for _, page := range []uint64{4 << 10, 64 << 10} {
			cfg, err := a.Config(2*pmm.RootBytes, page)
			if err != nil {
				t.Fatal(err)
			}
			cfg.BatchOrder = 0
			m, err := pmm.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if has4K := m.SizesMask(pmm.User)&(4<<10) != 0; has4K != (page == 4<<10) {
				t.Errorf("%s with pages of %d: user sizes 0x%x", a.Name, page, m.SizesMask(pmm.User))
			}
			for b := range 2 {
				if _, s := m.AllocUser(pmm.RootBytes, pmm.Evict, pmm.Block(b)); s != pmm.OK {
					t.Fatal(s)
				}
			}
			want := pmm.OK
			if a.Name == "Maxwell" {
				want = pmm.NoMemory
			}
			if _, s := m.AllocUser(pmm.RootBytes, pmm.Evict, 3); s != want {
				t.Errorf("%s: allocation that needs an eviction: %v, want %v", a.Name, s, want)
			}
			if v := m.Check(); len(v) > 0 {
				t.Error(v[0])
			}
		}
	}
	if _, err := pmm.ArchByName("Kepler"); err == nil || !strings.Contains(err.Error(), "Maxwell, Pascal") {
		t.Errorf("%v", err)
	}
	if _, err := pmm.Archs[0].Config(2<<20, 8<<10); err == nil {
		t.Error("host pages of 8 KiB were accepted")
	}
}

// TestStatusErrors: a Status is an error that errors.Is finds, and OK is none.
func TestStatusErrors(t *testing.T) {
	if pmm.OK.Err() != nil || !errors.Is(pmm.NoMemory.Err(), pmm.NoMemory) || pmm.NoMemory.Error() != "pmm: NV_ERR_NO_MEMORY" {
		t.Error(pmm.NoMemory.Err())
	}
}

// TestWrongFrees: a chunk that was freed, or never was, is refused.
func TestWrongFrees(t *testing.T) {
	m := newModel(t, 4)
	cs := make([]pmm.Chunk, 3)
	if s := m.Alloc(pmm.Kernel, pmm.RootBytes, pmm.None, cs, nil); s != pmm.OK {
		t.Fatal(s)
	}
	if in := m.MemInfo(); in.PinnedBytes != 3*pmm.RootBytes || in.FreeBytes != pmm.RootBytes || in.FreeRoots != 1 {
		t.Errorf("%+v", in)
	}
	if s := m.FreeChunks(cs); s != pmm.OK {
		t.Fatal(s)
	}
	if s := m.FreeChunk(cs[0]); s != pmm.InvalidState {
		t.Errorf("freed twice: %v", s)
	}
	if s := m.FreeChunk(9999); s != pmm.InvalidState {
		t.Errorf("a chunk that never was: %v", s)
	}
	if v := m.CheckEmpty(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestMaxwellFull: with the six kernel sizes of Maxwell a small request on a device full of user memory looks at every
// kernel list and nowhere else.
func TestMaxwellFull(t *testing.T) {
	cfg := pmm.DefaultConfig(2 * pmm.RootBytes)
	cfg.UserSizes, cfg.KernelSizes, cfg.NoEviction = pmm.Archs[0].UserSizes4K, pmm.Archs[0].KernelSizes, true
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for b := range 2 {
		c, s := m.AllocUser(pmm.RootBytes, pmm.None, pmm.Block(b))
		if s != pmm.OK || m.MarkRoot(c, pmm.Unused) != pmm.OK {
			t.Fatal(s)
		}
	}
	for size := m.SizesMask(pmm.Kernel); size != 0; size &= size - 1 {
		if c, s := m.AllocKernel(size & -size); s != pmm.NoMemory || c != pmm.NoChunk {
			t.Errorf("%d bytes of kernel memory: %v at 0x%x", size&-size, s, m.Addr(c))
		}
	}
	if v := m.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}

// TestEvictUnderKernelPressure: PMA refuses the pin of an evicted root twice; the manager gives these roots back and takes
// the third.
func TestEvictUnderKernelPressure(t *testing.T) {
	cfg := pmm.DefaultConfig(4 * pmm.RootBytes)
	cfg.BatchOrder = 0
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for b := range 4 {
		if _, s := m.AllocUser(pmm.RootBytes, pmm.None, pmm.Block(b)); s != pmm.OK {
			t.Fatal(s)
		}
	}
	m.InjectPin(2)
	var out [1]pmm.Chunk
	if s := m.Alloc(pmm.Kernel, pmm.RootBytes, pmm.Evict, out[:], nil); s != pmm.OK || m.Addr(out[0]) != 2*pmm.RootBytes {
		t.Errorf("%v at 0x%x, want root 2", s, m.Addr(out[0]))
	}
	if in := m.MemInfo(); in.FreeRoots != 2 {
		t.Errorf("%d roots free, want the two that were refused", in.FreeRoots)
	}
	if v := m.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}
