package learn

import (
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"pgregory.net/rapid"
)

// TestPlans: no two items that live at one time overlap, the height is their highest end, and it is neither below the most that is live nor above the sum.
func TestPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		items := make([]Item, n)
		var sum uint64
		live := map[int]uint64{}
		for i := range items {
			start := rapid.IntRange(0, 20).Draw(t, "start")
			items[i] = Item{Size: rapid.Uint64Range(1, 200).Draw(t, "size"), Start: start, End: start + rapid.IntRange(1, 10).Draw(t, "life")}
			sum += items[i].Size
			for at := items[i].Start; at < items[i].End; at++ {
				live[at] += items[i].Size
			}
		}
		offsets, height := Plan(items)
		top := uint64(0)
		for i := range items {
			top = max(top, offsets[i]+items[i].Size)
			for j := range items[:i] {
				if items[i].meets(&items[j]) && offsets[i] < offsets[j]+items[j].Size && offsets[j] < offsets[i]+items[i].Size {
					t.Fatalf("items %d and %d overlap: %+v %v", j, i, items, offsets)
				}
			}
		}
		for at, bytes := range live {
			if bytes > height {
				t.Fatalf("height %d, but %d are live at %d", height, bytes, at)
			}
		}
		if top > height || height > sum {
			t.Fatalf("height %d, highest end %d, sum %d", height, top, sum)
		}
	})
}

// TestLayers by hand: 100 twice at different times share a layer, 99 is of their cluster and meets both, 40 finds a hole in the second
// layer.
func TestLayers(t *testing.T) {
	items := []Item{{100, 0, 4}, {100, 4, 8}, {99, 2, 6}, {40, 6, 9}}
	offsets, height := inLayers(items, []int{0, 1, 2, 3})
	if want := [4]uint64{0, 0, 100, 100}; [4]uint64(offsets) != want || height != 200 {
		t.Fatalf("%v, height %d; want %v, 200", offsets, height, want)
	}
}

// TestRecorder follows two iterations: the second tensor of the first is freed in the second, the third is used on another stream.
func TestRecorder(t *testing.T) {
	var r Recorder
	r.Alloc(1, 10, 0) // before the first mark
	r.Mark()
	r.Alloc(2, 20, 0)
	r.Alloc(3, 30, 1)
	r.Free(1, 0)
	r.Free(2, 0)
	r.Alloc(4, 40, 0)
	r.Use(4, 2)
	r.Free(4, 0)
	r.Mark()
	r.Free(3, 1)
	r.Mark()
	want := []Tensor{{Size: 20, Start: 0, End: 3}, {Size: 30, Stream: 1, Start: 1}, {Size: 40, Start: 3, End: 5, Shared: true}}
	if len(r.Iterations) != 2 || len(r.Iterations[0]) != 3 || len(r.Iterations[1]) != 0 || r.Lengths[0] != 5 {
		t.Fatalf("%+v", r)
	}
	for i := range want {
		if r.Iterations[0][i] != want[i] {
			t.Errorf("tensor %d: %+v, want %+v", i, r.Iterations[0][i], want[i])
		}
	}
}
