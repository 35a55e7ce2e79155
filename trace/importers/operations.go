package importers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gpubench/gpubench/trace"
)

// SourceOperations is the Meta.Source of traces made from operations in JSON lines.
const SourceOperations = "operations-jsonl"

// operation is one line: an operation with its arguments and what the recorded allocator answered. The first line may be a
// header instead. Fields that are not named here (statistics, texts of exceptions) describe the recorded allocator only.
type operation struct {
	Op       string            `json:"op"`
	ID       *uint64           `json:"id"`
	Size     uint64            `json:"size"`
	Stream   int64             `json:"stream"`
	S        *int64            `json:"s"` // the stream in recordings of other allocators
	Pool     json.Number       `json:"pool"`
	Fraction json.Number       `json:"fraction"`
	Conf     *string           `json:"conf"`
	Manual   int               `json:"manual"`
	Skip     int               `json:"skip"`
	OK       *int              `json:"ok"`
	Fail     bool              `json:"fail"`
	Addr     *uint64           `json:"addr"`
	Off      *uint64           `json:"off"`
	Granted  uint64            `json:"bsize"`
	Calls    []json.RawMessage `json:"ev"`
	// Header.
	Name  string `json:"name"`
	Total uint64 `json:"total"`
}

// isOperationsHeader reports whether a line begins operations: a header that states a device, or an operation.
func isOperationsHeader(line string) bool {
	var probe struct {
		Op    *string     `json:"op"`
		Total json.Number `json:"total"`
		Ops   json.Number `json:"ops"`
	}
	return json.Unmarshal([]byte(line), &probe) == nil && (probe.Op != nil || probe.Total != "" && probe.Ops != "")
}

type operations struct {
	script
	settings map[string]string
	dead     int // frees of ids that never were
}

func importOperations(r io.Reader, title string, b *trace.Builder) (Imported, error) {
	o := &operations{settings: map[string]string{}}
	o.b, o.sizes = b, map[trace.Handle]uint64{}
	o.meta = trace.Meta{Source: SourceOperations, Title: title, CoversPercent: 100}
	lines := newLineReader(r)
	for {
		raw, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Imported{}, err
		}
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		var op operation
		if err := json.Unmarshal(raw, &op); err != nil {
			return Imported{}, lines.errorf("not an operation: %v", err)
		}
		if op.Op == "" {
			err = o.head(&op)
		} else {
			err = o.do(&op)
		}
		if err != nil {
			return Imported{}, lines.wrap(err)
		}
	}
	return o.end()
}

func (o *operations) end() (Imported, error) {
	if len(o.settings) > 0 {
		o.meta.Settings = o.settings
	}
	if o.dead > 0 {
		o.meta.Skipped = uint64(o.dead)
		o.meta.Warnings = append(o.meta.Warnings, fmt.Sprintf("skipped: %d frees of ids that were never allocated", o.dead))
	}
	o.facts.CoversPercent = 100
	o.facts.Unproven = "the operations come without a final state"
	t, err := o.b.Finish(o.meta)
	return Imported{Trace: t, Facts: o.facts}, err
}

func (o *operations) head(op *operation) error {
	if o.facts.Records > 0 {
		return errors.New("a line without op between operations")
	}
	o.meta.CapacityBytes = op.Total
	if op.Name != "" {
		o.meta.Title = clip(op.Name)
	}
	if op.Conf != nil {
		o.settings["PYTORCH_CUDA_ALLOC_CONF"] = *op.Conf
	}
	return nil
}

// do turns an operation into an event.
func (o *operations) do(op *operation) error {
	o.facts.Records++
	stream := uint64(op.Stream)
	if op.S != nil {
		stream = uint64(*op.S)
	}
	if err := o.calls(op, stream); err != nil {
		return err
	}
	switch op.Op {
	case "a", "f", "r":
		return o.onBlock(op, stream)
	case "e":
		return o.b.Trim()
	case "w":
		if op.Stream < 0 {
			return o.b.CompleteAll()
		}
		return o.b.Complete(o.b.Stream(stream))
	case "m":
		return o.b.Events(op.Manual != 0)
	case "F":
		return o.b.Set("memory_fraction", op.Fraction.String())
	case "c":
		if op.Conf == nil {
			return errors.New("c without conf")
		}
		return o.b.Set("conf", *op.Conf)
	case "b", "x", "d":
		return o.onPool(op)
	}
	return fmt.Errorf("op %q is not known", clip(op.Op))
}

func (o *operations) onPool(op *operation) error {
	n, err := strconv.ParseUint(op.Pool.String(), 10, 32)
	if err != nil {
		return fmt.Errorf("pool %q is not a number", clip(op.Pool.String()))
	}
	pool := o.b.Pool(fmt.Sprintf("0:%d", n))
	switch op.Op {
	case "b":
		return o.b.PoolBegin(pool)
	case "x":
		return o.b.PoolEnd(pool)
	}
	return o.b.PoolRelease(pool)
}

// onBlock takes alloc, free and record_stream.
func (o *operations) onBlock(op *operation, stream uint64) error {
	if op.ID == nil {
		return fmt.Errorf("%s without id", op.Op)
	}
	h, err := o.ids.of(*op.ID)
	if err != nil {
		return err
	}
	if op.Op == "a" {
		return o.alloc(op, h, stream)
	}
	if _, live := o.b.Live(h); !live {
		if op.Skip == 0 {
			return fmt.Errorf("%s of id %d, which is not live", op.Op, *op.ID)
		}
		o.dead++
		return nil
	}
	if op.Op == "r" {
		return o.b.Use(h, o.b.Stream(stream))
	}
	if _, held := o.sizes[h]; held && op.Skip == 0 { // the free of a failed allocation does nothing
		o.facts.Frees++
	}
	o.bytes -= o.sizes[h]
	delete(o.sizes, h)
	args := trace.FreeArgs{}
	if op.S != nil {
		args = trace.FreeArgs{Stream: o.b.Stream(stream), OnStream: true}
	}
	return o.b.Free(h, args)
}

func (o *operations) alloc(op *operation, h trace.Handle, stream uint64) error {
	failed := op.Fail || op.OK != nil && *op.OK == 0
	switch {
	case failed:
		o.b.Saw(0, 0, true)
		o.facts.FailedAllocs++
	case op.Addr != nil:
		o.b.Saw(*op.Addr, op.Granted, false)
	case op.Off != nil:
		o.b.Saw(*op.Off, 0, false)
	}
	if err := o.b.Alloc(h, op.Size, trace.AllocArgs{Stream: o.b.Stream(stream)}); err != nil {
		return err
	}
	if !failed {
		o.facts.Allocs++
		o.sizes[h] = op.Size
		o.bytes += op.Size
		o.facts.LiveBytesMax = max(o.facts.LiveBytesMax, o.bytes)
	}
	return nil
}

var callKinds = map[string]trace.SegmentEventKind{
	"malloc": trace.SegmentAlloc, "free": trace.SegmentFree, "map": trace.SegmentMap, "unmap": trace.SegmentUnmap,
}

// calls keeps the driver calls that changed what was held; reservations and failures hold nothing.
func (o *operations) calls(op *operation, stream uint64) error {
	for _, raw := range op.Calls {
		var name string
		var addr, size uint64
		if err := json.Unmarshal(raw, &[]any{&name, &addr, &size}); err != nil {
			return fmt.Errorf("ev: %s is not [kind, address, size]", clip(string(raw)))
		}
		kind, ok := callKinds[name]
		if !ok {
			continue
		}
		if op.Stream < 0 {
			stream = 0
		}
		if err := o.b.SawSegment(kind, addr, size, o.b.Stream(stream)); err != nil {
			return err
		}
		o.countSegment(kind)
	}
	return nil
}

func (o *operations) countSegment(kind trace.SegmentEventKind) {
	switch kind {
	case trace.SegmentAlloc:
		o.facts.SegmentAllocs++
	case trace.SegmentFree:
		o.facts.SegmentFrees++
	case trace.SegmentMap:
		o.facts.SegmentMaps++
	case trace.SegmentUnmap:
		o.facts.SegmentUnmaps++
	}
}
