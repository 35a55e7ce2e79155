package plan

import (
	"fmt"
	"slices"

	"github.com/gpubench/gpubench/trace"
)

// Limits of a program.
const (
	// HandlesMax is the number of handles of a program: below it every handle keeps a slot of its own (trace.SlotsFresh), so that a
	// wrong free finds the last address of its handle.
	HandlesMax = trace.SlotsFresh
	// StreamsMax and PoolsMax are the lengths of the tables of streams and pools of every program. They are fixed, so that a
	// strategy stays open from program to program; entry i is named i and 0:i.
	StreamsMax = 8
	PoolsMax   = 4
	// CheckpointsMax is the number of names of checkpoints.
	CheckpointsMax = 3
)

// Op is one event with all its arguments, free of the tables of a trace: what generators make, mutators change and shrinkers leave
// out.
type Op struct {
	Kind      trace.Kind
	Flags     trace.Flags // without FlagExtra
	AlignLog2 uint8
	Stream    uint16
	Pool      uint16
	On        uint16 // wait: the stream waited for; prefetch: the place
	By        trace.Place
	Handle    trace.Handle
	Old       trace.Handle // realloc
	Size      uint64
	Offset    uint64 // touch
	Text      string // set, checkpoint, restore, mark
}

// handleState is what a writer knows of a handle.
type handleState struct {
	slot   uint32
	stream uint16
	known  bool
	live   bool
}

// Writer writes programs: it takes ops in order, leaves out those that would be illegal where they stand (a free of a handle that is
// not live, …), gives every handle its slot, and keeps the memory of one program for the next. So a generator may draw anything, and whoever
// removes an op need not look for what depended on it.
type Writer struct {
	t       trace.Trace
	handles []handleState // by handle
	strings map[string]uint32
	fixed   int // strings that every program has
	all     []uint64
	saved   [CheckpointsMax][]trace.Handle
	has     [CheckpointsMax]bool
	liveN   int
	open    [PoolsMax]int // pool-begins without their ends
}

// checkpointNames are the first strings of every program.
var checkpointNames = [CheckpointsMax]string{"c1", "c2", "c3"}

// NewWriter returns a writer whose programs have the settings ("key=value") in their table of strings from the start, as the
// strategy needs that is opened with it.
func NewWriter(settings []string) *Writer {
	w := &Writer{strings: map[string]uint32{"": 0}}
	w.t = trace.Trace{Strings: []string{""}}
	w.t.Meta = trace.Meta{Source: trace.SourceProgram, CoversPercent: 100}
	for i := range StreamsMax {
		w.all = append(w.all, uint64(i))
	}
	w.t.Streams = w.all
	for i := range PoolsMax {
		w.t.Pools = append(w.t.Pools, fmt.Sprintf("0:%d", i))
	}
	for _, s := range checkpointNames {
		w.intern(s)
	}
	for _, s := range settings {
		w.intern(s)
	}
	w.fixed = len(w.t.Strings)
	return w
}

func (w *Writer) intern(s string) uint32 {
	if i, ok := w.strings[s]; ok {
		return i
	}
	i := uint32(len(w.t.Strings))
	w.strings[s] = i
	w.t.Strings = append(w.t.Strings, s)
	return i
}

// SetStreams sets the length of the table of streams. It matters: strategies ask whether a trace has several.
func (w *Writer) SetStreams(n int) { w.t.Streams = w.all[:min(max(n, 1), StreamsMax)] }

// Begin forgets the program at hand.
func (w *Writer) Begin() {
	w.t.Events, w.t.Extras, w.t.Slots = w.t.Events[:0], w.t.Extras[:0], 0
	w.handles = w.handles[:0]
	w.liveN = 0
	w.open = [PoolsMax]int{}
	w.has = [CheckpointsMax]bool{}
	for _, s := range w.t.Strings[w.fixed:] {
		delete(w.strings, s)
	}
	w.t.Strings = w.t.Strings[:w.fixed]
}

// Trace returns the program written so far. It is valid until the next Begin.
func (w *Writer) Trace() *trace.Trace { return &w.t }

// Len returns the number of events.
func (w *Writer) Len() int { return len(w.t.Events) }

// Live reports whether a handle is live.
func (w *Writer) Live(h trace.Handle) bool {
	return h < trace.Handle(len(w.handles)) && w.handles[h].live
}

// LiveCount returns the number of live handles.
func (w *Writer) LiveCount() int { return w.liveN }

// EachLive calls f for every live handle in the order of the handles.
func (w *Writer) EachLive(f func(h trace.Handle)) {
	for h := range w.handles {
		if w.handles[h].live {
			f(trace.Handle(h))
		}
	}
}

// state returns the entry of a handle, or nil for a number that no program may use.
func (w *Writer) state(h trace.Handle) *handleState {
	if h == 0 || h > HandlesMax {
		return nil
	}
	for trace.Handle(len(w.handles)) <= h {
		w.handles = append(w.handles, handleState{})
	}
	return &w.handles[h]
}

// Add appends an op and reports whether it is legal here; if not, nothing is changed.
func (w *Writer) Add(o *Op) bool {
	if int(o.Stream) >= len(w.t.Streams) || o.Pool >= PoolsMax {
		return false
	}
	ev := trace.Event{Kind: o.Kind, Flags: o.Flags, Stream: o.Stream}
	switch o.Kind {
	case trace.KindAlloc, trace.KindRealloc:
		return w.place(o, &ev)
	case trace.KindFree, trace.KindUse, trace.KindTouch, trace.KindPrefetch, trace.KindFreeWrong:
		return w.onHandle(o, &ev)
	case trace.KindWait:
		if int(o.On) >= len(w.t.Streams) || o.On == o.Stream {
			return false
		}
		ev.Aux = uint32(o.On)
	case trace.KindPoolBegin, trace.KindPoolEnd, trace.KindPoolRelease:
		if !w.route(o) {
			return false
		}
		ev.Stream, ev.Pool = 0, o.Pool
	case trace.KindSet, trace.KindMark:
		if o.Text == "" {
			return false
		}
		ev.Stream, ev.Aux = 0, w.intern(o.Text)
		if o.Kind == trace.KindMark {
			ev.Size = o.Size
		}
	case trace.KindEvents, trace.KindFailNext:
		if ev.Stream, ev.Size = 0, o.Size; o.Kind == trace.KindFailNext && o.Size == 0 {
			return false
		}
	case trace.KindCheckpoint, trace.KindRestore, trace.KindReset:
		return w.layout(o, &ev)
	case trace.KindComplete, trace.KindSync:
		if o.Flags&trace.FlagAll != 0 {
			ev.Stream = 0
		}
	case trace.KindStreamDestroy:
	case trace.KindTrim, trace.KindDefragment:
		ev.Stream = 0
	default:
		return false
	}
	w.t.Events = append(w.t.Events, ev)
	return true
}

// route follows the routing to pools: an end needs its begin, and a pool to which allocations are routed is not released (in
// PyTorch an internal error of the caller).
func (w *Writer) route(o *Op) bool {
	n := &w.open[o.Pool]
	switch o.Kind {
	case trace.KindPoolBegin:
		*n++
	case trace.KindPoolEnd:
		if *n == 0 {
			return false
		}
		*n--
	default:
		return *n == 0
	}
	return true
}

// place adds an alloc or a realloc.
func (w *Writer) place(o *Op, ev *trace.Event) bool {
	if o.Kind == trace.KindRealloc && !w.Live(o.Old) {
		return false
	}
	s := w.state(o.Handle)
	if s == nil || s.known || o.AlignLog2 > trace.MaxAlignLog2 || w.t.Slots >= HandlesMax {
		return false
	}
	*s = handleState{slot: w.t.Slots, stream: o.Stream, known: true, live: true}
	w.t.Slots++
	w.liveN++
	ev.Flags, ev.Handle, ev.Slot, ev.Size, ev.Pool, ev.AlignLog2 = 0, o.Handle, s.slot, o.Size, o.Pool, o.AlignLog2
	if o.Kind == trace.KindRealloc {
		old := &w.handles[o.Old]
		old.live = false
		w.liveN--
		ev.Flags, ev.Aux = trace.FlagExtra, uint32(len(w.t.Extras))
		w.t.Extras = append(w.t.Extras, trace.Extra{Handle2: o.Old, Slot2: old.slot})
	}
	w.t.Events = append(w.t.Events, *ev)
	return true
}

// onHandle adds an event on a handle that exists, or must not.
func (w *Writer) onHandle(o *Op, ev *trace.Event) bool {
	s := w.state(o.Handle)
	if s == nil || s.live == (o.Kind == trace.KindFreeWrong) {
		return false
	}
	if !s.known { // free! of a handle that never was
		if w.t.Slots >= HandlesMax {
			return false
		}
		*s = handleState{slot: w.t.Slots, known: true}
		w.t.Slots++
	}
	ev.Handle, ev.Slot = o.Handle, s.slot
	switch o.Kind {
	case trace.KindFree:
		if ev.Flags &= trace.FlagStream; ev.Flags == 0 {
			ev.Stream = s.stream
		}
		s.live = false
		w.liveN--
	case trace.KindFreeWrong, trace.KindPrefetch:
		ev.Stream, ev.Flags = 0, 0
		if o.Kind == trace.KindPrefetch {
			ev.Aux = uint32(min(o.On, uint16(trace.PlaceCPU)))
		}
	case trace.KindTouch:
		ev.Stream, ev.Size = 0, o.Size
		ev.Flags = o.Flags&trace.FlagWrite | trace.FlagExtra
		ev.Aux = uint32(len(w.t.Extras))
		w.t.Extras = append(w.t.Extras, trace.Extra{Arg: uint32(o.By), Offset: o.Offset})
	}
	w.t.Events = append(w.t.Events, *ev)
	return true
}

// layout adds an event that changes which handles are live.
func (w *Writer) layout(o *Op, ev *trace.Event) bool {
	ev.Stream = 0
	if o.Kind == trace.KindReset {
		w.killAll()
		w.t.Events = append(w.t.Events, *ev)
		return true
	}
	k := slices.Index(checkpointNames[:], o.Text)
	if k < 0 {
		return false
	}
	ev.Aux = w.strings[o.Text]
	if o.Kind == trace.KindCheckpoint {
		w.saved[k] = w.saved[k][:0]
		w.EachLive(func(h trace.Handle) { w.saved[k] = append(w.saved[k], h) })
		w.has[k] = true
	} else {
		if !w.has[k] {
			return false
		}
		w.killAll()
		for _, h := range w.saved[k] {
			w.handles[h].live = true
		}
		w.liveN = len(w.saved[k])
	}
	w.t.Events = append(w.t.Events, *ev)
	return true
}

func (w *Writer) killAll() {
	for h := range w.handles {
		w.handles[h].live = false
	}
	w.liveN = 0
}

// OpAt returns event i of a program as an op. Streams and pools are named by their numbers modulo the lengths of a program's
// tables; names of checkpoints that no program has become the first.
func OpAt(t *trace.Trace, i int) Op {
	ev := &t.Events[i]
	o := Op{Kind: ev.Kind, Flags: ev.Flags &^ trace.FlagExtra, AlignLog2: ev.AlignLog2, Handle: ev.Handle, Size: ev.Size,
		Stream: uint16(t.Streams[ev.Stream] % StreamsMax), Pool: poolOf(t, ev.Pool)}
	if ev.Flags&trace.FlagExtra != 0 {
		x := &t.Extras[ev.Aux]
		o.Old, o.Offset, o.By = x.Handle2, x.Offset, trace.Place(x.Arg)
	}
	switch ev.Kind {
	case trace.KindWait:
		o.On = uint16(t.Streams[ev.Aux] % StreamsMax)
	case trace.KindPrefetch:
		o.On = uint16(ev.Aux)
	case trace.KindSet, trace.KindMark:
		o.Text = t.Strings[ev.Aux]
	case trace.KindCheckpoint, trace.KindRestore:
		if o.Text = t.Strings[ev.Aux]; !slices.Contains(checkpointNames[:], o.Text) {
			o.Text = checkpointNames[0]
		}
	}
	return o
}

func poolOf(t *trace.Trace, p uint16) uint16 {
	for i := range PoolsMax {
		if t.Pools[p] == fmt.Sprintf("0:%d", i) {
			return uint16(i)
		}
	}
	return p % PoolsMax
}

// Ops appends the ops of a program to list. Handles beyond HandlesMax are renamed in order of appearance; then all are.
func Ops(list []Op, t *trace.Trace) []Op {
	from := len(list)
	large := false
	for i := range t.Events {
		list = append(list, OpAt(t, i))
		o := &list[len(list)-1]
		large = large || o.Handle > HandlesMax || o.Old > HandlesMax
	}
	if large {
		Rename(list[from:])
	}
	return list
}

// Rename gives the handles of a program new names: 1, 2, 3, … in order of appearance.
func Rename(list []Op) {
	names := map[trace.Handle]trace.Handle{}
	name := func(h trace.Handle) trace.Handle {
		if h == 0 {
			return 0
		}
		n, ok := names[h]
		if !ok {
			n = trace.Handle(len(names) + 1)
			names[h] = n
		}
		return n
	}
	for i := range list {
		list[i].Old = name(list[i].Old)
		list[i].Handle = name(list[i].Handle)
	}
}

// StreamsUsed is the length of the table of streams that the ops need.
func StreamsUsed(list []Op) int {
	last := uint16(0)
	for i := range list {
		last = max(last, list[i].Stream, onOf(&list[i]))
	}
	return int(last) + 1
}

// Write writes a whole program and returns it; illegal ops are left out. Its table of streams is as long as it must be, and at
// least of length streams.
func (w *Writer) Write(list []Op, streams int) *trace.Trace {
	w.SetStreams(max(streams, StreamsUsed(list)))
	w.Begin()
	for i := range list {
		w.Add(&list[i])
	}
	return w.Trace()
}

// onOf is the second stream of an op.
func onOf(o *Op) uint16 {
	if o.Kind == trace.KindWait {
		return o.On
	}
	return 0
}
