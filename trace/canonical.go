package trace

import "fmt"

// Canonical returns the trace with its tables in order of first use (start state, then the segment events and events in
// order), without entries that nothing uses, and with slots handed out by the builder's rule. Parse and the importers make
// such traces; Format followed by Parse yields exactly Canonical(t). The trace must be valid.
func Canonical(t *Trace) (*Trace, error) {
	if err := t.checkRecords(); err != nil {
		return nil, err
	}
	b := NewBuilder()
	if err := copyInto(b, t, 0, uint64(len(t.Events))); err != nil {
		return nil, err
	}
	return b.Finish(t.Meta)
}

// copyInto adds the start state, if from is 0, and the events from..to of a trace whose records are checked.
func copyInto(b *Builder, t *Trace, from, to uint64) error {
	c := copier{b: b, t: t}
	if from == 0 {
		if err := b.Start(c.state(t.Start)); err != nil {
			return err
		}
	}
	for i := from; i < to; i++ {
		if err := c.segments(i); err != nil {
			return err
		}
		if err := c.event(i); err != nil {
			return err
		}
	}
	if to == uint64(len(t.Events)) {
		return c.segments(to)
	}
	return nil
}

// copier adds events of one trace to the builder of another.
type copier struct {
	b     *Builder
	t     *Trace
	segs  int
	shift int64 // taken from every time
}

func (c *copier) stream(i uint16) uint16 { return c.b.Stream(c.t.Streams[i]) }
func (c *copier) pool(i uint16) uint16   { return c.b.Pool(c.t.Pools[i]) }

func (c *copier) tag(i uint32) uint32 { return c.b.String(c.t.Strings[i]) }

// state returns a copy of a state with the tables of the builder.
func (c *copier) state(s *State) *State {
	if s == nil {
		return nil
	}
	n := &State{Segments: make([]StateSegment, len(s.Segments))}
	for i, seg := range s.Segments {
		seg.Stream, seg.Pool = c.stream(seg.Stream), c.pool(seg.Pool)
		seg.Blocks = append([]StateBlock(nil), seg.Blocks...)
		n.Segments[i] = seg
	}
	return n
}

// segments adds the segment events during event i.
func (c *copier) segments(i uint64) error {
	for ; c.segs < len(c.t.SegmentEvents) && c.t.SegmentEvents[c.segs].Event <= i; c.segs++ {
		s := &c.t.SegmentEvents[c.segs]
		if s.Event < i {
			continue
		}
		if err := c.b.SawSegment(s.Kind, s.Addr, s.Bytes, c.stream(s.Stream)); err != nil {
			return err
		}
	}
	return nil
}

// event adds event i.
func (c *copier) event(i uint64) error {
	t := c.t
	c.note(i)
	ev := &t.Events[i]
	x := t.extra(ev)
	switch ev.Kind {
	case KindAlloc, KindRealloc:
		a := AllocArgs{Stream: c.stream(ev.Stream), Pool: c.pool(ev.Pool), Thread: x.Thread, Tag: c.tag(x.Tag)}
		if ev.AlignLog2 != 0 {
			a.Align = 1 << ev.AlignLog2
		}
		if ev.Kind == KindAlloc {
			return c.b.Alloc(ev.Handle, ev.Size, a)
		}
		return c.b.Realloc(ev.Handle, x.Handle2, ev.Size, a)
	case KindFree:
		a := FreeArgs{OnStream: ev.Flags&FlagStream != 0, Thread: x.Thread, Tag: c.tag(x.Tag)}
		if a.OnStream {
			a.Stream = c.stream(ev.Stream)
		}
		return c.b.Free(ev.Handle, a)
	case KindFreeWrong:
		return c.b.FreeWrong(ev.Handle)
	case KindUse:
		return c.b.UseBy(ev.Handle, c.stream(ev.Stream), x.Thread, c.tag(x.Tag))
	case KindTouch:
		return c.b.Touch(ev.Handle, TouchArgs{By: Place(x.Arg), Offset: x.Offset, Length: ev.Size, Write: ev.Flags&FlagWrite != 0,
			Thread: x.Thread, Tag: c.tag(x.Tag)})
	case KindPrefetch:
		return c.b.Prefetch(ev.Handle, Place(ev.Aux))
	}
	return c.plain(ev)
}

// note tells the builder the time and the recorded answer of event i.
func (c *copier) note(i uint64) {
	if len(c.t.TimesNs) > 0 {
		c.b.At(c.t.TimesNs[i] - c.shift)
	}
	if len(c.t.Recorded) > 0 && c.t.Recorded[i].Seen != 0 {
		r := &c.t.Recorded[i]
		c.b.Saw(r.Addr, r.Granted, r.Status == StatusFailed)
	}
}

// plain adds an event without a handle.
func (c *copier) plain(ev *Event) error {
	b, all := c.b, ev.Flags&FlagAll != 0
	switch ev.Kind {
	case KindWait:
		s := c.stream(ev.Stream)
		return b.Wait(s, c.stream(uint16(ev.Aux)))
	case KindMark:
		return b.Mark(c.t.Strings[ev.Aux], ev.Size)
	case KindSet:
		key, value := cutSetting(c.t.Strings[ev.Aux])
		return b.Set(key, value)
	case KindCheckpoint:
		return b.Checkpoint(c.t.Strings[ev.Aux])
	case KindRestore:
		return b.Restore(c.t.Strings[ev.Aux])
	case KindPoolBegin:
		return b.PoolBegin(c.pool(ev.Pool))
	case KindPoolEnd:
		return b.PoolEnd(c.pool(ev.Pool))
	case KindPoolRelease:
		return b.PoolRelease(c.pool(ev.Pool))
	case KindStreamDestroy:
		return b.StreamDestroy(c.stream(ev.Stream))
	case KindComplete, KindSync:
		return b.plain(Event{Kind: ev.Kind, Flags: ev.Flags, Stream: c.streamUnless(all, ev.Stream)})
	case KindFailNext:
		return b.FailNext(ev.Size)
	case KindReset:
		return b.Reset()
	case KindTrim, KindDefragment, KindEvents:
		return b.plain(Event{Kind: ev.Kind, Size: ev.Size})
	}
	return fmt.Errorf("%w: kind %d", ErrArgument, ev.Kind)
}

func (c *copier) streamUnless(all bool, s uint16) uint16 {
	if all {
		return 0
	}
	return c.stream(s)
}

// extra returns the rarer arguments of an event; the tag of an event without them is in Aux.
func (t *Trace) extra(ev *Event) Extra {
	if ev.Flags&FlagExtra != 0 {
		return t.Extras[ev.Aux]
	}
	if ev.Kind.takesTag() {
		return Extra{Tag: ev.Aux}
	}
	return Extra{}
}

// Tag returns the tag of an event of a checked trace, "" when it has none.
func (t *Trace) Tag(ev *Event) string { return t.Strings[t.extra(ev).Tag] }

// Thread returns the number of the host thread of an event of a checked trace, when it was recorded.
func (t *Trace) Thread(ev *Event) (n uint32, ok bool) {
	x := t.extra(ev)
	return x.Thread - 1, x.Thread != 0
}
