package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpubench/gpubench/trace"
)

// promiseDeterministic is the promise that equal programs give equal outcomes (docs/PLUGINS.md, "Promises").
const promiseDeterministic = "deterministic"

// errNotCaught: a canary passed the books.
var errNotCaught = errors.New("it is a canary, deliberately wrong, and was not caught")

// strategy replays every conformance trace in two processes: one with a large window, one with a tiny one.
func (c *checking) strategy(ctx context.Context, s *StrategyDescription) {
	prefix := "strategy " + s.Name + ": "
	large, closeLarge, err := c.pair(ctx, largeWindow)
	if err != nil {
		c.report.add(prefix+"starts", err, "")
		return
	}
	defer closeLarge()
	small, closeSmall, err := c.pair(ctx, smallWindow)
	if err != nil {
		c.report.add(prefix+"starts", err, "")
		return
	}
	defer closeSmall()
	caught := false
	for _, t := range c.traces {
		first, err := large.replay(ctx, s, t, c.file(t), true)
		if err == nil {
			var found bool
			found, err = c.books(s, t.trace, first.once)
			caught = caught || found
		}
		seen := fmt.Sprintf("%d events, %d call records", len(first.once.outcomes), len(first.once.calls))
		if c.NewChecker == nil {
			seen += "; who owns which bytes was not checked"
		}
		if !c.report.add(prefix+"replays "+t.name+", every answer checked", err, seen) {
			if large.p.Fault() != nil {
				return
			}
			continue
		}
		c.report.add(prefix+"replays "+t.name+" again after a reset", c.same(s, &first.once, &first.again), "")
		second, err := small.replay(ctx, s, t, c.file(t), false)
		if err == nil {
			err = c.same(s, &first.once, &second.once)
		}
		c.report.add(prefix+"replays "+t.name+" alike in another process, in tiny windows", err, "")
		if small.p.Fault() != nil {
			return
		}
	}
	if s.Canary && c.NewChecker != nil {
		var err error
		if !caught {
			err = errNotCaught
		}
		c.report.add(prefix+"is caught", err, "")
	}
	c.inspect(ctx, s, large)
	c.ends(ctx, large.p, prefix+"ends when asked, with all its processes")
}

// books checks the records of a replay: one by one, then by the caller's books. A canary's breach is no error.
func (c *checking) books(s *StrategyDescription, t *trace.Trace, r records) (caught bool, err error) {
	if err := r.check(t, s.AlignmentBytes); err != nil {
		return false, err
	}
	if c.NewChecker == nil {
		return false, nil
	}
	k := c.NewChecker(t, s)
	if err = k.Records(r.outcomes, r.calls); err == nil {
		err = k.End()
	}
	if s.Canary {
		return err != nil, nil
	}
	return err != nil, err
}

// same compares two replays, where the strategy promises that they are.
func (c *checking) same(s *StrategyDescription, a, b *records) error {
	if err := a.differ(b); err != nil && promises(s, promiseDeterministic) {
		return fmt.Errorf("it promises to be deterministic, but differs at %w", err)
	}
	return nil
}

// pair is a process of the plugin, and one with a backend where the plugin has none.
type pair struct {
	p       *Plugin
	device  *Plugin
	backend string
	c       *checking
}

// pair starts the process or processes. The function returned stops them.
func (c *checking) pair(ctx context.Context, g Geometry) (*pair, func(), error) {
	p, err := Start(ctx, c.spec(Spec{Window: g}))
	if err != nil {
		return nil, nil, err
	}
	pr := &pair{p: p, c: c, backend: c.BackendName}
	stop := func() {
		_ = p.Stop(ctx)
		if pr.device != nil {
			_ = pr.device.Stop(ctx)
		}
	}
	own := p.Describe().Backends
	if i := slices.IndexFunc(own, func(b *BackendDescription) bool { return b.Name == c.BackendName || c.BackendName == "" }); i >= 0 {
		pr.backend = own[i].Name
		return pr, stop, nil
	}
	if c.Backend.Path == "" {
		stop()
		return nil, nil, errors.New("the executable has no backend, and no other was given to run its strategies over")
	}
	if pr.device, err = Start(ctx, c.Backend); err != nil {
		stop()
		return nil, nil, err
	}
	return pr, stop, nil
}

// twice are the records of a replay, and of the same after a reset.
type twice struct{ once, again records }

// replay opens the strategy over a device, replays the trace, once more after a reset if again, and closes it.
func (pr *pair) replay(ctx context.Context, s *StrategyDescription, t conformanceTrace, file string, again bool) (twice, error) {
	var got twice
	req := OpenRequest{Strategy: s.Name, CapacityBytes: checkDeviceBytes, Seed: 1, TracePath: file}
	device := FusedDevice{Backend: pr.backend, TotalBytes: checkDeviceBytes}
	if pr.device == nil {
		req.Fused = &device
	} else {
		info, err := pr.device.OpenDevice(ctx, device, file, -1)
		if err != nil {
			return got, err
		}
		defer func() { _, _ = pr.device.CloseDevice(ctx) }()
		req.Remote = &RemoteDevice{SlotFile: -1, Target: pr.device.Target(), Info: info}
	}
	opened, err := pr.p.Open(ctx, req)
	if err != nil {
		return got, err
	}
	if n := uint64(len(t.trace.Events)); opened.TraceEvents != n {
		return got, fmt.Errorf("it sees %d events in a trace of %d", opened.TraceEvents, n)
	}
	if _, err := pr.p.Replay(ctx, ReplayRequest{}, got.once.add); err != nil {
		return got, err
	}
	if again {
		if _, err := pr.p.Replay(ctx, ReplayRequest{Reset: true}, got.again.add); err != nil {
			return got, fmt.Errorf("after a reset: %w", err)
		}
	}
	_, err = pr.p.Close(ctx)
	return got, err
}

// inspect looks at the picture that a strategy gives of itself, if it says that it can.
func (c *checking) inspect(ctx context.Context, s *StrategyDescription, pr *pair) {
	if !slices.Contains(s.Capabilities, "inspect") || pr.device != nil {
		return
	}
	_, err := pr.p.Open(ctx, OpenRequest{Strategy: s.Name, CapacityBytes: checkDeviceBytes, Fused: &FusedDevice{Backend: pr.backend, TotalBytes: checkDeviceBytes}})
	text := ""
	if err == nil {
		text, err = pr.p.Inspect(ctx)
	}
	if err == nil {
		err = validJSON(text)
	}
	if _, cerr := pr.p.Close(ctx); err == nil {
		err = cerr
	}
	c.report.add("strategy "+s.Name+": shows its inside", err, "")
}
