package trace

import (
	"fmt"
	"maps"
	"slices"
)

// Cut returns the events from..to (to excluded) as a trace of their own, in memory. See CutInto.
func Cut(t *Trace, from, to uint64) (*Trace, error) {
	b := NewBuilder()
	meta, err := CutInto(b, t, from, to)
	if err != nil {
		return nil, err
	}
	return b.Finish(meta)
}

// CutInto adds the events from..to of a valid trace to a builder and returns the Meta to finish it with.
//
// What is live at the start of the cut becomes a start state when the recording saw the address of every such block;
// segments are those that the recording saw, or, where it saw none, one is made up round each run of touching blocks.
// Otherwise the live blocks are allocated by ordinary events at the head of the cut, in the order in which they came to
// be. Manual events, open pools and settings that hold at the start are set again at the head. Handles keep their names
// and times begin at 0. Everything that the cut cannot keep is named in a warning; restoring a checkpoint from before
// the cut is an error.
func CutInto(b *Builder, t *Trace, from, to uint64) (Meta, error) {
	n := uint64(len(t.Events))
	if from > to || to > n {
		return Meta{}, fmt.Errorf("%w: events %d to %d of a trace of %d", ErrArgument, from, to, n)
	}
	meta := t.Meta
	meta.Warnings = slices.Clone(meta.Warnings)
	if from == 0 {
		if err := copyInto(b, t, 0, to); err != nil {
			return Meta{}, err
		}
	} else {
		c := newCutter(b, t, from)
		if err := c.run(to); err != nil {
			return Meta{}, err
		}
		meta.Warnings = append(meta.Warnings, c.warnings...)
	}
	if from != 0 || to != n {
		meta.Warnings = append(meta.Warnings, fmt.Sprintf("cut: events %d to %d of %d", from, to, n))
		meta.CoversPercent = covers(t, from, to)
	}
	return meta, nil
}

// covers returns the share of what is live at the peak of the events from..to that was allocated among them.
func covers(t *Trace, from, to uint64) float64 {
	w := newWalk(t)
	for i := range from {
		w.step(i, nil)
	}
	most, share := w.live(), 0.0
	if w.handles == 0 {
		share = 100
	}
	inside := uint64(0) // live handles born inside, kept by hand so that a peak costs nothing
	for i := from; i < to; i++ {
		ev := &t.Events[i]
		before := w.handles
		switch {
		case ev.Kind == KindFree && w.born[ev.Slot] > from && w.born[ev.Slot] != bornStart:
			inside--
		case ev.Kind == KindRealloc:
			if old := w.born[t.Extras[ev.Aux].Slot2]; old > from && old != bornStart {
				inside--
				before--
			} else if old != 0 {
				before--
			}
		case ev.Kind == KindReset:
			inside = 0
		}
		w.step(i, nil)
		if ev.Kind.TakesMemory() && w.handles > before {
			inside++
		}
		if ev.Kind == KindRestore {
			inside = w.bornAfter(from)
		}
		if w.live() > most || (i == from && most == 0) {
			most = w.live()
			share = 100
			if w.handles > 0 {
				share = 100 * float64(inside) / float64(w.handles)
			}
		}
	}
	return share
}

func (w *walk) bornAfter(from uint64) (n uint64) {
	for _, born := range w.born {
		if born > from && born != bornStart {
			n++
		}
	}
	return n
}

// cutter carries over what holds at the start of a cut.
type cutter struct {
	copier
	from     uint64
	w        *walk
	handle   []Handle // by slot
	addr     []uint64 // by slot
	granted  []uint64
	known    []bool // by slot: addr is known
	lay      layout
	manual   bool
	open     []uint16
	settings []uint32                   // strings of KindSet still in force, the last of each key, in order
	outside  map[uint32]bool            // checkpoints made before the cut
	failed   map[Handle]bool            // handles whose request the recording saw fail, not yet freed
	saved    map[uint32]map[Handle]bool // failed, at each checkpoint
	dropped  int                        // events on them inside the cut
	warnings []string
}

func newCutter(b *Builder, t *Trace, from uint64) *cutter {
	c := &cutter{copier: copier{b: b, t: t}, from: from, w: newWalk(t), handle: make([]Handle, t.Slots), addr: make([]uint64, t.Slots),
		granted: make([]uint64, t.Slots), known: make([]bool, t.Slots), outside: map[uint32]bool{}, failed: map[Handle]bool{},
		saved: map[uint32]map[Handle]bool{}}
	pending := 0
	if t.Start != nil {
		for i := range t.Start.Segments {
			seg := &t.Start.Segments[i]
			c.lay.take(*seg)
			for _, blk := range seg.Blocks {
				if blk.Pending {
					pending++
				} else if blk.Handle != 0 {
					c.place(blk.Slot, blk.Handle, blk.Addr, blk.Bytes, true)
				}
			}
		}
	}
	if pending > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("cut: %d blocks that were pending at the start of the recording are taken as free", pending))
	}
	segs := 0
	for i := range from {
		for ; segs < len(t.SegmentEvents) && t.SegmentEvents[segs].Event <= i; segs++ {
			c.lay.event(&t.SegmentEvents[segs])
		}
		c.before(i)
	}
	return c
}

func (c *cutter) place(slot uint32, h Handle, addr, granted uint64, known bool) {
	c.handle[slot], c.addr[slot], c.granted[slot], c.known[slot] = h, addr, granted, known
}

// before takes an event that lies before the cut.
func (c *cutter) before(i uint64) {
	ev := &c.t.Events[i]
	c.w.step(i, nil)
	switch ev.Kind {
	case KindFree:
		delete(c.failed, ev.Handle)
	case KindReset:
		clear(c.failed)
	case KindRestore:
		c.failed = maps.Clone(c.saved[ev.Aux])
	case KindAlloc, KindRealloc:
		delete(c.failed, c.t.extra(ev).Handle2)
		if c.t.failed(i) {
			c.failed[ev.Handle] = true
			return
		}
		var r Recorded
		if len(c.t.Recorded) > 0 {
			r = c.t.Recorded[i]
		}
		c.place(ev.Slot, ev.Handle, r.Addr, max(r.Granted, ev.Size), r.Seen != 0)
	case KindEvents:
		c.manual = ev.Size == 1
	case KindPoolBegin:
		c.open = append(c.open, ev.Pool)
	case KindPoolEnd:
		if at := slices.Index(c.open, ev.Pool); at >= 0 {
			c.open = slices.Delete(c.open, at, at+1)
		}
	case KindSet:
		key, _ := cutSetting(c.t.Strings[ev.Aux])
		c.settings = slices.DeleteFunc(c.settings, func(s uint32) bool {
			k, _ := cutSetting(c.t.Strings[s])
			return k == key
		})
		c.settings = append(c.settings, ev.Aux)
	case KindCheckpoint:
		c.outside[ev.Aux] = true
		c.saved[ev.Aux] = maps.Clone(c.failed)
	}
}

// run adds the head and the events of the cut.
func (c *cutter) run(to uint64) error {
	slots := c.liveSlots()
	state := c.layState(slots)
	if state != nil {
		if err := c.b.Start(state); err != nil {
			return err
		}
	}
	if err := c.head(slots, state == nil); err != nil {
		return err
	}
	if len(slots) > 0 {
		how := "a start state from recorded addresses"
		if state == nil {
			how = "ordinary allocs at the head, since their addresses are not known"
		}
		c.warnings = append(c.warnings, fmt.Sprintf("cut: %d handles were live at its start: they are %s", len(slots), how))
	}
	base := int64(0)
	if len(c.t.TimesNs) > 0 && c.from < uint64(len(c.t.TimesNs)) {
		base = c.t.TimesNs[c.from]
	}
	c.shift = base
	for i := c.from; i < to; i++ {
		ev := &c.t.Events[i]
		if ev.Kind == KindCheckpoint {
			delete(c.outside, ev.Aux)
		}
		if ev.Kind == KindRestore && c.outside[ev.Aux] {
			return fmt.Errorf("cut: event %d restores checkpoint %q, which was made before event %d: begin the cut earlier, or end it before that event",
				i, c.t.Strings[ev.Aux], c.from)
		}
		if err := c.segments(i); err != nil {
			return err
		}
		if err := c.inside(i); err != nil {
			return err
		}
	}
	if c.dropped > 0 {
		c.warnings = append(c.warnings, fmt.Sprintf("cut: %d events on handles whose alloc failed before the cut are left out", c.dropped))
	}
	if to == uint64(len(c.t.Events)) {
		return c.segments(to)
	}
	return nil
}

// inside adds event i of the cut, unless it is about a handle that failed before.
func (c *cutter) inside(i uint64) error {
	ev := &c.t.Events[i]
	if ev.Kind == KindRealloc && c.failed[c.t.Extras[ev.Aux].Handle2] {
		// Nothing was there to resize.
		x := &c.t.Extras[ev.Aux]
		c.dropped++
		delete(c.failed, x.Handle2)
		a := AllocArgs{Stream: c.stream(ev.Stream), Pool: c.pool(ev.Pool), Thread: x.Thread, Tag: c.tag(x.Tag)}
		if ev.AlignLog2 != 0 {
			a.Align = 1 << ev.AlignLog2
		}
		c.note(i)
		return c.b.Alloc(ev.Handle, ev.Size, a)
	}
	if ev.Kind.NamesHandle() && ev.Kind != KindFreeWrong && c.failed[ev.Handle] {
		c.dropped++
		if ev.Kind == KindFree {
			delete(c.failed, ev.Handle)
		}
		return nil
	}
	return c.event(i)
}

// liveSlots returns the slots live at the start of the cut in the order in which their blocks came to be.
func (c *cutter) liveSlots() []uint32 {
	var list []uint32
	for slot, born := range c.w.born {
		if born != 0 {
			list = append(list, uint32(slot))
		}
	}
	slices.SortFunc(list, func(a, b uint32) int {
		// bornStart wraps to 0: blocks of the start state come first, by handle.
		if x, y := c.w.born[a]+1, c.w.born[b]+1; x != y {
			if x < y {
				return -1
			}
			return 1
		}
		if c.handle[a] < c.handle[b] {
			return -1
		}
		return 1
	})
	return list
}

// head sets again what holds at the start of the cut, and allocates the live blocks that no start state holds.
func (c *cutter) head(slots []uint32, all bool) error {
	for _, s := range slots {
		if all || c.granted[s] == 0 {
			if err := c.b.Alloc(c.handle[s], c.w.size[s], AllocArgs{Stream: c.stream(c.w.stream[s]), Pool: c.pool(c.w.pool[s])}); err != nil {
				return err
			}
		}
	}
	for _, s := range c.settings {
		key, value := cutSetting(c.t.Strings[s])
		if err := c.b.Set(key, value); err != nil {
			return err
		}
	}
	if c.manual {
		if err := c.b.Events(true); err != nil {
			return err
		}
	}
	for _, p := range c.open {
		if err := c.b.PoolBegin(c.pool(p)); err != nil {
			return err
		}
	}
	return nil
}

// layState lays the live blocks into segments; nil when an address is unknown or two blocks would overlap, which a warning
// then says.
func (c *cutter) layState(slots []uint32) *State {
	for _, s := range slots {
		if !c.known[s] {
			return nil
		}
	}
	var blocks []placed
	for _, s := range slots {
		if c.granted[s] != 0 { // a request of 0 bytes holds none
			blocks = append(blocks, placed{StateBlock{Addr: c.addr[s], Bytes: c.granted[s], RequestedBytes: c.w.size[s], Handle: c.handle[s]},
				c.w.stream[s], c.w.pool[s]})
		}
	}
	state, warning := c.lay.state(blocks)
	if warning != "" {
		c.warnings = append(c.warnings, warning)
	}
	if state == nil || len(state.Segments) == 0 {
		return nil
	}
	if err := state.check(len(c.t.Streams), len(c.t.Pools)); err != nil {
		c.warnings = append(c.warnings, fmt.Sprintf("cut: the recorded segments do not fit together: %v", err))
		return nil
	}
	return c.state(state)
}
