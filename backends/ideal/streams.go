package ideal

import "github.com/gpubench/gpubench/backends"

// streams is the part of the device that knows streams and events. Each stream counts the events recorded on it; an event
// has completed when its number is at most the number up to which its stream has completed.
type streams struct {
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

func (s *streams) reset() {
	s.manual = false
	s.work, s.events, s.free = s.work[:0], s.events[:0], s.free[:0]
}

func (s *streams) of(stream backends.Stream) *progress {
	for int(stream) >= len(s.work) {
		s.work = append(s.work, progress{})
	}
	return &s.work[stream]
}

// Record records an event on a stream. It has completed at once unless events are manual.
func (s *streams) Record(stream backends.Stream) backends.EventID {
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

func (s *streams) lookup(id backends.EventID) *event {
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
func (s *streams) Query(id backends.EventID) bool {
	e := s.lookup(id)
	return e == nil || e.number <= s.work[e.stream].completed
}

// Wait completes the event and everything recorded on its stream before it.
func (s *streams) Wait(id backends.EventID) {
	if e := s.lookup(id); e != nil {
		p := &s.work[e.stream]
		p.completed = max(p.completed, e.number)
	}
}

// StreamWait orders work on the device. It completes nothing and costs nothing here.
func (s *streams) StreamWait(backends.Stream, backends.EventID) {}

// Drop frees the event.
func (s *streams) Drop(id backends.EventID) {
	if e := s.lookup(id); e != nil {
		e.number = 0
		e.gen++
		s.free = append(s.free, uint32(id)-1)
	}
}

// SyncStream completes everything recorded on the stream.
func (s *streams) SyncStream(stream backends.Stream) { s.Complete(stream) }

// SyncDevice completes everything recorded on any stream.
func (s *streams) SyncDevice() { s.CompleteAll() }

// SetManualEvents chooses whether events complete at once (false, the initial state) or when told or waited for. Going back
// to false completes what is pending.
func (s *streams) SetManualEvents(manual bool) {
	s.manual = manual
	if !manual {
		s.CompleteAll()
	}
}

// Complete says that the device has finished the work of a stream so far.
func (s *streams) Complete(stream backends.Stream) {
	p := s.of(stream)
	p.completed = p.issued
}

// CompleteAll is Complete for every stream.
func (s *streams) CompleteAll() {
	for i := range s.work {
		s.work[i].completed = s.work[i].issued
	}
}

// DestroyStream finishes the stream's work.
func (s *streams) DestroyStream(stream backends.Stream) { s.Complete(stream) }
