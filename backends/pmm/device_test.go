package pmm

import (
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	model "github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

const pageBytes = ideal.PageBytes

// TestDecidesLikeIdeal makes the same random calls on this device and on an ideal one of the same size and expects the same
// answers, whatever the scrubber is doing.
func TestDecidesLikeIdeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.Uint64Range(1, 200).Draw(t, "pages")
		d, err := New(Config{TotalBytes: pages * pageBytes, ScrubNsPerFrame: rapid.SampledFrom([]int64{-1, 0, 1000}).Draw(t, "scrub")})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := ideal.New(ideal.Config{TotalBytes: pages * pageBytes})
		if err != nil {
			t.Fatal(err)
		}
		equal := func(what string, a, b [2]uint64) {
			if a != b {
				t.Fatalf("%s: pmm answers %v, ideal %v", what, a, b)
			}
		}
		limit := pages*pageBytes + pageBytes
		size := rapid.OneOf(rapid.Uint64Range(0, 8*pageBytes), rapid.Uint64Range(1, limit))
		whole := rapid.Map(rapid.Uint64Range(0, 20), func(n uint64) uint64 { return n * pageBytes })
		addr := rapid.Map(rapid.Uint64Range(0, 2*pages), func(n uint64) uint64 { return n * pageBytes })
		at := rapid.Map(rapid.Uint64Range(0, 40), func(n uint64) uint64 { return ideal.VirtualBase + n*pageBytes })
		id := rapid.Map(rapid.Uint64Range(0, 8), func(n uint64) backends.PhysID { return backends.PhysID(n) })
		pair := func(a uint64, st trace.CallStatus) [2]uint64 { return [2]uint64{a, uint64(st)} }
		t.Repeat(map[string]func(*rapid.T){
			"malloc": func(t *rapid.T) {
				n := size.Draw(t, "size")
				equal("malloc", pair(d.Malloc(n)), pair(ref.Malloc(n)))
			},
			"free": func(t *rapid.T) {
				a := addr.Draw(t, "addr")
				equal("free", pair(0, d.Free(a)), pair(0, ref.Free(a)))
			},
			"adopt": func(t *rapid.T) {
				a, n := addr.Draw(t, "addr"), size.Draw(t, "size")
				equal("adopt", pair(0, d.Adopt(a, n)), pair(0, ref.Adopt(a, n)))
			},
			"reserve": func(t *rapid.T) {
				n := size.Draw(t, "size")
				equal("reserve", pair(d.Reserve(n)), pair(ref.Reserve(n)))
			},
			"create": func(t *rapid.T) {
				n := whole.Draw(t, "size")
				a, st := d.Create(n)
				b, st2 := ref.Create(n)
				equal("create", pair(uint64(a), st), pair(uint64(b), st2))
			},
			"release": func(t *rapid.T) {
				i := id.Draw(t, "id")
				equal("release", pair(0, d.Release(i)), pair(0, ref.Release(i)))
			},
			"map": func(t *rapid.T) {
				a, n, i := at.Draw(t, "at"), whole.Draw(t, "size"), id.Draw(t, "id")
				equal("map", pair(0, d.Map(a, n, i)), pair(0, ref.Map(a, n, i)))
			},
			"unmap": func(t *rapid.T) {
				a, n := at.Draw(t, "at"), whole.Draw(t, "size")
				equal("unmap", pair(0, d.Unmap(a, n)), pair(0, ref.Unmap(a, n)))
			},
			"advance": func(t *rapid.T) { d.AdvanceNs(rapid.Uint64Range(0, 1e7).Draw(t, "ns")) },
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 30).Draw(t, "really") == 0 {
					d.Reset()
					ref.Reset()
				}
			},
			"": func(t *rapid.T) {
				free, total := d.MemInfo()
				free2, total2 := ref.MemInfo()
				equal("free bytes", [2]uint64{free, total}, [2]uint64{free2, total2})
			},
		})
	})
}

// TestTime: with one cost set at a time the clock advances by exactly that; the gaps of the trace come on top.
func TestTime(t *testing.T) {
	costs := model.Costs{MapPageNs: model.Cost{Value: 50, Source: "made up"}, TLBInvalidateNs: model.Cost{Value: 7000, Source: "made up"}}
	d, err := New(Config{TotalBytes: 64 * pageBytes, Costs: &costs})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want uint64) {
		t.Helper()
		if got := d.NowNs(); got != want {
			t.Fatalf("after %s the clock is at %d ns, want %d", what, got, want)
		}
	}
	addr, _ := d.Malloc(3*pageBytes - 5)
	expect("mapping 3 pages", 150)
	d.Free(addr)
	expect("an invalidate", 7150)
	d.AdvanceNs(1000)
	expect("a gap of 1 us", 8150)
	if st := d.Free(addr); st != trace.CallInvalidValue {
		t.Fatal(st)
	}
	expect("a wrong free", 8150)
	if d.Info().UncalibratedTime {
		t.Error("costs that are not marked uncalibrated make the time uncalibrated")
	}
	d.Reset()
	expect("reset", 0)
}

// TestScrubberWaits: two pages, one allocated and freed and being zeroed for 32 ms: an allocation of both waits for it.
func TestScrubberWaits(t *testing.T) {
	d, err := New(Config{TotalBytes: 2 * pageBytes, Costs: &model.Costs{}, ScrubNsPerFrame: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := d.Malloc(pageBytes)
	d.Free(addr)
	if _, st := d.Malloc(pageBytes); st != trace.CallOK || d.NowNs() != 0 {
		t.Fatalf("the other page: status %d at %d ns", st, d.NowNs())
	}
	if _, st := d.Malloc(pageBytes); st != trace.CallOK || d.NowNs() != 32_000_000 {
		t.Fatalf("the page being zeroed: status %d at %d ns, want ok at 32 frames of 1 ms", st, d.NowNs())
	}
	if _, st := d.Malloc(pageBytes); st != trace.CallOutOfMemory || d.NowNs() != 32_000_000 {
		t.Fatalf("a third page: status %d at %d ns", st, d.NowNs())
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Config{TotalBytes: pageBytes - 1}); err == nil {
		t.Error("a device of less than one chunk was made")
	}
}

func BenchmarkMallocFree(b *testing.B) {
	d, err := New(Config{TotalBytes: 80 << 30, ScrubNsPerFrame: -1})
	if err != nil {
		b.Fatal(err)
	}
	var addrs [1000]uint64
	for i := range addrs {
		addrs[i], _ = d.Malloc(20 << 20)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d.Free(addrs[i%1000])
		addrs[i%1000], _ = d.Malloc(20 << 20)
		i += 7
	}
}
