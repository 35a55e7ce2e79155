package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

func newDeviceCompare() *cobra.Command {
	f := replayFlags{traceDevice: -1, seed: 1}
	var against string
	cmd := &cobra.Command{
		Use: "compare RECORDING", Short: "Replay the same recording on hardware and on the model, side by side",
		Long: `Replays a recording against one strategy twice: on a backend and on another, at the same capacity. Outcomes, memory and device
time stand side by side, and every disagreement is explained as far as the answers allow. Where one side fails and the other does not, exit code 3.`,
		Example: `  gpubench device compare snapshot.pickle --strategy pytorch                  # cuda against pmm
  gpubench device compare snapshot.pickle --strategy tlsf --backend ideal --against pmm --capacity 1GiB`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.strategy, "strategy", "pytorch", "strategy")
	fl.StringArrayVar(&f.opts, "opt", nil, "an option of the strategy, key=value; may be repeated")
	fl.StringArrayVar(&f.backendOpts, "backend-opt", nil, "an option of --backend, key=value; may be repeated")
	fl.StringVar(&f.backend, "backend", "cuda", "the first backend")
	fl.StringVar(&against, "against", "pmm", "the second backend")
	fl.StringVar(&f.device, "device", "a100-80", "device to model, or a device file of gpubench calibrate")
	fl.StringVar(&f.capacity, "capacity", "", "capacity of both; what the first backend has by default")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := compareDevices(cmd.Context(), args[0], f, against)
		if err != nil {
			return err
		}
		if format(*form) == formatJSON {
			err = printJSON(cmd.OutOrStdout(), c)
		} else {
			err = c.print(cmd.OutOrStdout())
		}
		if err == nil && c.StatusDiffers > 0 {
			return withCode(codeGate, fmt.Errorf("%d events ended differently on %s and %s, the first is event %d", c.StatusDiffers, c.Sides[0].Backend, c.Sides[1].Backend, *c.FirstDifference))
		}
		return err
	}
	return cmd
}

// comparison is what `gpubench device compare` prints.
type comparison struct {
	Trace           string   `json:"trace"`
	Strategy        string   `json:"strategy"`
	CapacityBytes   uint64   `json:"capacity_bytes"`
	Sides           [2]side  `json:"sides"`
	Events          uint64   `json:"events"`
	StatusDiffers   uint64   `json:"status_differs"`
	GrantedDiffers  uint64   `json:"granted_differs"`
	CallsDiffer     uint64   `json:"calls_differ"` // events with another number of device calls
	FirstDifference *uint64  `json:"first_difference,omitempty"`
	Explanations    []string `json:"explanations"`
}

// side is one of the two.
type side struct {
	Backend          string  `json:"backend"`
	Failures         uint64  `json:"failures"`
	FirstFailure     *uint64 `json:"first_failure,omitempty"`
	ReservedBytesMax uint64  `json:"reserved_bytes_max"`
	DeviceCalls      uint64  `json:"device_calls"`
	DeviceNs         uint64  `json:"device_ns"`
	PageBytes        uint64  `json:"page_bytes"`
	Modelled         bool    `json:"modelled_time"`

	outcomes []trace.Outcome
}

func compareDevices(ctx context.Context, path string, f replayFlags, against string) (*comparison, error) {
	c := &comparison{}
	for i, backend := range []string{f.backend, against} {
		g := f
		if g.backend = backend; i == 1 {
			g.backendOpts, g.capacity = nil, fmt.Sprint(c.CapacityBytes)
		}
		if err := c.replaySide(ctx, path, &g, i); err != nil {
			return nil, err
		}
	}
	c.diff()
	return c, nil
}

func (c *comparison) replaySide(ctx context.Context, path string, f *replayFlags, i int) error {
	dir, remove, err := tempDir()
	if err != nil {
		return err
	}
	defer remove()
	one, err := openOne(ctx, path, dir, f)
	if err != nil {
		return usageError(err)
	}
	defer one.Close()
	s := &c.Sides[i]
	s.Backend = f.backend
	o, err := one.runner.ReplayOnce(ctx, &one.c, func(w harness.Window) error {
		s.outcomes = append(s.outcomes, w.Outcomes...)
		return nil
	})
	if err != nil {
		return one.classify(ownWords(err))
	}
	c.Trace, c.Strategy, c.CapacityBytes = one.rec.Name, one.cont.Label, one.c.CapacityBytes
	s.PageBytes, s.Modelled = o.Info.Device.PageBytes, o.Info.Device.ModelledTime
	e := &o.Report.Exact
	s.ReservedBytesMax = e.Peak.ReservedBytes
	for j := range s.outcomes {
		x := &s.outcomes[j]
		s.DeviceCalls += uint64(x.Calls)
		s.DeviceNs += uint64(x.DeviceNs)
		if x.Status == trace.StatusFailed {
			if s.Failures++; s.Failures == 1 {
				at := uint64(j)
				s.FirstFailure = &at
			}
		}
	}
	if e.ViolationsTotal > 0 {
		return withCode(codeFinding, errors.New("on "+f.backend+" the strategy broke a check; see: gpubench replay --backend "+f.backend))
	}
	return nil
}

// diff compares event by event. Addresses are not compared: nobody promises them.
func (c *comparison) diff() {
	a, b := c.Sides[0].outcomes, c.Sides[1].outcomes
	c.Events = uint64(min(len(a), len(b)))
	for i := range c.Events {
		x, y := &a[i], &b[i]
		if x.Status != y.Status {
			if c.StatusDiffers++; c.StatusDiffers == 1 {
				at := i
				c.FirstDifference = &at
			}
		} else if x.Granted != y.Granted {
			c.GrantedDiffers++
		}
		if x.Calls != y.Calls {
			c.CallsDiffer++
		}
	}
	c.explain()
}

func (c *comparison) explain() {
	say := func(format string, args ...any) {
		c.Explanations = append(c.Explanations, fmt.Sprintf(format, args...))
	}
	a, b := &c.Sides[0], &c.Sides[1]
	switch {
	case c.StatusDiffers == 0:
		say("every event ended the same way on both")
	case a.Failures > b.Failures:
		say("%s refuses what %s gives, first at event %d: it counts something that the other does not (its own allocations, its granularity of %s against %s), or its memory is fragmented",
			a.Backend, b.Backend, *c.FirstDifference, results.Bytes(a.PageBytes), results.Bytes(b.PageBytes))
	case a.Failures < b.Failures:
		say("%s refuses what %s gives, first at event %d: the model is stricter than the device there", b.Backend, a.Backend, *c.FirstDifference)
	default:
		say("both fail equally often and at different events, first at %d: fragmentation differs, because placement does", *c.FirstDifference)
	}
	if c.GrantedDiffers > 0 {
		say("%d blocks have another granted size: the strategy rounds to the device's granularity (%s, %s)", c.GrantedDiffers, results.Bytes(a.PageBytes), results.Bytes(b.PageBytes))
	}
	if c.CallsDiffer > 0 {
		say("%d events made another number of device calls: the strategy saw other answers (free memory, events that completed earlier or later)", c.CallsDiffer)
	}
	if a.ReservedBytesMax != b.ReservedBytesMax {
		say("at the peak %s was held on %s and %s on %s", results.Bytes(a.ReservedBytesMax), a.Backend, results.Bytes(b.ReservedBytesMax), b.Backend)
	}
	if a.DeviceNs > 0 && b.DeviceNs > 0 {
		say("device time on %s is %.2f × that on %s%s", a.Backend, float64(a.DeviceNs)/float64(b.DeviceNs), b.Backend, calibrateHint(a.Modelled, b.Modelled))
	}
}

func calibrateHint(a, b bool) string {
	if a != b {
		return "; a model that was told this device's figures comes closer: gpubench calibrate"
	}
	return ""
}

func (c *comparison) print(w io.Writer) error {
	a, b := &c.Sides[0], &c.Sides[1]
	fmt.Fprintf(w, "%s with %s at %s\n\n", c.Trace, c.Strategy, results.Bytes(c.CapacityBytes))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "\t%s\t%s\n", a.Backend, b.Backend)
	fmt.Fprintf(tw, "events\t%d\t%d\n", len(a.outcomes), len(b.outcomes))
	fmt.Fprintf(tw, "failed allocations\t%d\t%d\n", a.Failures, b.Failures)
	fmt.Fprintf(tw, "held at the peak\t%s\t%s\n", results.Bytes(a.ReservedBytesMax), results.Bytes(b.ReservedBytesMax))
	fmt.Fprintf(tw, "device calls\t%d\t%d\n", a.DeviceCalls, b.DeviceCalls)
	fmt.Fprintf(tw, "device time\t%.3f ms\t%.3f ms\n", float64(a.DeviceNs)/1e6, float64(b.DeviceNs)/1e6)
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, e := range c.Explanations {
		fmt.Fprintf(w, "- %s\n", e)
	}
	return nil
}
