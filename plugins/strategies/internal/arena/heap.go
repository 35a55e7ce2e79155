package arena

import (
	"encoding/json"
	"strings"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// Heap places blocks in one contiguous range of addresses.
type Heap interface {
	// Alloc places size > 0 bytes at a multiple of align (0 or 1: none demanded, else a power of two). ref is the heap's own.
	Alloc(size, align uint64) (addr, granted, ref uint64, ok bool)
	// Free takes back what Alloc returned; false, with nothing changed, when the heap sees that it is no live block.
	Free(addr, granted, ref uint64) bool
	// Live reports whether the heap takes this for a live block.
	Live(addr, granted, ref uint64) bool
	// Reset frees everything.
	Reset()
	// Inspect appends the heap's segment and free lists.
	Inspect(*sdk.Inspection)
}

// Kind is a family of heaps.
type Kind struct {
	// UnitBytes divides the size of every heap.
	UnitBytes uint64
	// Need returns the size of a heap that can surely serve the request when it is empty.
	Need func(size, align uint64) uint64
	// New makes the heap of [base, base+bytes).
	New func(base, bytes uint64) Heap
}

// Options are the options that all strategies of this package share. Embed it in the options struct.
type Options struct {
	Grow         bool   `json:"grow"`
	SegmentBytes uint64 `json:"segment_bytes"`
}

// DefaultSegmentBytes is the size of a segment of a growing strategy: 20 pages of 2 MiB are what PyTorch's allocator takes
// for a middling request (2.11 c10/core/CachingDeviceAllocator.h kLargeBuffer is 20 MiB); 32 MiB is the next power of two,
// so that it suits the buddy heap.
const DefaultSegmentBytes = 32 << 20

// Defaults returns the default options.
func Defaults() Options { return Options{SegmentBytes: DefaultSegmentBytes} }

// Schema returns the JSON Schema of Options with further properties, each `"name":{…}`.
func Schema(further ...string) json.RawMessage {
	return ObjectSchema(append([]string{
		`"grow":{"type":"boolean","default":false,"description":"take segments as needed instead of the whole capacity at the start"}`,
		`"segment_bytes":{"type":"integer","minimum":1,"default":33554432,"description":"size of the segments taken with grow"}`,
	}, further...)...)
}

// ObjectSchema returns a JSON Schema of an object with these properties, each `"name":{…}`, and no others.
func ObjectSchema(properties ...string) json.RawMessage {
	return json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"additionalProperties":false,"properties":{` + strings.Join(properties, ",") + `}}`)
}
