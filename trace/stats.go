package trace

import "math/bits"

// Stats describes a trace. It is what `gpubench trace info` prints, as text and as JSON. Sizes are requested bytes; a
// request that the recording saw fail counts as a request but never lives.
type Stats struct {
	Meta  Meta        `json:"meta"`
	Kinds []KindStats `json:"kinds"` // in the order of the language, kinds that occur

	Events          uint64 `json:"events"`
	Handles         uint64 `json:"handles"` // objects named, those of the start state included
	Slots           uint32 `json:"slots"`
	Strings         int    `json:"strings"`
	TaggedEvents    uint64 `json:"tagged_events"`
	RecordedEvents  uint64 `json:"recorded_events"`   // events of which the recording saw the answer
	RecordedFailed  uint64 `json:"recorded_failures"` // of those, requests that failed
	RequestedBytes  uint64 `json:"requested_bytes"`   // sum of all requests
	DurationNs      *int64 `json:"duration_ns"`       // time of the last event; null without times
	SegmentEvents   uint64 `json:"segment_events"`
	AlignedRequests uint64 `json:"aligned_requests"`

	Live      LiveStats     `json:"live"`
	Start     *StartStats   `json:"start,omitempty"`
	Sizes     Distribution  `json:"sizes_bytes"`
	Lifetimes Distribution  `json:"lifetimes_events"` // from request to free, of objects with both in the trace
	Streams   []StreamStats `json:"streams"`          // those that an event or a segment names
	Pools     []PoolStats   `json:"pools"`
	Marks     []MarkStats   `json:"marks,omitempty"`
}

// KindStats says how often a kind of event occurs.
type KindStats struct {
	Kind   string `json:"kind"`
	Events uint64 `json:"events"`
}

// LiveStats says how much was live. BytesMax is the lower bound of any device on which the trace can run.
type LiveStats struct {
	BytesMax       uint64 `json:"bytes_max"`
	BytesMaxEvent  uint64 `json:"bytes_max_event"`   // first event after which that much was live
	BytesMaxTimeNs *int64 `json:"bytes_max_time_ns"` // null without times
	HandlesMax     uint64 `json:"handles_max"`
	BytesEnd       uint64 `json:"bytes_end"`
	HandlesEnd     uint64 `json:"handles_end"`
}

// StartStats describes the start state.
type StartStats struct {
	Segments       uint64 `json:"segments"`
	ReservedBytes  uint64 `json:"reserved_bytes"`
	Blocks         uint64 `json:"blocks"`
	LiveBlocks     uint64 `json:"live_blocks"`
	LiveBytes      uint64 `json:"live_bytes"` // requested
	PendingBlocks  uint64 `json:"pending_blocks"`
	FreeBytes      uint64 `json:"free_bytes"`
	LargestFree    uint64 `json:"largest_free_bytes"`
	GrantedMinusRq uint64 `json:"granted_minus_requested_bytes"` // internal waste of the live blocks
}

// Distribution holds exact figures of a multiset of whole numbers; quantiles are by nearest rank.
type Distribution struct {
	Count     uint64   `json:"count"`
	Min       uint64   `json:"min"`
	Max       uint64   `json:"max"`
	Mean      float64  `json:"mean"`
	P50       uint64   `json:"p50"`
	P90       uint64   `json:"p90"`
	P99       uint64   `json:"p99"`
	Histogram []Bucket `json:"histogram"` // by powers of two, empty ones left out
}

// Bucket counts the values from From up to and including To.
type Bucket struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Count uint64 `json:"count"`
	Sum   uint64 `json:"sum"` // of the values, modulo 2^64
}

// StreamStats is one row of the table of streams.
type StreamStats struct {
	Stream       uint64 `json:"stream"`
	Allocs       uint64 `json:"allocs"` // reallocs included
	Frees        uint64 `json:"frees"`
	Uses         uint64 `json:"uses"` // of blocks by this stream, as `use` says
	AllocBytes   uint64 `json:"alloc_bytes"`
	LiveBytesMax uint64 `json:"live_bytes_max"` // of blocks allocated on it
}

// PoolStats is one row of the table of pools.
type PoolStats struct {
	Pool         string `json:"pool"`
	Allocs       uint64 `json:"allocs"`
	AllocBytes   uint64 `json:"alloc_bytes"`
	LiveBytesMax uint64 `json:"live_bytes_max"`
}

// MarkStats says what was live at the marks of one key: a trace that leaks, or whose sizes grow, shows it here.
type MarkStats struct {
	Key                string      `json:"key"`
	Count              uint64      `json:"count"`
	LiveBytesFirst     uint64      `json:"live_bytes_first"` // at the first mark
	LiveBytesLast      uint64      `json:"live_bytes_last"`
	GrowthBytesPerMark float64     `json:"growth_bytes_per_mark"` // (last − first) ÷ (count − 1)
	Points             []MarkPoint `json:"points"`                // at most MaxMarkPoints, evenly thinned
}

// MarkPoint is one mark.
type MarkPoint struct {
	Value        uint64 `json:"value"`
	Event        uint64 `json:"event"`
	LiveBytes    uint64 `json:"live_bytes"`
	LiveBytesMax uint64 `json:"live_bytes_max"` // since the mark before that is listed
}

// Limits of Stats.
const (
	MaxMarkPoints = 512
	MaxMarkKeys   = 64 // further keys are not followed
)

// Describe computes the statistics of a valid trace. It reads the events a few times and keeps memory by slots, streams
// and pools, never by events.
func Describe(t *Trace) *Stats {
	s := &Stats{Meta: t.Meta, Events: uint64(len(t.Events)), Slots: t.Slots, Strings: len(t.Strings) - 1,
		SegmentEvents: uint64(len(t.SegmentEvents))}
	if n := len(t.TimesNs); n > 0 {
		last := t.TimesNs[n-1]
		s.DurationNs = &last
	}
	d := &describer{t: t, s: s, w: newWalk(t)}
	d.start()
	for i := range t.Events {
		d.event(uint64(i))
	}
	d.finish()
	s.Sizes = distribution(func(f func(uint64)) {
		for i := range t.Events {
			if t.Events[i].Kind.TakesMemory() {
				f(t.Events[i].Size)
			}
		}
	})
	s.Lifetimes = distribution(func(f func(uint64)) {
		w := newWalk(t)
		for i := range t.Events {
			w.step(uint64(i), func(born, slotSize uint64) { f(uint64(i) - born) })
		}
	})
	return s
}

// describer gathers what one pass can.
type describer struct {
	t       *Trace
	s       *Stats
	w       *walk
	kinds   [KindCount]uint64
	streams []StreamStats
	pools   []PoolStats
	used    []bool // streams named
	marks   map[uint32]*markFollower
	order   []*markFollower
}

func (d *describer) start() {
	t := d.t
	d.streams = make([]StreamStats, len(t.Streams))
	d.used = make([]bool, len(t.Streams))
	d.pools = make([]PoolStats, len(t.Pools))
	d.marks = make(map[uint32]*markFollower)
	d.peak(0)
	if t.Start == nil {
		return
	}
	st := new(StartStats)
	d.s.Start = st
	for i := range t.Start.Segments {
		seg := &t.Start.Segments[i]
		d.used[seg.Stream] = true
		st.Segments++
		st.ReservedBytes += seg.Bytes
		for j := range seg.Blocks {
			b := &seg.Blocks[j]
			st.Blocks++
			switch {
			case b.Pending:
				st.PendingBlocks++
			case b.Handle != 0:
				st.LiveBlocks++
				st.LiveBytes += b.RequestedBytes
				st.GrantedMinusRq += b.Bytes - b.RequestedBytes
			default:
				st.FreeBytes += b.Bytes
				st.LargestFree = max(st.LargestFree, b.Bytes)
			}
		}
	}
	d.s.Handles = st.LiveBlocks
	d.peak(0)
}

// peak notes the live bytes after event i.
func (d *describer) peak(i uint64) {
	l := &d.s.Live
	if d.w.live() > l.BytesMax {
		l.BytesMax, l.BytesMaxEvent = d.w.live(), i
	}
	l.HandlesMax = max(l.HandlesMax, d.w.handles)
	for _, m := range d.order {
		m.since = max(m.since, d.w.live())
	}
}

func (d *describer) event(i uint64) {
	ev := &d.t.Events[i]
	s := d.s
	d.kinds[ev.Kind]++
	x := d.t.extra(ev)
	if x.Tag != 0 {
		s.TaggedEvents++
	}
	if ev.AlignLog2 != 0 {
		s.AlignedRequests++
	}
	if len(d.t.Recorded) > 0 && d.t.Recorded[i].Seen != 0 {
		s.RecordedEvents++
		if ev.Kind.TakesMemory() && d.t.Recorded[i].Status == StatusFailed {
			s.RecordedFailed++
		}
	}
	if ev.Kind.usesStream() && ev.Flags&FlagAll == 0 {
		d.used[ev.Stream] = true
	}
	str := &d.streams[ev.Stream]
	switch ev.Kind {
	case KindAlloc, KindRealloc:
		s.Handles++
		s.RequestedBytes += ev.Size
		str.Allocs++
		str.AllocBytes += ev.Size
		d.pools[ev.Pool].Allocs++
		d.pools[ev.Pool].AllocBytes += ev.Size
	case KindFree:
		str.Frees++
	case KindUse:
		str.Uses++
	case KindWait:
		d.used[ev.Aux] = true
	case KindMark:
		d.mark(i, ev)
	}
	d.w.step(i, nil)
	if ev.Kind.TakesMemory() || ev.Kind == KindRestore {
		d.peak(i)
		if ev.Kind.TakesMemory() {
			str.LiveBytesMax = max(str.LiveBytesMax, d.w.streamBytes[ev.Stream])
			d.pools[ev.Pool].LiveBytesMax = max(d.pools[ev.Pool].LiveBytesMax, d.w.poolBytes[ev.Pool])
		}
	}
}

func (d *describer) finish() {
	s := d.s
	for k, n := range d.kinds {
		if n > 0 {
			s.Kinds = append(s.Kinds, KindStats{Kind(k).String(), n})
		}
	}
	s.Live.BytesEnd, s.Live.HandlesEnd = d.w.live(), d.w.handles
	if len(d.t.TimesNs) > 0 {
		at := d.t.TimesNs[s.Live.BytesMaxEvent]
		s.Live.BytesMaxTimeNs = &at
	}
	for i, row := range d.streams {
		if d.used[i] {
			row.Stream = d.t.Streams[i]
			row.LiveBytesMax = max(row.LiveBytesMax, d.w.startStream[i])
			s.Streams = append(s.Streams, row)
		}
	}
	for i, row := range d.pools {
		row.LiveBytesMax = max(row.LiveBytesMax, d.w.startPool[i])
		if row.Allocs > 0 || row.LiveBytesMax > 0 {
			row.Pool = d.t.Pools[i]
			s.Pools = append(s.Pools, row)
		}
	}
	for _, m := range d.order {
		s.Marks = append(s.Marks, m.stats())
	}
}

// markFollower follows the marks of one key, thinning its points so that they stay few and even.
type markFollower struct {
	MarkStats
	stride uint64
	since  uint64 // live maximum since the point before
}

func (d *describer) mark(i uint64, ev *Event) {
	m := d.marks[ev.Aux]
	if m == nil {
		if len(d.order) >= MaxMarkKeys {
			return
		}
		m = &markFollower{stride: 1, since: d.s.Live.BytesMax}
		m.Key = d.t.Strings[ev.Aux]
		m.LiveBytesFirst = d.w.live()
		d.marks[ev.Aux] = m
		d.order = append(d.order, m)
	}
	if m.Count%m.stride == 0 {
		if len(m.Points) == MaxMarkPoints {
			m.thin()
		}
		if m.Count%m.stride == 0 {
			m.Points = append(m.Points, MarkPoint{Value: ev.Size, Event: i, LiveBytes: d.w.live(), LiveBytesMax: m.since})
			m.since = d.w.live()
		}
	}
	m.Count++
	m.LiveBytesLast = d.w.live()
}

// thin drops every second point; what was live in between goes to the point that stays.
func (m *markFollower) thin() {
	kept := m.Points[:0]
	for i, p := range m.Points {
		if i%2 == 0 {
			if i > 0 {
				p.LiveBytesMax = max(p.LiveBytesMax, m.Points[i-1].LiveBytesMax)
			}
			kept = append(kept, p)
		} else if i == len(m.Points)-1 {
			m.since = max(m.since, p.LiveBytesMax)
		}
	}
	m.Points = kept
	m.stride *= 2
}

func (m *markFollower) stats() MarkStats {
	if m.Count > 1 {
		m.GrowthBytesPerMark = (float64(m.LiveBytesLast) - float64(m.LiveBytesFirst)) / float64(m.Count-1)
	}
	return m.MarkStats
}

// quantileRank is the index, from 0, of the nearest-rank quantile q/100 among n values.
func quantileRank(n, q uint64) uint64 {
	hi, lo := bits.Mul64(n, q)
	quo, rem := bits.Div64(hi, lo, 100)
	if rem == 0 {
		quo--
	}
	return quo
}
