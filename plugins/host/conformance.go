package host

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"

	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// conformanceFiles are the traces that Check replays, in the text form that people write, too.
//
//go:embed conformance/*.trace
var conformanceFiles embed.FS

// recordingTrace is the one with recorded addresses, for backends that answer from a recording.
const recordingTrace = "recording"

// conformanceTrace is one of them.
type conformanceTrace struct {
	name  string
	trace *trace.Trace
}

// conformanceTraces parses them, in the order of their names.
func conformanceTraces() ([]conformanceTrace, error) {
	entries, err := conformanceFiles.ReadDir("conformance")
	if err != nil {
		return nil, err
	}
	var all []conformanceTrace
	for _, e := range entries {
		text, err := conformanceFiles.ReadFile(path.Join("conformance", e.Name()))
		if err != nil {
			return nil, err
		}
		t, err := trace.Parse(bytes.NewReader(text), e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, conformanceTrace{e.Name()[:len(e.Name())-len(".trace")], t})
	}
	return all, nil
}

// records are copies of everything that one replay left in its windows.
type records struct {
	outcomes []trace.Outcome
	calls    []trace.Call
}

func (r *records) add(b Batch) error {
	r.outcomes = append(r.outcomes, b.Outcomes...)
	r.calls = append(r.calls, b.Calls...)
	return nil
}

// differ says where two replays of the same trace first decided differently; nil = nowhere. Times are not decisions.
func (r *records) differ(o *records) error {
	for i := range min(len(r.outcomes), len(o.outcomes)) {
		a, b := r.outcomes[i], o.outcomes[i]
		if a.Status != b.Status || a.Addr != b.Addr || a.Granted != b.Granted || a.Calls != b.Calls {
			return fmt.Errorf("event %d: %s at %#x, %d bytes, %d calls; before: %s at %#x, %d bytes, %d calls", i, b.Status, b.Addr, b.Granted, b.Calls, a.Status, a.Addr, a.Granted, a.Calls)
		}
	}
	if len(r.outcomes) != len(o.outcomes) {
		return fmt.Errorf("%d outcomes; before: %d", len(o.outcomes), len(r.outcomes))
	}
	for i := range min(len(r.calls), len(o.calls)) {
		a, b := r.calls[i], o.calls[i]
		a.DeviceNs, a.WallTicks, b.DeviceNs, b.WallTicks = 0, 0, 0, 0
		if a != b {
			return fmt.Errorf("call record %d: %+v; before: %+v", i, b, a)
		}
	}
	if len(r.calls) != len(o.calls) {
		return fmt.Errorf("%d call records; before: %d", len(o.calls), len(r.calls))
	}
	return nil
}

// errContract: a record breaks the plugin contract (docs/PLUGINS.md), whatever the strategy decided.
var errContract = errors.New("breaks the contract")

// check checks the records against the trace one by one, as far as that needs no books: who owns which bytes is the
// ledger's business.
func (r *records) check(t *trace.Trace, alignment uint64) error {
	if len(r.outcomes) != len(t.Events) {
		return fmt.Errorf("%w: %d outcomes of %d events", errContract, len(r.outcomes), len(t.Events))
	}
	if err := r.checkCalls(); err != nil {
		return err
	}
	placed := make([]bool, t.Slots)
	for i := range t.Events {
		if err := checkOutcome(t, i, r.outcomes[i], alignment, placed); err != nil {
			return fmt.Errorf("%w: event %d: %w", errContract, i, err)
		}
	}
	return nil
}

// checkCalls checks that the call records are in the order of the events and as many as the outcomes say.
func (r *records) checkCalls() error {
	counted := make([]uint64, len(r.outcomes))
	last := uint64(0)
	for i, c := range r.calls {
		switch {
		case c.Event == trace.EventOpen || c.Event == trace.EventRestore || c.Event == trace.EventClose:
			continue
		case c.Event >= uint64(len(r.outcomes)):
			return fmt.Errorf("%w: call record %d belongs to event %d of %d", errContract, i, c.Event, len(r.outcomes))
		case c.Event < last:
			return fmt.Errorf("%w: call record %d belongs to event %d, the one before it to %d", errContract, i, c.Event, last)
		}
		last = c.Event
		counted[c.Event]++
	}
	for i, o := range r.outcomes {
		if n := uint64(o.Calls); n != counted[i] && n != 65535 {
			return fmt.Errorf("%w: event %d says %d call records, there are %d", errContract, i, n, counted[i])
		}
	}
	return nil
}

// checkOutcome checks outcome o of event i. placed says, by slot, whether the handle has a block.
func checkOutcome(t *trace.Trace, i int, o trace.Outcome, alignment uint64, placed []bool) error {
	e := &t.Events[i]
	switch {
	case o.Status > trace.StatusError:
		return fmt.Errorf("status %d does not exist", o.Status)
	case o.Status == trace.StatusError || o.Status == trace.StatusInvalid:
		return fmt.Errorf("%q in a trace without a wrong event", o.Status)
	}
	old := e.Slot
	if e.Kind == trace.KindRealloc && e.Flags&trace.FlagExtra != 0 {
		old = t.Extras[e.Aux].Slot2
	}
	if e.Kind != trace.KindAlloc && e.Kind.NamesHandle() && (o.Status == trace.StatusSkipped) == placed[old] {
		return fmt.Errorf("%q, but its handle has a block: %t", o.Status, placed[old])
	}
	if !e.Kind.TakesMemory() {
		if e.Kind == trace.KindFree && placed[e.Slot] {
			if o.Status != trace.StatusOK {
				return fmt.Errorf("the free of a live block is %q", o.Status)
			}
			placed[e.Slot] = false
		}
		return nil
	}
	if !o.Status.Placed() {
		if o.Addr != 0 || o.Granted != 0 {
			return fmt.Errorf("%q with address %#x and %d bytes", o.Status, o.Addr, o.Granted)
		}
		return nil
	}
	if e.Kind == trace.KindRealloc {
		placed[old] = false
	}
	placed[e.Slot] = true
	need := max(alignment, 1<<e.AlignLog2)
	switch {
	case o.Granted < e.Size:
		return fmt.Errorf("%d bytes granted of %d", o.Granted, e.Size)
	case o.Addr+o.Granted < o.Addr:
		return fmt.Errorf("%d bytes at %#x reach beyond the last address", o.Granted, o.Addr)
	case e.Size > 0 && o.Addr%need != 0:
		return fmt.Errorf("address %#x is no multiple of %d", o.Addr, need)
	}
	return nil
}

// Windows of the two processes: one that holds a whole trace, and one that is full after a few records, so that every way
// to stop and go on is taken.
var (
	largeWindow = wire.Geometry{OutcomeCapacity: 4096, CallCapacity: 4096}
	smallWindow = wire.Geometry{OutcomeCapacity: 7, CallCapacity: 2}
)
