package importers

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// ColdStart turns the start state of a trace into leading allocations, in address order, for a strategy that cannot restore
// an exact layout, or to which another strategy's layout means nothing. Their true order is not known. The result shares the
// tables of t and has no start state; a trace without one is returned as it is. Blocks that were already freed and only
// waited for other streams are left out and counted; segments held at the start are left to the strategy.
func ColdStart(t *trace.Trace) *trace.Trace {
	if t.Start == nil {
		return t
	}
	var lead []trace.Event
	var seen []trace.Recorded
	pending := uint64(0)
	for i := range t.Start.Segments {
		s := &t.Start.Segments[i]
		for j := range s.Blocks {
			b := &s.Blocks[j]
			switch {
			case b.Handle == 0:
			case b.Pending:
				pending++
			default:
				lead = append(lead, trace.Event{Kind: trace.KindAlloc, Stream: s.Stream, Slot: b.Slot, Handle: b.Handle,
					Size: b.RequestedBytes, Pool: s.Pool})
				seen = append(seen, trace.Recorded{Addr: b.Addr, Granted: b.Bytes, Seen: 1})
			}
		}
	}
	out := *t
	out.Start = nil
	out.Events = append(lead, t.Events...)
	if len(t.TimesNs) > 0 {
		out.TimesNs = append(make([]int64, len(lead)), t.TimesNs...)
	}
	if len(t.Recorded) > 0 {
		out.Recorded = append(seen, t.Recorded...)
	}
	out.SegmentEvents = append([]trace.SegmentEvent(nil), t.SegmentEvents...)
	for i := range out.SegmentEvents {
		out.SegmentEvents[i].Event += uint64(len(lead))
	}
	out.Meta.Warnings = append([]string(nil), t.Meta.Warnings...)
	out.Meta.Warnings = append(out.Meta.Warnings, fmt.Sprintf("the %d blocks live at the start are allocated first, in address order: their true order is not known", len(lead)))
	if pending > 0 {
		out.Meta.Skipped += pending
		out.Meta.Warnings = append(out.Meta.Warnings, fmt.Sprintf("skipped: %d blocks of the start that were already freed", pending))
	}
	return &out
}
