package zoo

import (
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// streamed is the caching allocator with stream order: a freed block waits until every stream that may use it has completed.
type streamed struct {
	c       *caching
	dev     backends.Streams // nil: the device has no streams, everything is complete at once
	names   []uint64         // of streams
	used    map[uint64][]sdk.Stream
	queues  [][]waiting // freed blocks by the stream they were allocated on, oldest first
	current sdk.Stream  // of the last alloc
}

// waiting is a freed block with the events that it waits for.
type waiting struct {
	i      int32
	events []backends.EventID
}

func openStreams(env *sdk.Env, b bug) (sdk.Strategy, error) {
	s := &streamed{c: newCaching(env, b), names: env.Streams, used: map[uint64][]sdk.Stream{}}
	s.dev, _ = backends.As[backends.Streams](env.Device)
	return s, nil
}

// Alloc collects what has completed, searches, waits for all pending frees and searches again, and grows.
func (s *streamed) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	size, ok := s.c.round(r)
	if !ok {
		return trace.StatusRefused
	}
	s.current = r.Stream
	s.collect(false)
	i, st := s.c.find(r, size), trace.StatusOK
	if i == 0 {
		i, st = s.c.slow(r, size)
	}
	if i == 0 && s.collect(true) > 0 {
		if s.c.bug == noSearchAfterSync {
			i = s.c.grow(size)
		} else if i = s.c.find(r, size); i == 0 {
			i, _ = s.c.slow(r, size)
		}
		st = trace.StatusRecovered
	}
	if i == 0 {
		return trace.StatusFailed
	}
	s.c.hand(r, s.c.carve(i, r, size), b)
	return st
}

// Use notes that a stream uses the block.
func (s *streamed) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Ref != 0 && !slices.Contains(s.used[b.Addr], stream) {
		s.used[b.Addr] = append(s.used[b.Addr], stream)
	}
	return trace.StatusOK
}

// Free records an event on every stream that may use the block, and frees it when there is nothing to wait for.
func (s *streamed) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if b.Ref == 0 {
		return trace.StatusOK
	}
	i := s.c.known(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	s.c.end(i)
	own := s.c.nodes[i].stream
	streams := append(s.used[b.Addr], own)
	delete(s.used, b.Addr)
	if !slices.Contains(streams, stream) {
		streams = append(streams, stream)
	}
	w := waiting{i: i}
	for _, st := range streams {
		if s.c.bug == wrongStreamRestored && st != own { // the stream of the last alloc is current, not the one asked
			st = s.current
		}
		if e, ok := s.record(st); ok {
			w.events = append(w.events, e)
		}
	}
	if len(w.events) == 0 || s.c.bug == searchIgnoresStream {
		s.drop(w.events)
		s.c.give(i)
		return trace.StatusOK
	}
	s.c.nodes[i].state = pending
	for len(s.queues) <= int(own) {
		s.queues = append(s.queues, nil)
	}
	s.queues[own] = append(s.queues[own], w)
	return trace.StatusOK
}

// record records an event; false when it has completed already.
func (s *streamed) record(stream sdk.Stream) (backends.EventID, bool) {
	if s.dev == nil {
		return 0, false
	}
	if s.c.bug == streamKeyAliases {
		if i := slices.Index(s.names, s.names[stream]&3); i >= 0 {
			stream = sdk.Stream(i)
		}
	}
	e := s.dev.Record(stream)
	if s.dev.Query(e) {
		s.dev.Drop(e)
		return 0, false
	}
	return e, true
}

func (s *streamed) drop(events []backends.EventID) {
	for _, e := range events {
		s.dev.Drop(e)
	}
}

// collect frees the blocks whose events have completed, of every stream; with wait it waits for those that have not. It returns how
// many it freed.
func (s *streamed) collect(wait bool) int {
	count := 0
	for q := range s.queues {
		kept := s.queues[q][:0]
		for k, w := range s.queues[q] {
			if s.ready(&w, wait && s.c.bug != headOfLine) {
				s.c.give(w.i)
				count++
				continue
			}
			kept = append(kept, w)
			if s.c.bug == headOfLine { // those behind it, of this stream and of all others, are not looked at
				s.queues[q] = append(kept, s.queues[q][k+1:]...)
				return count
			}
		}
		s.queues[q] = kept
	}
	return count
}

// ready drops the events of a block that have completed and reports whether none is left.
func (s *streamed) ready(w *waiting, wait bool) bool {
	w.events = slices.DeleteFunc(w.events, func(e backends.EventID) bool {
		if wait {
			s.dev.Wait(e)
		} else if !s.dev.Query(e) {
			return false
		}
		s.dev.Drop(e)
		return true
	})
	return len(w.events) == 0
}

// StreamDestroyed hears that a stream is gone. What was allocated on it waits on for the streams that used it.
func (s *streamed) StreamDestroyed(stream sdk.Stream) trace.Status {
	if int(stream) >= len(s.queues) {
		return trace.StatusOK
	}
	switch s.c.bug {
	case destroyedListLost:
		s.queues[stream] = nil
	case eventGoesWithStream: // the events of its blocks go with it, those on other streams too
		for _, w := range s.queues[stream] {
			s.drop(w.events)
			s.c.give(w.i)
		}
		s.queues[stream] = nil
	}
	return trace.StatusOK
}

// FreeWrong refuses a free of what is not live.
func (s *streamed) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusInvalid }

// Trim gives wholly free segments back.
func (s *streamed) Trim() trace.Status {
	s.collect(false)
	return s.c.Trim()
}

// Reset returns to the state after opening.
func (s *streamed) Reset() trace.Status {
	for q := range s.queues {
		for _, w := range s.queues[q] {
			s.drop(w.events)
		}
	}
	s.queues, s.current = nil, 0
	clear(s.used)
	return s.c.Reset()
}

// Close gives everything back.
func (s *streamed) Close() error {
	s.Reset()
	return nil
}

// Inspect shows the blocks; those that wait are pending.
func (s *streamed) Inspect() sdk.Inspection { return s.c.Inspect() }
