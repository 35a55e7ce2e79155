package sdk

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// FuzzExecute runs whatever bytes decode to a program: it is refused, or every event has one outcome whose call records
// add up, and the same program gives the same answers again.
func FuzzExecute(f *testing.F) {
	for _, events := range [][]trace.Event{
		{alloc(1, 100), alloc(2, 1<<22), free(1), {Kind: trace.KindCheckpoint, Aux: 2}, free(2), {Kind: trace.KindRestore, Aux: 2}, {Kind: trace.KindReset}},
		{{Kind: trace.KindWait, Stream: 1, Aux: 0}, {Kind: trace.KindSync, Flags: trace.FlagAll}, {Kind: trace.KindFailNext, Size: 1}, alloc(1, 5)},
	} {
		b, err := wire.AppendProgram(nil, parse(events...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	d := &Description{Name: "full", Options: json.RawMessage(`{}`), New: func(env *Env) (Strategy, error) {
		return &full{direct: direct{env: env}}, nil
	}}
	r, err := NewRunner(RunnerConfig{Strategy: d, OpenDevice: func() (backends.Device, error) {
		return ideal.New(ideal.Config{TotalBytes: 8 << 20})
	}})
	if err != nil {
		f.Fatal(err)
	}
	x := NewExecutor(r)
	f.Fuzz(func(t *testing.T, b []byte) {
		var program trace.Trace
		if wire.DecodeProgram(b, &program) != nil || len(program.Events) > 1000 || program.Slots > 1000 {
			return
		}
		var before []trace.Outcome
		for range 2 {
			result, err := x.Execute(&program, false)
			if err != nil {
				if !errors.Is(err, ErrBadTrace) {
					t.Fatal(err)
				}
				return
			}
			if len(result.Outcomes) != len(program.Events) {
				t.Fatalf("%d outcomes for %d events", len(result.Outcomes), len(program.Events))
			}
			calls := make([]int, len(program.Events))
			for _, c := range result.Calls {
				if c.Event < uint64(len(calls)) {
					calls[c.Event]++
				}
			}
			for i, o := range result.Outcomes {
				if int(o.Calls) != min(calls[i], 1<<16-1) {
					t.Errorf("event %d: the outcome counts %d calls, the log has %d", i, o.Calls, calls[i])
				}
				if before != nil && !sameOutcome(before[i], o) {
					t.Errorf("event %d: %+v, then %+v", i, before[i], o)
				}
			}
			before = append([]trace.Outcome(nil), result.Outcomes...)
		}
	})
}
