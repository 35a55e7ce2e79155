package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

// progressPollInterval is how often the shared counter is looked at. It is one load of a cache line.
const progressPollInterval = 100 * time.Millisecond

// ReplayRequest says which events to run.
type ReplayRequest struct {
	First  uint64 // index of the first event: 0, or where the last Replay ended
	Max    uint64 // how many; 0 = to the end of the trace
	WarmUp bool
	Reset  bool // return to the state after Open before; First must be 0
	// Progress, if set, is called with the number of events done so far since First, about ten times a second, from another
	// goroutine than Replay's.
	Progress func(done uint64)
}

// Batch is one window of records. Its slices are valid until the drain function returns, and the plugin could still write
// to them: what is kept is copied, then checked.
type Batch struct {
	wire.Drained
	Warnings []string // of the plugin about this window
}

// Totals is what a Replay did in all.
type Totals struct {
	Executed     uint64 // events with an outcome
	Windows      uint64
	Calls        uint64 // records of the call log
	End          bool   // the trace has ended
	LoopTicks    uint64
	DeviceTicks  uint64 // wall time in device calls, in the same ticks
	Collections  uint64 // garbage collections inside the timed loop
	WindowsFull  uint64 // windows that ended because an area was full
	CallsWaiting uint64
}

// Replay runs events window by window and gives each window to drain, which returns an error to stop. When the plugin
// crashes or hangs, drain gets the valid prefix of that window (Batch.Complete is false) before Replay returns the Fault,
// whose Event is the one that was being executed.
func (p *Plugin) Replay(ctx context.Context, r ReplayRequest, drain func(Batch) error) (Totals, error) {
	var t Totals
	if p.window == nil {
		return t, fmt.Errorf("plugin %s: Replay needs a plugin that was started with a window", p.name)
	}
	next, reset := r.First, r.Reset
	for {
		if err := p.usable(); err != nil {
			return t, err
		}
		max := p.window.Geometry().OutcomeCapacity
		if r.Max != 0 {
			max = min(max, r.Max-t.Executed)
		}
		req := &pluginv1.ReplayRequest{First: next, Max: max, WarmUp: r.WarmUp, Reset_: reset}
		resp, err := p.replayWindow(ctx, req, t.Executed, r.Progress)
		if err != nil {
			return t, p.afterFault(err, next, &t, drain)
		}
		d, err := p.window.Drain(next)
		if err == nil {
			err = checkResponse(d, resp, req)
		}
		if err != nil {
			return t, p.lie(next, err)
		}
		t.add(d)
		if err := drain(Batch{Drained: d, Warnings: resp.Warnings}); err != nil {
			return t, err
		}
		next += uint64(len(d.Outcomes))
		reset = false
		if r.Progress != nil {
			r.Progress(t.Executed)
		}
		if t.End = d.Summary.Reason == wire.StopEnd; t.End || r.Max != 0 && t.Executed >= r.Max && d.Summary.CallsWaiting == 0 {
			return t, nil
		}
	}
}

func (t *Totals) add(d wire.Drained) {
	t.Executed += uint64(len(d.Outcomes))
	t.Windows++
	t.Calls += uint64(len(d.Calls))
	t.LoopTicks += d.Summary.LoopTicks
	t.DeviceTicks += d.Summary.DeviceWallTicks
	t.Collections += d.Summary.Collections
	t.CallsWaiting = d.Summary.CallsWaiting
	if d.Summary.Reason == wire.StopAreaFull {
		t.WindowsFull++
	}
}

// replayWindow makes one Replay call and watches the counter meanwhile: the call has no deadline, but progress has.
func (p *Plugin) replayWindow(ctx context.Context, req *pluginv1.ReplayRequest, before uint64, progress func(uint64)) (*pluginv1.ReplayResponse, error) {
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		resp *pluginv1.ReplayResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := p.control.Replay(rctx, req)
		answered <- answer{resp, err}
	}()
	tick := time.NewTicker(progressPollInterval)
	defer tick.Stop()
	// The counter still shows the last window until the plugin begins this one; either way a change is progress.
	_, last, wasRunning, _ := p.window.Progress()
	idle, polled := time.Duration(0), time.Now()
	for {
		select {
		case a := <-answered:
			if a.err == nil {
				return a.resp, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, p.replayError(rctx, req, a.err)
		case <-tick.C:
		}
		// A poll counts for two intervals at most: time in which the harness itself did not run (stopped, starved) is nobody's hang.
		now := time.Now()
		idle += min(now.Sub(polled), 2*progressPollInterval)
		polled = now
		_, done, running, _ := p.window.Progress()
		if done != last || running != wasRunning {
			last, wasRunning, idle = done, running, 0
			if progress != nil && running {
				progress(before + done)
			}
			continue
		}
		if idle >= p.spec.ProgressDeadline {
			event, _ := p.executing(req.First)
			return nil, p.fail(&Fault{Kind: ErrHang, Plugin: p.name, During: "Replay", Event: event, HasEvent: true,
				Detail: fmt.Sprintf("no progress for %s at event %d", seconds(p.spec.ProgressDeadline), event),
				Advice: "it was killed; cut the trace before that event to find out what it waits for"})
		}
	}
}

// executing returns the event that the plugin is executing, or died in. ok is false when the window does not say.
func (p *Plugin) executing(first uint64) (event uint64, ok bool) {
	at, done, running, sane := p.window.Progress()
	if !sane || !running || at != first {
		return first, false
	}
	return first + done, true
}

// replayError classifies an error of the Replay call.
func (p *Plugin) replayError(ctx context.Context, req *pluginv1.ReplayRequest, err error) error {
	event, _ := p.executing(req.First)
	classified := p.callError(ctx, "Replay", 0, &event, err)
	var a *Answer
	if errors.As(classified, &a) {
		a.Message = fmt.Sprintf("at event %d: %s", event, a.Message)
	}
	return classified
}

// afterFault gives the valid prefix of a window whose plugin died to drain. The fault stays the error; a failure of drain is added.
func (p *Plugin) afterFault(err error, first uint64, t *Totals, drain func(Batch) error) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	at, _, running, sane := p.window.Progress()
	if !sane || !running || at != first {
		return err // it never began this window
	}
	d, derr := p.window.Drain(first)
	if derr != nil {
		return errors.Join(err, derr)
	}
	t.add(d)
	return errors.Join(err, drain(Batch{Drained: d}))
}

// lie is the fault of impossible counters.
func (p *Plugin) lie(first uint64, err error) error {
	return p.fail(&Fault{Kind: ErrLie, Plugin: p.name, During: "Replay", Event: first, HasEvent: true, Detail: err.Error(),
		Advice: "nothing of this window is used; this is a defect of the plugin", cause: err})
}

// checkResponse compares the window with the answer and the question.
func checkResponse(d wire.Drained, resp *pluginv1.ReplayResponse, req *pluginv1.ReplayRequest) error {
	done, calls := uint64(len(d.Outcomes)), uint64(len(d.Calls))
	switch {
	case !d.Complete:
		return fmt.Errorf("%w: it answered, but the window says that the replay still runs", wire.ErrLied)
	case resp.Executed != done || resp.Calls != calls:
		return fmt.Errorf("%w: it answered %d events and %d calls, the window has %d and %d", wire.ErrLied, resp.Executed, resp.Calls, done, calls)
	case done > req.Max:
		return fmt.Errorf("%w: %d events done, %d asked", wire.ErrLied, done, req.Max)
	case uint32(resp.Reason) != uint32(d.Summary.Reason):
		return fmt.Errorf("%w: it answered that it stopped for %q, the window says %q", wire.ErrLied, resp.Reason, d.Summary.Reason)
	case resp.CallsWaiting != d.Summary.CallsWaiting:
		return fmt.Errorf("%w: it answered %d waiting calls, the window says %d", wire.ErrLied, resp.CallsWaiting, d.Summary.CallsWaiting)
	case d.Summary.Reason == wire.StopMax && done != req.Max:
		return fmt.Errorf("%w: it stopped because %d events are done, %d were asked", wire.ErrLied, done, req.Max)
	case d.Summary.Reason != wire.StopEnd && done == 0 && calls == 0 && (req.Max > 0 || d.Summary.CallsWaiting > 0):
		return fmt.Errorf("%w: it stopped for %q with an empty window, and more to do", wire.ErrLied, d.Summary.Reason)
	}
	return nil
}
