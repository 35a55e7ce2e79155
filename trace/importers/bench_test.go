package importers_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

// childVar tells the test binary to import the file it names, to print what that cost, and to exit.
const childVar = "GPUBENCH_TEST_IMPORT"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVar); path != "" {
		os.Exit(importAndReport(path))
	}
	os.Exit(m.Run())
}

func importAndReport(path string) int {
	before := cpuTime(syscall.RUSAGE_SELF)
	res, err := importers.ImportFile(path, importers.Options{})
	cost := cpuTime(syscall.RUSAGE_SELF) - before
	if err != nil || !res.Devices[0].Facts.Proven {
		fmt.Fprintln(os.Stderr, err, "or not proven")
		return 1
	}
	fmt.Println(cost.Seconds(), peakKiB())
	return 0
}

func cpuTime(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakKiB is the most memory this process ever had. The figure of getrusage would begin with that of the parent.
func peakKiB() int {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if w := strings.Fields(sc.Text()); len(w) == 3 && w[0] == "VmHWM:" {
			n, _ := strconv.Atoi(w[1])
			return n
		}
	}
	return 0
}

// pythonLoad is the other side of the comparison: CPython's own unpickler, measured in the same two figures.
const pythonLoad = `
import pickle, sys, time
t = time.process_time()
pickle.load(open(sys.argv[1], 'rb'))
t = time.process_time() - t
print(t, [l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM:')][0])
`

const benchEntries = 1_000_000

// BenchmarkSnapshot imports a snapshot of a million trace entries with shared frames (protocol 4, about 60 MB) in a process
// of its own and, where python3 is installed, loads it with CPython's pickle beside it. Both report CPU time and peak memory.
//
//	go test ./trace/importers -run none -bench Snapshot
func BenchmarkSnapshot(b *testing.B) {
	path := filepath.Join(b.TempDir(), "million.pickle")
	writeBig(b, path, benchEntries)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	python, noPython := exec.LookPath("python3")
	var ours, theirs [2]float64
	for b.Loop() {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childVar+"="+path)
		add(b, cmd, &ours)
		if noPython == nil {
			add(b, exec.Command(python, "-c", pythonLoad, path), &theirs)
		}
	}
	n := float64(b.N)
	b.ReportMetric(ours[0]/n, "cpu-s")
	b.ReportMetric(ours[1]/n/1024, "peak-MiB")
	b.ReportMetric(benchEntries*n/ours[0], "events/s")
	if noPython == nil {
		b.ReportMetric(theirs[0]/n, "python-cpu-s")
		b.ReportMetric(theirs[1]/n/1024, "python-peak-MiB")
		b.ReportMetric(ours[0]/theirs[0], "cpu-ratio")
		b.ReportMetric(ours[1]/theirs[1], "peak-ratio")
	}
}

// add runs a process that prints seconds of CPU and KiB of peak memory, and adds them up.
func add(b *testing.B, cmd *exec.Cmd, sum *[2]float64) {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	var got [2]float64
	if _, err := fmt.Sscan(string(out), &got[0], &got[1]); err != nil {
		b.Fatalf("%q: %v", out, err)
	}
	sum[0] += got[0]
	sum[1] += got[1]
}

// BenchmarkImport imports a smaller snapshot in this process, for profiles and allocations.
func BenchmarkImport(b *testing.B) {
	const entries = 100_000
	path := filepath.Join(b.TempDir(), "some.pickle")
	writeBig(b, path, entries)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := importers.ImportFile(path, importers.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(entries*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// The shape of the big snapshot: every segment is a stack of blocks, which keeps the addresses true without an allocator.
const (
	bigSegments = 64
	bigSegment  = int64(1) << 30
	bigBase     = int64(1) << 46
	bigFrames   = 5500
	bigStacks   = 3000
	bigDepth    = 12
	bigStream   = 0
)

type bigBlock struct {
	addr, size int64
	stack      *pickletest.List
}

func (k bigBlock) rounded() int64 { return (k.size + 511) &^ 511 }

func writeBig(b testing.TB, path string, entries int) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := writeBigTo(f, entries); err != nil {
		b.Fatal(err)
	}
}

func writeBigTo(w io.Writer, entries int) error {
	rnd := rand.New(rand.NewSource(1))
	frames := make([]any, bigFrames)
	for i := range frames {
		frames[i] = pickletest.D("filename", fmt.Sprintf("/srv/app/pkg/module_%d.py", i%97), "line", i, "name", fmt.Sprintf("func_%d", i%301))
	}
	stacks := make([]*pickletest.List, bigStacks)
	for i := range stacks {
		stacks[i] = &pickletest.List{}
		for range bigDepth {
			stacks[i].Items = append(stacks[i].Items, frames[rnd.Intn(bigFrames)])
		}
	}
	segments := pickletest.L()
	var tops [bigSegments][]bigBlock
	trace := pickletest.Seq(func(yield func(any) bool) {
		us := int64(1_700_000_000_000_000)
		put := func(action string, k bigBlock) bool {
			return yield(pickletest.D("action", action, "addr", k.addr, "size", k.size, "stream", bigStream, "time_us", us, "frames", k.stack))
		}
		for i := range int64(bigSegments) {
			put("segment_alloc", bigBlock{bigBase + i*bigSegment, bigSegment, stacks[0]})
		}
		for n := bigSegments; n < entries; n++ {
			us += int64(rnd.Intn(9))
			i := rnd.Intn(bigSegments)
			top := len(tops[i]) - 1
			if top >= 0 && (rnd.Intn(2) == 0 || top > 400) {
				put("free_requested", tops[i][top])
				put("free_completed", tops[i][top])
				tops[i] = tops[i][:top]
				n++
				continue
			}
			k := bigBlock{bigBase + int64(i)*bigSegment, 1<<20 + 1 + int64(rnd.Intn(1<<20)), stacks[rnd.Intn(bigStacks)]}
			if top >= 0 {
				k.addr = tops[i][top].addr + tops[i][top].rounded()
			}
			tops[i] = append(tops[i], k)
			put("alloc", k)
		}
		for i := range tops {
			segments.Items = append(segments.Items, bigFinal(bigBase+int64(i)*bigSegment, tops[i]))
		}
	})
	return pickletest.Write(w, pickletest.D("device_traces", pickletest.L(trace), "segments", segments), 4, pickletest.CPython)
}

func bigFinal(addr int64, blocks []bigBlock) *pickletest.Dict {
	list := pickletest.L()
	at := addr
	for _, k := range blocks {
		list.Items = append(list.Items, pickletest.D("address", at, "size", k.rounded(), "requested_size", k.size, "state", "active_allocated", "frames", k.stack))
		at += k.rounded()
	}
	list.Items = append(list.Items, pickletest.D("address", at, "size", addr+bigSegment-at, "requested_size", 0, "state", "inactive", "frames", pickletest.L()))
	return pickletest.D("device", 0, "address", addr, "total_size", bigSegment, "stream", bigStream, "segment_type", "large",
		"is_expandable", false, "blocks", list)
}

// TestBigSnapshot holds, on a smaller one, that the generator makes what it says: proven, with the counts of its seed.
func TestBigSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.pickle")
	writeBig(t, path, 20_000)
	res, err := importers.ImportFile(path, importers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := res.Devices[0].Facts
	if !f.Proven || f.Records < 20_000 || f.Records != f.Allocs+2*f.Frees+bigSegments || f.Segments != bigSegments {
		t.Errorf("%+v", f)
	}
}
