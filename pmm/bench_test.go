package pmm_test

import (
	"syscall"
	"testing"

	"github.com/gpubench/gpubench/pmm"
)

// The driver's own uvm_pmm_gpu.c, compiled in user space with its assertions and without locks, does this many operations
// a second on one core (millions); an allocation and its free are two.
const (
	driverMixed     = 20.6
	driverWarm4K    = 36
	driver2M        = 11.8
	driverCold4K    = 0.95
	driverSplitTree = 0.13
)

func newModel(tb testing.TB, roots int) *pmm.Model {
	tb.Helper()
	m, err := pmm.New(pmm.DefaultConfig(uint64(roots) * pmm.RootBytes))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// cpuSeconds is the processor time of this process so far: unlike the time on the wall it does not count that of others on a
// busy machine.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// report adds operations a second of processor time since began, in millions, and their ratio to the driver's.
func report(b *testing.B, opsPerIteration int, driver, began float64) {
	b.Helper()
	mops := float64(b.N) * float64(opsPerIteration) / (cpuSeconds(b) - began) / 1e6
	b.ReportMetric(mops, "Mops/s")
	b.ReportMetric(mops/driver, "×driver")
}

func pair(b *testing.B, m *pmm.Model, out []pmm.Chunk, size uint64) {
	if s := m.Alloc(pmm.User, size, pmm.None, out, nil); s != pmm.OK {
		b.Fatal(s)
	}
	if s := m.FreeChunk(out[0]); s != pmm.OK {
		b.Fatal(s)
	}
}

// BenchmarkWarm4K allocates and frees 4 KiB chunks from the free list.
func BenchmarkWarm4K(b *testing.B) {
	m := newModel(b, 64)
	out := make([]pmm.Chunk, 1)
	keep := make([]pmm.Chunk, 2)
	if s := m.Alloc(pmm.User, 4<<10, pmm.None, keep, nil); s != pmm.OK {
		b.Fatal(s)
	}
	b.ReportAllocs()
	began := cpuSeconds(b)
	for b.Loop() {
		pair(b, m, out, 4<<10)
	}
	report(b, 2, driverWarm4K, began)
}

// Benchmark2M allocates and frees roots; every free hands one to PMA, every 64th allocation asks for a batch.
func Benchmark2M(b *testing.B) {
	m := newModel(b, 256)
	out := make([]pmm.Chunk, 1)
	b.ReportAllocs()
	began := cpuSeconds(b)
	for b.Loop() {
		pair(b, m, out, pmm.RootBytes)
	}
	report(b, 2, driver2M, began)
}

// BenchmarkCold4K allocates and frees a 4 KiB chunk when nothing else lives: 2 splits and 2 merges a pair.
func BenchmarkCold4K(b *testing.B) {
	m := newModel(b, 256)
	out := make([]pmm.Chunk, 1)
	b.ReportAllocs()
	began := cpuSeconds(b)
	for b.Loop() {
		pair(b, m, out, 4<<10)
	}
	report(b, 2, driverCold4K, began)
}

// BenchmarkSplitMerge splits a root into 512 chunks of 4 KiB and merges it.
func BenchmarkSplitMerge(b *testing.B) {
	m := newModel(b, 64)
	out := make([]pmm.Chunk, 1)
	leaves := make([]pmm.Chunk, 512)
	if s := m.Alloc(pmm.User, pmm.RootBytes, pmm.None, out, nil); s != pmm.OK {
		b.Fatal(s)
	}
	b.ReportAllocs()
	began := cpuSeconds(b)
	for b.Loop() {
		if _, s := m.Split(out[0], 4<<10, leaves); s != pmm.OK {
			b.Fatal(s)
		}
		if s := m.Merge(out[0]); s != pmm.OK {
			b.Fatal(s)
		}
	}
	report(b, 2, driverSplitTree, began)
}

// BenchmarkMixed keeps 4,096 slots, and at each step frees the chunk of a random slot or fills it with one of 4 KiB, 64 KiB
// or 2 MiB, equally likely. The choices are drawn beforehand.
func BenchmarkMixed(b *testing.B) {
	const slots, draws = 4096, 1 << 16
	m := newModel(b, 8192)
	sizes := [3]uint64{4 << 10, 64 << 10, pmm.RootBytes}
	type draw struct {
		slot uint16
		size uint8
	}
	rng := uint64(1)
	next := func(n uint64) uint64 {
		rng ^= rng << 13
		rng ^= rng >> 7
		rng ^= rng << 17
		return rng % n
	}
	script := make([]draw, draws)
	for i := range script {
		script[i] = draw{uint16(next(slots)), uint8(next(3))}
	}
	live := make([]pmm.Chunk, slots)
	step := func(d draw) {
		if c := live[d.slot]; c != pmm.NoChunk {
			if s := m.FreeChunk(c); s != pmm.OK {
				b.Fatal(s)
			}
			live[d.slot] = pmm.NoChunk
			return
		}
		if s := m.Alloc(pmm.User, sizes[d.size], pmm.None, live[d.slot:d.slot+1], nil); s != pmm.OK {
			b.Fatal(s)
		}
	}
	for range 4 { // reach the steady state
		for _, d := range script {
			step(d)
		}
	}
	b.ReportAllocs()
	began := cpuSeconds(b)
	i := 0
	for b.Loop() {
		step(script[i&(draws-1)])
		i++
	}
	report(b, 1, driverMixed, began)
}
