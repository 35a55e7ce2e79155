package ideal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

// TestDataDriven runs the scripts of testdata. Sizes and addresses are in pages of 2 MiB unless they end in B; v+N is page N
// of the virtual range. Physical memories and events have names.
func TestDataDriven(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *session
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				var cfg Config
				cfg.TotalBytes = parseBytes(t, d.CmdArgs[0].Key)
				cfg.Contiguous = d.HasArg("contiguous")
				cfg.Packed = d.HasArg("packed")
				cfg.ExactCharge = d.HasArg("exact-charge")
				dev, err := New(cfg)
				if err != nil {
					return err.Error() + "\n"
				}
				s = &session{dev: dev, phys: map[string]backends.PhysID{}, events: map[string]backends.EventID{}}
				return ""
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				fmt.Fprintf(&out, "%s: %s\n", line, s.do(t, strings.Fields(line)))
			}
			return out.String()
		})
	})
}

type session struct {
	dev    *Device
	phys   map[string]backends.PhysID
	events map[string]backends.EventID
}

func parseBytes(t *testing.T, s string) uint64 {
	var n uint64
	if b, ok := strings.CutSuffix(s, "B"); ok {
		if _, err := fmt.Sscan(b, &n); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return n
	}
	base := uint64(0)
	if v, ok := strings.CutPrefix(s, "v+"); ok {
		s, base = v, VirtualBase
	}
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return base + n*PageBytes
}

func showAddr(addr uint64) string {
	switch {
	case addr%PageBytes != 0:
		return fmt.Sprintf("%dB", addr)
	case addr >= VirtualBase:
		return fmt.Sprintf("v+%d", (addr-VirtualBase)/PageBytes)
	}
	return fmt.Sprint(addr / PageBytes)
}

func show(addr uint64, st trace.CallStatus) string {
	if st != trace.CallOK {
		return st.Err().Error()
	}
	return "at " + showAddr(addr)
}

func status(st trace.CallStatus) string {
	if st == trace.CallOK {
		return "ok"
	}
	return st.Err().Error()
}

func (s *session) do(t *testing.T, f []string) string {
	num := func(i int) uint64 { return parseBytes(t, f[i]) }
	d := s.dev
	switch f[0] {
	case "malloc":
		return show(d.Malloc(num(1)))
	case "free":
		return status(d.Free(num(1)))
	case "adopt":
		return status(d.Adopt(num(1), num(2)))
	case "reserve":
		return show(d.Reserve(num(1)))
	case "unreserve":
		return status(d.Unreserve(num(1), num(2)))
	case "create": // create NAME SIZE
		id, st := d.Create(num(2))
		s.phys[f[1]] = id
		return status(st)
	case "release":
		return status(d.Release(s.phys[f[1]]))
	case "map": // map ADDR SIZE NAME
		return status(d.Map(num(1), num(2), s.phys[f[3]]))
	case "unmap":
		return status(d.Unmap(num(1), num(2)))
	case "access":
		return status(d.SetAccess(num(1), num(2)))
	case "free-bytes":
		free, total := d.MemInfo()
		return fmt.Sprintf("%s of %s", showAddr(free), showAddr(total))
	case "fail-next":
		var k uint64
		fmt.Sscan(f[1], &k)
		d.FailNext(k)
		return "ok"
	case "reset":
		d.Reset()
		return "ok"
	}
	return s.stream(t, f)
}

func (s *session) stream(t *testing.T, f []string) string {
	var n uint64
	if len(f) > 1 {
		fmt.Sscan(f[len(f)-1], &n)
	}
	d, stream := s.dev, backends.Stream(n)
	switch f[0] {
	case "record": // record NAME STREAM
		s.events[f[1]] = d.Record(stream)
	case "query":
		return fmt.Sprint(d.Query(s.events[f[1]]))
	case "wait":
		d.Wait(s.events[f[1]])
	case "drop":
		d.Drop(s.events[f[1]])
	case "sync-stream":
		d.SyncStream(stream)
	case "sync-device":
		d.SyncDevice()
	case "complete":
		d.Complete(stream)
	case "manual":
		d.SetManualEvents(true)
	case "immediate":
		d.SetManualEvents(false)
	default:
		t.Fatalf("unknown command %q", f[0])
	}
	return "ok"
}

// TestBudget makes random calls and keeps the sum of what must be charged: it is what MemInfo lacks, and a call fails with
// out of memory exactly when it would go beyond the budget.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 32
		d, err := New(Config{TotalBytes: pages * PageBytes})
		if err != nil {
			t.Fatal(err)
		}
		type memory struct {
			addr, pages uint64
			phys        backends.PhysID
		}
		var mallocs, created []memory
		used := uint64(0)
		n := rapid.Uint64Range(1, 12)
		try := func(want uint64, st trace.CallStatus) bool {
			if fits := used+want <= pages; fits != (st == trace.CallOK) || !fits && st != trace.CallOutOfMemory {
				t.Fatalf("%d pages with %d of %d used: status %d", want, used, pages, st)
			}
			if st == trace.CallOK {
				used += want
			}
			return st == trace.CallOK
		}
		take := func(t *rapid.T, from *[]memory) (m memory, ok bool) {
			if len(*from) == 0 {
				return m, false
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
			m = (*from)[i]
			*from = append((*from)[:i], (*from)[i+1:]...)
			return m, true
		}
		t.Repeat(map[string]func(*rapid.T){
			"malloc": func(t *rapid.T) {
				k := n.Draw(t, "pages")
				addr, st := d.Malloc(k*PageBytes - rapid.Uint64Range(0, PageBytes-1).Draw(t, "less"))
				if try(k, st) {
					mallocs = append(mallocs, memory{addr: addr, pages: k})
				}
			},
			"free": func(t *rapid.T) {
				if m, ok := take(t, &mallocs); ok {
					if st := d.Free(m.addr); st != trace.CallOK {
						t.Fatalf("free: status %d", st)
					}
					used -= m.pages
					if st := d.Free(m.addr); st != trace.CallInvalidValue {
						t.Fatalf("second free: status %d", st)
					}
				}
			},
			"create": func(t *rapid.T) {
				k := n.Draw(t, "pages")
				id, st := d.Create(k * PageBytes)
				if try(k, st) {
					created = append(created, memory{pages: k, phys: id})
				}
			},
			"release": func(t *rapid.T) {
				if m, ok := take(t, &created); ok {
					if st := d.Release(m.phys); st != trace.CallOK {
						t.Fatalf("release: status %d", st)
					}
					used -= m.pages
					if st := d.Release(m.phys); st != trace.CallInvalidValue {
						t.Fatalf("second release: status %d", st)
					}
				}
			},
			"": func(t *rapid.T) {
				if free, _ := d.MemInfo(); free != (pages-used)*PageBytes {
					t.Fatalf("%d bytes free, want %d pages", free, pages-used)
				}
			},
		})
	})
}

func TestNewErrors(t *testing.T) {
	for _, total := range []uint64{0, 1 << 44} {
		if _, err := New(Config{TotalBytes: total}); err == nil {
			t.Errorf("a device of %d bytes was made", total)
		}
	}
}

func BenchmarkMallocFree(b *testing.B) {
	for _, live := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			d, err := New(Config{TotalBytes: 1 << 42})
			if err != nil {
				b.Fatal(err)
			}
			addrs := make([]uint64, live)
			for i := range addrs {
				addrs[i], _ = d.Malloc(uint64(1+i%7) * PageBytes)
			}
			b.ReportAllocs()
			i, x := 0, uint32(1)
			for b.Loop() {
				x = x*1664525 + 1013904223
				k := int(x>>8) % live
				d.Free(addrs[k])
				addrs[k], _ = d.Malloc(uint64(1+i%7) * PageBytes)
				i++
			}
		})
	}
}

func BenchmarkMapUnmap(b *testing.B) {
	d, err := New(Config{TotalBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	at, _ := d.Reserve(1 << 38)
	b.ReportAllocs()
	for b.Loop() {
		id, _ := d.Create(PageBytes)
		d.Map(at, PageBytes, id)
		d.Unmap(at, PageBytes)
		d.Release(id)
	}
}
