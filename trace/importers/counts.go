package importers

import "github.com/gpubench/gpubench/trace"

// FactsOf counts a trace that is one already. What its recording's final state was it does not say.
func FactsOf(t *trace.Trace) Facts {
	f := Facts{Device: t.Meta.Device, Records: uint64(len(t.Events)), CoversPercent: t.Meta.CoversPercent,
		Unproven: "a trace does not hold the final state of its recording"}
	sizes := make([]uint64, t.Slots)
	var live uint64
	if t.Start != nil {
		for i := range t.Start.Segments {
			for j := range t.Start.Segments[i].Blocks {
				b := &t.Start.Segments[i].Blocks[j]
				if b.Handle == 0 {
					continue
				}
				f.LiveAtStart++
				if !b.Pending {
					live += b.RequestedBytes
					sizes[b.Slot] = b.RequestedBytes
				}
			}
		}
	}
	f.LiveAtStartBytes, f.LiveBytesMax = live, live
	for i := range t.Events {
		e := &t.Events[i]
		failed := len(t.Recorded) > 0 && t.Recorded[i].Status == trace.StatusFailed
		switch {
		case e.Kind == trace.KindFree || e.Kind == trace.KindRealloc && !failed:
			slot := e.Slot
			if e.Kind == trace.KindRealloc {
				slot = t.Extras[e.Aux].Slot2
			}
			f.Frees++
			live -= sizes[slot]
			sizes[slot] = 0
		}
		switch {
		case !e.Kind.TakesMemory():
		case failed:
			f.FailedAllocs++
		default:
			f.Allocs++
			sizes[e.Slot] = e.Size
			live += e.Size
			f.LiveBytesMax = max(f.LiveBytesMax, live)
		}
	}
	for i := range t.SegmentEvents {
		switch t.SegmentEvents[i].Kind {
		case trace.SegmentAlloc:
			f.SegmentAllocs++
		case trace.SegmentFree:
			f.SegmentFrees++
		case trace.SegmentMap:
			f.SegmentMaps++
		case trace.SegmentUnmap:
			f.SegmentUnmaps++
		}
	}
	return f
}
