// Package streams keeps the streams and events of a modelled device, on which nothing runs: work completes at once, or when
// the trace says so, or when the host waits for it.
package streams

import "github.com/gpubench/gpubench/backends"

// Streams implements backends.Streams and backends.StreamControl; embed it. Each stream counts the events recorded on it; an
// event has completed when its number is at most the number up to which its stream has completed. The zero Streams is ready.
type Streams struct {
	manual bool
	work   []progress // by stream
	events []event    // events[i] is named by EventID generation<<32 | i+1
	free   []uint32
}

type progress struct {
	issued    uint64
	completed uint64
}

type event struct {
	number uint64 // on its stream, from 1; 0 = not in use
	stream backends.Stream
	gen    uint32
}

// ResetStreams forgets all streams and events; events complete at once again.
func (s *Streams) ResetStreams() {
	s.manual = false
	s.work, s.events, s.free = s.work[:0], s.events[:0], s.free[:0]
}

func (s *Streams) of(stream backends.Stream) *progress {
	for int(stream) >= len(s.work) {
		s.work = append(s.work, progress{})
	}
	return &s.work[stream]
}

// Record records an event on a stream. It has completed at once unless events are manual.
func (s *Streams) Record(stream backends.Stream) backends.EventID {
	p := s.of(stream)
	p.issued++
	if !s.manual {
		p.completed = p.issued
	}
	var i uint32
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		i = uint32(len(s.events))
		s.events = append(s.events, event{})
	}
	e := &s.events[i]
	e.number, e.stream = p.issued, stream
	return backends.EventID(uint64(e.gen)<<32 | uint64(i+1))
}

func (s *Streams) lookup(id backends.EventID) *event {
	i := uint32(id) - 1
	if uint64(i) >= uint64(len(s.events)) {
		return nil
	}
	if e := &s.events[i]; e.number != 0 && e.gen == uint32(id>>32) {
		return e
	}
	return nil
}

// Query reports whether the event has completed; an event that was dropped or never recorded has.
func (s *Streams) Query(id backends.EventID) bool {
	e := s.lookup(id)
	return e == nil || e.number <= s.work[e.stream].completed
}

// Wait completes the event and everything recorded on its stream before it.
func (s *Streams) Wait(id backends.EventID) {
	if e := s.lookup(id); e != nil {
		p := &s.work[e.stream]
		p.completed = max(p.completed, e.number)
	}
}

// StreamWait orders work on the device. It completes nothing and costs nothing here.
func (s *Streams) StreamWait(backends.Stream, backends.EventID) {}

// Drop frees the event.
func (s *Streams) Drop(id backends.EventID) {
	if e := s.lookup(id); e != nil {
		e.number = 0
		e.gen++
		s.free = append(s.free, uint32(id)-1)
	}
}

// SyncStream completes everything recorded on the stream.
func (s *Streams) SyncStream(stream backends.Stream) { s.Complete(stream) }

// SyncDevice completes everything recorded on any stream.
func (s *Streams) SyncDevice() { s.CompleteAll() }

// SetManualEvents chooses whether events complete at once (false, the initial state) or when told or waited for. Going back
// to false completes what is pending.
func (s *Streams) SetManualEvents(manual bool) {
	s.manual = manual
	if !manual {
		s.CompleteAll()
	}
}

// Complete says that the device has finished the work of a stream so far.
func (s *Streams) Complete(stream backends.Stream) {
	p := s.of(stream)
	p.completed = p.issued
}

// CompleteAll is Complete for every stream.
func (s *Streams) CompleteAll() {
	for i := range s.work {
		s.work[i].completed = s.work[i].issued
	}
}

// DestroyStream finishes the stream's work.
func (s *Streams) DestroyStream(stream backends.Stream) { s.Complete(stream) }

var (
	_ backends.Streams       = (*Streams)(nil)
	_ backends.StreamControl = (*Streams)(nil)
)
