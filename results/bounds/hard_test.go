package bounds

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

const hardCapacity = 1048576

func hard(t testing.TB, name string) []Buffer {
	t.Helper()
	f, err := os.Open("testdata/minimalloc-" + name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := ReadCSV(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cpuSeconds is the processor time of the process: the machine may be shared.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkHard searches for packings of MiniMalloc's challenging instances at their capacity, 15 s of processor time each, and
// reports whether one was found. Run it with -benchtime 1x.
func BenchmarkHard(b *testing.B) {
	const limitSeconds = 15
	for c := 'A'; c <= 'K'; c++ {
		b.Run(string(c), func(b *testing.B) {
			buffers := hard(b, fmt.Sprintf("%c.%d", c, hardCapacity))
			for b.Loop() {
				start := cpuSeconds()
				p, answer, err := Fit(buffers, hardCapacity, Effort{Stop: func() bool { return cpuSeconds()-start > limitSeconds }})
				if err != nil {
					b.Fatal(err)
				}
				solved := 0.0
				if answer == Fits {
					solved = 1
					if err := p.Check(buffers); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(solved, "solved")
				b.ReportMetric(cpuSeconds()-start, "cpu-s")
			}
		})
	}
}
