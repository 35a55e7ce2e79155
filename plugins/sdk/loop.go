package sdk

import (
	"fmt"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// totals are sums over the events run in one window.
type totals struct {
	loopTicks, deviceWall, deviceNs, deviceCalls uint64
	policySaturated, deviceSaturated, skipped    uint64 // of the outcomes delivered in the window
}

// run executes n events from r.next and writes their outcomes from index at on. It stops early when an event's call
// records do not fit: that event's outcome is held back until its records are delivered. It returns the number of
// outcomes written.
//
// This is the timed loop: between the two readings of its ends no call leaves the process except the device's, nothing is
// logged and nothing of ours is allocated. An alloc or a free costs, beside the strategy, a look into the slot table, one
// record of 32 bytes and the store of the counter.
func (r *Runner) run(w *wire.Window, at, n uint64) (done uint64) {
	events := r.config.Trace.Events[r.next:][:n]
	outcomes := w.Outcomes()[at:][:n]
	base := r.next
	log := &r.log
	progress := w.Progress()
	timed := r.config.Timing == TimingPerEvent
	around := r.control.clocked != nil && len(r.config.Trace.TimesNs) != 0 || r.control.answers != nil || r.feature != nil
	req := &r.request
	slots := r.slots
	strategy := r.strategy
	begin := clock.Ticks()
replay:
	for i := range events {
		ev := &events[i]
		out := &outcomes[i]
		if around {
			r.before(base+uint64(i), timed)
		}
		log.enter(base + uint64(i))
		var st trace.Status
		var t0, t1, addr, granted uint64
		switch ev.Kind {
		case trace.KindAlloc:
			slot := &slots[ev.Slot]
			r.fill(req, ev)
			t0 = ticksIf(timed)
			st = strategy.Alloc(req, &slot.block)
			t1 = ticksIf(timed)
			slot.handle = ev.Handle
			if slot.live = st.Placed(); slot.live {
				addr, granted = slot.block.Addr, slot.block.Size
			}
		case trace.KindFree:
			slot := &slots[ev.Slot]
			if !slot.live || slot.handle != ev.Handle {
				st = trace.StatusSkipped
				break
			}
			slot.live = false
			t0 = ticksIf(timed)
			st = strategy.Free(&slot.block, ev.Stream)
			t1 = ticksIf(timed)
		default:
			st, addr, granted, t0, t1 = r.rare(ev, timed)
		}
		*out = trace.Outcome{Status: st, Addr: addr, Granted: granted}
		if r.feature != nil {
			out.Feature = r.feature.Feature()
		}
		switch ticks := t1 - t0; {
		case log.made|int(log.deviceCalls) != 0:
			r.account(out, ticks)
			if len(log.spill) != 0 {
				r.hold(out)
				break replay
			}
			progress.SetCalls(uint64(log.n))
		case ticks == 0:
			out.Flags = trace.OutcomeNotTimed
		case ticks < 1<<32:
			out.PolicyTicks = uint32(ticks)
		default:
			r.saturate(out)
		}
		if st == trace.StatusSkipped {
			r.totals.skipped++
		}
		done++
		progress.Store(at + done)
	}
	r.totals.loopTicks = clock.Ticks() - begin
	r.next = base + done
	if r.pending != nil {
		r.next++
		progress.SetCalls(uint64(log.n))
		progress.Store(at + done)
	}
	return done
}

// ticksIf reads the clock in the timing mode per event.
func ticksIf(timed bool) uint64 {
	if timed {
		return clock.Ticks()
	}
	return 0
}

// fill makes the request of an alloc or realloc.
func (r *Runner) fill(req *Request, ev *trace.Event) {
	req.Size = ev.Size
	req.Align = 0
	if ev.AlignLog2 != 0 {
		req.Align = 1 << ev.AlignLog2
	}
	req.Stream, req.Pool, req.Tag = ev.Stream, ev.Pool, ev.Aux
	if ev.Flags&trace.FlagExtra != 0 {
		req.Tag = r.config.Trace.Extras[ev.Aux].Tag
	}
}

// before is done ahead of an event for devices with a model clock or recorded answers. In batch mode its time counts as that
// of the device, since it lies between the readings at the ends of the loop.
func (r *Runner) before(i uint64, timed bool) {
	start := r.deviceStart(timed)
	if times := r.config.Trace.TimesNs; r.control.clocked != nil && len(times) != 0 {
		var last int64
		if i > 0 {
			last = times[i-1]
		}
		if gap := times[i] - last; gap > 0 {
			r.control.clocked.AdvanceNs(uint64(gap))
		}
	}
	if r.control.answers != nil {
		r.control.answers.BeginEvent(i)
	}
	r.deviceEnd(timed, start)
}

// account puts the calls of the event into its outcome and takes their time off the policy time.
func (r *Runner) account(out *trace.Outcome, ticks uint64) {
	log := &r.log
	out.Calls = uint16(min(log.made, 1<<16-1))
	r.totals.deviceWall += log.wallTicks
	r.totals.deviceNs += log.deviceNs
	r.totals.deviceCalls += log.deviceCalls
	out.DeviceNs = saturate32(log.deviceNs)
	if log.deviceNs > uint64(out.DeviceNs) {
		out.Flags |= trace.OutcomeDeviceTimeSaturated
		r.totals.deviceSaturated++
	}
	if ticks != 0 {
		r.policyTime(out, ticks)
	} else {
		out.Flags |= trace.OutcomeNotTimed
	}
	if log.moved {
		r.follow()
	}
}

// policyTime sets the time of the event without its device calls and without what recording them cost. The cost of reading the
// clock around the event stays in it: whoever reads outcomes knows it from the header and subtracts it.
func (r *Runner) policyTime(out *trace.Outcome, ticks uint64) {
	log := &r.log
	recording := (log.deviceCalls*r.callCost + clock.MilliticksPerTick/2) / clock.MilliticksPerTick
	policy := ticks - min(ticks, log.wallTicks+recording)
	if policy < 1<<32 {
		out.PolicyTicks = uint32(policy)
		return
	}
	r.saturate(out)
}

// saturate marks a policy time that does not fit.
func (r *Runner) saturate(out *trace.Outcome) {
	out.PolicyTicks = 1<<32 - 1
	out.Flags |= trace.OutcomePolicyTimeSaturated
	r.totals.policySaturated++
}

// hold keeps the outcome of an event whose call records did not fit, and puts whole what can be whole.
func (r *Runner) hold(out *trace.Outcome) {
	r.held = *out
	r.pending = &r.held
	// It is delivered, and counted, with the next window.
	if out.Flags&trace.OutcomePolicyTimeSaturated != 0 {
		r.totals.policySaturated--
	}
	if out.Flags&trace.OutcomeDeviceTimeSaturated != 0 {
		r.totals.deviceSaturated--
	}
	r.log.retract()
}

// count adds a held outcome to the counts of the window that delivers it.
func (r *Runner) count(out *trace.Outcome) {
	if out.Flags&trace.OutcomePolicyTimeSaturated != 0 {
		r.totals.policySaturated++
	}
	if out.Flags&trace.OutcomeDeviceTimeSaturated != 0 {
		r.totals.deviceSaturated++
	}
	if out.Status == trace.StatusSkipped {
		r.totals.skipped++
	}
}

// checkEvents makes sure that the loop can index its tables by what the events below end say. It also brings them into
// memory, so that the timed loop does not meet page faults of the mapped trace.
func (r *Runner) checkEvents(end uint64) error {
	t := r.config.Trace
	slots, streams, pools := uint32(len(r.slots)), len(t.Streams), len(t.Pools)
	for ; r.checked < end; r.checked++ {
		ev := &t.Events[r.checked]
		bad := ev.Slot >= slots && ev.Kind.NamesHandle() || int(ev.Stream) >= streams || int(ev.Pool) >= pools || ev.AlignLog2 > trace.MaxAlignLog2
		if bad || (ev.Aux != 0 || ev.Flags&trace.FlagExtra != 0 || ev.Kind == trace.KindRealloc) && !r.auxFits(ev) {
			return r.badEvent(r.checked, ev)
		}
	}
	return nil
}

// auxFits checks the argument that is an index.
func (r *Runner) auxFits(ev *trace.Event) bool {
	t := r.config.Trace
	if ev.Flags&trace.FlagExtra != 0 {
		if ev.Kind == trace.KindWait || uint64(ev.Aux) >= uint64(len(t.Extras)) { // the argument of wait is a stream
			return false
		}
		x := &t.Extras[ev.Aux]
		return uint64(x.Tag) < uint64(len(t.Strings)) && (ev.Kind != trace.KindRealloc || uint64(x.Slot2) < uint64(len(r.slots)))
	}
	switch ev.Kind {
	case trace.KindRealloc: // the old block is named by an Extra
		return false
	case trace.KindWait:
		return uint64(ev.Aux) < uint64(len(t.Streams))
	case trace.KindPrefetch:
		return true
	}
	return uint64(ev.Aux) < uint64(len(t.Strings))
}

func (r *Runner) badEvent(i uint64, ev *trace.Event) error {
	return fmt.Errorf("%w: event %d (kind %d): slot %d of %d, stream %d of %d, pool %d of %d, or argument %d lies outside its table",
		ErrBadTrace, i, ev.Kind, ev.Slot, len(r.slots), ev.Stream, len(r.config.Trace.Streams), ev.Pool, len(r.config.Trace.Pools), ev.Aux)
}
