package ledger

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// statusBits is a set of statuses.
type statusBits uint16

func bitsOf(list ...trace.Status) (b statusBits) {
	for _, s := range list {
		b |= 1 << s
	}
	return b
}

func (b statusBits) has(s trace.Status) bool { return s < 16 && b>>s&1 != 0 }

// The statuses that make sense for a kind of event.
var (
	allocStatuses = bitsOf(trace.StatusOK, trace.StatusRecovered, trace.StatusFailed, trace.StatusSpilled, trace.StatusRefused, trace.StatusError)
	// A realloc of a block that was never placed is skipped.
	reallocStatuses = allocStatuses | bitsOf(trace.StatusSkipped, trace.StatusUnsupported)
	freeStatuses    = bitsOf(trace.StatusOK, trace.StatusSkipped, trace.StatusInvalid, trace.StatusError)
	wrongStatuses   = bitsOf(trace.StatusInvalid, trace.StatusSkipped, trace.StatusUnsupported, trace.StatusError)
	useStatuses     = bitsOf(trace.StatusOK, trace.StatusSkipped, trace.StatusUnsupported, trace.StatusError)
	otherStatuses   = bitsOf(trace.StatusOK, trace.StatusRecovered, trace.StatusFailed, trace.StatusRefused, trace.StatusUnsupported,
		trace.StatusInvalid, trace.StatusError)
)

func (l *Ledger) checkStatus(ev *trace.Event, o *trace.Outcome, allowed statusBits) bool {
	if allowed.has(o.Status) {
		return true
	}
	l.breach(CheckPlacement, CodeBadStatus, ev.Handle, "a status that this kind of event can have", fmt.Sprintf("%v", o.Status))
	return false
}

func (l *Ledger) readCalls(calls []trace.Call) {
	for i := range calls {
		l.call(&calls[i])
	}
}

// tag returns the index of the event's string.
func (l *Ledger) tag(ev *trace.Event) uint32 {
	if ev.Flags&trace.FlagExtra == 0 {
		return ev.Aux
	}
	if int(ev.Aux) < len(l.cfg.Extras) {
		return l.cfg.Extras[ev.Aux].Tag
	}
	return 0
}

func (l *Ledger) alloc(ev *trace.Event, o *trace.Outcome, calls []trace.Call) {
	if len(calls) > 0 {
		l.readCalls(calls)
	}
	l.answer(ev, o, allocStatuses)
}

// answer judges the answer to an alloc or realloc and enters the block.
func (l *Ledger) answer(ev *trace.Event, o *trace.Outcome, allowed statusBits) {
	if allowed.has(o.Status) && o.Status.Placed() {
		l.success.placed(o.Status, ev.Size)
		l.placed(ev, o)
		return
	}
	l.checkStatus(ev, o, allowed)
	if o.Status != trace.StatusSkipped && o.Status != trace.StatusUnsupported {
		l.success.missed(o.Status, ev.Size)
		l.failed(ev, o)
	}
	if o.Addr != 0 || o.Granted != 0 || len(l.extents)+len(l.shareCalls) > 0 {
		l.breachAt(CheckNoTrace, CodeFailedTrace, ev.Handle, o.Addr, o.Granted, "no address, no size and no extents of an event that failed",
			fmt.Sprintf("%v with %s at 0x%x and %d extents or shares", o.Status, bytesText(o.Granted), o.Addr, len(l.extents)+len(l.shareCalls)))
		l.extents, l.shareCalls = l.extents[:0], l.shareCalls[:0]
	}
}

// placed checks the block of an event and enters it.
func (l *Ledger) placed(ev *trace.Event, o *trace.Outcome) {
	if old := l.slot(ev.Slot); old.flags&blockLive != 0 { // a trace whose slots are wrong; the older block is given up
		l.leave(ev.Slot, old.stream, false)
	}
	nb := block{handle: ev.Handle, addr: o.Addr, requested: ev.Size, granted: o.Granted, uses: noItem, tag: l.tag(ev), stream: ev.Stream}
	if o.Status == trace.StatusSpilled {
		nb.flags = blockHost
	}
	if o.Granted < ev.Size {
		code := CodeTooSmall
		if o.Granted == 0 {
			code = CodeGrantedZero
		}
		l.breachAt(CheckPlacement, code, ev.Handle, o.Addr, o.Granted, "at least the "+bytesText(ev.Size)+" requested", bytesText(o.Granted)+" granted")
	}
	if o.Granted == 0 {
		l.enter(ev.Slot, nb, nil, nil)
		return
	}
	l.checkAlign(ev, o)
	if wraps(o.Addr, o.Granted) {
		nb.flags |= blockAstray
		nb.granted = ev.Size
		l.enter(ev.Slot, nb, nil, nil)
		l.breachAt(CheckPlacement, CodeOutOfRange, ev.Handle, o.Addr, 0, "a block below 2^64", fmt.Sprintf("%s at 0x%x", bytesText(o.Granted), o.Addr))
		return
	}
	first := o.Granted
	l.spans = append(l.spans[:0], span{o.Addr, first})
	if len(l.extents) > 0 {
		l.addExtents(ev, o)
	}
	l.enter(ev.Slot, nb, l.spans, l.shareCalls)
	l.extents, l.shareCalls = l.extents[:0], l.shareCalls[:0]
}

// checkAlign checks the demanded alignment and, on the device, the strategy's own.
func (l *Ledger) checkAlign(ev *trace.Event, o *trace.Outcome) {
	align := uint64(1) << (ev.AlignLog2 & 63)
	if a := l.cfg.AlignmentBytes; a > align && o.Status != trace.StatusSpilled {
		align = a
	}
	if o.Addr&(align-1) != 0 {
		l.breachAt(CheckPlacement, CodeMisaligned, ev.Handle, o.Addr, o.Granted, fmt.Sprintf("an address that is a multiple of %d", align),
			fmt.Sprintf("0x%x, a multiple of %d", o.Addr, o.Addr&-o.Addr))
	}
}

// addExtents makes the ranges of a block of several extents: what was granted is the sum, the first extent is the rest.
func (l *Ledger) addExtents(ev *trace.Event, o *trace.Outcome) {
	rest := o.Granted
	for _, e := range l.extents {
		if e.size == 0 || e.size >= rest || wraps(e.addr, e.size) {
			l.breachAt(CheckPlacement, CodeBadExtent, ev.Handle, e.addr, e.size, "extents that together are less than the "+bytesText(o.Granted)+" granted",
				fmt.Sprintf("an extent of %s at 0x%x", bytesText(e.size), e.addr))
			return
		}
		rest -= e.size
		l.spans = append(l.spans, e)
	}
	l.spans[0].size = rest
}

// strayExtents reports extents and shares of an event that made no block.
func (l *Ledger) strayExtents(ev *trace.Event) {
	l.extents, l.shareCalls = l.extents[:0], l.shareCalls[:0]
	l.breach(CheckNoTrace, CodeFailedTrace, ev.Handle, "extents and shares of events that make a block only", "extents or shares of another event")
}

func (l *Ledger) freeEvent(ev *trace.Event, o *trace.Outcome, calls []trace.Call) {
	b := l.live(ev.Slot, ev.Handle)
	l.checkStatus(ev, o, freeStatuses)
	if b == nil {
		if o.Status.Placed() {
			l.breach(CheckConservation, CodeDoubleFree, ev.Handle, "invalid or skipped: the handle has no live block", "the free was accepted")
		}
	} else {
		switch o.Status {
		case trace.StatusSkipped:
			l.breachAt(CheckConservation, CodeSkippedLive, ev.Handle, b.addr, b.granted, "the free of a live block to be done", "it was skipped")
		case trace.StatusInvalid:
			l.breachAt(CheckConservation, CodeFreeDenied, ev.Handle, b.addr, b.granted, "the free of a live block to be accepted", "it was called invalid")
		}
		// The program has given the block up whatever the answer was, and before the calls of the free.
		freer := b.stream
		if ev.Flags&trace.FlagStream != 0 {
			freer = ev.Stream
		}
		l.leave(ev.Slot, freer, true)
	}
	if len(calls) > 0 {
		l.readCalls(calls)
	}
}

// realloc ends the old block, before the calls, if the new one was placed: a block may grow where it lies.
func (l *Ledger) realloc(ev *trace.Event, o *trace.Outcome, calls []trace.Call) {
	var x trace.Extra
	if ev.Flags&trace.FlagExtra != 0 && int(ev.Aux) < len(l.cfg.Extras) {
		x = l.cfg.Extras[ev.Aux]
	}
	// The old block is live while room for the new one is made, and may itself be moved or spilled for it.
	made := statementsEnd(calls)
	l.readCalls(calls[:made])
	old := l.live(x.Slot2, x.Handle2)
	uses, stays := noItem, false
	switch {
	case old != nil && o.Status.Placed():
		if stays = old.addr == o.Addr; stays {
			uses = l.shadow.copyUses(old.uses)
		}
		l.leave(x.Slot2, old.stream, !stays)
	case old != nil && o.Status == trace.StatusSkipped:
		l.breachAt(CheckConservation, CodeSkippedLive, x.Handle2, old.addr, old.granted, "the realloc of a live block to be tried", "it was skipped")
	}
	l.readCalls(calls[made:])
	l.answer(ev, o, reallocStatuses)
	if b := l.live(ev.Slot, ev.Handle); stays && b != nil {
		b.uses = uses
	} else {
		l.shadow.dropUses(uses)
	}
}

// statementsEnd is the number of records up to and with the last one that moves a live block.
func statementsEnd(calls []trace.Call) int {
	for i := len(calls); i > 0; i-- {
		switch calls[i-1].Kind {
		case trace.CallMove, trace.CallSpill, trace.CallUnspill:
			return i
		}
	}
	return 0
}

// other reads the events that neither make nor free a block in the ordinary way.
func (l *Ledger) other(ev *trace.Event, o *trace.Outcome, calls []trace.Call) {
	switch ev.Kind {
	case trace.KindUse, trace.KindTouch, trace.KindPrefetch:
		l.use(ev, o)
	case trace.KindFreeWrong:
		l.freeWrong(ev, o)
	default:
		l.checkStatus(ev, o, otherStatuses)
		l.progress(ev)
		if o.Status == trace.StatusOK || o.Status == trace.StatusRecovered {
			l.layoutEvent(ev, calls)
			return
		}
	}
	if len(calls) > 0 {
		l.readCalls(calls)
	}
}

func (l *Ledger) use(ev *trace.Event, o *trace.Outcome) {
	l.checkStatus(ev, o, useStatuses)
	b := l.live(ev.Slot, ev.Handle)
	if b == nil {
		if o.Status == trace.StatusOK {
			l.breach(CheckPlacement, CodeBadStatus, ev.Handle, "skipped: the handle has no live block", "ok")
		}
		return
	}
	if o.Status == trace.StatusSkipped {
		l.breachAt(CheckConservation, CodeSkippedLive, ev.Handle, b.addr, b.granted, "the use of a live block to be noted", "it was skipped")
	}
	if ev.Kind == trace.KindUse && l.shadow.manual && !l.cfg.IgnoreStreams && ev.Stream != b.stream {
		b.uses = l.shadow.use(b.uses, moment{l.n + 1, ev.Stream})
	}
}

// freeWrong judges the answer to a free that the program made wrong on purpose.
func (l *Ledger) freeWrong(ev *trace.Event, o *trace.Outcome) {
	if o.Status.Placed() {
		l.breach(CheckConservation, CodeDoubleFree, ev.Handle, "invalid: the free was wrong on purpose", "it was accepted")
		return
	}
	l.checkStatus(ev, o, wrongStatuses)
}

// progress enters what the trace says about streams, whatever the strategy made of it.
func (l *Ledger) progress(ev *trace.Event) {
	now := l.n + 1
	switch ev.Kind {
	case trace.KindEvents:
		l.shadow.setManual(ev.Size != 0, now)
	case trace.KindComplete, trace.KindSync:
		if !l.shadow.manual {
			return
		}
		if ev.Flags&trace.FlagAll != 0 {
			l.shadow.completeAll(now)
		} else {
			l.shadow.complete(ev.Stream, now)
		}
	case trace.KindStreamDestroy:
		if l.shadow.manual {
			l.shadow.complete(ev.Stream, now)
		}
	case trace.KindWait:
		if l.shadow.manual {
			on := uint16(ev.Aux)
			l.shadow.wait(ev.Stream, moment{now, on}, l.shadow.behindOf(on))
		}
	}
}

// layout is a checkpoint: the blocks that were live.
type layout struct {
	slots  []uint32
	blocks []block
	ranges [][]span
}

// layoutEvent reads reset, checkpoint and restore that succeeded, and the calls of any other event.
func (l *Ledger) layoutEvent(ev *trace.Event, calls []trace.Call) {
	switch ev.Kind {
	case trace.KindReset, trace.KindRestore:
		l.resetting = true
		l.dropAll()
		l.readCalls(calls)
		if ev.Kind == trace.KindRestore {
			l.restore(l.saved[l.tag(ev)])
		}
		l.resetting = false
	case trace.KindCheckpoint:
		l.readCalls(calls)
		l.save(l.tag(ev))
	default:
		if len(calls) > 0 {
			l.readCalls(calls)
		}
	}
}

// dropAll ends every live block. The program has no claim on order afterwards: the uses go with them.
func (l *Ledger) dropAll() {
	l.shares = l.shares[:0]
	for i := range l.blocks {
		if b := &l.blocks[i]; b.flags&blockLive != 0 {
			b.sharedOut = false
			l.leave(uint32(i), b.stream, false)
		}
	}
	l.shadow.clearGhosts()
}

func (l *Ledger) save(name uint32) {
	s := &layout{}
	for i := range l.blocks {
		b := l.blocks[i]
		if b.flags&blockLive == 0 {
			continue
		}
		var list []span
		sp := l.spaceOf(&b)
		for id := b.item; id != noItem; id = sp.meta[id].next {
			if it := &sp.items[id]; sp.meta[id].kind == itemBlock {
				list = append(list, span{it.addr, it.size})
			}
		}
		b.flags &= blockHost
		b.uses, b.sharedOut, b.several = noItem, false, false
		s.slots, s.blocks, s.ranges = append(s.slots, uint32(i)), append(s.blocks, b), append(s.ranges, list)
	}
	if l.saved == nil {
		l.saved = map[uint32]*layout{}
	}
	l.saved[name] = s
}

func (l *Ledger) restore(s *layout) {
	if s == nil {
		return
	}
	for i, b := range s.blocks {
		b.shared = 0
		l.enter(s.slots[i], b, s.ranges[i], nil)
	}
}
