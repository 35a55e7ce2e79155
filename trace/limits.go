package trace

// Limits of the language and of the binary form. Everything that a file can make grow has one; passing it is an error
// that names the constant.
const (
	// MaxStreams and MaxPools follow from the 16-bit indexes of Event.
	MaxStreams = 1 << 16
	MaxPools   = 1 << 16
	// MaxStrings bounds the table of tags, marks and settings. A stack frame table of the largest recordings known has
	// some 10^5 entries.
	MaxStrings = 1 << 24
	// MaxStringBytes bounds one string; MaxStringsBytes the table: it is the only part of a trace that a streaming
	// reader or writer keeps in memory whole.
	MaxStringBytes  = 1 << 16
	MaxStringsBytes = 1 << 28
	// MaxExtras follows from Event.Aux.
	MaxExtras = 1<<32 - 1
	// MaxSlots bounds the handles live at one time: consumers keep a table by slot.
	MaxSlots = 1 << 28
	// MaxEvents keeps every byte offset of the binary form far below 2^63.
	MaxEvents = 1 << 40
	// MaxCheckpoints bounds the named checkpoints of a trace; a builder keeps the live set of each.
	MaxCheckpoints = 1 << 10
	// MaxCheckpointEntries bounds the live handles kept for all checkpoints together (16 bytes each).
	MaxCheckpointEntries = 1 << 24
	// MaxLayoutWork bounds the slots looked at by all resets, checkpoints and restores of a trace together, each of which
	// costs a look at every slot: without it a text of a few megabytes could keep a reader busy for days.
	MaxLayoutWork = 1 << 31
	// MaxSegments and MaxBlocks bound the start state.
	MaxSegments = 1 << 22
	MaxBlocks   = 1 << 24
	// MaxWarnings and MaxSettings bound the lists of Meta.
	MaxWarnings = 1 << 12
	MaxSettings = 1 << 12
	// MaxAlignLog2 is the largest alignment that fits an address.
	MaxAlignLog2 = 63

	// SlotsFresh is the number of slots handed out before the first one is used again. Within it a slot belongs to one
	// handle for the whole trace, so that `free!` of a dead handle still finds its own last address and not another
	// tenant's. Programs are shorter than this; above it slots are reused last in, first out.
	SlotsFresh = 4096
)
