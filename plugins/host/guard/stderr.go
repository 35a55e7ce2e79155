package guard

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Ring keeps the last bytes written to it. It is safe for concurrent use.
type Ring struct {
	mu    sync.Mutex
	buf   []byte
	total uint64
}

// NewRing returns a ring that keeps n bytes.
func NewRing(n int) *Ring { return &Ring{buf: make([]byte, n)} }

// Write takes p whole and never fails.
func (r *Ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	keep := p
	if len(keep) > len(r.buf) {
		keep = keep[len(keep)-len(r.buf):]
	}
	at := int((r.total + uint64(n-len(keep))) % uint64(len(r.buf)))
	k := copy(r.buf[at:], keep)
	copy(r.buf, keep[k:])
	r.total += uint64(n)
	return n, nil
}

// Total is the number of bytes written so far.
func (r *Ring) Total() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// Tail returns a copy of the kept bytes, oldest first.
func (r *Ring) Tail() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total <= uint64(len(r.buf)) {
		return append([]byte(nil), r.buf[:r.total]...)
	}
	at := int(r.total % uint64(len(r.buf)))
	return append(append(make([]byte, 0, len(r.buf)), r.buf[at:]...), r.buf[:at]...)
}

// forwarder passes bytes on to w from a goroutine of its own, at a bounded rate, dropping what is too much or what w does
// not take in time; then it says how much was dropped. A nil forwarder discards.
type forwarder struct {
	queue   chan []byte
	budget  float64   // bytes that may go now
	last    time.Time // when budget was last filled up
	dropped uint64
}

// forwardQueueChunks bounds the memory that waits for a slow reader: 16 chunks of at most one read each.
const forwardQueueChunks = 16

func newForwarder(w io.Writer, now time.Time) *forwarder {
	f := &forwarder{queue: make(chan []byte, forwardQueueChunks), budget: forwardBytesPerSecond, last: now}
	go func() {
		for p := range f.queue {
			if _, err := w.Write(p); err != nil {
				for range f.queue { // the harness is gone: keep taking, for nobody
				}
			}
		}
	}()
	return f
}

// offer passes p on or drops it; it never waits.
func (f *forwarder) offer(p []byte, now time.Time) {
	if f == nil {
		return
	}
	f.budget = min(forwardBytesPerSecond, f.budget+now.Sub(f.last).Seconds()*forwardBytesPerSecond)
	f.last = now
	if float64(len(p)) > f.budget {
		f.dropped += uint64(len(p))
		return
	}
	if f.dropped > 0 {
		f.send(fmt.Appendf(nil, "\n[gpubench: %d bytes of the plugin's standard error dropped: more than %d bytes/s]\n", f.dropped, forwardBytesPerSecond))
		f.dropped = 0
	}
	if f.send(append([]byte(nil), p...)) {
		f.budget -= float64(len(p))
	} else {
		f.dropped += uint64(len(p))
	}
}

func (f *forwarder) send(p []byte) bool {
	select {
	case f.queue <- p:
		return true
	default:
		return false
	}
}

// collectStderr reads r to its end.
func collectStderr(r io.Reader, tail *Ring, f *forwarder) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			tail.Write(buf[:n])
			f.offer(buf[:n], time.Now())
		}
		if err != nil {
			return
		}
	}
}
