package goldentest

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// threadCPUNs returns the processor time of the calling thread, which must be locked. (getrusage(2) counts the same, but on
// many kernels only at the ticks of the scheduler.)
func threadCPUNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

const (
	// passes is the number of passes over a script.
	passes = 7
	// chunkOps is the number of operations timed together. Of each such piece of the script the fastest pass counts: what other
	// processes do to the caches and to the clock of the core only slows a piece down.
	chunkOps = 100_000
)

// Speed is what Measure found.
type Speed struct {
	MopsPerCPUSecond float64
	PeakLive         int     // blocks live at the most
	Failed           int     // allocations up to there
	MetaBytesPerLive float64 // bookkeeping there, for each live block
}

// Measure drives the strategy through the script with nothing around it but a table of blocks by slot, as a program would: no
// ledger, no clock at the events. The processor time of the fastest passes counts. The memory of the strategy is taken where
// most blocks are live.
func Measure(desc sdk.Description, options string, s *Script) (Speed, error) {
	device := Peer{Strategy: desc.Name, Options: options}
	device.DeviceBytes = (2*s.CapacityBytes + ideal.PageBytes - 1) / ideal.PageBytes * ideal.PageBytes
	p, err := NewPlayer(desc, device, s)
	if err != nil {
		return Speed{}, err
	}
	speed := Speed{MopsPerCPUSecond: float64(len(s.Ops)) / float64(p.fastest(s.Ops)) * 1e3}
	if err := speed.bookkeeping(p, s); err != nil {
		return Speed{}, err
	}
	return speed, p.Strategy.Close()
}

// bookkeeping executes the script up to where most blocks are live and notes the memory of the strategy there.
func (v *Speed) bookkeeping(p *Player, s *Script) error {
	in, ok := p.Strategy.(sdk.Inspector)
	if !ok {
		return fmt.Errorf("the strategy does not show its inside")
	}
	n, live := peak(s.Ops)
	v.Failed, v.PeakLive = p.pass(s.Ops[:n]), live
	p.notePlaced()
	meta := float64(in.Inspect().MetaBytes)
	v.MetaBytesPerLive = meta / float64(max(p.FreeAll(), 1))
	return nil
}

// BookkeepingPerLive returns the bytes that the strategy uses for itself for each live block, where the script has most.
func BookkeepingPerLive(desc sdk.Description, options string, s *Script) (float64, error) {
	p, err := NewPlayer(desc, Peer{Strategy: desc.Name, Options: options}, s)
	if err != nil {
		return 0, err
	}
	var v Speed
	if err := v.bookkeeping(p, s); err != nil {
		return 0, err
	}
	return v.MetaBytesPerLive, p.Strategy.Close()
}

// fastest returns the processor time of the operations in nanoseconds, of each piece that of its fastest pass.
func (p *Player) fastest(ops []Op) (ns int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := make([]int64, (len(ops)+chunkOps-1)/chunkOps)
	for i := range best {
		best[i] = math.MaxInt64
	}
	for range passes {
		for k := range best {
			chunk := ops[k*chunkOps : min((k+1)*chunkOps, len(ops))]
			start := threadCPUNs()
			p.pass(chunk)
			best[k] = min(best[k], threadCPUNs()-start)
		}
		p.notePlaced()
		p.FreeAll()
	}
	for _, t := range best {
		ns += t
	}
	return ns
}

// pass executes the operations and returns how many allocations failed. A block that is not placed has no bytes, which a
// strategy frees without effect.
func (p *Player) pass(ops []Op) (failed int) {
	strategy, live := p.Strategy, p.live
	req := &p.req
	*req = sdk.Request{}
	for i := range ops {
		op := &ops[i]
		b := &live[op.ID]
		if op.Free {
			if b.Size != 0 {
				strategy.Free(b, op.Stream)
				b.Size = 0
			}
			continue
		}
		req.Size, req.Stream = op.Size, op.Stream
		if !strategy.Alloc(req, b).Placed() {
			b.Size = 0
			failed++
		}
	}
	return failed
}

// notePlaced takes over which blocks pass left live.
func (p *Player) notePlaced() {
	for id := range p.live {
		p.placed[id] = p.live[id].Size != 0
	}
}

// peak returns the number of operations after which most blocks are live, and how many those are.
func peak(ops []Op) (n, most int) {
	live := 0
	for i := range ops {
		if ops[i].Free {
			live--
		} else if live++; live > most {
			n, most = i+1, live
		}
	}
	return n, most
}

// Calibrate returns millions of steps a second of processor time of a fixed loop, so that figures of two machines can be
// compared: a step is a xorshift draw, and a read and a write at a random place of a table of 256 KiB, as large as the
// bookkeeping of a few thousand blocks.
func Calibrate() float64 {
	const steps = 4 << 20
	var table [1 << 15]uint64
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := int64(math.MaxInt64)
	x := uint64(88172645463325252)
	for range passes {
		start := threadCPUNs()
		for range steps {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			x += table[x>>49]
			table[x>>49] = x
		}
		best = min(best, threadCPUNs()-start)
	}
	if x == 0 { // keeps the loop
		return 0
	}
	return steps / float64(best) * 1e3
}

// ReportSpeed measures the strategy on the load as a benchmark: millions of operations a second of processor time, the
// original's figure and the ratio where there is one, and the figure of the calibration loop.
func ReportSpeed(b *testing.B, desc sdk.Description, options string, l Load, original float64) Speed {
	s := l.Script(1_000_000)
	var speed Speed
	for b.Loop() {
		got, err := Measure(desc, options, s)
		if err != nil {
			b.Fatal(err)
		}
		if got.MopsPerCPUSecond > speed.MopsPerCPUSecond {
			speed = got
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(speed.MopsPerCPUSecond, "Mops/cpu-s")
	b.ReportMetric(speed.MetaBytesPerLive, "meta-B/live")
	if original > 0 {
		b.ReportMetric(original, "original-Mops/cpu-s")
		b.ReportMetric(speed.MopsPerCPUSecond/original, "x-original")
	}
	return speed
}

// steadyAllocs returns the allocations of the Go heap during one pass after the first.
func steadyAllocs(desc sdk.Description, options string, s *Script) (float64, error) {
	p, err := NewPlayer(desc, Peer{Strategy: desc.Name, Options: options}, s)
	if err != nil {
		return 0, err
	}
	return testing.AllocsPerRun(2, func() {
		p.pass(s.Ops)
		p.notePlaced()
		p.FreeAll()
	}), p.Strategy.Close()
}

// NoAllocations checks that a pass over each load, after the first, allocates nothing on the Go heap.
func NoAllocations(t *testing.T, desc sdk.Description, options string) {
	for _, l := range Loads {
		n, err := steadyAllocs(desc, options, l.Script(50_000))
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		if n != 0 {
			t.Errorf("%s: %v allocations in a pass of 50,000 operations, want none", l.Name, n)
		}
	}
}
