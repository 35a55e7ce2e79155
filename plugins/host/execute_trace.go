package host

import (
	"context"

	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// Program runs programs by Execute and keeps the memory of their raw bytes from one to the next.
type Program struct {
	plugin *Plugin
	raw    []byte
	result wire.Result
}

// NewProgram returns a runner of programs for an open strategy of the plugin.
func NewProgram(p *Plugin) *Program { return &Program{plugin: p} }

// Run runs a program, from the state after opening or with keep from what the last one left. Outcomes and calls are valid until the
// next Run. A result that does not decode is a fault of the plugin (ErrLie).
func (x *Program) Run(ctx context.Context, t *trace.Trace, keep, inspect bool) (outcomes []trace.Outcome, calls []trace.Call, inspectionJSON string, err error) {
	if x.raw, err = wire.AppendProgram(x.raw[:0], t); err != nil {
		return nil, nil, "", err
	}
	r, err := x.plugin.Execute(ctx, ExecuteRequest{Program: x.raw, Keep: keep, Inspect: inspect})
	if err != nil {
		return nil, nil, "", err
	}
	if err := wire.DecodeResult(r.Result, len(t.Events), &x.result); err != nil {
		return nil, nil, "", x.plugin.fail(&Fault{Kind: ErrLie, Plugin: x.plugin.name, During: "Execute", Detail: err.Error(), Advice: "this is a defect of the plugin"})
	}
	return x.result.Outcomes, x.result.Calls, r.InspectionJSON, nil
}
