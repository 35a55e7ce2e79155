package trace

// SegmentEventKind says what happened to memory held from the device.
type SegmentEventKind uint8

// The kinds of segment events, after the driver calls behind them.
const (
	SegmentAlloc SegmentEventKind = 1 // a segment was taken from the device (cudaMalloc)
	SegmentFree  SegmentEventKind = 2 // a segment was given back (cudaFree)
	SegmentMap   SegmentEventKind = 3 // pages were mapped into an expandable segment (cuMemMap)
	SegmentUnmap SegmentEventKind = 4 // pages were unmapped again (cuMemUnmap)
)

var segmentEventNames = [...]string{"", "alloc", "free", "map", "unmap"}

// String returns the lower-case word used in the text form: alloc, free, map or unmap; "" for an unknown kind.
func (k SegmentEventKind) String() string {
	if int(k) < len(segmentEventNames) {
		return segmentEventNames[k]
	}
	return ""
}

// SegmentEvent is what a recording saw between a strategy and its device: 32 bytes, little endian. Like the Recorded
// column it is never shown to a strategy: the recorded backend answers device calls with its addresses, and tests compare
// a strategy's calls with it. Trace.SegmentEvents keeps them in the order of the recording; Event never decreases. When the
// events of one allocation begin with memory given back, the device had refused that allocation's first request.
type SegmentEvent struct {
	Event  uint64           // bytes 0–7: index of the trace event during which it happened; len(Events) = after the last one
	Addr   uint64           // bytes 8–15: first byte
	Bytes  uint64           // bytes 16–23
	Stream uint16           // bytes 24–25: index into Trace.Streams
	Kind   SegmentEventKind // byte 26
	_      [5]byte          // bytes 27–31: 0
}

// SegmentEventBytes is the size of one SegmentEvent in the binary form.
const SegmentEventBytes = 32
