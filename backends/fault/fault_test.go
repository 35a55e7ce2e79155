package fault

import (
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/trace"
)

func open(t *testing.T, seed uint64, rules ...Rule) *Device {
	t.Helper()
	inner, err := ideal.New(ideal.Config{TotalBytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(inner, seed, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNthOfAKind(t *testing.T) {
	d := open(t, 0, Rule{Kind: trace.CallMalloc, Nth: 3}, Rule{Kind: trace.CallFree, Nth: 1, Status: trace.CallBroken})
	for i, want := range []trace.CallStatus{trace.CallOK, trace.CallOK, trace.CallInjected, trace.CallOK} {
		if _, st := d.Reserve(1); st != trace.CallOK {
			t.Fatalf("reserve %d: %d", i, st)
		}
		if _, st := d.Malloc(1); st != want {
			t.Fatalf("malloc %d: status %d, want %d", i+1, st, want)
		}
	}
	if st := d.Free(0); st != trace.CallBroken {
		t.Fatalf("first free: status %d, want broken", st)
	}
	if st := d.Free(0); st != trace.CallOK {
		t.Fatalf("second free of what the first left alone: status %d", st)
	}
	if d.Injected() != 2 {
		t.Fatalf("%d calls failed on purpose, want 2", d.Injected())
	}
	d.Reset()
	for i := 0; i < 3; i++ {
		if _, st := d.Malloc(1); (st == trace.CallInjected) != (i == 2) {
			t.Fatalf("after reset: malloc %d: status %d", i+1, st)
		}
	}
}

func TestFailNextCountsWhatTakesMemory(t *testing.T) {
	d := open(t, 0)
	d.FailNext(2)
	if _, st := d.Malloc(1); st != trace.CallOK {
		t.Fatal(st)
	}
	if st := d.Free(0); st != trace.CallOK {
		t.Fatal(st)
	}
	if _, st := d.Create(2 << 20); st != trace.CallInjected {
		t.Fatalf("second call that takes memory: status %d", st)
	}
	if _, st := d.Create(2 << 20); st != trace.CallOK {
		t.Fatal(st)
	}
}

// TestRate: 10,000 calls at 20 % fail about 2,000 times; the standard deviation is 40, so 1,800 to 2,200 is five of them.
// The same seed fails the same calls, another one others.
func TestRate(t *testing.T) {
	run := func(seed uint64) (fails int, pattern uint64) {
		d := open(t, seed, Rule{Kind: trace.CallNone, RatePerMillion: 200_000})
		for i := 0; i < 10_000; i++ {
			if _, st := d.Malloc(1); st == trace.CallInjected {
				fails++
				pattern = pattern*31 + uint64(i)
			}
		}
		return fails, pattern
	}
	n, p := run(1)
	if n < 1800 || n > 2200 {
		t.Errorf("%d failures of 10,000 at 20 %%", n)
	}
	if n2, p2 := run(1); n2 != n || p2 != p {
		t.Error("the same seed fails other calls")
	}
	if _, p2 := run(2); p2 == p {
		t.Error("another seed fails the same calls")
	}
}

func TestLostForEver(t *testing.T) {
	d := open(t, 0, Rule{Kind: trace.CallMalloc, Nth: 2, Status: trace.CallDeviceLost})
	addr, _ := d.Malloc(1)
	d.Malloc(1)
	if st := d.Free(addr); st != trace.CallDeviceLost {
		t.Fatalf("free on a lost device: status %d", st)
	}
	if _, st := d.Reserve(1); st != trace.CallDeviceLost {
		t.Fatalf("reserve on a lost device: status %d", st)
	}
}

// TestKeepsInterfaces: what the decorator does not change is found below it, and nothing that the device lacks.
func TestKeepsInterfaces(t *testing.T) {
	d := open(t, 0)
	if s, ok := backends.As[backends.Streams](d); !ok {
		t.Error("streams are gone")
	} else if _, is := s.(*ideal.Device); !is {
		t.Errorf("streams come from %T", s)
	}
	if vm, ok := backends.As[backends.VirtualMemory](d); !ok || vm != backends.VirtualMemory(d) {
		t.Errorf("virtual memory is not the decorator's: %T, %v", vm, ok)
	}
	if _, ok := backends.As[backends.Clocked](d); !ok {
		t.Error("the clock is gone")
	}
	if _, ok := backends.As[backends.RecordedAnswers](d); ok {
		t.Error("the ideal device does not answer from recordings")
	}
	plain, err := New(bare{d}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := backends.As[backends.VirtualMemory](plain); ok {
		t.Error("virtual memory over a device without it")
	}
	if _, ok := backends.As[backends.Streams](plain); ok {
		t.Error("streams over a device without them")
	}
}

// bare hides everything but the Device methods.
type bare struct{ d backends.Device }

func (b bare) Info() backends.Info {
	return backends.Info{Name: "bare", TotalBytes: b.d.Info().TotalBytes}
}
func (b bare) MemInfo() (uint64, uint64)                     { return b.d.MemInfo() }
func (b bare) Malloc(size uint64) (uint64, trace.CallStatus) { return b.d.Malloc(size) }
func (b bare) Free(addr uint64) trace.CallStatus             { return b.d.Free(addr) }
func (b bare) NowNs() uint64                                 { return b.d.NowNs() }
func (b bare) Close() error                                  { return b.d.Close() }

func TestBadRules(t *testing.T) {
	inner := open(t, 0)
	for _, r := range []Rule{{Kind: trace.CallMemInfo, Nth: 1}, {Kind: trace.CallMalloc, RatePerMillion: RateUnit + 1}} {
		if _, err := New(inner, 0, r); err == nil {
			t.Errorf("rule %+v was accepted", r)
		}
	}
}
