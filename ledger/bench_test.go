package ledger

import (
	"math/bits"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/trace"
)

// script is a trace with the outcomes that a simple allocator gave.
type script struct {
	events   []trace.Event
	outcomes []trace.Outcome
	calls    []trace.Call
	times    []int64
}

// rng is splitmix64.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (r *rng) below(n uint64) uint64 { hi, _ := bits.Mul64(r.next(), n); return hi }

// segregated is an allocator that is cheap to run and leaves real gaps: powers of two with four steps, a stack of free
// addresses a class, a bump pointer behind them.
type segregated struct {
	free [64 * 4][]uint64
	bump uint64
}

func (a *segregated) class(size uint64) (int, uint64) {
	size = max(size, 512)
	k := 63 - bits.LeadingZeros64(size)
	step := uint64(1) << (k - 2)
	up := (size + step - 1) / step * step
	k = 63 - bits.LeadingZeros64(up)
	return k*4 + int(up>>(k-2)&3), up
}

func (a *segregated) alloc(size uint64) (addr, granted uint64) {
	c, up := a.class(size)
	if f := a.free[c]; len(f) > 0 {
		a.free[c] = f[:len(f)-1]
		return f[len(f)-1], up
	}
	addr = a.bump
	a.bump += up
	return addr, up
}

func (a *segregated) release(addr, granted uint64) {
	c, _ := a.class(granted)
	a.free[c] = append(a.free[c], addr)
}

// powerLaw makes n events with about live live blocks, sizes from a power law (512 B to 64 MiB, weight 1/size), random
// lifetimes, in one arena.
func powerLaw(n, live int, seed uint64) *script {
	r := rng(seed)
	a := &segregated{bump: 1 << 30}
	type held struct {
		ev trace.Event
		o  trace.Outcome
	}
	var blocks []held
	var slots []uint32
	next := uint32(0)
	s := &script{}
	for i := 0; i < n; i++ {
		o := trace.Outcome{PolicyTicks: uint32(100 + r.below(300))}
		if r.below(1000) == 0 {
			o.PolicyTicks *= 1000
		}
		if len(blocks) == 0 || len(blocks) < live*2 && r.below(uint64(2*live)) >= uint64(len(blocks)) {
			slot := next
			if k := len(slots); k > 0 {
				slot, slots = slots[k-1], slots[:k-1]
			} else {
				next++
			}
			size := uint64(512) << r.below(17)
			size += r.below(size)
			ev := trace.Event{Kind: trace.KindAlloc, Slot: slot, Handle: trace.Handle(i + 1), Size: size}
			o.Addr, o.Granted = a.alloc(size)
			s.events, s.outcomes = append(s.events, ev), append(s.outcomes, o)
			blocks = append(blocks, held{ev, o})
		} else {
			k := r.below(uint64(len(blocks)))
			b := blocks[k]
			blocks[k] = blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			a.release(b.o.Addr, b.o.Granted)
			slots = append(slots, b.ev.Slot)
			s.events = append(s.events, trace.Event{Kind: trace.KindFree, Slot: b.ev.Slot, Handle: b.ev.Handle})
			s.outcomes = append(s.outcomes, o)
		}
		s.times = append(s.times, int64(i)*1000)
	}
	s.calls = []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMalloc, Addr: 0, Size: a.bump}}
	return s
}

// threadCPU returns the CPU time of this thread in ns: on a shared machine the wall clock measures the neighbours.
func threadCPU() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}

func benchFeed(b *testing.B, s *script, cfg Config) {
	const window = 1 << 15
	l := New(cfg)
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := threadCPU()
	least := make([]int64, (len(s.events)+window-1)/window)
	for b.Loop() {
		l.Reset(cfg)
		calls := s.calls
		for from := 0; from < len(s.events); from += window {
			to := min(from+window, len(s.events))
			began := threadCPU()
			if err := l.Feed(uint64(from), s.events[from:to], s.times[from:to], s.outcomes[from:to], calls); err != nil {
				b.Fatal(err)
			}
			calls = nil
			if spent := threadCPU() - began; least[from/window] == 0 || spent < least[from/window] {
				least[from/window] = spent
			}
		}
		if l.violationsTotal > 0 {
			b.Fatal(l.violations[0])
		}
	}
	perEvent := float64(threadCPU()-cpu) / float64(b.N) / float64(len(s.events))
	b.ReportMetric(perEvent, "cpu-ns/event")
	b.ReportMetric(1e9/perEvent, "events/cpu-s")
	// Of each window the repetition that neighbours disturbed least.
	var sum int64
	for _, v := range least {
		sum += v
	}
	b.ReportMetric(float64(sum)/float64(len(s.events)), "least-cpu-ns/event")
}

// BenchmarkFeed is the ledger with every metric except the picture, on power-law traces.
func BenchmarkFeed(b *testing.B) {
	all := Config{DeviceTotalBytes: 1 << 42, DevicePageBytes: 2 << 20, AlignmentBytes: 64, Timing: true, Hostages: true, Series: true, ClockCostTicks: 20}
	for _, c := range []struct {
		name string
		live int
		cfg  Config
	}{{"1k-live", 1_000, all}, {"3k-live", 3_000, all}, {"20k-live", 20_000, all}, {"50k-live", 50_000, all}, {"200k-live", 200_000, all},
		{"50k-live-checks-only", 50_000, Config{}}} {
		s := powerLaw(2_000_000, c.live, 1)
		b.Run(c.name, func(b *testing.B) { benchFeed(b, s, c.cfg) })
	}
}
