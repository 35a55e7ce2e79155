package predictive

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/learn"
)

const (
	unitBytes = 512
	stepsLog2 = 2 // four classes a doubling
	// resolution is into how many parts an iteration is cut for the planner.
	resolution = 10_000
)

// classOf returns the size class of a request of up to 2^60 bytes, and classBytes its size: a multiple of 512.
func classOf(size uint64) uint32 {
	u := (size + unitBytes - 1) / unitBytes
	if u <= 1<<stepsLog2 {
		return uint32(u)
	}
	top := bits.Len64(u-1) - 1
	return uint32(top<<stepsLog2) + uint32((u-1)>>(top-stepsLog2)&(1<<stepsLog2-1)) + 1
}

func classBytes(class uint32) uint64 {
	if class <= 1<<stepsLog2 {
		return uint64(class) * unitBytes
	}
	top, step := (class-1)>>stepsLog2, (class-1)&(1<<stepsLog2-1)
	base := uint64(1) << top
	return (base + (base>>stepsLog2)*uint64(step+1)) * unitBytes
}

// pool is the prepared memory of one class.
type pool struct {
	class  uint32
	stream sdk.Stream
	offset uint64
	blocks uint32
	from   int // in parts of an iteration
	to     int
	free   []uint32 // stack of block numbers
}

// predict returns the pools for the recorded iterations, laid out, and their height.
func predict(iterations [][]learn.Tensor, lengths []int, headroomPercent, slackPercent uint64) (pools []pool, height uint64) {
	type key struct {
		class  uint32
		stream sdk.Stream
	}
	found := map[key]*pool{}
	left := map[key]bool{} // left to the fallback
	for k, tensors := range iterations {
		type edge struct {
			at   int
			free bool
		}
		edges := map[key][]edge{}
		for _, t := range tensors {
			if t.Size == 0 {
				continue
			}
			id := key{classOf(t.Size), t.Stream}
			if t.End == 0 || t.Shared {
				left[id] = true
				continue
			}
			edges[id] = append(edges[id], edge{t.Start, false}, edge{t.End, true})
		}
		for id, list := range edges {
			slices.SortFunc(list, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
			live, most := uint32(0), uint32(0)
			for _, e := range list {
				if e.free {
					live--
				} else {
					live++
					most = max(most, live)
				}
			}
			p := found[id]
			if p == nil {
				p = &pool{class: id.class, stream: id.stream, from: resolution}
				found[id] = p
			}
			slack := resolution * int(slackPercent) / 100
			length := max(1, lengths[k])
			p.blocks = max(p.blocks, most)
			p.from = min(p.from, max(0, list[0].at*resolution/length-slack))
			p.to = max(p.to, min(resolution, list[len(list)-1].at*resolution/length+slack+1))
		}
	}
	for id, p := range found {
		if !left[id] {
			p.blocks += p.blocks * uint32(headroomPercent) / 100
			pools = append(pools, *p)
		}
	}
	slices.SortFunc(pools, func(a, b pool) int { return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.stream, b.stream)) })
	items := make([]learn.Item, len(pools))
	for i, p := range pools {
		items[i] = learn.Item{Size: uint64(p.blocks) * classBytes(p.class), Start: p.from, End: p.to}
	}
	offsets, height := learn.Plan(items)
	for i := range pools {
		p := &pools[i]
		p.offset = offsets[i]
		p.free = make([]uint32, 0, p.blocks)
		for k := p.blocks; k > 0; k-- {
			p.free = append(p.free, k-1)
		}
	}
	return pools, height
}

// stable reports whether all iterations but the last would have predicted the last one: 1 − 1/missShare of the bytes of its pools are in pools that are
// large enough. One iteration alone is taken for stable.
func stable(iterations [][]learn.Tensor, lengths []int, slackPercent uint64) bool {
	n := len(iterations) - 1
	if n == 0 {
		return true
	}
	before, _ := predict(iterations[:n], lengths[:n], 0, slackPercent)
	last, _ := predict(iterations[n:], lengths[n:], 0, slackPercent)
	var total, missed uint64
	for i := range last {
		p := &last[i]
		bytes := uint64(p.blocks) * classBytes(p.class)
		total += bytes
		if !slices.ContainsFunc(before, func(q pool) bool { return q.class == p.class && q.stream == p.stream && q.blocks >= p.blocks }) {
			missed += bytes
		}
	}
	return missed*missShare <= total
}
