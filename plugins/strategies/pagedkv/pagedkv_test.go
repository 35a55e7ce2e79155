package pagedkv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 800, `{"page_bytes":262144}`, `{"page_bytes":262144,"prefix_cache":true}`)
}

// notes keeps what the heap says about its blocks.
type notes []string

func (n *notes) Note(c trace.Call) {
	switch c.Kind {
	case trace.CallExtent:
		*n = append(*n, fmt.Sprintf("extent [%d,%d)", c.Addr/256, (c.Addr+c.Size)/256))
	case trace.CallShare:
		*n = append(*n, fmt.Sprintf("shares %d with the block at %d", c.Addr/256, c.Aux/256))
	}
}

// TestText runs the scripts of testdata on pages of 256 bytes from 0.
func TestText(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var h *Heap
		var said notes
		live := map[string]sdk.Block{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			said = said[:0]
			switch d.Cmd {
			case "heap":
				var pages uint64
				d.ScanArgs(t, "pages", &pages)
				h = New(0, pages*256, Options{PageBytes: 256, PrefixCache: d.HasArg("prefix-cache")}, &said)
			case "alloc":
				var bytes uint64
				var name string
				d.ScanArgs(t, "bytes", &bytes)
				d.ScanArgs(t, "as", &name)
				h.tag = 0
				if d.HasArg("tag") {
					d.ScanArgs(t, "tag", &h.tag)
				}
				addr, granted, ref, ok := h.Alloc(bytes, 0)
				if !ok {
					said = append(said, "no pages")
					break
				}
				live[name] = sdk.Block{Addr: addr, Size: granted, Ref: ref}
				said = append(said, fmt.Sprintf("%s: %d pages at %d", name, granted/256, addr/256))
			case "free":
				b := live[d.CmdArgs[0].Key]
				if !h.Free(b.Addr, b.Size, b.Ref) || h.Free(b.Addr, b.Size, b.Ref) {
					return "not live"
				}
			}
			return strings.Join(append(said, fmt.Sprintf("queue %v hits=%d evicted=%d", h.queue(), h.hits, h.evictions)), "\n") + "\n"
		})
	})
}

// TestPages checks after random requests and frees that the queue holds exactly the pages without users, that users are
// counted right, and that no page is shared by blocks of different tags.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 24
		h := New(0, pages*256, Options{PageBytes: 256, PrefixCache: rapid.Bool().Draw(t, "prefix cache")}, nil)
		type block struct {
			sdk.Block
			tag uint32
		}
		var live []block
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				size := rapid.Uint64Range(1, 2000).Draw(t, "size")
				h.tag = uint32(rapid.IntRange(0, 3).Draw(t, "tag"))
				before := h.free
				addr, granted, ref, ok := h.Alloc(size, 0)
				if !ok {
					if h.free != before || (size+255)/256 <= before && !h.prefixes {
						t.Fatalf("%d bytes failed with %d free pages, %d afterwards", size, before, h.free)
					}
					return
				}
				if granted != (size+255)/256*256 {
					t.Fatalf("%d granted for %d", granted, size)
				}
				live = append(live, block{sdk.Block{Addr: addr, Size: granted, Ref: ref}, h.tag})
			},
			"free": func(t *rapid.T) {
				if len(live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				if !h.Free(live[i].Addr, live[i].Size, live[i].Ref) {
					t.Fatalf("free of %+v", live[i])
				}
				live = slices.Delete(live, i, i+1)
			},
			"": func(t *rapid.T) {
				users, tags := map[uint32]uint32{}, map[uint32]uint32{}
				for _, b := range live {
					for k := h.owners[uint32(b.Ref)].pages; k != 0; k = h.holdings[k].nextOfOwner {
						p := h.holdings[k].page
						if users[p]++; users[p] > 1 && (tags[p] != b.tag || b.tag == 0) {
							t.Fatalf("page %d is shared by tags %d and %d", p, tags[p], b.tag)
						}
						tags[p] = b.tag
					}
				}
				queue := h.queue()
				if uint64(len(queue)) != h.free || len(queue)+len(users) != pages-1 {
					t.Fatalf("%d pages in the queue, %d counted, %d used, of %d", len(queue), h.free, len(users), pages-1)
				}
				for i := range h.pages {
					if h.pages[i].users != users[uint32(i)] || h.pages[i].users > 0 && slices.Contains(queue, uint32(i)) {
						t.Fatalf("page %d has %d users, want %d", i, h.pages[i].users, users[uint32(i)])
					}
				}
			},
		})
	})
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{"page_bytes":4096}`) }
