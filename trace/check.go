package trace

import "fmt"

// checkRecords holds every index and argument of the records, so that whoever reads the trace afterwards may index its
// tables and tables by slot without a further look. It reads the columns once and allocates nothing.
func (t *Trace) checkRecords() error {
	n := len(t.Events)
	if (len(t.TimesNs) != 0 && len(t.TimesNs) != n) || (len(t.Recorded) != 0 && len(t.Recorded) != n) {
		return formatErr("%d events but %d times and %d recorded answers", n, len(t.TimesNs), len(t.Recorded))
	}
	if len(t.Streams) == 0 || len(t.Pools) == 0 || len(t.Strings) == 0 {
		return formatErr("a table of streams, pools or strings lacks its entry 0")
	}
	// Every slot begins with an event or a live block, so more cannot be; consumers allocate a table by slot.
	if most := uint64(n) + t.Start.blocks(); uint64(t.Slots) > most {
		return formatErr("%d slots for %d events and blocks", t.Slots, most)
	}
	extras := 0
	for i := range t.Events {
		ev := &t.Events[i]
		if why := t.checkEvent(ev, &extras); why != nil {
			return fmt.Errorf("%w: %w", ErrFormat, &EventError{Event: uint64(i), Kind: ev.Kind, Handle: ev.Handle, Err: why})
		}
	}
	if extras != len(t.Extras) {
		return formatErr("%d extras, of which %d belong to an event", len(t.Extras), extras)
	}
	return t.checkColumns()
}

// checkEvent checks one record; extras counts those used so far: they come in order of the events.
func (t *Trace) checkEvent(ev *Event, extras *int) error {
	if !ev.Kind.Valid() {
		return fmt.Errorf("%w: kind %d", ErrArgument, ev.Kind)
	}
	if int(ev.Stream) >= len(t.Streams) || int(ev.Pool) >= len(t.Pools) {
		return fmt.Errorf("%w: stream %d of %d, pool %d of %d", ErrIndex, ev.Stream, len(t.Streams), ev.Pool, len(t.Pools))
	}
	if (ev.Stream != 0 && (!ev.Kind.usesStream() || ev.Flags&FlagAll != 0)) || (ev.Pool != 0 && !ev.Kind.usesPool()) {
		return fmt.Errorf("%w: stream %d and pool %d at an event that names none", ErrArgument, ev.Stream, ev.Pool)
	}
	if ev.AlignLog2 > MaxAlignLog2 || (ev.AlignLog2 != 0 && !ev.Kind.TakesMemory()) {
		return fmt.Errorf("%w: 2^%d", ErrAlignment, ev.AlignLog2)
	}
	if ev.Device != 0 {
		return fmt.Errorf("%w: device %d in a trace of one device", ErrArgument, ev.Device)
	}
	if ev.Kind.NamesHandle() {
		if ev.Handle == 0 || ev.Slot >= t.Slots {
			return fmt.Errorf("%w: handle %d, slot %d of %d", ErrIndex, ev.Handle, ev.Slot, t.Slots)
		}
	} else if ev.Handle != 0 || ev.Slot != 0 {
		return fmt.Errorf("%w: handle %d and slot %d at an event that names none", ErrArgument, ev.Handle, ev.Slot)
	}
	if ev.Flags&^legalFlags[ev.Kind] != 0 {
		return fmt.Errorf("%w: flags %#x", ErrArgument, ev.Flags)
	}
	if ev.Flags&FlagExtra != 0 {
		return t.checkExtra(ev, extras)
	}
	return t.checkAux(ev)
}

// legalFlags are the flags that each kind may carry.
var legalFlags = [256]Flags{
	KindAlloc: FlagExtra, KindFree: FlagExtra | FlagStream, KindRealloc: FlagExtra,
	KindUse: FlagExtra, KindComplete: FlagAll, KindSync: FlagAll, KindTouch: FlagExtra | FlagWrite,
}

func (t *Trace) checkExtra(ev *Event, extras *int) error {
	if int(ev.Aux) != *extras || *extras >= len(t.Extras) {
		return fmt.Errorf("%w: extra %d, the next is %d of %d", ErrIndex, ev.Aux, *extras, len(t.Extras))
	}
	x := &t.Extras[*extras]
	*extras++
	if int(x.Tag) >= len(t.Strings) {
		return fmt.Errorf("%w: tag %d of %d", ErrIndex, x.Tag, len(t.Strings))
	}
	if ev.Kind == KindRealloc {
		if x.Handle2 == 0 || x.Slot2 >= t.Slots {
			return fmt.Errorf("%w: old handle %d, slot %d of %d", ErrIndex, x.Handle2, x.Slot2, t.Slots)
		}
	} else if x.Handle2 != 0 || x.Slot2 != 0 {
		return fmt.Errorf("%w: a second handle %d", ErrArgument, x.Handle2)
	}
	if ev.Kind == KindTouch {
		if Place(x.Arg) > PlaceCPU {
			return fmt.Errorf("%w: place %d", ErrArgument, x.Arg)
		}
	} else if x.Arg != 0 || x.Offset != 0 {
		return fmt.Errorf("%w: the arguments of a touch", ErrArgument)
	}
	return nil
}

// checkAux checks the argument in Aux and Size of an event without extras.
func (t *Trace) checkAux(ev *Event) error {
	limit := 1 // Aux is 0
	switch {
	case ev.Kind == KindRealloc || ev.Kind == KindTouch:
		return fmt.Errorf("%w: its extra is missing", ErrIndex)
	case ev.Kind == KindPrefetch:
		limit = int(PlaceCPU) + 1
	case ev.Kind == KindWait:
		limit = len(t.Streams)
	case ev.Kind.auxIsString():
		limit = len(t.Strings)
	}
	if int64(ev.Aux) >= int64(limit) {
		return fmt.Errorf("%w: argument %d of %d", ErrIndex, ev.Aux, limit)
	}
	switch ev.Kind {
	case KindAlloc, KindMark:
	case KindEvents:
		if ev.Size > 1 {
			return fmt.Errorf("%w: events %d is neither immediate (0) nor manual (1)", ErrArgument, ev.Size)
		}
	case KindFailNext:
		if ev.Size == 0 {
			return fmt.Errorf("%w: device= counts from 1", ErrArgument)
		}
	default:
		if ev.Size != 0 {
			return fmt.Errorf("%w: size %d at an event without one", ErrArgument, ev.Size)
		}
	}
	if ev.Aux == 0 && (ev.Kind == KindMark || ev.Kind == KindCheckpoint || ev.Kind == KindRestore || ev.Kind == KindSet) {
		return fmt.Errorf("%w: its name is empty", ErrArgument)
	}
	return nil
}

// checkColumns checks the optional columns and the start state.
func (t *Trace) checkColumns() error {
	last := int64(0)
	for i, ns := range t.TimesNs {
		if ns < last {
			return fmt.Errorf("%w: %w", ErrFormat, &EventError{Event: uint64(i), Kind: t.Events[i].Kind, Handle: t.Events[i].Handle,
				Err: fmt.Errorf("%w: %d ns after %d ns", ErrTimeBack, ns, last)})
		}
		last = ns
	}
	for i := range t.Recorded {
		r := &t.Recorded[i]
		if r.Seen > 1 || (r.Status != StatusOK && r.Status != StatusFailed) || (r.Seen == 0 && *r != Recorded{}) ||
			(r.Status == StatusFailed && (r.Addr != 0 || r.Granted != 0)) {
			return formatErr("event %d: recorded answer seen=%d status=%d addr=0x%x granted=%d is none of the language", i, r.Seen, r.Status, r.Addr, r.Granted)
		}
	}
	at := uint64(0)
	for i := range t.SegmentEvents {
		s := &t.SegmentEvents[i]
		if s.Event < at || s.Event > uint64(len(t.Events)) || s.Kind.String() == "" || int(s.Stream) >= len(t.Streams) {
			return formatErr("segment event %d: kind %d at event %d (of %d, after %d), stream %d of %d", i, s.Kind, s.Event,
				len(t.Events), at, s.Stream, len(t.Streams))
		}
		at = s.Event
	}
	if t.Start == nil {
		return nil
	}
	if err := t.Start.check(len(t.Streams), len(t.Pools)); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t.Start.checkSlots(t.Slots)
}

// checkSlots holds the slots of the live blocks below the number of slots.
func (s *State) checkSlots(slots uint32) error {
	for i := range s.Segments {
		for j := range s.Segments[i].Blocks {
			b := &s.Segments[i].Blocks[j]
			if b.Handle != 0 && !b.Pending && b.Slot >= slots {
				return formatErr("state: h%d has slot %d of %d", b.Handle, b.Slot, slots)
			}
			if (b.Handle == 0 || b.Pending) && b.Slot != 0 {
				return formatErr("state: block 0x%x is not live but has slot %d", b.Addr, b.Slot)
			}
		}
	}
	return nil
}
