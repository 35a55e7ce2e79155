package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

func run(t *testing.T, options, text string) ([]trace.Outcome, error) {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader("# gpubench trace 1\n"+text), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := sdk.CheckOptions(description.Options, json.RawMessage(options)); err != nil {
		return nil, err
	}
	r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &description, Options: json.RawMessage(options), Trace: tr, Capacity: 4 << 20,
		OpenDevice: func() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: 4 << 20}) }})
	if err != nil {
		return nil, err
	}
	result, err := sdk.NewExecutor(r).Execute(tr, false)
	if err != nil {
		t.Fatal(err)
	}
	return result.Outcomes, nil
}

func TestBlocksLieOneBehindTheOther(t *testing.T) {
	outcomes, err := run(t, "", `h1 = alloc 1000
h2 = alloc 8 align=4096
h3 = alloc 0
free h1
h4 = alloc 4MiB
free h2
h5 = alloc 4MiB
free h5
reset
h6 = alloc 1
`)
	if err != nil {
		t.Fatal(err)
	}
	// 1000 bytes at 0, then the next multiple of 4096; 4 MiB fit only once nothing is live.
	for i, want := range []struct {
		status trace.Status
		addr   uint64
	}{{trace.StatusOK, 0}, {trace.StatusOK, 4096}, {trace.StatusOK, 0}, {trace.StatusOK, 0}, {trace.StatusFailed, 0}, {trace.StatusOK, 0},
		{trace.StatusOK, 0}, {trace.StatusOK, 0}, {trace.StatusOK, 0}, {trace.StatusOK, 0}} {
		if o := outcomes[i]; o.Status != want.status || o.Addr != want.addr {
			t.Errorf("event %d: %v at %d, want %v at %d", i, o.Status, o.Addr, want.status, want.addr)
		}
	}
}

func TestOptions(t *testing.T) {
	outcomes, err := run(t, `{"align_bytes":65536}`, "h1 = alloc 8\nh2 = alloc 8\n")
	if err != nil || outcomes[1].Addr != 65536 {
		t.Errorf("second block at %d, %v", outcomes[1].Addr, err)
	}
	for options, want := range map[string]string{
		`{"align_bytes":300}`: "no power of two",
		`{"align_bytes":8}`:   "minimum",
		`{"align":8}`:         "no option align (there are align_bytes)",
		`[]`:                  "must be a JSON object",
	} {
		if _, err := run(t, options, ""); !errors.Is(err, sdk.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
