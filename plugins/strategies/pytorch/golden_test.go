package pytorch_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// goldenHeader is the first line of a recording of the real allocator.
type goldenHeader struct {
	Name       string
	Total      uint64
	Conf       string
	Contiguous bool
	Oracle     string
	Ops        int
}

// goldenOp is one operation and what the real allocator did. testdata/README.md documents the keys.
type goldenOp struct {
	I        int
	Op       string
	ID       int
	Size     uint64
	Stream   int
	Pool     uint16
	Fraction float64
	Conf     string
	Manual   int
	Skip     int
	OK       int
	Addr     uint64
	Bsize    uint64
	OOM      *goldenOOM
	Ev       [][3]any
	St       [9]uint64
}

type goldenOOM struct{ Tried, Total, Free, Allowed, Allocated, Private, Unallocated string }

// statKinds are the first statistics of the key "st", in its order; num_alloc_retries and num_ooms follow.
var statKinds = [7]pytorch.StatKind{pytorch.StatAllocatedBytes, pytorch.StatReservedBytes, pytorch.StatActiveBytes,
	pytorch.StatRequestedBytes, pytorch.StatInactiveSplitBytes, pytorch.StatInactiveSplit, pytorch.StatSegment}

// openGolden returns the lines of a recording, or nil when the file is a recording of something else.
func openGolden(t testing.TB, path string) (goldenHeader, *json.Decoder) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return goldenHeader{}, nil
	}
	dec := json.NewDecoder(bufio.NewReaderSize(z, 1<<16))
	var h goldenHeader
	if dec.Decode(&h) != nil || !strings.HasPrefix(h.Oracle, "pytorch ") {
		return goldenHeader{}, nil
	}
	return h, dec
}

// TestGolden replays every recording of the real allocator and compares each address, block size, driver call, statistic
// and figure of an out-of-memory message.
func TestGolden(t *testing.T) {
	known := 0
	defer func() {
		if testflags.GoldenDir() == "" && known == 0 {
			t.Error("no recordings in testdata")
		}
	}()
	for _, path := range testflags.GoldenFiles(t, "testdata", func(name string) bool { return strings.HasSuffix(name, ".jsonl.gz") }) {
		h, dec := openGolden(t, path)
		if dec == nil {
			continue
		}
		known++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"), func(t *testing.T) {
			p := newGoldenPlayer(t, h)
			ops := 0
			for ; ; ops++ {
				var op goldenOp
				if err := dec.Decode(&op); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("operation %d: %v", ops, err)
				}
				if err := p.play(&op); err != nil {
					t.Fatalf("operation %d (%s id=%d size=%d stream=%d): %v", op.I, op.Op, op.ID, op.Size, op.Stream, err)
				}
			}
			if ops != h.Ops {
				t.Fatalf("%d operations, the header says %d", ops, h.Ops)
			}
		})
	}
}

// goldenPlayer drives the strategy with the operations of a recording.
type goldenPlayer struct {
	h      goldenHeader
	dev    *callDevice
	a      *pytorch.Allocator
	blocks map[int]sdk.Block
	owners map[int]sdk.Stream // stream of each block
}

func newGoldenPlayer(t *testing.T, h goldenHeader) *goldenPlayer {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: h.Total, Contiguous: h.Contiguous})
	if err != nil {
		t.Fatal(err)
	}
	p := &goldenPlayer{h: h, dev: &callDevice{Device: dev, sizes: map[uint64]uint64{}}, blocks: map[int]sdk.Block{}, owners: map[int]sdk.Stream{}}
	opts, err := json.Marshal(map[string]string{"conf": h.Conf, "version": versionOf(h.Oracle)})
	if err != nil {
		t.Fatal(err)
	}
	env := &sdk.Env{Device: p.dev, CapacityBytes: h.Total, Options: opts}
	for i := range 64 {
		env.Streams = append(env.Streams, uint64(i))
	}
	s, err := pytorch.Description().New(env)
	if err != nil {
		t.Fatal(err)
	}
	p.a = s.(*pytorch.Allocator)
	return p
}

// versionOf turns the recorder's description of its oracle into the option.
func versionOf(oracle string) string {
	switch {
	case strings.Contains(oracle, "large_segment_size_mb"):
		return "2.14"
	case strings.HasPrefix(oracle, "pytorch 2.6"):
		return "2.6"
	}
	return "2.11"
}

func (p *goldenPlayer) play(op *goldenOp) error {
	p.dev.calls = p.dev.calls[:0]
	switch op.Op {
	case "a":
		if err := p.alloc(op); err != nil {
			return err
		}
	case "f", "r":
		b, ok := p.blocks[op.ID]
		if skipped := op.Skip == 1; op.Op == "f" && skipped == ok { // "skip" is written for frees only
			return fmt.Errorf("recorded skip=%d, block known: %v", op.Skip, ok)
		}
		if !ok {
			break
		}
		st := trace.StatusOK
		if op.Op == "r" {
			st = p.a.Use(&b, sdk.Stream(op.Stream))
		} else {
			st = p.a.Free(&b, p.owners[op.ID])
			delete(p.blocks, op.ID)
		}
		if st != trace.StatusOK {
			return fmt.Errorf("status %v: %v", st, p.a.LastError())
		}
	default:
		if st := p.control(op); st != trace.StatusOK {
			return fmt.Errorf("status %v: %v", st, p.a.LastError())
		}
	}
	return p.compare(op)
}

func (p *goldenPlayer) control(op *goldenOp) trace.Status {
	switch op.Op {
	case "e":
		return p.a.Trim()
	case "w":
		if op.Stream < 0 {
			p.dev.CompleteAll()
		} else {
			p.dev.Complete(uint16(op.Stream))
		}
	case "m":
		p.dev.SetManualEvents(op.Manual == 1)
	case "F":
		return p.a.Set("memory_fraction", fmt.Sprint(op.Fraction))
	case "c":
		return p.a.Set("conf", op.Conf)
	case "b":
		return p.a.PoolBegin(op.Pool)
	case "x":
		return p.a.PoolEnd(op.Pool)
	case "d":
		return p.a.PoolRelease(op.Pool)
	default:
		return trace.StatusUnsupported
	}
	return trace.StatusOK
}

func (p *goldenPlayer) alloc(op *goldenOp) error {
	var b sdk.Block
	st := p.a.Alloc(&sdk.Request{Size: op.Size, Stream: sdk.Stream(op.Stream)}, &b)
	if st.Placed() != (op.OK == 1) {
		return fmt.Errorf("status %v (%v), recorded ok=%d", st, p.a.LastError(), op.OK)
	}
	if !st.Placed() {
		o, _ := p.a.LastOOM()
		got := goldenOOM{Tried: pytorch.FormatSize(o.TriedBytes), Total: pytorch.FormatSize(o.TotalBytes),
			Free: pytorch.FormatSize(o.FreeBytes), Allocated: pytorch.FormatSize(o.AllocatedBytes),
			Unallocated: pytorch.FormatSize(o.UnallocatedBytes)}
		if o.HasAllowed {
			got.Allowed = pytorch.FormatSize(o.AllowedBytes)
		}
		if o.PrivateBytes > 0 {
			got.Private = pytorch.FormatSize(o.PrivateBytes)
		}
		if op.OOM == nil || got != *op.OOM {
			return fmt.Errorf("out of memory: figures %+v, recorded %+v", got, op.OOM)
		}
		return nil
	}
	if b.Addr != op.Addr || b.Size != op.Bsize {
		return fmt.Errorf("placed at %d with %d bytes, recorded %d with %d", b.Addr, b.Size, op.Addr, op.Bsize)
	}
	if op.Size > 0 {
		p.blocks[op.ID] = b
		p.owners[op.ID] = sdk.Stream(op.Stream)
	}
	return nil
}

func (p *goldenPlayer) compare(op *goldenOp) error {
	want := make([]string, len(op.Ev))
	for i, e := range op.Ev {
		want[i] = fmt.Sprintf("%v %.0f %.0f", e[0], e[1], e[2])
	}
	got := p.dev.text()
	if strings.HasPrefix(p.h.Name, "pools-") { // released pools are emptied in hash order there
		slices.Sort(want)
		slices.Sort(got)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("driver calls\n%s\nrecorded\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var st [9]uint64
	for i, k := range statKinds {
		st[i] = uint64(p.a.Stat(k, pytorch.PoolAll).Current)
	}
	st[7], st[8] = p.a.Counts().AllocRetries, p.a.Counts().OOMs
	if st != op.St {
		return fmt.Errorf("statistics %d, recorded %d", st, op.St)
	}
	return nil
}
