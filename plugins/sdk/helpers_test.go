package sdk

import (
	"encoding/json"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// arenaDevice is a device for tests: a budget, addresses from a counter, manual events, a model clock on which a malloc
// costs 1000 ns and every other call 10 ns.
type arenaDevice struct {
	total, used, next uint64
	now               uint64
	sizes             map[uint64]uint64
	manual            bool
	issued, completed [8]uint64 // per stream: events recorded, events complete
	events            map[backends.EventID][2]uint64
	lastEvent         backends.EventID
	begun             []uint64
	closed            bool
}

const testMallocNs, testCallNs = 1000, 10

func newArenaDevice(total uint64) *arenaDevice {
	return &arenaDevice{total: total, next: 1 << 21, sizes: map[uint64]uint64{}, events: map[backends.EventID][2]uint64{}}
}

func (d *arenaDevice) Info() backends.Info {
	return backends.Info{Name: "arena", TotalBytes: d.total, PageBytes: 2 << 20, StreamEvents: true, Deterministic: true, ModelledTime: true}
}
func (d *arenaDevice) MemInfo() (uint64, uint64) {
	d.now += testCallNs
	return d.total - d.used, d.total
}
func (d *arenaDevice) Malloc(n uint64) (uint64, trace.CallStatus) {
	d.now += testMallocNs
	if n == 0 {
		return 0, trace.CallInvalidValue
	}
	if n > d.total-d.used {
		return 0, trace.CallOutOfMemory
	}
	a := d.next
	d.next += (n + 255) &^ 255
	d.used += n
	d.sizes[a] = n
	return a, trace.CallOK
}
func (d *arenaDevice) Free(a uint64) trace.CallStatus {
	d.now += testCallNs
	n, ok := d.sizes[a]
	if !ok {
		return trace.CallInvalidValue
	}
	delete(d.sizes, a)
	d.used -= n
	return trace.CallOK
}
func (d *arenaDevice) Adopt(a, n uint64) trace.CallStatus {
	if n > d.total-d.used {
		return trace.CallOutOfMemory
	}
	d.sizes[a], d.used = n, d.used+n
	d.next = max(d.next, a+n)
	return trace.CallOK
}
func (d *arenaDevice) NowNs() uint64              { return d.now }
func (d *arenaDevice) AdvanceNs(ns uint64)        { d.now += ns }
func (d *arenaDevice) Close() error               { d.closed = true; return nil }
func (d *arenaDevice) BeginEvent(i uint64)        { d.begun = append(d.begun, i) }
func (d *arenaDevice) SetManualEvents(m bool)     { d.manual = m }
func (d *arenaDevice) Complete(s backends.Stream) { d.completed[s] = d.issued[s] }
func (d *arenaDevice) CompleteAll()               { d.completed = d.issued }
func (d *arenaDevice) DestroyStream(s backends.Stream) {
	d.Complete(s)
}
func (d *arenaDevice) Record(s backends.Stream) backends.EventID {
	d.lastEvent++
	d.issued[s]++
	if !d.manual {
		d.completed[s] = d.issued[s]
	}
	d.events[d.lastEvent] = [2]uint64{uint64(s), d.issued[s]}
	return d.lastEvent
}
func (d *arenaDevice) Query(e backends.EventID) bool {
	ev := d.events[e]
	return d.completed[ev[0]] >= ev[1]
}
func (d *arenaDevice) Wait(e backends.EventID) {
	ev := d.events[e]
	d.completed[ev[0]] = max(d.completed[ev[0]], ev[1])
}
func (d *arenaDevice) StreamWait(backends.Stream, backends.EventID) {}
func (d *arenaDevice) Drop(e backends.EventID)                      { delete(d.events, e) }
func (d *arenaDevice) SyncStream(s backends.Stream)                 { d.Complete(s) }
func (d *arenaDevice) SyncDevice()                                  { d.CompleteAll() }

// direct passes everything to the device; chatty makes so many extra calls at each alloc.
type direct struct {
	env    *Env
	chatty int
}

func (s *direct) Alloc(r *Request, b *Block) trace.Status {
	for range s.chatty {
		s.env.Device.MemInfo()
	}
	if r.Size == 0 {
		*b = Block{}
		return trace.StatusOK
	}
	a, st := s.env.Device.Malloc(r.Size)
	if st != trace.CallOK {
		return trace.StatusFailed
	}
	*b = Block{Addr: a, Size: r.Size}
	return trace.StatusOK
}
func (s *direct) Free(b *Block, _ Stream) trace.Status {
	if b.Size == 0 {
		return trace.StatusOK
	}
	if s.env.Device.Free(b.Addr) != trace.CallOK {
		return trace.StatusError
	}
	return trace.StatusOK
}
func (s *direct) Close() error { return nil }

func describeDirect(chatty int) *Description {
	return &Description{Name: "direct-test", Version: "1", Summary: "every call goes to the device", Options: json.RawMessage(`{"type":"object","additionalProperties":false,
		"properties":{"chatty":{"type":"integer","minimum":0}}}`), New: func(env *Env) (Strategy, error) {
		var o struct {
			Chatty int `json:"chatty"`
		}
		o.Chatty = chatty
		if err := DecodeOptions(env.Options, &o); err != nil {
			return nil, err
		}
		return &direct{env: env, chatty: o.Chatty}, nil
	}}
}

func parse(events ...trace.Event) *trace.Trace {
	t := &trace.Trace{Strings: []string{"", "k=v", "c1", "iteration"}, Streams: []uint64{0, 7}, Pools: []string{"0:0", "0:1"}, Events: events}
	for _, e := range events {
		t.Slots = max(t.Slots, e.Slot+1)
	}
	return t
}

func alloc(h trace.Handle, size uint64) trace.Event {
	return trace.Event{Kind: trace.KindAlloc, Handle: h, Slot: uint32(h) - 1, Size: size}
}
func free(h trace.Handle) trace.Event {
	return trace.Event{Kind: trace.KindFree, Handle: h, Slot: uint32(h) - 1}
}

func open(t testing.TB, c RunnerConfig, d backends.Device) *Runner {
	t.Helper()
	if c.OpenDevice == nil {
		c.OpenDevice = func() (backends.Device, error) { return d, nil }
	}
	r, err := NewRunner(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func window(t testing.TB, outcomes, calls uint64) *wire.Window {
	t.Helper()
	w, err := wire.NewWindow(wire.Geometry{OutcomeCapacity: outcomes, CallCapacity: calls})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// replayAll drains window after window until the end and returns both sequences.
func replayAll(t testing.TB, r *Runner, w *wire.Window) (outcomes []trace.Outcome, calls []trace.Call, windows int) {
	t.Helper()
	reader := w.Reader()
	for {
		first := r.Next()
		if _, err := r.Replay(w, first, 1<<40, false); err != nil {
			t.Fatal(err)
		}
		d, err := reader.Drain(first)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Complete {
			t.Fatal("the window is not complete")
		}
		outcomes = append(outcomes, d.Outcomes...)
		calls = append(calls, d.Calls...)
		if windows++; windows > 100_000 {
			t.Fatal("no end")
		}
		if d.Summary.Reason == wire.StopEnd {
			return outcomes, calls, windows
		}
	}
}
