package ledger

import "github.com/gpubench/gpubench/trace"

// Config says what the ledger may assume about the case whose events it reads. The zero value is usable: unknown figures
// switch off the checks and metrics that need them.
type Config struct {
	// Extras is Trace.Extras: realloc events name their old handle there. Read-only, may lie in mapped memory.
	Extras []trace.Extra
	// Strings is Trace.Strings: tags and checkpoint names in reports. Read-only.
	Strings []string
	// Start is the layout before the first event (Trace.Start); nil when history begins empty. Segments that the calls of
	// EventRestore already established are not entered twice.
	Start *trace.State

	// DeviceTotalBytes is the capacity of the device; 0 = not known: then nothing counts as free on the device.
	DeviceTotalBytes uint64
	// DevicePageBytes is the unit in which Malloc and Create charge the device (backends.Info.PageBytes); 0 or 1 = bytes.
	DevicePageBytes uint64
	// LimitBytes is a limit the strategy must keep its reserved memory within; 0 = none.
	LimitBytes uint64
	// AlignmentBytes is the strategy's own alignment: every address is a multiple of it; 0 = none claimed.
	AlignmentBytes uint64
	// MemInfoExact says that the device's free/total answers describe this strategy's memory alone (a model): then used
	// bytes may not be less than what the call log says is held.
	MemInfoExact bool
	// IgnoreStreams switches the stream safety check (O7) off: for strategies that do not promise it.
	IgnoreStreams bool

	// Timing asks for latency quantiles. Programs of the fuzzer leave it off.
	Timing bool
	// ModelledTime says that device time comes from a model's clock: device latency is then an exact metric.
	ModelledTime bool
	// TickNs is the length of one tick of the plugin's clock in ns; 0 means 1.
	TickNs float64
	// ClockCostTicks is the calibrated cost of reading the clock once around an event; subtracted from each policy time,
	// and the unit below which quantiles are refused.
	ClockCostTicks uint32
	// ClockCostSubtracted says that the plugin subtracted the cost already.
	ClockCostSubtracted bool

	// Hostages asks for the small live blocks that hold large segments. It costs a walk over all blocks at each peak that
	// is 1/64 above the last.
	Hostages bool
	// Series asks for the memory and fragmentation series of the report.
	Series bool
	// PictureRects is the number of rectangles of the address-space picture to keep; 0 = no picture. At most MaxPictureRects.
	PictureRects int
}
