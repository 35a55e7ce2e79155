package bounds

import (
	"fmt"
	"strconv"

	"github.com/gpubench/gpubench/trace"
)

const (
	// MaxGreedyBuffers bounds the traces that are packed greedily: every two buffers are compared, a second at 20,000.
	MaxGreedyBuffers = 20_000
	// MaxExactBuffers bounds the traces that are packed by search.
	MaxExactBuffers = 500
)

// Report is what a trace could have done with.
type Report struct {
	Buffers       int      `json:"buffers"`
	MaxLiveBytes  uint64   `json:"max_live_bytes"`           // no strategy can do with less
	GreedyBytes   uint64   `json:"greedy_bytes,omitempty"`   // greedy by size, knowing the future; 0 = not computed, see Warnings
	PackedBytes   uint64   `json:"packed_bytes,omitempty"`   // the best packing found by search, at most GreedyBytes; 0 = not computed
	PackedOptimal bool     `json:"packed_optimal,omitempty"` // no packing without moves can be lower than PackedBytes
	Warnings      []string `json:"warnings,omitempty"`
}

// Bounds computes the report of a trace with the default effort. It is a function of the trace alone.
func Bounds(t *trace.Trace) Report { return BoundsWithin(t, Effort{Nodes: DefaultNodes}) }

// BoundsWithin computes the report with the given effort for the search.
func BoundsWithin(t *trace.Trace, e Effort) Report {
	buffers, warnings := Buffers(t)
	r := Report{Buffers: len(buffers), MaxLiveBytes: MaxLive(buffers), Warnings: warnings}
	switch {
	case len(buffers) > MaxGreedyBuffers:
		r.Warnings = append(r.Warnings, fmt.Sprintf("no packing: %d buffers are more than %d", len(buffers), MaxGreedyBuffers))
		return r
	case len(buffers) > MaxExactBuffers:
		r.Warnings = append(r.Warnings, fmt.Sprintf("greedy packing only: %d buffers are more than %d", len(buffers), MaxExactBuffers))
	}
	r.GreedyBytes = GreedyBySize(buffers).Height
	if len(buffers) > MaxExactBuffers {
		return r
	}
	best, optimal, err := Pack(buffers, e)
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
		return r
	}
	r.PackedBytes, r.PackedOptimal = best.Height, optimal
	return r
}

// Buffers returns the blocks of a trace as buffers: a block lives from the event that makes it to the event that ends it, in
// event numbers; one that is never freed lives to the end. Sizes are those requested. Requests of 0 bytes, and those that failed in the
// recording, are left out. A block that a restore brings back is a buffer of its own, so it might be packed elsewhere: that is reported.
func Buffers(t *trace.Trace) (buffers []Buffer, warnings []string) {
	c := collector{t: t, live: make([]int, t.Slots)}
	if t.Start != nil {
		for i := range t.Start.Segments {
			for _, b := range t.Start.Segments[i].Blocks {
				if b.Handle != 0 && !b.Pending {
					c.begin(b.Slot, b.Handle, b.RequestedBytes, 0)
				}
			}
		}
	}
	for i := range t.Events {
		c.event(int64(i))
	}
	for slot := range c.live {
		c.end(uint32(slot), int64(len(t.Events))+1)
	}
	if c.restored {
		warnings = append(warnings, "blocks that a restore brings back count as new: a packing may put them elsewhere")
	}
	return c.out, warnings
}

// collector follows the live blocks of a trace.
type collector struct {
	t        *trace.Trace
	out      []Buffer
	live     []int // by slot: 1 + index in out
	saved    map[uint32][]savedBlock
	restored bool
}

type savedBlock struct {
	slot uint32
	id   string
	size uint64
}

func (c *collector) begin(slot uint32, h trace.Handle, size uint64, at int64) {
	if size != 0 {
		c.out = append(c.out, Buffer{ID: "h" + strconv.FormatUint(uint64(h), 10), Lower: at, Size: size})
		c.live[slot] = len(c.out)
	}
}

func (c *collector) end(slot uint32, at int64) {
	if i := c.live[slot]; i != 0 {
		c.out[i-1].Upper = at
		c.live[slot] = 0
	}
}

// event takes event i, which happens at moment i+1: the start state lives from moment 0.
func (c *collector) event(i int64) {
	ev := &c.t.Events[i]
	switch ev.Kind {
	case trace.KindRealloc:
		c.end(c.t.Extras[ev.Aux].Slot2, i+1)
		fallthrough
	case trace.KindAlloc:
		if r := c.t.Recorded; len(r) == 0 || r[i].Seen == 0 || r[i].Status != trace.StatusFailed {
			c.begin(ev.Slot, ev.Handle, ev.Size, i+1)
		}
	case trace.KindFree:
		c.end(ev.Slot, i+1)
	case trace.KindCheckpoint:
		if c.saved == nil {
			c.saved = map[uint32][]savedBlock{}
		}
		var list []savedBlock
		for slot, k := range c.live {
			if k != 0 {
				list = append(list, savedBlock{uint32(slot), c.out[k-1].ID, c.out[k-1].Size})
			}
		}
		c.saved[ev.Aux] = list
	case trace.KindReset, trace.KindRestore:
		for slot := range c.live {
			c.end(uint32(slot), i+1)
		}
		if ev.Kind == trace.KindReset {
			return
		}
		for _, b := range c.saved[ev.Aux] {
			c.restored = true
			c.out = append(c.out, Buffer{ID: b.id, Lower: i + 1, Size: b.size})
			c.live[b.slot] = len(c.out)
		}
	}
}
