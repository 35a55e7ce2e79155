package ledger

// Report is everything the ledger found out about one trial. Exact holds what depends on outcomes and calls alone, so that
// equal runs give byte-identical JSON; Timed holds what was measured with a clock. Series and Picture are for drawing.
type Report struct {
	Exact   Exact    `json:"exact"`
	Timed   *Timed   `json:"timed,omitempty"`   // nil unless Config.Timing
	Series  *Series  `json:"series,omitempty"`  // nil unless Config.Series
	Picture *Picture `json:"picture,omitempty"` // nil unless Config.PictureRects > 0
}

// Exact holds the deterministic metrics. See docs/METHODOLOGY.md for each definition.
type Exact struct {
	Events        uint64        `json:"events"` // events read
	Counts        OutcomeCounts `json:"counts"`
	Allocs        Success       `json:"allocs"`
	FirstFailure  *Failure      `json:"first_failure,omitempty"`
	Spurious      Spurious      `json:"spurious"`
	Peak          Peak          `json:"peak"`
	Fragmentation Fragmentation `json:"fragmentation"`
	Classes       []SizeClass   `json:"classes"` // unusable free index, ascending by class
	Device        DeviceUse     `json:"device"`
	Hostages      *Hostages     `json:"hostages,omitempty"`
	// DeviceLatency is set only with Config.ModelledTime; a measured one is in Timed.
	DeviceLatency *Latency `json:"device_latency,omitempty"`

	LiveAtEnd        uint64           `json:"live_at_end"`       // blocks
	LiveAtEndBytes   uint64           `json:"live_at_end_bytes"` // requested
	Violations       []Violation      `json:"violations"`        // the first MaxStoredViolations
	ViolationCounts  []ViolationCount `json:"violation_counts"`  // by code, in the order of first appearance
	ViolationsTotal  uint64           `json:"violations_total"`
	StreamsUnchecked uint64           `json:"streams_unchecked"` // freed ranges that the O7 shadow dropped for lack of room
	// Warnings are the reader's to see: what was not known and which figure suffers.
	Warnings []string `json:"warnings"`
}

// OutcomeCounts counts the outcomes of all events by status.
type OutcomeCounts struct {
	OK          uint64 `json:"ok"`
	Recovered   uint64 `json:"recovered"`
	Failed      uint64 `json:"failed"`
	Spilled     uint64 `json:"spilled"`
	Refused     uint64 `json:"refused"`
	Skipped     uint64 `json:"skipped"`
	Unsupported uint64 `json:"unsupported"`
	Invalid     uint64 `json:"invalid"`
	Error       uint64 `json:"error"`
	Unknown     uint64 `json:"unknown"` // a status number that does not exist
}

// Success is the success rate and what it is made of. Attempted are the alloc and realloc events that were neither skipped
// nor unsupported. A success is ok or recovered: a block on the device. Spilled, refused, failed are not.
type Success struct {
	Attempted      uint64 `json:"attempted"`
	OK             uint64 `json:"ok"`
	Recovered      uint64 `json:"recovered"`
	Failed         uint64 `json:"failed"`
	Spilled        uint64 `json:"spilled"`
	Refused        uint64 `json:"refused"`
	Error          uint64 `json:"error"` // error or a status an alloc cannot have
	AttemptedBytes uint64 `json:"attempted_bytes"`
	SucceededBytes uint64 `json:"succeeded_bytes"`
	FailedBytes    uint64 `json:"failed_bytes"`
	SpilledBytes   uint64 `json:"spilled_bytes"`
	RefusedBytes   uint64 `json:"refused_bytes"`
	// SuccessRate is (ok + recovered) ÷ attempted, SuccessBytesRate the same by bytes; 1 when nothing was attempted.
	SuccessRate      float64 `json:"success_rate"`
	SuccessBytesRate float64 `json:"success_bytes_rate"`
}

// Failure is one allocation that was not placed, and the state of the books just before it was answered.
type Failure struct {
	Event            uint64 `json:"event"`
	Handle           uint64 `json:"handle"`
	Status           string `json:"status"`
	Tag              string `json:"tag,omitempty"`
	SizeBytes        uint64 `json:"size_bytes"`
	LiveBytes        uint64 `json:"live_bytes"`         // requested by the program and on the device
	GrantedBytes     uint64 `json:"granted_bytes"`      // held by live blocks
	ReservedBytes    uint64 `json:"reserved_bytes"`     // held by the strategy
	DeviceBytes      uint64 `json:"device_bytes"`       // charged to the device
	FreeBytes        uint64 `json:"free_bytes"`         // reserved, not in a live block
	LargestFreeBytes uint64 `json:"largest_free_bytes"` // largest free range inside reserved memory
	PendingBytes     uint64 `json:"pending_bytes"`      // freed, other streams not done
	DeviceFreeBytes  uint64 `json:"device_free_bytes"`  // capacity − charged; 0 when the capacity is not known
	WhollyFreeBytes  uint64 `json:"wholly_free_bytes"`  // in segments without a live block
	Cure             string `json:"cure,omitempty"`     // the cure of a spurious failure: see Spurious
	External         Ratio  `json:"external"`           // fragmentation at that moment
}

// The cures of a spurious failure, from the least to the most intrusive.
const (
	CureNone       = ""            // not spurious: the bytes were not there
	CureMissed     = "none-needed" // a free range inside the segments, or the device, would have served as things stood
	CureWaiting    = "waiting"     // waiting for pending frees
	CureDropCaches = "drop-caches" // giving wholly free segments back first
	CureCompaction = "compaction"  // only moving live blocks
)

// Spurious counts failures (status failed) at which the bytes were there: free inside reserved memory plus free on the
// device ≥ requested. Each is counted once, under its least intrusive cure.
type Spurious struct {
	Total      uint64 `json:"total"`
	NoneNeeded uint64 `json:"none_needed"`
	Waiting    uint64 `json:"waiting"`
	DropCaches uint64 `json:"drop_caches"`
	Compaction uint64 `json:"compaction"`
}

// Peak holds the largest values and the first events after which they stood; −1 is before the first event (a start state,
// or a value that was never above 0).
type Peak struct {
	LiveBytes     uint64 `json:"live_bytes"` // requested, on the device
	LiveEvent     int64  `json:"live_event"`
	LiveBlocks    uint64 `json:"live_blocks"`
	GrantedBytes  uint64 `json:"granted_bytes"`
	GrantedEvent  int64  `json:"granted_event"`
	ReservedBytes uint64 `json:"reserved_bytes"`
	ReservedEvent int64  `json:"reserved_event"`
	DeviceBytes   uint64 `json:"device_bytes"`
	DeviceEvent   int64  `json:"device_event"`
	SpilledBytes  uint64 `json:"spilled_bytes"` // requested, in host memory
	SpilledEvent  int64  `json:"spilled_event"`
	PendingBytes  uint64 `json:"pending_bytes"`
	// ReservedOverhead is 1 − peak live ÷ peak reserved; 0 when nothing was reserved.
	ReservedOverhead float64 `json:"reserved_overhead"`
}

// Ratio is a fraction and the bytes it is made of.
type Ratio struct {
	Value      float64 `json:"value"`
	PartBytes  uint64  `json:"part_bytes"`
	TotalBytes uint64  `json:"total_bytes"`
}

// Fragmentation holds external and internal fragmentation.
type Fragmentation struct {
	// External is 1 − largest free ÷ total free inside reserved memory, 0 when nothing is free. PartBytes is the largest.
	ExternalAtPeak         Ratio   `json:"external_at_peak"` // after the event at which live bytes peaked first
	ExternalAtFirstFailure *Ratio  `json:"external_at_first_failure,omitempty"`
	ExternalWeighted       float64 `json:"external_weighted"`
	ExternalMax            float64 `json:"external_max"`
	ExternalMaxEvent       int64   `json:"external_max_event"`
	// Internal is 1 − requested ÷ granted over the live blocks on the device. PartBytes is requested.
	InternalAtPeak   Ratio   `json:"internal_at_peak"`
	InternalWeighted float64 `json:"internal_weighted"`
	// WeightedBy says what the weighted means are weighted by: "time" (the trace's own) or "events".
	WeightedBy string `json:"weighted_by"`
}

// SizeClass is the unusable free index of requests of 2^Log2 bytes: the share of free bytes inside reserved memory that
// lies in ranges below the class. 0 when nothing is free.
type SizeClass struct {
	Bytes          uint64   `json:"class_bytes"`
	AtPeak         float64  `json:"at_peak"`
	AtFirstFailure *float64 `json:"at_first_failure,omitempty"`
	Weighted       float64  `json:"weighted"` // unusable byte-events ÷ free byte-events
}

// DeviceUse counts device calls. Statements about blocks (move, extent, …) are listed too but are not device calls.
type DeviceUse struct {
	Calls                  uint64      `json:"calls"`
	CallsPerThousandEvents float64     `json:"calls_per_thousand_events"`
	ByKind                 []CallCount `json:"by_kind"` // ascending by kind; only those that happened
	HeldAtEndBytes         uint64      `json:"held_at_end_bytes"`
	HostHeldAtEndBytes     uint64      `json:"host_held_at_end_bytes"`
	// ModelNs is the device time of all calls, with Config.ModelledTime; else 0 and Timed has the measured one.
	ModelNs uint64 `json:"model_ns"`
}

// CallCount counts the records of one kind.
type CallCount struct {
	Kind              string  `json:"kind"`
	Count             uint64  `json:"count"`
	Failed            uint64  `json:"failed"`     // status neither ok nor not-ready
	SizeBytes         uint64  `json:"size_bytes"` // of those that succeeded
	PerThousandEvents float64 `json:"per_thousand_events"`
}

// Hostages says which small live blocks hold large segments: the segments with the most free bytes that cannot go back to
// the device because something in them is live.
type Hostages struct {
	When      string    `json:"when"` // "first-failure" or "peak"
	Event     int64     `json:"event"`
	LiveBytes uint64    `json:"live_bytes"` // at that moment
	Segments  []Hostage `json:"segments"`
}

// Hostage is one segment and the smallest live block in it.
type Hostage struct {
	SegmentAddr  uint64 `json:"segment_addr"`
	SegmentBytes uint64 `json:"segment_bytes"`
	LiveBytes    uint64 `json:"live_bytes"`  // granted, inside the segment
	LiveBlocks   uint64 `json:"live_blocks"` // extents count one each
	Handle       uint64 `json:"handle"`      // the smallest block
	BlockBytes   uint64 `json:"block_bytes"`
	Tag          string `json:"tag,omitempty"`
}

// Timed holds what a clock measured.
type Timed struct {
	Policy          LatencyByKind `json:"policy"`           // time in the strategy without its device calls
	Total           LatencyByKind `json:"total"`            // policy + device
	Device          *Latency      `json:"device,omitempty"` // of allocs and frees, unless modelled (then in Exact)
	DeviceCalls     []CallTime    `json:"device_calls"`
	ClockCostNs     float64       `json:"clock_cost_ns"` // subtracted from each policy time
	TickNs          float64       `json:"tick_ns"`
	NotTimed        uint64        `json:"not_timed"` // events without a clock reading
	Saturated       uint64        `json:"saturated"` // policy times that did not fit
	SaturatedDevice uint64        `json:"saturated_device"`
	PolicyBusyNs    float64       `json:"policy_busy_ns"` // sum of policy times, clock cost subtracted
}

// LatencyByKind splits a latency by what was asked. Alloc includes realloc.
type LatencyByKind struct {
	All   Latency `json:"all"` // allocs and frees
	Alloc Latency `json:"alloc"`
	Free  Latency `json:"free"`
}

// Latency is the distribution of a time. Quantiles are order statistics: the smallest sample with at least that share of
// the samples at or below it.
type Latency struct {
	Samples uint64   `json:"samples"`
	P50     Quantile `json:"p50"`
	P90     Quantile `json:"p90"`
	P99     Quantile `json:"p99"`
	P999    Quantile `json:"p99_9"`
	MaxNs   float64  `json:"max_ns"`
	MeanNs  float64  `json:"mean_ns"`
	// Buckets is the distribution for drawing: at most MaxLatencyBuckets, ascending, without empty ones.
	Buckets []LatencyBucket `json:"buckets,omitempty"`
}

// Quantile is a value in ns, or the reason why there is none.
type Quantile struct {
	Ns      float64 `json:"ns"`
	Refused string  `json:"refused,omitempty"` // not empty: Ns is 0 and means nothing
	// ResolutionNs is the half-width of the bin the value was read from; 0 = exact to the tick.
	ResolutionNs float64 `json:"resolution_ns,omitempty"`
}

// OK reports whether the quantile has a value.
func (q Quantile) OK() bool { return q.Refused == "" }

// LatencyBucket counts samples in [LowNs, HighNs).
type LatencyBucket struct {
	LowNs  float64 `json:"low_ns"`
	HighNs float64 `json:"high_ns"`
	Count  uint64  `json:"count"`
}

// CallTime is the measured time of one kind of device call.
type CallTime struct {
	Kind     string  `json:"kind"`
	DeviceNs uint64  `json:"device_ns"` // sum, device's clock
	WallNs   float64 `json:"wall_ns"`   // sum, plugin's clock
}

// Series is memory and fragmentation over the trace, at most MaxSeriesPoints points of equal width in events.
type Series struct {
	EventsPerPoint uint64        `json:"events_per_point"`
	Points         []SeriesPoint `json:"points"`
}

// SeriesPoint covers the events from First on, up to the next point's. Minima and maxima are of the states after them.
type SeriesPoint struct {
	First            uint64  `json:"first"`
	TimeNs           int64   `json:"time_ns"` // trace time of First; 0 without times
	LiveBytesMin     uint64  `json:"live_bytes_min"`
	LiveBytesMax     uint64  `json:"live_bytes_max"`
	ReservedBytesMin uint64  `json:"reserved_bytes_min"`
	ReservedBytesMax uint64  `json:"reserved_bytes_max"`
	DeviceBytesMin   uint64  `json:"device_bytes_min"`
	DeviceBytesMax   uint64  `json:"device_bytes_max"`
	ExternalMin      float64 `json:"external_min"`
	ExternalMax      float64 `json:"external_max"`
}

// Picture is the address space over time, as rectangles: the largest by bytes × events. Segments come first.
type Picture struct {
	Events  uint64        `json:"events"`
	Rects   []PictureRect `json:"rects"`
	Dropped uint64        `json:"dropped"` // smaller ones that found no room
}

// PictureRect is one block (or extent, or segment) from the event that made it up to, not including, the one that ended it.
type PictureRect struct {
	Addr   uint64 `json:"addr"`
	Bytes  uint64 `json:"bytes"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Handle uint64 `json:"handle,omitempty"` // 0 = a segment
	Tag    uint32 `json:"tag,omitempty"`    // index into Trace.Strings
}
