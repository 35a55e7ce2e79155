package ledger

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// Finish makes the report of everything read so far. The report shares no memory with the ledger. Nothing may be fed
// afterwards until Reset.
func (l *Ledger) Finish() Report {
	l.settleSums(l.n, l.timeNs)
	r := Report{Exact: l.exact()}
	if l.timing != nil {
		r.Timed, r.Exact.DeviceLatency = l.timing.report()
		r.Timed.DeviceCalls = l.callTimes()
	}
	if l.series != nil {
		r.Series = l.series.report()
	}
	if l.picture != nil {
		r.Picture = l.picture.report(l)
	}
	return r
}

func (l *Ledger) exact() Exact {
	e := Exact{
		Events: l.n, Counts: l.outcomeCounts(), Allocs: l.success.rates(), Spurious: l.spurious, Peak: l.peak,
		Fragmentation: l.fragmentation(), Classes: l.sizeClasses(), Device: l.deviceUse(),
		LiveAtEnd: l.liveBlocks + l.spilledBlocks, LiveAtEndBytes: l.liveBytes + l.spilledBytes,
		Violations:      append([]Violation{}, l.violations...),
		ViolationCounts: append([]ViolationCount{}, l.violationCounts...),
		ViolationsTotal: l.violationsTotal, StreamsUnchecked: l.shadow.unchecked, Warnings: l.warnings(),
	}
	if p := &e.Peak; p.ReservedBytes > 0 {
		p.ReservedOverhead = max(0, 1-float64(p.LiveBytes)/float64(p.ReservedBytes))
	}
	if l.anyFailed {
		f := l.firstFailure
		e.FirstFailure = &f
	}
	if l.cfg.Hostages && len(l.hostages.Segments) > 0 {
		h := l.hostages
		h.Segments = append([]Hostage(nil), h.Segments...)
		e.Hostages = &h
	}
	return e
}

func (l *Ledger) outcomeCounts() OutcomeCounts {
	s := &l.statuses
	return OutcomeCounts{OK: s[trace.StatusOK], Recovered: s[trace.StatusRecovered], Failed: s[trace.StatusFailed],
		Spilled: s[trace.StatusSpilled], Refused: s[trace.StatusRefused], Skipped: s[trace.StatusSkipped],
		Unsupported: s[trace.StatusUnsupported], Invalid: s[trace.StatusInvalid], Error: s[trace.StatusError], Unknown: s[numStatuses-1]}
}

func (s *successSum) rates() Success {
	r := s.Success
	r.SuccessRate, r.SuccessBytesRate = 1, 1
	if r.Attempted > 0 {
		r.SuccessRate = float64(r.OK+r.Recovered) / float64(r.Attempted)
	}
	if r.AttemptedBytes > 0 {
		r.SuccessBytesRate = float64(r.SucceededBytes) / float64(r.AttemptedBytes)
	}
	return r
}

// fragmentation divides the sums: by the trace's time where it has any that passes, else by events.
func (l *Ledger) fragmentation() Fragmentation {
	f := Fragmentation{ExternalAtPeak: l.peakExternal, InternalAtPeak: l.peakInternal,
		ExternalMax: l.externalMax, ExternalMaxEvent: l.externalMaxEvent, WeightedBy: "events"}
	if l.anyFailed {
		x := l.firstFailure.External
		f.ExternalAtFirstFailure = &x
	}
	if span := l.timeNs - l.timeStart; l.timed && span > 0 {
		f.WeightedBy = "time"
		f.ExternalWeighted = l.externalByTime / float64(span)
		f.InternalWeighted = l.internalByTime / float64(span)
	} else if l.n > 0 {
		f.ExternalWeighted = l.externalByEvents / float64(l.n)
		f.InternalWeighted = l.internalByEvents / float64(l.n)
	}
	return f
}

func (l *Ledger) deviceUse() DeviceUse {
	d := DeviceUse{ByKind: []CallCount{}, HeldAtEndBytes: l.dev.held, HostHeldAtEndBytes: l.host.held}
	per := func(n uint64) float64 {
		if l.n == 0 {
			return 0
		}
		return float64(n) * 1000 / float64(l.n)
	}
	for k := range l.calls {
		c := &l.calls[k]
		if c.count == 0 {
			continue
		}
		if trace.CallKind(k) < trace.CallMove {
			d.Calls += c.count
			if l.cfg.ModelledTime {
				d.ModelNs += c.deviceNs
			}
		}
		d.ByKind = append(d.ByKind, CallCount{Kind: callName(trace.CallKind(k)), Count: c.count, Failed: c.failed,
			SizeBytes: c.size, PerThousandEvents: per(c.count)})
	}
	d.CallsPerThousandEvents = per(d.Calls)
	return d
}

func (l *Ledger) callTimes() []CallTime {
	times := []CallTime{}
	for k := range int(trace.CallMove) {
		if c := &l.calls[k]; c.count > 0 {
			times = append(times, CallTime{Kind: callName(trace.CallKind(k)), DeviceNs: c.deviceNs, WallNs: float64(c.wallTicks) * l.cfg.TickNs})
		}
	}
	return times
}

// warnings lists what the reader must know to trust the figures.
func (l *Ledger) warnings() []string {
	w := []string{}
	if l.err != nil {
		w = append(w, "reading stopped: "+l.err.Error())
	}
	if l.loose > 0 {
		w = append(w, fmt.Sprintf("%d calls belong to event %d, which never ended", l.loose, l.n))
	}
	if l.anyFailed && l.cfg.DeviceTotalBytes == 0 {
		w = append(w, "the capacity of the device is not known: memory free on it is not counted as a cure of failures")
	}
	if l.shadow.unchecked > 0 {
		w = append(w, fmt.Sprintf("stream safety: %d freed ranges were not watched, more than %d at once", l.shadow.unchecked, maxGhosts))
	}
	if l.aliased > 0 {
		w = append(w, "physical memory is mapped at several addresses: reserved and free bytes count each address")
	}
	return w
}
