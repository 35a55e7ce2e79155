package gmlake

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/internal/blocks"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

const mib = 1 << 20

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"frag_limit_bytes":0,"auto_gc_bytes":268435456}`)
}

func open(t testing.TB, totalMiB uint64, options string) (*Allocator, *ideal.Device) {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: totalMiB * mib})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Description().New(&sdk.Env{Device: dev, CapacityBytes: totalMiB * mib, Options: json.RawMessage(options), Streams: make([]uint64, 2)})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Allocator), dev
}

func alloc(t testing.TB, a *Allocator, sizeMiB uint64, want trace.Status) sdk.Block {
	t.Helper()
	var b sdk.Block
	if st := a.Alloc(&sdk.Request{Size: sizeMiB * mib}, &b); st != want {
		t.Fatalf("%d MiB: %v, want %v", sizeMiB, st, want)
	}
	return b
}

// TestOrder works through the cases on a device of 100 MiB. Below the limit nothing is stitched before memory is short.
func TestOrder(t *testing.T) {
	a, dev := open(t, 100, `{"frag_limit_bytes":52428800}`)
	check := func(what string, stitches, reuses, heldMiB uint64) {
		t.Helper()
		free, total := dev.MemInfo()
		if a.stitches != stitches || a.reuses != reuses || total-free != heldMiB*mib {
			t.Fatalf("%s: %d stitches, %d reuses, %d MiB held; want %d, %d, %d", what, a.stitches, a.reuses, (total-free)/mib, stitches, reuses, heldMiB)
		}
	}
	var b [5]sdk.Block
	for i := range b { // five segments of 20 MiB
		b[i] = alloc(t, a, 20, trace.StatusOK)
	}
	check("full", 0, 0, 100)
	free := func(i int) {
		t.Helper()
		if st := a.Free(&b[i], 0); st != trace.StatusOK {
			t.Fatal(st)
		}
	}
	free(0)
	free(2)
	free(4)
	f := alloc(t, a, 50, trace.StatusOK) // case 4: 20 + 20 + 10 from three segments
	check("stitched", 1, 0, 100)
	if f.Addr < ideal.VirtualBase || f.Size != 50*mib {
		t.Fatalf("%+v", f)
	}
	rest := alloc(t, a, 10, trace.StatusOK) // case 1: what the stitched block left of its last piece
	check("rest", 1, 0, 100)
	alloc(t, a, 2, trace.StatusFailed)
	a.Free(&f, 0)
	if st := a.Free(&f, 0); st != trace.StatusInvalid {
		t.Fatalf("second free of a stitched block: %v", st)
	}
	g := alloc(t, a, 44, trace.StatusOK) // case 2: the kept view of 50 MiB
	check("reused", 1, 1, 100)
	if g.Addr != f.Addr || g.Size != 50*mib {
		t.Fatalf("%+v, want the view at %#x", g, f.Addr)
	}
	a.Free(&g, 0)
	a.Free(&rest, 0)
	x := alloc(t, a, 4, trace.StatusOK) // case 1 takes pages of the view, which cannot serve now
	y := alloc(t, a, 44, trace.StatusRecovered)
	check("stitched for want of memory", 2, 1, 100) // case 7: giving back two segments of 20 MiB would not do; 20 + 20 + 4
	alloc(t, a, 30, trace.StatusFailed)
	a.Free(&x, 0)
	a.Free(&y, 0)
	free(1)
	z := alloc(t, a, 22, trace.StatusOK) // case 2: the smaller view
	if z.Addr != y.Addr {
		t.Fatalf("%+v, want the view at %#x", z, y.Addr)
	}
	a.Free(&z, 0)
	b[1] = alloc(t, a, 20, trace.StatusOK)
	free(1)
	free(3)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	check("closed", 2, 2, 0)
}

// TestUseHoldsBack: the pages of a stitched block that another stream uses are not free before that stream has completed.
func TestUseHoldsBack(t *testing.T) {
	a, dev := open(t, 40, `{"frag_limit_bytes":0}`)
	dev.SetManualEvents(true)
	x, y := alloc(t, a, 20, trace.StatusOK), alloc(t, a, 20, trace.StatusOK)
	a.Free(&x, 0)
	a.Free(&y, 0)
	f := alloc(t, a, 40, trace.StatusOK)
	a.Use(&f, 1)
	a.Free(&f, 0)
	if st := a.FreeWrong(&f, 0); st != trace.StatusInvalid {
		t.Fatal(st)
	}
	if n := a.of(0).large.Len(); n != 0 {
		t.Fatalf("%d free blocks while the free is held back", n)
	}
	dev.Complete(1)
	alloc(t, a, 20, trace.StatusOK)
	if n := a.held.Held(); n != 0 {
		t.Fatalf("%d frees held back", n)
	}
}

// TestPages checks in books of pages, after random requests, frees and trims, that no physical page serves two live blocks, that blocks
// tile their segments, and that free neighbours are merged.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dev, err := ideal.New(ideal.Config{TotalBytes: 128 * mib})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Description().New(&sdk.Env{Device: dev, CapacityBytes: 128 * mib, Streams: make([]uint64, 2),
			Options: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"frag_limit_bytes":0}`, `{"frag_limit_bytes":0,"auto_gc_bytes":33554432}`}).Draw(t, "options"))})
		if err != nil {
			t.Fatal(err)
		}
		a := s.(*Allocator)
		var live []sdk.Block
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				var b sdk.Block
				size := rapid.OneOf(rapid.Uint64Range(1, 2*mib), rapid.Uint64Range(1, 64*mib)).Draw(t, "size")
				if a.Alloc(&sdk.Request{Size: size, Stream: sdk.Stream(rapid.IntRange(0, 1).Draw(t, "stream"))}, &b).Placed() {
					if b.Size < size {
						t.Fatalf("%d granted for %d", b.Size, size)
					}
					live = append(live, b)
				}
			},
			"free": func(t *rapid.T) {
				if len(live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				b := live[i]
				if st := a.Free(&b, 0); st != trace.StatusOK {
					t.Fatal(st)
				}
				if st := a.Free(&b, 0); st != trace.StatusInvalid {
					t.Fatalf("second free: %v", st)
				}
				live = slices.Delete(live, i, i+1)
			},
			"trim": func(t *rapid.T) { a.Trim() },
			"":     func(t *rapid.T) { checkPages(t, a, live) },
		})
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if free, total := dev.MemInfo(); free != total {
			t.Fatalf("%d of %d bytes free after Close", free, total)
		}
	})
}

func checkPages(t *rapid.T, a *Allocator, live []sdk.Block) {
	type page struct{ segment, number uint32 }
	used := map[page]bool{}
	for _, b := range live {
		i := a.find(&b)
		if i == 0 {
			t.Fatalf("%+v is not live", b)
		}
		runs := []run{}
		if i&fusedRef != 0 {
			runs = a.fused[i&^fusedRef].runs
		} else if seg := a.segments[a.table.B[i].User]; seg.pages != nil {
			runs = append(runs, run{a.table.B[i].User, uint32((b.Addr - seg.addr) / pageBytes), uint32(b.Size / pageBytes)})
		}
		for _, r := range runs {
			for k := range r.len {
				if p := (page{r.segment, r.first + k}); used[p] {
					t.Fatalf("page %+v serves two live blocks", p)
				} else {
					used[p] = true
				}
				if x := a.blockAt(r.segment, r.first+k); x == blocks.None || a.table.B[x].Free {
					t.Fatalf("page %d of segment %d of a live block is free", r.first+k, r.segment)
				}
			}
		}
	}
	for _, seg := range a.Inspect().Segments {
		at := seg.Addr
		for i, b := range seg.Blocks {
			if b.Addr != at || i > 0 && b.State == "free" && seg.Blocks[i-1].State == "free" {
				t.Fatalf("blocks of the segment at %#x: %+v", seg.Addr, seg.Blocks)
			}
			at += b.Bytes
		}
		if at != seg.Addr+seg.Bytes {
			t.Fatalf("the blocks of the segment at %#x end at %#x", seg.Addr, at)
		}
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{}`) }

// TestGiveBack: on a device of 60 MiB with two free segments of 20 and one of 10 in use, 34 MiB of new memory need both.
func TestGiveBack(t *testing.T) {
	a, dev := open(t, 60, `{}`)
	x, y, z := alloc(t, a, 20, trace.StatusOK), alloc(t, a, 20, trace.StatusOK), alloc(t, a, 10, trace.StatusOK)
	a.Free(&x, 0)
	a.Free(&y, 0)
	w := alloc(t, a, 34, trace.StatusRecovered)
	if free, total := dev.MemInfo(); total-free != 44*mib || a.stitches != 0 {
		t.Fatalf("%d MiB held, %d stitches; want 44 and none", (total-free)/mib, a.stitches)
	}
	a.Free(&z, 0)
	a.Free(&w, 0)
	a.Trim()
	if free, total := dev.MemInfo(); free != total {
		t.Fatal("Trim left something")
	}
}
