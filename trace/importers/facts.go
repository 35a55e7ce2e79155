package importers

import "github.com/gpubench/gpubench/trace"

// Facts are what a recording says about itself, counted while it was imported. Counts that the format does not have are 0.
type Facts struct {
	Device           int             `json:"device"`
	Records          uint64          `json:"records"` // entries, lines or operations of the file
	Allocs           uint64          `json:"allocs"`  // successful ones
	Frees            uint64          `json:"frees"`   // as requested by the program
	FailedAllocs     uint64          `json:"failed_allocs"`
	SegmentAllocs    uint64          `json:"segment_allocs"`
	SegmentFrees     uint64          `json:"segment_frees"`
	SegmentMaps      uint64          `json:"segment_maps"`
	SegmentUnmaps    uint64          `json:"segment_unmaps"`
	LiveAtStart      int             `json:"live_at_start"` // blocks, with those whose free was pending
	LiveAtStartBytes uint64          `json:"live_at_start_bytes"`
	LiveBytesMax     uint64          `json:"live_bytes_max"` // requested bytes
	CoversPercent    float64         `json:"covers_percent"`
	Segments         int             `json:"segments"` // of the final state, like the figures below
	Blocks           int             `json:"blocks"`
	Pools            int             `json:"pools"`
	ReservedBytes    uint64          `json:"reserved_bytes"`
	AllocatedBytes   uint64          `json:"allocated_bytes"` // in blocks that the program holds
	PendingBytes     uint64          `json:"pending_bytes"`   // in blocks freed but still waiting for other streams
	CapacityBytesMin uint64          `json:"capacity_bytes_min,omitempty"`
	Proven           bool            `json:"proven"` // every event was replayed at its address and ends in the final state
	Unproven         string          `json:"unproven,omitempty"`
	Inconsistent     []Inconsistency `json:"inconsistent,omitempty"`
}

// Consistent reports whether nothing in the file contradicts anything else in it.
func (f *Facts) Consistent() bool { return len(f.Inconsistent) == 0 }

// Imported is the trace of one device of a file.
type Imported struct {
	Trace *trace.Trace
	Facts Facts
}
