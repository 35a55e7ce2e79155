package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/backends/calibration"
	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/results"
)

// calibrateDeadline bounds the measurement of a plugin: seconds on a GPU, a minute on a slow machine without one.
const calibrateDeadline = 5 * time.Minute

type calibrateFlags struct {
	backend, device, out, name string
	backendOpts                []string
}

func newCalibrate() *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use: "calibrate", GroupID: groupMachine, Short: "Measure what this device's calls cost, for the model",
		Long: `Measures the calls of a backend: allocation, free and mapping by size, first touch, memset and copies, synchronisation, each as a
median with an interval of 95 % confidence. Prints the model's figures beside them, and with --out writes a device file with
which the model then answers in this device's times. Whatever was not measured keeps its source.`,
		Example: `  gpubench calibrate --out h200-here.yaml
  gpubench run snapshot.pickle --device h200-here.yaml
  gpubench calibrate --backend host`,
		Args: usageArgs(cobra.NoArgs),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.backend, "backend", "cuda", "backend to measure")
	fl.StringArrayVar(&f.backendOpts, "backend-opt", nil, "an option of the backend, key=value; may be repeated")
	fl.StringVar(&f.device, "device", "a100-80", "device whose figures are compared, and whose other facts the file keeps")
	fl.StringVar(&f.out, "out", "", "write a device file (YAML) here")
	fl.StringVar(&f.name, "name", "", "name in the device file; by default that of the device")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runCalibrate(cmd, &f, format(*form)) }
	return cmd
}

// calibrated is what `gpubench calibrate` prints.
type calibrated struct {
	Backend  string              `json:"backend"`
	Model    string              `json:"model"`
	Report   *calibration.Report `json:"report"`
	Compared []comparedCost      `json:"compared"`
	File     string              `json:"file,omitempty"`
}

// comparedCost is one parameter of the cost model against its measurement.
type comparedCost struct {
	Name     string  `json:"name"`
	Model    float64 `json:"model"`
	Measured float64 `json:"measured"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Ratio    float64 `json:"ratio"` // measured ÷ model
	Source   string  `json:"source"`
}

func runCalibrate(cmd *cobra.Command, f *calibrateFlags, form format) error {
	device, err := configs.LoadDevice(f.device)
	if err != nil {
		return usageError(err)
	}
	report, err := measureBackend(cmd.Context(), f, device)
	if err != nil {
		return err
	}
	c := &calibrated{Backend: f.backend, Model: device.Name, Report: report, Compared: compareCosts(device, report)}
	if f.out != "" {
		if err := writeDeviceFile(f, device, report); err != nil {
			return usageError(err)
		}
		c.File = f.out
	}
	if form == formatJSON {
		return printJSON(cmd.OutOrStdout(), c)
	}
	return c.print(cmd.OutOrStdout())
}

// measureBackend measures a built-in backend here, and one of a plugin in the plugin's own executable.
func measureBackend(ctx context.Context, f *calibrateFlags, device *configs.Device) (*calibration.Report, error) {
	options, err := parseOptions("", f.backendOpts)
	if err != nil {
		return nil, usageError(fmt.Errorf("--backend-opt: %w", err))
	}
	for _, b := range builtinBackends() {
		if b.Name != f.backend {
			continue
		}
		if f.backend == "pmm" {
			options["device"], options["costs"] = device.Name, device.Costs
		}
		raw, err := json.Marshal(options)
		if err != nil {
			return nil, usageError(err)
		}
		d, err := b.Open(raw, capacityFor(f.backend, device), nil)
		if err != nil {
			return nil, usageError(err)
		}
		defer d.Close()
		return calibration.Measure(d, calibration.Options{})
	}
	p, err := newLauncher(ctx, f.backend)
	if err != nil {
		return nil, usageError(err)
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, usageError(err)
	}
	return measurePlugin(ctx, p.Backend.Path, string(raw))
}

// measurePlugin runs "PLUGIN calibrate OPTIONS", which prints a report.
func measurePlugin(ctx context.Context, path, options string) (*calibration.Report, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, calibrateDeadline)
	defer cancel()
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, path, "calibrate", options)
	c.Stdout, c.Stderr, c.WaitDelay = &out, &said, stopPlugin
	if err := c.Run(); err != nil {
		name := filepath.Base(path)
		if outer.Err() != nil {
			return nil, outer.Err()
		}
		if ctx.Err() != nil {
			return nil, withCode(codePluginFault, fmt.Errorf("%s did not end its measurement within %v", name, calibrateDeadline))
		}
		if text := oneLine(strings.TrimPrefix(said.String(), name+": ")); text != "" {
			return nil, usageError(errors.New(text))
		}
		return nil, withCode(codePluginFault, fmt.Errorf("%s calibrate: %w", name, err))
	}
	report := &calibration.Report{}
	if err := json.Unmarshal(out.Bytes(), report); err != nil || len(report.Figures) == 0 {
		return nil, withCode(codePluginFault, fmt.Errorf("%s does not measure: a plugin for calibrate answers the argument \"calibrate\" with a report in JSON", filepath.Base(path)))
	}
	return report, nil
}

// measuredCosts are the figures that are parameters of the cost model.
func measuredCosts(r *calibration.Report) map[string]calibration.Figure {
	out := map[string]calibration.Figure{}
	for _, f := range r.Figures {
		if f.Cost != "" {
			out[f.Cost] = f
		}
	}
	return out
}

// compareCosts sets the device's figures beside the measured ones, in the order of the model.
func compareCosts(device *configs.Device, r *calibration.Report) []comparedCost {
	var out []comparedCost
	measured := measuredCosts(r)
	costs := pmm.DefaultCosts()
	for _, f := range costs.Fields() {
		m, ok := measured[f.Name]
		if !ok {
			continue
		}
		c := device.Costs[f.Name]
		x := comparedCost{Name: f.Name, Model: c.Value, Measured: m.Median, Low: m.Low, High: m.High, Source: c.Source}
		if c.Value > 0 {
			x.Ratio = m.Median / c.Value
		}
		out = append(out, x)
	}
	return out
}

func (c *calibrated) print(w io.Writer) error {
	r := c.Report
	fmt.Fprintf(w, "%s on %s: %s, pages of %s, clock %s\n\n", r.Device, c.Backend, results.Bytes(r.TotalBytes), results.Bytes(r.PageBytes), r.Clock)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "figure\tblock\tmedian\t95 % interval\tsamples")
	for _, f := range r.Figures {
		block := "–"
		if f.SizeBytes > 0 {
			block = results.Bytes(f.SizeBytes)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s to %s\t%d\n", f.Name, block, quantity(f.Name, f.Median), quantity(f.Name, f.Low), quantity(f.Name, f.High), f.Samples)
	}
	fmt.Fprintf(tw, "\nmodel %s\tfigure\tmeasured\tmeasured ÷ model\tsource of the model's figure\n", c.Model)
	for _, x := range c.Compared {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%s\n", x.Name, quantity(x.Name, x.Model), quantity(x.Name, x.Measured), x.Ratio, x.Source)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	if c.File != "" {
		fmt.Fprintf(w, "\nwritten: %s; use it with: gpubench run --device %s\n", c.File, c.File)
	}
	return nil
}

// quantity shows a figure with the unit that its name ends in.
func quantity(name string, v float64) string {
	if strings.HasSuffix(name, "_bytes_per_sec") {
		return fmt.Sprintf("%.2f GB/s", v/1e9)
	}
	return fmt.Sprintf("%.0f ns", v)
}

// writeDeviceFile writes a device file: the measured figures with where they come from, all others from the compared device's file with
// theirs. A file that exists is not overwritten.
func writeDeviceFile(f *calibrateFlags, device *configs.Device, r *calibration.Report) error {
	if r.Modelled {
		return fmt.Errorf("backend %s has a model's times: a device file of them would pass guesses off as measured; measure hardware", f.backend)
	}
	name := f.name
	if name == "" {
		name = strings.ToLower(strings.Join(strings.Fields(r.Device), "-"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Measured by gpubench calibrate --backend %s on %s.\n", f.backend, stamp().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "name: %q\ntitle: %q\narchitecture: %q\ncompute_capability: %q\n", name, r.Device+", measured", device.Architecture, device.ComputeCapability)
	fmt.Fprintf(&b, "capacity: %q\ncapacity_source: %q\n", fmt.Sprintf("%dKiB", r.TotalBytes>>10), "what the backend may take of this device")
	fmt.Fprintf(&b, "bandwidth_gbps: %g\nlink_gbps: %g\nsource: %q\ncosts:\n", device.BandwidthGBps, device.LinkGBps, device.Source+"; costs measured on this device where they say so")
	measured := measuredCosts(r)
	costs := pmm.DefaultCosts()
	for _, field := range costs.Fields() {
		c := device.Costs[field.Name]
		if m, ok := measured[field.Name]; ok {
			c = configs.Cost{Value: math.Round(m.Median), Source: fmt.Sprintf("measured on this device: median of %d calls, 95 %% interval %.0f to %.0f", m.Samples, m.Low, m.High)}
		}
		fmt.Fprintf(&b, "  %s:\n    value: %.0f\n    source: %q\n    uncalibrated: %v\n", field.Name, c.Value, c.Source, c.Uncalibrated)
	}
	file, err := os.OpenFile(f.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = file.WriteString(b.String())
	return errors.Join(err, file.Close())
}
