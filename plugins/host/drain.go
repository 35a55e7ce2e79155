package host

import (
	"context"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/trace"
)

// DrainCalls delivers the call records that wait after Close, until none does: those of the calls made by closing, which tell
// whether everything was given back. next is the event after the last one replayed.
func (p *Plugin) DrainCalls(ctx context.Context, next uint64, drain func([]trace.Call) error) error {
	for {
		if err := p.usable(); err != nil {
			return err
		}
		resp, err := p.replayWindow(ctx, &pluginv1.ReplayRequest{First: next}, 0, nil)
		if err != nil {
			return err
		}
		d, err := p.window.Drain(next)
		if err == nil {
			err = checkResponse(d, resp, &pluginv1.ReplayRequest{First: next})
		}
		if err != nil {
			return p.lie(next, err)
		}
		if err := drain(d.Calls); err != nil {
			return err
		}
		if d.Summary.CallsWaiting == 0 {
			return nil
		}
	}
}
