package fuzz

import (
	"context"
	"time"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/internal/clock"
)

// running is a worker with a batch.
type running struct {
	w      *worker
	slot   int
	number uint64
	beat   uint64
	since  time.Duration
}

// done is what a worker sends when its batch is over.
type done struct {
	slot   int
	result batchResult
	w      *worker
}

// runBatches runs the batches of a round on the workers there are, and watches them: one that makes no progress is given up, with its
// goroutine, and its program is a hang.
func (c *campaign) runBatches(ctx context.Context, first uint64, snap *snapshot, results []batchResult) {
	if c.idle == nil {
		c.idle = make(chan *worker, c.opts.Workers)
		for range c.opts.Workers {
			c.idle <- newWorker(c.target, c.limits, c.opts.Seed, &c.stop)
		}
	}
	finished := make(chan done, len(results))
	busy := map[int]*running{}
	next, left := 0, len(results)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for left > 0 {
		for next < len(results) && len(c.idle) > 0 {
			if c.stop.Load() { // begin no more, but wait for those that run
				left -= len(results) - next
				next = len(results)
				break
			}
			w := <-c.idle
			r := &running{w: w, slot: next, number: first + uint64(next), since: clock.Monotonic()}
			busy[next] = r
			go func() { finished <- done{r.slot, w.batch(r.number, snap), w} }()
			next++
		}
		if left == 0 {
			break
		}
		select {
		case d := <-finished:
			if r := busy[d.slot]; r == nil || r.w != d.w {
				continue // it was given up and came back
			}
			delete(busy, d.slot)
			results[d.slot] = d.result
			c.idle <- d.w
			left--
		case <-tick.C:
			if ctx.Err() != nil || c.opts.Time > 0 && clock.Monotonic()-c.start >= c.opts.Time {
				c.stop.Store(true)
			}
			left -= c.giveUp(busy, results)
			c.tell(false)
		}
	}
}

// giveUp gives up the workers that are stuck, makes hangs of their programs, and replaces them. It returns how many there were.
func (c *campaign) giveUp(busy map[int]*running, results []batchResult) (n int) {
	now := clock.Monotonic()
	for slot, r := range busy {
		if b := r.w.beat.Load(); b != r.beat {
			r.beat, r.since = b, now
			continue
		}
		if now-r.since < stuckAfter {
			continue
		}
		t := r.w.current.Load()
		res := batchResult{number: r.number, programs: 1}
		if t != nil {
			p := plan.Fill(c.opts.Seed+r.number*0x9E3779B97F4A7C15, c.limits)
			res.hits = []hit{{cfg: c.target.configOf(&p, c.opts.Seed^r.number), ops: plan.Ops(nil, t), streams: len(t.Streams),
				breach: &Breach{Check: CheckHang, Code: codeHang, Event: len(t.Events) - 1, Expected: "an end", Observed: "no end"}}}
		}
		results[slot] = res
		delete(busy, slot)
		c.report.Stuck++
		c.idle <- newWorker(c.target, c.limits, c.opts.Seed, &c.stop)
		n++
	}
	return n
}
