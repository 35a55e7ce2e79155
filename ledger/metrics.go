package ledger

import (
	"math/bits"
	"strconv"

	"github.com/gpubench/gpubench/trace"
)

// closeEvent is EventClose as violations name it.
const closeEvent = -3

// numStatuses counts the statuses, and one place for numbers that are none.
const numStatuses = 10

// metrics is what the ledger sums up while it reads.
type metrics struct {
	outsideEvent int64 // not 0: reading calls outside any event
	timed        bool  // the trace has times

	statuses [numStatuses]uint64
	success  successSum
	calls    [numCallKinds]callStat

	external, internal  float64 // of the state since the last change
	changedN            uint64  // first event after which that state stood
	changedTime         int64
	externalByEvents    float64
	externalByTime      float64
	internalByEvents    float64
	internalByTime      float64
	externalMax         float64
	externalMaxEvent    int64
	peak                Peak
	peakExternal        Ratio
	peakInternal        Ratio
	peakClasses         [64]uint64
	firstFailure        Failure
	failedClasses       [64]uint64
	failedFree          uint64
	anyFailed           bool
	spurious            Spurious
	hostages            Hostages
	hostagesAtLiveBytes uint64
	timeStart           int64
}

func (m *metrics) reset() {
	segs := m.hostages.Segments[:0]
	*m = metrics{externalMaxEvent: -1}
	m.hostages.Segments = segs
	p := &m.peak
	p.LiveEvent, p.GrantedEvent, p.ReservedEvent, p.DeviceEvent, p.SpilledEvent = -1, -1, -1, -1, -1
}

// successSum counts the answers to allocations.
type successSum struct {
	Success
}

func (s *successSum) placed(st trace.Status, size uint64) {
	s.Attempted++
	s.AttemptedBytes += size
	switch st {
	case trace.StatusOK:
		s.OK++
		s.SucceededBytes += size
	case trace.StatusRecovered:
		s.Recovered++
		s.SucceededBytes += size
	default:
		s.Spilled++
		s.SpilledBytes += size
	}
}

func (s *successSum) missed(st trace.Status, size uint64) {
	s.Attempted++
	s.AttemptedBytes += size
	switch st {
	case trace.StatusFailed:
		s.Failed++
		s.FailedBytes += size
	case trace.StatusRefused:
		s.Refused++
		s.RefusedBytes += size
	default:
		s.Error++
	}
}

// externalNow is 1 − largest free ÷ total free inside reserved memory. A free range counts once for every address it can
// be reached at; where physical memory has several addresses the total counts them all as well.
func (l *Ledger) externalNow() Ratio {
	total := l.dev.gaps.total
	if total == 0 {
		return Ratio{}
	}
	largest := l.dev.largest()
	return Ratio{Value: float64(total-largest) / float64(total), PartBytes: largest, TotalBytes: total}
}

// internalNow is 1 − requested ÷ granted over the live blocks.
func (l *Ledger) internalNow() Ratio {
	if l.grantedBytes == 0 || l.grantedBytes < l.liveBytes { // less granted than requested is a violation, not a gain
		return Ratio{PartBytes: l.liveBytes, TotalBytes: l.grantedBytes}
	}
	return Ratio{Value: float64(l.grantedBytes-l.liveBytes) / float64(l.grantedBytes), PartBytes: l.liveBytes, TotalBytes: l.grantedBytes}
}

// settleSums adds the present state, up to and without event number n at time t, to the weighted means. The conversions
// keep the compiler from fusing the multiplication and the addition, so that all machines sum alike.
func (l *Ledger) settleSums(n uint64, t int64) {
	if w := float64(n - l.changedN); w > 0 {
		l.externalByEvents += float64(l.external * w)
		l.internalByEvents += float64(l.internal * w)
	}
	if w := float64(t - l.changedTime); w > 0 {
		l.externalByTime += float64(l.external * w)
		l.internalByTime += float64(l.internal * w)
	}
	l.changedN, l.changedTime = n, t
}

// refresh reads the ratios of the present state.
func (l *Ledger) refresh() {
	l.external, l.internal = l.externalNow().Value, l.internalNow().Value
	l.dirty = false
}

// changed is called at the end of an event that changed the books.
func (l *Ledger) changed() {
	l.settleSums(l.n, l.timeNs)
	l.refresh()
	if l.external > l.externalMax {
		l.externalMax, l.externalMaxEvent = l.external, int64(l.n)
	}
	l.peaks(int64(l.n))
}

// peaks compares the present state with the largest so far; event −1 is the state before the first.
func (l *Ledger) peaks(event int64) {
	p := &l.peak
	if l.liveBytes > p.LiveBytes {
		p.LiveBytes, p.LiveEvent, p.LiveBlocks = l.liveBytes, event, l.liveBlocks
		l.peakExternal, l.peakInternal = l.externalNow(), l.internalNow()
		l.peakClasses = l.dev.gaps.classBytes
		if l.cfg.Hostages && !l.anyFailed && l.liveBytes-l.hostagesAtLiveBytes >= l.hostagesAtLiveBytes/hostageStep {
			l.findHostages("peak")
		}
	}
	if l.grantedBytes > p.GrantedBytes {
		p.GrantedBytes, p.GrantedEvent = l.grantedBytes, event
	}
	if l.dev.held > p.ReservedBytes {
		p.ReservedBytes, p.ReservedEvent = l.dev.held, event
	}
	if l.obj.charged > p.DeviceBytes {
		p.DeviceBytes, p.DeviceEvent = l.obj.charged, event
	}
	if l.spilledBytes > p.SpilledBytes {
		p.SpilledBytes, p.SpilledEvent = l.spilledBytes, event
	}
	if l.shadow.pending > p.PendingBytes {
		p.PendingBytes = l.shadow.pending
	}
}

// failed notes an allocation that was not placed.
func (l *Ledger) failed(ev *trace.Event, o *trace.Outcome) {
	cure := CureNone
	if o.Status == trace.StatusFailed && !l.excused {
		cure = l.cure(ev)
		switch cure {
		case CureMissed:
			l.spurious.NoneNeeded++
		case CureWaiting:
			l.spurious.Waiting++
		case CureDropCaches:
			l.spurious.DropCaches++
		case CureCompaction:
			l.spurious.Compaction++
		}
		if cure != CureNone {
			l.spurious.Total++
		}
	}
	if l.anyFailed {
		return
	}
	l.anyFailed = true
	ext := l.externalNow()
	l.firstFailure = Failure{
		Event: l.n, Handle: uint64(ev.Handle), Status: o.Status.String(), Tag: l.text(l.tag(ev)), SizeBytes: ev.Size,
		LiveBytes: l.liveBytes, GrantedBytes: l.grantedBytes, ReservedBytes: l.dev.held, DeviceBytes: l.obj.charged,
		FreeBytes: ext.TotalBytes, LargestFreeBytes: l.dev.largest(), PendingBytes: l.shadow.pending,
		DeviceFreeBytes: l.deviceFree(), WhollyFreeBytes: l.whollyFree(), Cure: cure, External: ext,
	}
	l.failedClasses, l.failedFree = l.dev.gaps.classBytes, ext.TotalBytes
	if l.cfg.Hostages {
		l.findHostages("first-failure")
	}
}

// deviceFree is what the strategy could still take from the device.
func (l *Ledger) deviceFree() uint64 {
	if l.cfg.DeviceTotalBytes <= l.obj.charged {
		return 0
	}
	free := l.cfg.DeviceTotalBytes - l.obj.charged
	if lim := l.cfg.LimitBytes; lim != 0 {
		free = min(free, lim-min(lim, l.dev.held))
	}
	return free
}

// whollyFree is what dropping caches would give back to the device: segments without a block and whole mappings without
// one. Mapped ranges are looked at one by one; failures are few.
func (l *Ledger) whollyFree() uint64 {
	sum := l.dev.whole
	m := &l.obj.maps
	for c := m.idx.next(noCursor); c.dir >= 0; c = m.idx.next(c) {
		r := &m.recs[m.idx.id(c)]
		if l.dev.firstIn(r.addr, r.size).dir < 0 {
			sum += r.size
		}
	}
	return sum
}

// cure says what would have served a request that failed; the least intrusive first.
func (l *Ledger) cure(ev *trace.Event) string {
	size := ev.Size
	free := l.deviceFree()
	fromDevice := l.charge(size) >= size && l.charge(size) <= free // no wrap at the top
	inside, largest := l.dev.gaps.total, l.dev.largest()
	if inside+free < size {
		return CureNone
	}
	if fromDevice || largest >= size && (l.shadow.pending == 0 || l.largestUsable(size, ev.Stream) >= size) {
		return CureMissed
	}
	if largest >= size {
		return CureWaiting
	}
	if whole := l.whollyFree(); l.charge(size) <= free+whole {
		return CureDropCaches
	}
	return CureCompaction
}

// largestUsable returns a free range of at least size bytes without bytes that are pending for stream, or 0.
func (l *Ledger) largestUsable(size uint64, stream uint16) uint64 {
	for i := range l.dev.items {
		it := &l.dev.items[i]
		if it.gap < max(size, 1) {
			continue
		}
		end := it.end() + it.gap
		for at := it.end(); at < end; {
			stop, next := end, end
			if g := l.shadow.hazard(at, end-at, stream); g != nil {
				stop, next = max(at, g.addr), g.addr+g.size
			}
			if stop-at >= size {
				return stop - at
			}
			at = next
		}
	}
	return 0
}

// text returns a string of the trace.
func (l *Ledger) text(i uint32) string {
	if int(i) < len(l.cfg.Strings) {
		return l.cfg.Strings[i]
	}
	return ""
}

// sizeClasses makes the unusable free index out of free bytes by power of two.
func (l *Ledger) sizeClasses() []SizeClass {
	l.dev.gaps.flushAll(l.n)
	top := 0
	for k := range 64 {
		if l.peakClasses[k]|l.failedClasses[k]|l.dev.gaps.classSum[k].lo|l.dev.gaps.classSum[k].hi != 0 {
			top = k + 1
		}
	}
	classes := make([]SizeClass, 0, max(0, top-minClassLog2+1))
	var peak, failed uint64
	var sum float64
	for k := range top {
		if k >= minClassLog2 {
			c := SizeClass{Bytes: 1 << k, AtPeak: share64(peak, l.peakExternal.TotalBytes)}
			if l.anyFailed {
				v := share64(failed, l.failedFree)
				c.AtFirstFailure = &v
			}
			if t := l.dev.gaps.totalSum.float(); t > 0 {
				c.Weighted = sum / t
			}
			classes = append(classes, c)
		}
		peak += l.peakClasses[k]
		failed += l.failedClasses[k]
		sum += l.dev.gaps.classSum[k].float()
	}
	return classes
}

// minClassLog2 is the smallest class reported: 512 bytes, the unit of PyTorch's allocator (kMinBlockSize).
const minClassLog2 = 9

func share64(part, total uint64) float64 {
	if total == 0 {
		return 0
	}
	return float64(part) / float64(total)
}

// bytesText gives bytes with their largest binary unit.
func bytesText(n uint64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	k := 0
	if n != 0 {
		k = min(bits.TrailingZeros64(n)/10, len(units)-1)
	}
	return strconv.FormatUint(n>>(10*k), 10) + " " + units[k]
}
