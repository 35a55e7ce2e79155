package learn

import (
	"cmp"
	"slices"
)

// Item is memory that is needed for a time.
type Item struct {
	Size       uint64
	Start, End int // [Start, End)
}

func (a *Item) meets(b *Item) bool { return a.Start < b.End && b.Start < a.End }

// clusterPercent is how far apart the sizes of neighbours in a cluster may be: STAlloc's DBSCAN has an eps of 0.01 of the size.
const clusterPercent = 1

// Plan returns an offset for each item such that no two that live at one time overlap, and the height.
func Plan(items []Item) (offsets []uint64, height uint64) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(items[j].Size, items[i].Size), cmp.Compare(items[i].Start, items[j].Start), cmp.Compare(i, j))
	})
	offsets, height = inLayers(items, order)
	if o, h := bySize(items, order); h < height {
		return o, h
	}
	return offsets, height
}

// layer is a band of memory with the items that it holds at different times.
type layer struct {
	size    uint64
	cluster int
	items   []int
	end     int // the last end of its items
}

func (l *layer) holds(items []Item, i int) bool {
	for _, j := range l.items {
		if items[i].meets(&items[j]) {
			return false
		}
	}
	return true
}

// inLayers colours the items, in the order of falling size, with layers.
func inLayers(items []Item, order []int) (offsets []uint64, height uint64) {
	var layers []layer
	offsets = make([]uint64, len(items))
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && items[order[end]].Size*100 >= items[order[end-1]].Size*(100-clusterPercent) {
			end++
		}
		cluster := slices.Clone(order[begin:end])
		slices.SortFunc(cluster, func(i, j int) int { return cmp.Or(cmp.Compare(items[i].Start, items[j].Start), cmp.Compare(i, j)) })
		for _, i := range cluster {
			l := layerFor(layers, items, i, begin)
			if l < 0 {
				layers = append(layers, layer{size: items[order[begin]].Size, cluster: begin})
				l = len(layers) - 1
			}
			x := &layers[l]
			x.items = append(x.items, i)
			x.end = max(x.end, items[i].End)
		}
		begin = end
	}
	for _, l := range layers { // by falling size, as they were made
		for _, i := range l.items {
			offsets[i] = height
		}
		height += l.size
	}
	return offsets, height
}

// layerFor returns a layer of a larger cluster that has a hole for item i, else the one of its own cluster that ends last but not after its start, else −1.
func layerFor(layers []layer, items []Item, i, cluster int) int {
	best := -1
	for k := range layers {
		l := &layers[k]
		if l.cluster != cluster {
			if l.holds(items, i) {
				return k
			}
		} else if l.end <= items[i].Start && (best < 0 || l.end > layers[best].end) {
			best = k
		}
	}
	return best
}

// bySize places each item at the lowest offset that is free during its life.
func bySize(items []Item, order []int) (offsets []uint64, height uint64) {
	offsets = make([]uint64, len(items))
	var near []int
	for k, i := range order {
		near = near[:0]
		for _, j := range order[:k] {
			if items[i].meets(&items[j]) {
				near = append(near, j)
			}
		}
		slices.SortFunc(near, func(a, b int) int { return cmp.Compare(offsets[a], offsets[b]) })
		at := uint64(0)
		for _, j := range near {
			if offsets[j] >= at && offsets[j]-at >= items[i].Size {
				break
			}
			at = max(at, offsets[j]+items[j].Size)
		}
		offsets[i] = at
		height = max(height, at+items[i].Size)
	}
	return offsets, height
}
