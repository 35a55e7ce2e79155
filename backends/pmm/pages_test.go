package pmm

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/backends"
	model "github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/managed"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

const frameBytes = 64 << 10

// open returns a device of so many roots that charges nothing and zeroes at once.
func open(t *testing.T, roots uint64, kind RMPages) *Device {
	t.Helper()
	d, err := New(Config{TotalBytes: roots * pageBytes, Costs: &model.Costs{}, Pages: kind})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func malloc(t *testing.T, d *Device, size uint64) uint64 {
	t.Helper()
	addr, st := d.Malloc(size)
	if st != trace.CallOK {
		t.Fatalf("malloc of %d bytes: %v", size, st)
	}
	return addr
}

// TestPhysicalFragmentation fills four roots with pages of 64 KiB and frees every second one: 4 MiB are free, no page of
// 2 MiB is. With pages of 64 KiB only the same bytes serve; when one root has become whole, so do those of 2 MiB.
func TestPhysicalFragmentation(t *testing.T) {
	fill := func(d *Device) (addrs []uint64) {
		for range 4 * 32 {
			addrs = append(addrs, malloc(t, d, frameBytes))
		}
		for i := 0; i < len(addrs); i += 2 {
			d.Free(addrs[i])
		}
		if free, _ := d.MemInfo(); free != 2*pageBytes {
			t.Fatalf("%d bytes free, want half the device", free)
		}
		return addrs
	}

	d := open(t, 4, PagesMixed)
	addrs := fill(d)
	if _, st := d.Malloc(pageBytes); st != trace.CallOutOfMemory {
		t.Fatalf("a request of 2 MiB over holes of 64 KiB: %v", st)
	}
	if _, st := d.Malloc(pageBytes + frameBytes); st != trace.CallOutOfMemory {
		t.Fatalf("a request of 2 MiB and 64 KiB over holes of 64 KiB: %v", st)
	}
	if _, st := d.Create(pageBytes); st != trace.CallOutOfMemory {
		t.Fatalf("physical memory of 2 MiB over holes of 64 KiB: %v", st)
	}
	if free, _ := d.MemInfo(); free != 2*pageBytes {
		t.Fatalf("failed calls left %d bytes free, want %d", free, 2*pageBytes)
	}
	d.Free(malloc(t, d, 31*frameBytes)) // that is less than 2 MiB and made of small pages
	for i := 1; i < 32; i += 2 {
		d.Free(addrs[i])
	}
	malloc(t, d, pageBytes)

	d = open(t, 4, Pages64KiB)
	fill(d)
	malloc(t, d, 2*pageBytes)
	if free, _ := d.MemInfo(); free != 0 {
		t.Errorf("%d bytes free on a full device", free)
	}

	d = open(t, 4, Pages2MiB) // small requests take pages of 2 MiB
	for range 4 {
		malloc(t, d, frameBytes)
	}
	if _, st := d.Malloc(1); st != trace.CallOutOfMemory {
		t.Errorf("a fifth request on four pages: %v", st)
	}
}

// TestPagesAddUp makes random calls on devices of each kind: what is used is the sum of what was asked for, in the device's
// grain; an answer of out of memory has a reason; and everything comes back.
func TestPagesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]RMPages{Pages2MiB, PagesMixed, Pages64KiB}).Draw(t, "pages")
		roots := rapid.Uint64Range(1, 20).Draw(t, "roots")
		d, err := New(Config{TotalBytes: roots * pageBytes, ScrubNsPerFrame: rapid.SampledFrom([]int64{0, 500}).Draw(t, "scrub"), Pages: kind})
		if err != nil {
			t.Fatal(err)
		}
		grain := d.Info().PageBytes
		sizes := map[uint64]uint64{}
		var addrs []uint64
		used := uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			if len(addrs) > 0 && rapid.Bool().Draw(t, "free") {
				k := rapid.IntRange(0, len(addrs)-1).Draw(t, "which")
				if st := d.Free(addrs[k]); st != trace.CallOK {
					t.Fatal(st)
				}
				used -= sizes[addrs[k]]
				addrs[k] = addrs[len(addrs)-1]
				addrs = addrs[:len(addrs)-1]
			} else {
				size := rapid.OneOf(rapid.Uint64Range(1, 4*frameBytes), rapid.Uint64Range(1, 3*pageBytes)).Draw(t, "size")
				charge := (size + grain - 1) / grain * grain
				addr, st := d.Malloc(size)
				whole := uint64(d.Model().MemInfo().FreeRoots)
				enough := used+charge <= roots*pageBytes
				if kind == PagesMixed {
					enough = enough && size/pageBytes <= whole
				}
				switch {
				case st == trace.CallOK && used+charge > roots*pageBytes:
					t.Fatalf("%s: %d bytes granted with %d used of %d", kind, size, used, roots*pageBytes)
				case st != trace.CallOK && enough:
					t.Fatalf("%s: %d bytes refused with %d used of %d: %v", kind, size, used, roots*pageBytes, st)
				case st == trace.CallOK:
					sizes[addr] = charge
					addrs = append(addrs, addr)
					used += charge
				}
			}
			if free, total := d.MemInfo(); total-free != used {
				t.Fatalf("%s: %d bytes used, want %d", kind, total-free, used)
			}
			if v := d.Model().Check(); len(v) > 0 {
				t.Fatal(v[0])
			}
		}
		for _, a := range addrs {
			d.Free(a)
		}
		if free, total := d.MemInfo(); free != total {
			t.Fatalf("%d of %d bytes came back", free, total)
		}
	})
}

// TestManagedMemoryMakesRoom: managed memory of 6 MiB lies on a device of four roots, in user chunks. A Malloc of all four
// has it evicted, its pages are on the host; when the Malloc is freed they come back by faults.
func TestManagedMemoryMakesRoom(t *testing.T) {
	d := open(t, 4, Pages2MiB)
	s, err := d.Managed(managed.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Alloc(3 * pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Touch(0, 3*pageBytes, managed.Device); err != nil {
		t.Fatal(err)
	}
	if in := d.Model().MemInfo(); r.ResidentBytes() != 3*pageBytes || in.UserBytes != 4*pageBytes {
		t.Fatalf("%d bytes resident, %d lent to the manager; want 3 roots, and 4 with the batch", r.ResidentBytes(), in.UserBytes)
	}
	addr := malloc(t, d, 4*pageBytes)
	if in := d.Model().MemInfo(); r.ResidentBytes() != 0 || s.Stats().EvictedBytes != 3*pageBytes || in.PinnedBytes != 4*pageBytes {
		t.Fatalf("%d bytes resident, %d evicted, %d pinned", r.ResidentBytes(), s.Stats().EvictedBytes, in.PinnedBytes)
	}
	if err := r.Touch(0, pageBytes, managed.Device); !errors.Is(err, model.NoMemory) {
		t.Fatalf("managed memory on a device full of pinned pages: %v", err)
	}
	d.Free(addr)
	if err := r.Touch(0, 3*pageBytes, managed.Device); err != nil || r.ResidentBytes() != 3*pageBytes {
		t.Fatalf("%d bytes resident again: %v", r.ResidentBytes(), err)
	}
	if v := d.Model().Check(); len(v) > 0 {
		t.Fatal(v[0])
	}
}

// TestCallPrices: a call costs what was published for the whole of it, or what its parts cost if that is more; a call that
// fails costs neither, and waiting for the scrubber comes on top.
func TestCallPrices(t *testing.T) {
	price := func(ns int64) model.Cost { return model.Cost{Value: ns, Source: "made up"} }
	d, err := New(Config{TotalBytes: 8 * pageBytes, ScrubNsPerFrame: 1000, Costs: &model.Costs{
		MallocNs: price(100), MallocFreeNs: price(200), ReserveNs: price(1), CreateNs: price(20), MapNs: price(30), SetAccessNs: price(40),
		UnmapNs: price(50), ReleaseNs: price(60), AddressFreeNs: price(2), MapPageNs: price(17), TLBInvalidateNs: price(45),
	}})
	if err != nil {
		t.Fatal(err)
	}
	clock := uint64(0)
	expect := func(what string, st trace.CallStatus, ns uint64) {
		t.Helper()
		if st != trace.CallOK {
			t.Fatalf("%s: %v", what, st)
		}
		if got := d.NowNs() - clock; got != ns {
			t.Errorf("%s took %d ns, want %d", what, got, ns)
		}
		clock = d.NowNs()
	}
	a, st := d.Malloc(2 * pageBytes)
	expect("malloc of 2 pages, 34 ns of entries", st, 100)
	expect("free, 45 ns of it the invalidate", d.Free(a), 200)
	a, st = d.Malloc(8 * pageBytes) // 64 frames of 1 us were being zeroed from 100 on, 200 ns have passed
	expect("malloc of 8 pages, 136 ns of entries, after the scrubber", st, 64_000-200+136)
	expect("free", d.Free(a), 200)
	d.AdvanceNs(1e9)
	clock = d.NowNs()
	v, st := d.Reserve(4 * pageBytes)
	expect("reserve", st, 1)
	id, st := d.Create(4 * pageBytes)
	expect("create", st, 20)
	expect("map of 4 pages, 68 ns of entries", d.Map(v, 4*pageBytes, id), 68)
	expect("set access", d.SetAccess(v, 4*pageBytes), 40)
	expect("unmap", d.Unmap(v, 4*pageBytes), 50)
	expect("release", d.Release(id), 60)
	expect("unreserve", d.Unreserve(v, 4*pageBytes), 2)
	if d.Unreserve(v, 4*pageBytes) == trace.CallOK || d.Release(backends.PhysID(77)) == trace.CallOK || d.NowNs() != clock {
		t.Errorf("wrong calls were answered well, or took %d ns", d.NowNs()-clock)
	}
}

func TestParseRMPages(t *testing.T) {
	for _, p := range []RMPages{Pages2MiB, PagesMixed, Pages64KiB} {
		if got, err := ParseRMPages(p.String()); got != p || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	if _, err := ParseRMPages("4KiB"); !errors.Is(err, ErrPages) {
		t.Errorf("pages of 4 KiB: %v", err)
	}
	if _, err := New(Config{TotalBytes: pageBytes, Pages: 9}); !errors.Is(err, ErrPages) {
		t.Errorf("pages of kind 9: %v", err)
	}
}
