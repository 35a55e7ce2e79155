package pytorch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// bench is what the scripts of testdata/behaviour drive: an allocator, its device, and blocks by name.
type bench struct {
	t      *testing.T
	dev    *callDevice
	a      *pytorch.Allocator
	blocks map[string]sdk.Block
	owners map[string]sdk.Stream // stream of each block
}

// TestBehaviour runs the scripts below testdata/behaviour. `open` makes a device and an allocator; `run` executes a line a
// time, and prints what became of it and which device calls it made. Sizes are in bytes, KiB, MiB or GiB.
func TestBehaviour(t *testing.T) {
	datadriven.Walk(t, "testdata/behaviour", func(t *testing.T, path string) {
		b := &bench{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "open" {
				return b.open(d)
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				fmt.Fprintln(&out, strings.TrimRight(line+": "+b.line(strings.Fields(line)), " "))
			}
			return out.String()
		})
	})
}

func (b *bench) open(d *datadriven.TestData) string {
	total, opts := "1GiB", map[string]any{}
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, ",")
		switch arg.Key {
		case "total":
			total = value
		case "memory_fraction":
			opts[arg.Key] = json.RawMessage(value)
		default:
			opts[arg.Key] = value
		}
	}
	if d.Input != "" {
		opts["conf"] = d.Input
	}
	dev, err := ideal.New(ideal.Config{TotalBytes: parseBytes(b.t, total)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.dev, b.blocks, b.owners = &callDevice{Device: dev, sizes: map[uint64]uint64{}}, map[string]sdk.Block{}, map[string]sdk.Stream{}
	raw, err := json.Marshal(opts)
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := pytorch.Description().New(&sdk.Env{Device: b.dev, Options: raw, Streams: []uint64{0, 1, 2, 3}})
	if err != nil {
		return err.Error() + "\n"
	}
	b.a = s.(*pytorch.Allocator)
	return "ok\n"
}

// line executes one line.
func (b *bench) line(f []string) string {
	b.dev.calls = b.dev.calls[:0]
	arg := func(k int) string {
		if k < len(f) {
			return f[k]
		}
		return ""
	}
	if arg(1) == "=" {
		return b.alloc(f[0], f[3:])
	}
	st := trace.StatusOK
	switch f[0] {
	case "free":
		blk, s := b.blocks[f[1]], b.owners[f[1]]
		if on, ok := strings.CutPrefix(arg(2), "stream="); ok {
			s = sdk.Stream(b.number(on))
		}
		st = b.a.Free(&blk, s)
	case "free!":
		blk := b.blocks[f[1]]
		st = b.a.FreeWrong(&blk, 0)
	case "use":
		blk := b.blocks[f[1]]
		st = b.a.Use(&blk, sdk.Stream(b.number(arg(2))))
	case "trim":
		st = b.a.Trim()
	case "reset":
		st = b.a.Reset()
	case "close":
		if err := b.a.Close(); err != nil {
			return err.Error()
		}
	case "set":
		key, value, _ := strings.Cut(f[1], "=")
		st = b.a.Set(key, value)
	case "pool-begin":
		st = b.a.PoolBegin(sdk.Pool(b.number(f[1])))
	case "pool-end":
		st = b.a.PoolEnd(sdk.Pool(b.number(arg(1))))
	case "pool-release":
		st = b.a.PoolRelease(sdk.Pool(b.number(f[1])))
	case "events":
		b.dev.SetManualEvents(f[1] == "manual")
	case "complete":
		b.dev.Complete(uint16(b.number(f[1])))
	case "fail-next":
		b.dev.FailNext(uint64(b.number(f[1])))
	case "stats":
		return b.stats(f[1:])
	case "map":
		return b.addressMap()
	case "oom":
		o, _ := b.a.LastOOM()
		return o.String()
	default:
		b.t.Fatalf("unknown line %q", f)
	}
	return b.answer(st, "")
}

func (b *bench) alloc(name string, args []string) string {
	r := sdk.Request{Size: parseBytes(b.t, args[0])}
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		n := b.number(value)
		switch key {
		case "stream":
			r.Stream = sdk.Stream(n)
		case "pool":
			r.Pool = sdk.Pool(n)
		case "align":
			r.Align = uint64(n)
		default:
			b.t.Fatalf("unknown argument %q", a)
		}
	}
	var blk sdk.Block
	st := b.a.Alloc(&r, &blk)
	if !st.Placed() {
		return b.answer(st, "")
	}
	b.blocks[name], b.owners[name] = blk, r.Stream
	return b.answer(st, fmt.Sprintf(" at %s, %s", place(blk.Addr), bytesText(blk.Size)))
}

// answer is the status, its reason, and the device calls.
func (b *bench) answer(st trace.Status, text string) string {
	out := st.String() + text
	if st == trace.StatusError || st == trace.StatusInvalid {
		out += fmt.Sprintf(" (%v)", b.a.LastError())
	}
	for _, c := range b.dev.calls {
		out += "\n    " + c.kind
		if !strings.HasSuffix(c.kind, "_fail") {
			out += " " + place(c.addr)
		}
		out += " " + bytesText(c.size)
	}
	return out
}

func (b *bench) stats(keys []string) string {
	all := b.a.Inspect().Counters
	var out []string
	for _, k := range keys {
		v, ok := all[k]
		if !ok {
			b.t.Fatalf("no statistic %q", k)
		}
		out = append(out, fmt.Sprintf("%s=%d", k, v))
	}
	return strings.Join(out, " ")
}

// addressMap prints a line for each segment.
func (b *bench) addressMap() string {
	var out strings.Builder
	for _, s := range b.a.Inspect().Segments {
		fmt.Fprintf(&out, "\n    %s stream %d pool %d:", place(s.Addr), s.Stream, s.Pool)
		for _, k := range s.Blocks {
			fmt.Fprintf(&out, " [%s %s]", k.State, bytesText(k.Bytes))
		}
	}
	for _, l := range b.a.Inspect().FreeLists {
		fmt.Fprintf(&out, "\n    free list %s: %d, %s", l.Name, l.Len, bytesText(l.Bytes))
	}
	return out.String()
}

func (b *bench) number(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

var byteUnits = []struct {
	name  string
	bytes uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

func parseBytes(t *testing.T, s string) uint64 {
	for _, u := range byteUnits {
		if digits, ok := strings.CutSuffix(s, u.name); ok {
			n, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * u.bytes
		}
	}
	return 0
}

func bytesText(n uint64) string {
	for _, u := range byteUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return "0"
}

// place prints an address; v marks the range of virtual reservations.
func place(addr uint64) string {
	if addr >= ideal.VirtualBase {
		return "v+" + bytesText(addr-ideal.VirtualBase)
	}
	return bytesText(addr)
}

// TestVersion26 replays the recordings under the rules of 2.6: the two versions decided alike on every script whose
// settings 2.6 knows, except that 2.6 has no defined behaviour when several oversize blocks must go, and that a memory
// fraction of 1 is a limit there.
func TestVersion26(t *testing.T) {
	for name, stale := range map[string]bool{"bounds-roundup": false, "pools-default": false, "pools-expandable": false,
		"train-grow-tight-expandable": false, "toggle-conf": false, "streams-tight-default": false, "frag-maxsplit20": true} {
		t.Run(name, func(t *testing.T) {
			h, dec := openGolden(t, "testdata/"+name+".jsonl.gz")
			h.Oracle = "pytorch 2.6.0 c10"
			p := newGoldenPlayer(t, h)
			for dec.More() {
				var op goldenOp
				if err := dec.Decode(&op); err != nil {
					t.Fatal(err)
				}
				err := p.play(&op)
				if err != nil && stale && p.a.LastError() == pytorch.ErrStaleSize {
					return
				}
				if err != nil {
					t.Fatalf("operation %d: %v", op.I, err)
				}
			}
			if stale {
				t.Fatal("the undefined decision of 2.6 was not met")
			}
		})
	}
}

// TestFormatSize: the limits belong to the smaller unit.
func TestFormatSize(t *testing.T) {
	got := []string{}
	for _, n := range []uint64{0, 1024, 1025, 1 << 20, 1<<20 + 1, 1 << 30, 1<<30 + 1<<29, 80 << 30} {
		got = append(got, pytorch.FormatSize(n))
	}
	want := []string{"0 bytes", "1024 bytes", "1.00 KiB", "1024.00 KiB", "1.00 MiB", "1024.00 MiB", "1.50 GiB", "80.00 GiB"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}
