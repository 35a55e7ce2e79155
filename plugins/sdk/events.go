package sdk

import (
	"slices"
	"strings"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// rare executes every kind of event but alloc and free.
func (r *Runner) rare(ev *trace.Event, timed bool) (st trace.Status, addr, granted, t0, t1 uint64) {
	switch ev.Kind {
	case trace.KindRealloc:
		return r.realloc(ev, timed)
	case trace.KindSync, trace.KindComplete, trace.KindWait, trace.KindStreamDestroy, trace.KindEvents:
		r.tellDevice(ev, timed)
	}
	t0 = ticksIf(timed)
	st = r.simple(ev)
	t1 = ticksIf(timed)
	r.after(ev, st)
	return st, 0, 0, t0, t1
}

// deviceStart and deviceEnd enclose calls that the loop itself makes to the device. Only batch mode needs their time.
func (r *Runner) deviceStart(timed bool) uint64 {
	return ticksIf(!timed)
}

func (r *Runner) deviceEnd(timed bool, start uint64) {
	if !timed {
		r.totals.deviceWall += clock.Ticks() - start
	}
}

// text returns the string that the event names.
func (r *Runner) text(ev *trace.Event) (string, uint32) {
	i := ev.Aux
	if ev.Flags&trace.FlagExtra != 0 {
		i = r.config.Trace.Extras[i].Tag
	}
	return r.config.Trace.Strings[i], i
}

// tellDevice passes the trace's own statements about streams to the device. They are the program's calls, not the
// strategy's: no record, no time of the strategy.
func (r *Runner) tellDevice(ev *trace.Event, timed bool) {
	start := r.deviceStart(timed)
	d := &r.control
	all := ev.Flags&trace.FlagAll != 0
	switch ev.Kind {
	case trace.KindSync:
		switch {
		case d.streams == nil:
		case all:
			d.streams.SyncDevice()
		default:
			d.streams.SyncStream(ev.Stream)
		}
	case trace.KindComplete:
		switch {
		case d.control == nil:
		case all:
			d.control.CompleteAll()
		default:
			d.control.Complete(ev.Stream)
		}
	case trace.KindWait:
		if d.streams != nil {
			e := d.streams.Record(uint16(ev.Aux))
			d.streams.StreamWait(ev.Stream, e)
			d.streams.Drop(e)
		}
	case trace.KindStreamDestroy:
		if d.control != nil {
			d.control.DestroyStream(ev.Stream)
		}
	case trace.KindEvents:
		if d.control != nil {
			d.control.SetManualEvents(ev.Size != 0)
		}
	}
	r.deviceEnd(timed, start)
}

// simple makes the strategy's call of an event that places no block.
func (r *Runner) simple(ev *trace.Event) trace.Status {
	u := &r.uses
	switch ev.Kind {
	case trace.KindFreeWrong:
		slot := &r.slots[ev.Slot]
		switch {
		case slot.handle != ev.Handle: // it never had a block: there is nothing wrong to free
			return trace.StatusSkipped
		case u.wrongFreer == nil:
			return trace.StatusUnsupported
		}
		return u.wrongFreer.FreeWrong(&slot.block, ev.Stream)
	case trace.KindUse, trace.KindTouch, trace.KindPrefetch:
		return r.useBlock(ev)
	case trace.KindTrim:
		if u.trimmer != nil {
			return u.trimmer.Trim()
		}
	case trace.KindPoolBegin, trace.KindPoolEnd, trace.KindPoolRelease:
		return r.routePool(ev)
	case trace.KindSet:
		if u.setter != nil {
			text, _ := r.text(ev)
			key, value, _ := strings.Cut(text, "=")
			return u.setter.Set(key, value)
		}
	case trace.KindReset:
		if u.resetter != nil {
			return u.resetter.Reset()
		}
	case trace.KindCheckpoint:
		if u.checkpoints != nil {
			_, name := r.text(ev)
			return u.checkpoints.Checkpoint(name)
		}
	case trace.KindRestore:
		if u.checkpoints != nil {
			_, name := r.text(ev)
			if r.saved[name] == nil { // its checkpoint was not taken
				return trace.StatusSkipped
			}
			return u.checkpoints.RestoreCheckpoint(name)
		}
	case trace.KindDefragment:
		if u.defrag != nil {
			return u.defrag.Defragment()
		}
	default:
		return r.told(ev)
	}
	return trace.StatusUnsupported
}

// told makes the call of an event that a strategy may ignore.
func (r *Runner) told(ev *trace.Event) trace.Status {
	u := &r.uses
	all := ev.Flags&trace.FlagAll != 0
	switch ev.Kind {
	case trace.KindWait:
		if u.waiter != nil {
			return u.waiter.StreamWait(ev.Stream, uint16(ev.Aux))
		}
	case trace.KindComplete:
		if u.completer != nil {
			return u.completer.Completed(ev.Stream, all, false)
		}
	case trace.KindSync:
		if u.completer != nil {
			return u.completer.Completed(ev.Stream, all, true)
		}
	case trace.KindStreamDestroy:
		if u.destroyer != nil {
			return u.destroyer.StreamDestroyed(ev.Stream)
		}
	case trace.KindMark:
		if u.marker != nil {
			key, _ := r.text(ev)
			u.marker.Mark(key, ev.Size)
		}
	case trace.KindFailNext:
		if r.control.faults != nil {
			r.control.faults.FailNext(ev.Size)
		} else {
			r.recorder.failIn = ev.Size
		}
	case trace.KindEvents: // the device was told
	default:
		return trace.StatusUnsupported
	}
	return trace.StatusOK
}

// useBlock is an event on a live block that changes nothing of the slot table. No strategy interface knows managed memory
// yet, so touch and prefetch are unsupported; on a dead handle they are skipped like any other.
func (r *Runner) useBlock(ev *trace.Event) trace.Status {
	slot := &r.slots[ev.Slot]
	switch {
	case !slot.live || slot.handle != ev.Handle:
		return trace.StatusSkipped
	case ev.Kind == trace.KindUse && r.uses.user != nil:
		return r.uses.user.Use(&slot.block, ev.Stream)
	}
	return trace.StatusUnsupported
}

func (r *Runner) routePool(ev *trace.Event) trace.Status {
	p := r.uses.pools
	if p == nil {
		return trace.StatusUnsupported
	}
	switch ev.Kind {
	case trace.KindPoolBegin:
		return p.PoolBegin(ev.Pool)
	case trace.KindPoolEnd:
		return p.PoolEnd(ev.Pool)
	}
	return p.PoolRelease(ev.Pool)
}

// realloc resizes a block. Without the interface it is an alloc, then a free of the old block; if that free is refused
// the new block goes back and the event has the status of the refusal, so that in every case the old block is live exactly
// if the event placed nothing.
func (r *Runner) realloc(ev *trace.Event, timed bool) (st trace.Status, addr, granted, t0, t1 uint64) {
	x := &r.config.Trace.Extras[ev.Aux]
	old := &r.slots[x.Slot2]
	if !old.live || old.handle != x.Handle2 {
		return trace.StatusSkipped, 0, 0, 0, 0
	}
	r.fill(&r.request, ev)
	var b Block
	was := old.block
	t0 = ticksIf(timed)
	if r.uses.reallocer != nil {
		st = r.uses.reallocer.Realloc(&was, &r.request, &b)
	} else if st = r.strategy.Alloc(&r.request, &b); st.Placed() {
		if freed := r.strategy.Free(&was, ev.Stream); freed != trace.StatusOK && freed != trace.StatusRecovered {
			r.strategy.Free(&b, ev.Stream)
			st = freed
		}
	}
	t1 = ticksIf(timed)
	if !st.Placed() {
		return st, 0, 0, t0, t1
	}
	old.live = false
	r.slots[ev.Slot] = tenancy{block: b, handle: ev.Handle, live: true}
	return st, b.Addr, b.Size, t0, t1
}

// after keeps the slot table in step with events that change many blocks at once.
func (r *Runner) after(ev *trace.Event, st trace.Status) {
	if st != trace.StatusOK && st != trace.StatusRecovered {
		return
	}
	switch ev.Kind {
	case trace.KindReset:
		for i := range r.slots {
			r.drop(&r.slots[i])
		}
	case trace.KindCheckpoint:
		_, name := r.text(ev)
		if r.saved == nil {
			r.saved = make(map[uint32][]tenancy)
		}
		r.saved[name] = slices.Clone(r.slots)
		r.log.add(&trace.Call{Kind: trace.CallCheckpoint, Aux: uint64(name)})
	case trace.KindRestore:
		_, name := r.text(ev)
		for i, then := range r.saved[name] {
			now := &r.slots[i]
			if !then.live || then.handle != now.handle {
				r.drop(now)
			}
			if then.live {
				*now = then
			}
		}
	}
}

// drop ends a tenancy that ceased to exist without a free.
func (r *Runner) drop(t *tenancy) {
	if t.live {
		t.live = false
		r.log.add(&trace.Call{Kind: trace.CallDropped, Addr: t.block.Addr, Size: t.block.Size})
	}
}

// follow makes the slot table follow the moves that the strategy stated during the event. It runs after the event, outside
// its time, and costs one pass over the slots.
func (r *Runner) follow() {
	if r.move == nil {
		r.move = make(map[uint64]uint32)
	}
	clear(r.move)
	for i := range r.slots {
		if t := &r.slots[i]; t.live && t.block.Size != 0 { // a block of 0 bytes has no place of its own
			r.move[t.block.Addr] = uint32(i)
		}
	}
	r.log.eventRecords(func(c *trace.Call) {
		switch c.Kind {
		case trace.CallMove, trace.CallSpill, trace.CallUnspill:
			if i, ok := r.move[c.Aux]; ok {
				delete(r.move, c.Aux)
				r.move[c.Addr] = i
				r.slots[i].block.Addr = c.Addr
			}
		}
	})
}
