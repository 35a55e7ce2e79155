package host

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

const mib = 1 << 20

func open(t testing.TB, cfg Config) *Device {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func want(t testing.TB, what string, got, want trace.CallStatus) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: status %d, want %d", what, got, want)
	}
}

func TestMallocHoldsContents(t *testing.T) {
	d := open(t, Config{TotalBytes: 8 * mib})
	var addrs [4]uint64
	for i := range addrs {
		addr, st := d.Malloc(2*mib - 100)
		want(t, "malloc", st, trace.CallOK)
		if addr%d.Info().PageBytes != 0 {
			t.Fatalf("address %#x is not on a page", addr)
		}
		if err := d.Fill(addr, 2*mib-100, uint64(i)); err != nil {
			t.Fatal(err)
		}
		addrs[i] = addr
	}
	if free, total := d.MemInfo(); free != 0 || total != 8*mib {
		t.Fatalf("%d of %d bytes free, want 0 of 8 MiB", free, total)
	}
	_, st := d.Malloc(1)
	want(t, "a byte too many", st, trace.CallOutOfMemory)
	for i, addr := range addrs {
		if bad, ok, err := d.Check(addr, 2*mib-100, uint64(i)); err != nil || !ok {
			t.Fatalf("block %d: byte %d changed (%v)", i, bad, err)
		}
	}
	if err := d.Fill(addrs[1]+1000, 1, 77); err != nil {
		t.Fatal(err)
	}
	if bad, ok, _ := d.Check(addrs[1], 2*mib-100, 1); ok || bad != 1000 {
		t.Fatalf("the changed byte 1000 was not seen: %d, %v", bad, ok)
	}
	want(t, "free", d.Free(addrs[2]), trace.CallOK)
	want(t, "second free", d.Free(addrs[2]), trace.CallInvalidValue)
	want(t, "free inside", d.Free(addrs[1]+4096), trace.CallInvalidValue)
	if err := d.Fill(addrs[2], 1, 0); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("writing to freed memory: %v", err)
	}
	_, st = d.Malloc(0)
	want(t, "malloc of nothing", st, trace.CallInvalidValue)
	_, st = d.Malloc(math.MaxUint64)
	want(t, "malloc of everything", st, trace.CallOutOfMemory)
}

func TestVirtualMemory(t *testing.T) {
	d := open(t, Config{TotalBytes: 8 * mib})
	base, st := d.Reserve(64 * mib)
	want(t, "reserve", st, trace.CallOK)
	a, st := d.Create(4 * mib)
	want(t, "create", st, trace.CallOK)
	b, st := d.Create(2 * mib)
	want(t, "create", st, trace.CallOK)
	_, st = d.Create(4 * mib)
	want(t, "create beyond the size", st, trace.CallOutOfMemory)
	want(t, "map", d.Map(base, 4*mib, a), trace.CallOK)
	want(t, "map over a mapping", d.Map(base+2*mib, 2*mib, b), trace.CallInvalidValue)
	want(t, "map outside", d.Map(base+63*mib, 2*mib, b), trace.CallInvalidValue)
	want(t, "map part", d.Map(base+8*mib, 1*mib, b), trace.CallInvalidValue)
	want(t, "map", d.Map(base+4*mib, 2*mib, b), trace.CallOK)
	if err := d.Fill(base, 6*mib, 1); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("before access: %v", err)
	}
	want(t, "access", d.SetAccess(base, 6*mib), trace.CallOK)
	if err := d.Fill(base, 6*mib, 1); err != nil {
		t.Fatal(err)
	}
	// The same physical memory at a second address shows the same bytes.
	want(t, "map again", d.Map(base+32*mib, 4*mib, a), trace.CallOK)
	want(t, "access", d.SetAccess(base+32*mib, 4*mib), trace.CallOK)
	if bad, ok, err := d.Check(base+32*mib, 4*mib, 1); err != nil || !ok {
		t.Fatalf("second view: byte %d differs (%v)", bad, err)
	}
	want(t, "release while mapped", d.Release(a), trace.CallOK)
	want(t, "release again", d.Release(a), trace.CallInvalidValue)
	want(t, "unmap a half", d.Unmap(base, 2*mib), trace.CallInvalidValue)
	want(t, "unreserve while mapped", d.Unreserve(base, 64*mib), trace.CallInvalidValue)
	want(t, "unmap both", d.Unmap(base, 6*mib), trace.CallOK)
	if free, _ := d.MemInfo(); free != 2*mib {
		t.Fatalf("%d bytes free, want 2 MiB: one memory is still mapped, one not released", free)
	}
	want(t, "unmap the second view", d.Unmap(base+32*mib, 4*mib), trace.CallOK)
	want(t, "release", d.Release(b), trace.CallOK)
	if free, _ := d.MemInfo(); free != 8*mib {
		t.Fatalf("%d bytes free, want all", free)
	}
	want(t, "unreserve", d.Unreserve(base, 64*mib), trace.CallOK)
	// Fresh physical memory is zero although the file offset was used before.
	c, st := d.Create(4 * mib)
	want(t, "create", st, trace.CallOK)
	base, _ = d.Reserve(4 * mib)
	want(t, "map", d.Map(base, 4*mib, c), trace.CallOK)
	want(t, "access", d.SetAccess(base, 4*mib), trace.CallOK)
	bytes, err := d.bytes(base, 4*mib)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range bytes {
		if x != 0 {
			t.Fatalf("byte %d of fresh memory is %d", i, x)
		}
	}
}

func TestResetGivesEverythingBack(t *testing.T) {
	d := open(t, Config{TotalBytes: 8 * mib})
	addr, _ := d.Malloc(mib)
	base, _ := d.Reserve(4 * mib)
	id, _ := d.Create(2 * mib)
	d.Map(base, 2*mib, id)
	d.Reset()
	if free, total := d.MemInfo(); free != total {
		t.Fatalf("%d of %d bytes free after reset", free, total)
	}
	want(t, "free after reset", d.Free(addr), trace.CallInvalidValue)
	want(t, "unmap after reset", d.Unmap(base, 2*mib), trace.CallInvalidValue)
	want(t, "release after reset", d.Release(id), trace.CallInvalidValue)
}

func TestTooLarge(t *testing.T) {
	if _, err := New(Config{TotalBytes: 1 << 60}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("err = %v", err)
	}
}

func TestAvailable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := write("meminfo", "MemTotal:  100 kB\nMemAvailable:   64 kB\n")
	if n, err := memAvailable(info); err != nil || n != 64<<10 {
		t.Errorf("MemAvailable: %d, %v", n, err)
	}
	if _, err := memAvailable(write("empty", "MemTotal: 1 kB\n")); err == nil {
		t.Error("a file without MemAvailable was accepted")
	}
	// The inner group has no limit of its own; the outer one leaves 1000 - 400.
	self := write("self", "0::/outer/inner\n")
	write("root/outer/memory.max", "1000\n")
	write("root/outer/memory.current", "400\n")
	write("root/outer/inner/memory.max", "max\n")
	write("root/outer/inner/memory.current", "300\n")
	if n := cgroupLeft(filepath.Join(dir, "root"), self); n != 600 {
		t.Errorf("the groups leave %d bytes, want 600", n)
	}
	if n := cgroupLeft(filepath.Join(dir, "root"), filepath.Join(dir, "none")); n != math.MaxUint64 {
		t.Errorf("without groups %d bytes are left", n)
	}
}

func BenchmarkMallocFree(b *testing.B) {
	for _, cfg := range []struct {
		name string
		size uint64
		lazy bool
	}{{"2MiB", 2 * mib, false}, {"20MiB", 20 * mib, false}, {"20MiB-lazy", 20 * mib, true}} {
		b.Run(cfg.name, func(b *testing.B) {
			d := open(b, Config{TotalBytes: 64 * mib, Lazy: cfg.lazy})
			b.ReportAllocs()
			for b.Loop() {
				addr, _ := d.Malloc(cfg.size)
				d.Free(addr)
			}
		})
	}
}

var _ backends.Device = (*Device)(nil)
