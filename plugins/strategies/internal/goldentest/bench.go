package goldentest

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// PowerLaw returns a seeded script of n operations with the shape of the recorded power-law script: sizes from 256 bytes
// to 8 MiB whose logarithm is exponentially distributed, and a live set that grows to live blocks and then churns at
// random.
func PowerLaw(n, live int, seed uint64) *Script {
	const minBytes, maxBytes, exponent = 256, 8 << 20, 2.0
	r := rand.New(rand.NewPCG(seed, seed))
	s := &Script{Streams: 1}
	var ids []uint32 // live
	var bytesLive, bytesPeak uint64
	sizes := []uint64{}
	for len(s.Ops) < n {
		if len(ids) > 0 && r.IntN(2*live) < len(ids) {
			i := r.IntN(len(ids))
			s.Ops = append(s.Ops, Op{Free: true, ID: ids[i]})
			bytesLive -= sizes[ids[i]]
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
			continue
		}
		size := uint64(maxBytes)
		if scaled := minBytes * math.Pow(1/(1-r.Float64()), 1/(exponent-1)); scaled < maxBytes {
			size = uint64(scaled)
		}
		id := uint32(len(sizes))
		sizes = append(sizes, size)
		ids = append(ids, id)
		s.Ops = append(s.Ops, Op{ID: id, Size: size})
		bytesLive += size
		bytesPeak = max(bytesPeak, bytesLive)
	}
	s.IDs = len(sizes)
	s.CapacityBytes = 2 * bytesPeak
	return s
}

// cpuNs returns the processor time of the process: on a busy machine, where the benchmark waits for its turn, it is the
// better measure.
func cpuNs() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// Bench replays the script over and over, freeing what is left after each pass, and reports events a second of time and of
// processor time. An allocation that fails is an event like any other.
func Bench(b *testing.B, desc sdk.Description, options string, s *Script) {
	p, err := NewPlayer(desc, Peer{Strategy: desc.Name, Options: options}, s)
	if err != nil {
		b.Fatal(err)
	}
	pass := func() int {
		for i := range s.Ops {
			p.Do(&s.Ops[i])
		}
		return len(s.Ops) + p.FreeAll()
	}
	pass()
	events := 0
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuNs()
	for b.Loop() {
		events += pass()
	}
	cpu = cpuNs() - cpu
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	b.ReportMetric(float64(events)/float64(cpu)*1e3, "Mevents/cpu-s")
}

// BenchAll runs Bench on the recorded power-law script of dir and on a generated one of a million operations.
func BenchAll(b *testing.B, desc sdk.Description, options string) {
	b.Run("powerlaw-20k", func(b *testing.B) {
		s, err := ScriptOf(SharedDir, "powerlaw.20k")
		if err != nil {
			b.Fatal(err)
		}
		Bench(b, desc, options, s)
	})
	b.Run("powerlaw-1M", func(b *testing.B) {
		Bench(b, desc, options, PowerLaw(1_000_000, 20_000, 1))
	})
}
