package view_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/view"
)

// TestMapCells shows every kind of cell.
func TestMapCells(t *testing.T) {
	_ = testflags.GoldenDir
	cfg := pmm.DefaultConfig(6 * pmm.RootBytes)
	cfg.BatchOrder, cfg.ScrubNsPerFrame = 0, 1
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var cs [3]pmm.Chunk
	if s := m.Alloc(pmm.User, 64<<10, pmm.None, cs[:], nil); s != pmm.OK {
		t.Fatal(s)
	}
	m.Unpin(cs[0], 1, 0)
	m.LazyFree(cs[1])
	m.AllocKernel(4 << 10)
	pages, _ := m.RMAlloc(nil, 3, 64<<10, false)
	m.RMFree(pages[1:2], 64<<10)
	var b bytes.Buffer
	if err := view.Map(&b, m); err != nil {
		t.Fatal(err)
	}
	want := view.Legend + `
root 0       user   |#LP.............................| IS_SPLIT    32×64K
root 1       kernel |+...............................| IS_SPLIT    31×64K 16×4K
root 2       PMA    |R~R                             |
roots 3-5    PMA    |                                |
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestBytes formats sizes exactly where a unit fits.
func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0B", 256: "256B", 4096: "4K", 2 << 20: "2M", 1 << 40: "1T", 1 << 50: "1024T", 10419456: "9.9M"} {
		if got := view.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if !strings.Contains(view.Legend, "64 KiB") {
		t.Error("the legend does not say what a cell is")
	}
}
