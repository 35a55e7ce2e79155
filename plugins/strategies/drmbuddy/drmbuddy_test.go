package drmbuddy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"pgregory.net/rapid"
)

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"contiguous":true,"clear_frees":true}`, `{"topdown":true,"min_block_bytes":65536,"clear_requests":true,"clear_frees":true}`)
}

func TestInvariants(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"contiguous":true}`, 64, 16384)
}

// TestText runs the scripts of testdata on a heap at base 0 whose sizes are in chunks.
func TestText(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var h *Heap
		live := map[string]uint64{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "heap":
				var chunks uint64
				d.ScanArgs(t, "chunks", &chunks)
				opt := Options{ChunkBytes: 4096, MinBlockBytes: 4096, Contiguous: d.HasArg("contiguous"), Topdown: d.HasArg("topdown"), NoTrim: d.HasArg("no-trim")}
				h = New(0, chunks*4096, opt, nil)
				return show(h)
			case "alloc":
				var size, align uint64
				var name string
				d.ScanArgs(t, "size", &size)
				d.ScanArgs(t, "as", &name)
				if d.HasArg("align") {
					d.ScanArgs(t, "align", &align)
				}
				h.opt.ClearRequests = d.HasArg("clear")
				_, granted, ref, ok := h.Alloc(size*4096, align*4096)
				if !ok {
					return "no space\n" + show(h)
				}
				live[name] = ref
				var pieces []string
				for p := h.allocs[uint32(ref)].first; p != 0; p = h.pieces[p].next {
					n := h.pieces[p].n
					pieces = append(pieces, fmt.Sprintf("[%d,%d)", n.start(), n.end()))
				}
				return fmt.Sprintf("%s: %d chunks %s\n%s", name, granted/4096, strings.Join(pieces, " "), show(h))
			case "free":
				for _, a := range d.CmdArgs {
					if a.Key == "clear" {
						continue
					}
					h.opt.ClearFrees = d.HasArg("clear")
					ref := live[a.Key]
					if !h.Free(h.allocs[uint32(ref)].addr, 0, ref) {
						return a.Key + " is not live\n"
					}
				}
				return show(h)
			}
			return "unknown command"
		})
	})
}

// show lists the free blocks from the bottom, those of the clear tree with a c.
func show(h *Heap) string {
	type f struct {
		at uint64
		s  string
	}
	var fs []f
	for tree := range h.b.free {
		for order := range h.b.free[tree] {
			set := &h.b.free[tree][order]
			for i, ok := set.highest(); ok; i, ok = set.below(i) {
				n := node{i: i, order: order}
				fs = append(fs, f{n.start(), fmt.Sprintf("[%d,%d)%s", n.start(), n.end(), strings.Repeat("c", tree))})
			}
		}
	}
	slices.SortFunc(fs, func(a, b f) int { return int(a.at) - int(b.at) })
	out := "free:"
	for _, x := range fs {
		out += " " + x.s
	}
	return out + " clear=" + strconv.Itoa(int(h.b.clear)) + "\n"
}

// TestTiling checks after random requests and frees, of mixed kinds and states, that free and allocated blocks tile the
// chunks, that no two free buddies have one state, and that the count of clear chunks is right; in the end everything is free and,
// after a forced merge, the roots are whole.
func TestTiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.Uint64Range(1, 300).Draw(t, "chunks")
		h := New(0, chunks*4096, Options{ChunkBytes: 4096, MinBlockBytes: 4096}, nil)
		type block struct{ addr, granted, ref uint64 }
		var live []block
		free := func(t *rapid.T, i int) {
			h.opt.ClearFrees = rapid.Bool().Draw(t, "clear")
			b := live[i]
			if !h.Free(b.addr, b.granted, b.ref) || h.Free(b.addr, b.granted, b.ref) {
				t.Fatalf("free of %+v, or its second free", b)
			}
			live = slices.Delete(live, i, i+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				h.opt.Contiguous, h.opt.Topdown, h.opt.NoTrim = rapid.Bool().Draw(t, "contiguous"), rapid.Bool().Draw(t, "topdown"), rapid.Bool().Draw(t, "no trim")
				h.opt.ClearRequests = rapid.Bool().Draw(t, "clear")
				size := rapid.Uint64Range(1, chunks*4096).Draw(t, "size")
				align := uint64(1) << rapid.IntRange(0, 15).Draw(t, "align")
				addr, granted, ref, ok := h.Alloc(size, align)
				if !ok {
					return
				}
				want := (size + 4095) / 4096 * 4096
				if granted < want || addr%align != 0 || h.opt.Contiguous && h.pieces[h.allocs[uint32(ref)].first].n.start()*4096 != addr {
					t.Fatalf("%d bytes: %d at %d", size, granted, addr)
				}
				live = append(live, block{addr, granted, ref})
			},
			"free": func(t *rapid.T) {
				if len(live) > 0 {
					free(t, rapid.IntRange(0, len(live)-1).Draw(t, "which"))
				}
			},
			"": func(t *rapid.T) { checkTiling(t, h) },
		})
		for len(live) > 0 {
			free(t, 0)
		}
		for h.b.clear != 0 && h.b.forceMerge(h.b.maxOrder) {
		}
		checkTiling(t, h)
	})
}

func checkTiling(t *rapid.T, h *Heap) {
	var in sdk.Inspection
	h.Inspect(&in)
	at := uint64(0)
	for _, b := range in.Segments[0].Blocks {
		if b.Addr != at {
			t.Fatalf("a block begins at %d, want %d: %+v", b.Addr, at, in.Segments[0].Blocks)
		}
		at += b.Bytes
	}
	if at != h.bytes {
		t.Fatalf("the blocks end at %d of %d", at, h.bytes)
	}
	var clear uint64
	for order := range h.b.used {
		for tree := range h.b.free {
			set := &h.b.free[tree][order]
			for i, ok := set.highest(); ok; i, ok = set.below(i) {
				if set.has(i ^ 1) {
					t.Fatalf("order %d: %d and its buddy are both free and of state %d", order, i, tree)
				}
				if tree == clean {
					clear += 1 << order
				}
			}
		}
	}
	if clear != h.b.clear {
		t.Fatalf("%d clear chunks counted, want %d", h.b.clear, clear)
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, o := range []string{`{}`, `{"contiguous":true}`} {
		b.Run(o, func(b *testing.B) { goldentest.BenchAll(b, Description(), o) })
	}
}
