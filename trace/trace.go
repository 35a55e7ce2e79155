package trace

// Trace is an ordered list of events with its tables. Events (and the optional columns, which are as long as Events or
// empty) may lie in mapped memory: treat them as read-only.
type Trace struct {
	Meta          Meta
	Events        []Event
	TimesNs       []int64    // optional: time of each event in ns since the first; not decreasing
	Recorded      []Recorded // optional: what the recording saw
	Extras        []Extra
	SegmentEvents []SegmentEvent // optional: what the recording saw of segments, in order
	Strings       []string       // [0] = ""
	Streams       []uint64       // names (handles) of the streams; [0] = 0, the default stream; the rest in order of first use
	Pools         []string       // names of the pools; [0] = "0:0", the default pool; the rest in order of first use
	Start         *State         // layout before the first event; nil when the history begins empty
	Slots         uint32         // number of slots: every Event.Slot is below it
}

// Meta says where a trace came from and what part of history it covers.
type Meta struct {
	Source        string            // "pytorch-snapshot", "rmm-csv", "script", "synth", "text", …
	CoversPercent float64           // share of the allocations in use at the peak whose whole life the file shows; 100 = history from empty
	Device        int               // device number in the recording
	CapacityBytes uint64            // bytes of the recorded device; 0 = not known
	Settings      map[string]string // allocator settings of the recording, e.g. PYTORCH_CUDA_ALLOC_CONF
	Title         string
	Warnings      []string // what the reader should know: lost history, inconsistent end state, unknown actions (counted)
	Skipped       uint64   // records of the recording that became no event, all named in Warnings
}

// State is the exact layout of a strategy before the first event: what a recording that starts mid-way knows.
type State struct {
	Segments []StateSegment
}

// StateSegment is one piece of memory held from the device; its blocks lie in address order without a gap.
type StateSegment struct {
	Addr, Bytes uint64
	Stream      uint16 // index into Trace.Streams
	Pool        uint16 // index into Trace.Pools
	Small       bool   // pytorch: belongs to the small pool
	Expandable  bool   // pytorch: a mapped range of an expandable segment
	Blocks      []StateBlock
}

// StateBlock is one block of a segment.
type StateBlock struct {
	Addr, Bytes    uint64
	RequestedBytes uint64
	Handle         Handle // of a live block; 0 = free
	Slot           uint32
	Pending        bool // freed by the program, still waiting for other streams
}
