package harness

import (
	"slices"

	"github.com/gpubench/gpubench/trace"
)

// overlapWindows is how many windows may wait: one that is read while the plugin fills the next.
const overlapWindows = 2

// Overlap lets a consumer of windows work while the plugin runs on: each window is copied and handed to a goroutine. It is for
// passes whose times are thrown away; a timed pass must have the machine's memory for itself.
type Overlap struct {
	full, empty chan Window
	done        chan struct{}
	err         error // of the consumer; read after done
}

// NewOverlap starts a goroutine that gives windows to feed, in order, until the first error. Wait must be called.
func NewOverlap(feed func(Window) error) *Overlap {
	o := &Overlap{full: make(chan Window, overlapWindows), empty: make(chan Window, overlapWindows), done: make(chan struct{})}
	for range overlapWindows {
		o.empty <- Window{}
	}
	go func() {
		defer close(o.done)
		for w := range o.full {
			if o.err = feed(w); o.err != nil {
				return
			}
			o.empty <- w
		}
	}()
	return o
}

// Add copies a window and returns; it waits only while both copies are in use. After the consumer has failed it returns its error.
func (o *Overlap) Add(w Window) error {
	select {
	case <-o.done:
		return o.err
	case b := <-o.empty:
		b.First, b.Outcomes, b.Calls = w.First, fill(b.Outcomes, w.Outcomes), fill(b.Calls, w.Calls)
		o.full <- b
		return nil
	}
}

// Wait ends the goroutine after everything added was consumed, and returns the consumer's error.
func (o *Overlap) Wait() error {
	close(o.full)
	<-o.done
	return o.err
}

// fill copies into the memory of to, which grows once.
func fill[T trace.Outcome | trace.Call](to, from []T) []T {
	return append(slices.Grow(to[:0], len(from)), from...)
}
