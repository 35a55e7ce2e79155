package main

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/results"
)

func newDevice() *cobra.Command {
	cmd := &cobra.Command{
		Use: "device", GroupID: groupMachine, Short: "The GPUs of this machine: which there are, how they are set up, how they are doing",
		Long: `Shows the GPUs of this machine through the telemetry plugin, which runs in a process of its own: a management library that hangs
takes nothing with it. What a card does not tell has a name (not_supported, absent, hung, implausible) in place of a value.`,
		Example: `  gpubench device list
  gpubench device info 0
  gpubench device watch 0 --interval 100ms --count 20
  gpubench device compare snapshot.pickle --strategy pytorch`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDeviceList(), newDeviceInfo(), newDeviceWatch(), newDeviceCompare())
	return cmd
}

// deviceLine is one device as `gpubench device list` prints it.
type deviceLine struct {
	Index uint32            `json:"index"`
	UUID  string            `json:"uuid"`
	Name  string            `json:"name"`
	Facts map[string]string `json:"facts"`
}

// fingerprint asks telemetry for all devices, by index.
func fingerprint(ctx context.Context) ([]deviceLine, error) {
	p, err := startTelemetry(ctx)
	if err != nil {
		return nil, err
	}
	defer stopQuietly(p)
	f, err := p.Fingerprint(ctx)
	if err != nil {
		return nil, usageError(ownWords(err))
	}
	var list []deviceLine
	for _, d := range f.GetDevices() {
		list = append(list, deviceLine{Index: d.GetIndex(), UUID: d.GetUuid(), Name: d.GetName(), Facts: d.GetFacts()})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Index < list[j].Index })
	return list, nil
}

func newDeviceList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the GPUs and MIG instances", Args: usageArgs(cobra.NoArgs), Example: "  gpubench device list --format json"}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := fingerprint(cmd.Context())
		if err != nil {
			return err
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "index\tname\tmemory\tfree\tECC\tMIG\tdriver\tUUID")
		for _, d := range list {
			f := d.Facts
			fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Index, d.Name, bytesFact(f["memory_total_bytes"]), bytesFact(f["memory_free_bytes"]),
				orDash(f["ecc_mode"]), migWord(f), f["driver_version"], d.UUID)
		}
		return tw.Flush()
	}
	return cmd
}

func migWord(f map[string]string) string {
	if f["kind"] == "mig-instance" {
		return "instance of " + f["mig_parent"]
	}
	return orDash(f["mig_mode"])
}

// bytesFact shows a number of bytes for people; the name of a state stays as it is.
func bytesFact(s string) string {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return results.Bytes(n)
	}
	return s
}

func newDeviceInfo() *cobra.Command {
	cmd := &cobra.Command{Use: "info [INDEX | UUID]", Short: "Everything known about one device", Args: usageArgs(cobra.MaximumNArgs(1)), Example: "  gpubench device info GPU-1234"}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := oneDevice(cmd.Context(), args)
		if err != nil {
			return err
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), d)
		}
		return printDevice(cmd.OutOrStdout(), d)
	}
	return cmd
}

func printDevice(w io.Writer, d *deviceLine) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "index\t%d\nname\t%s\nUUID\t%s\n", d.Index, d.Name, d.UUID)
	var keys []string
	for k := range d.Facts {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		v := d.Facts[k]
		if strings.HasSuffix(k, "_bytes") {
			v = bytesFact(v)
		}
		fmt.Fprintf(tw, "%s\t%s\n", k, v)
	}
	return tw.Flush()
}

// oneDevice finds the device that the argument names; the first without one.
func oneDevice(ctx context.Context, args []string) (*deviceLine, error) {
	list, err := fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	which := "0"
	if len(args) > 0 {
		which = args[0]
	}
	var found []*deviceLine
	for i := range list {
		if strconv.FormatUint(uint64(list[i].Index), 10) == which {
			return &list[i], nil
		}
		if strings.HasPrefix(strings.ToLower(list[i].UUID), strings.ToLower(which)) {
			found = append(found, &list[i])
		}
	}
	if len(found) != 1 {
		return nil, usageError(fmt.Errorf("%q names %d of %d devices; see: gpubench device list", which, len(found), len(list)))
	}
	return found[0], nil
}

func newDeviceWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch [INDEX | UUID]", Short: "Sample a device: memory, clocks, temperature, power, errors, processes", Args: usageArgs(cobra.MaximumNArgs(1)),
		Example: "  gpubench device watch 0 --interval 200ms\n  gpubench device watch 0 --count 100 --format json > samples.jsonl",
	}
	interval := cmd.Flags().Duration("interval", time.Second, "time between samples, 10ms at least")
	count := cmd.Flags().Int("count", 0, "stop after this many samples (0 = until interrupted)")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *interval < 10*time.Millisecond || *count < 0 {
			return usageError(fmt.Errorf("--interval %v --count %d: an interval is at least 10ms, a count not negative", *interval, *count))
		}
		d, err := oneDevice(cmd.Context(), args)
		if err != nil {
			return err
		}
		return watchDevice(cmd, d, *interval, *count, format(*form))
	}
	return cmd
}

func watchDevice(cmd *cobra.Command, d *deviceLine, interval time.Duration, count int, form format) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	p, err := startTelemetry(ctx)
	if err != nil {
		return err
	}
	defer stopQuietly(p)
	seen := 0
	err = p.Watch(ctx, interval, []uint32{d.Index}, func(s *host.Sample) error {
		if err := printSample(cmd.OutOrStdout(), s, form); err != nil {
			return err
		}
		if seen++; seen == count {
			cancel()
		}
		return nil
	})
	if err != nil {
		return withCode(codePluginFault, ownWords(err))
	}
	return nil
}

// sampleLine is one line of `gpubench device watch --format json`.
type sampleLine struct {
	Device uint32             `json:"device"`
	UnixNs int64              `json:"unix_ns"`
	Values map[string]float64 `json:"values"`
}

func printSample(w io.Writer, s *host.Sample, form format) error {
	if form == formatJSON {
		return printJSON(w, sampleLine{s.GetDevice(), s.GetUnixNs(), s.GetValues()})
	}
	v := s.GetValues()
	show := func(name, unit string, scale float64) string {
		if x, ok := v[name]; ok {
			return strconv.FormatFloat(x*scale, 'f', -1, 64) + unit
		}
		for _, state := range sampleStates {
			if v[name+"."+state] == 1 {
				return state
			}
		}
		return "–"
	}
	memory := "–"
	if used, ok := v["memory_used_bytes"]; ok {
		memory = results.Bytes(uint64(used)) + " of " + results.Bytes(uint64(v["memory_total_bytes"]))
	} else {
		memory = show("memory_used_bytes", "", 1)
	}
	_, err := fmt.Fprintf(w, "%s  memory %s  SM %s  memory clock %s  %s  %s  events %s  ECC %s  processes %s\n",
		time.Unix(0, s.GetUnixNs()).UTC().Format("15:04:05.000"), memory, show("clock_sm_mhz", " MHz", 1), show("clock_memory_mhz", " MHz", 1),
		show("temperature_celsius", " °C", 1), show("power_watts", " W", 1), show("clock_event_reasons", "", 1), show("ecc_uncorrected_total", "", 1),
		show("processes_count", "", 1))
	return err
}

// sampleStates are the names in place of values.
var sampleStates = []string{"not_supported", "absent", "hung", "implausible", "lost", "error"}
