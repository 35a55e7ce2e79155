package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/trace"
)

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plugin", GroupID: groupPlugins, Short: "List and check plugins",
		Long: `Strategies, backends and telemetry are plugins: executables named gpubench-strategy-NAME, gpubench-backend-NAME or
gpubench-telemetry-NAME, found in $GPUBENCH_PLUGIN_PATH, beside this program, or in the user's data directory. docs/PLUGINS.md
describes the contract; examples/ has one to copy.`,
		Args: usageArgs(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPluginList(), newPluginCheck())
	return cmd
}

// pluginEntry is one line of `gpubench plugin list`.
type pluginEntry struct {
	Kind         string          `json:"kind"`
	Name         string          `json:"name"`
	Version      string          `json:"version,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	Where        string          `json:"where"` // "built in", or the path
	Promises     []string        `json:"promises,omitempty"`
	Capabilities []string        `json:"capabilities,omitempty"`
	Options      json.RawMessage `json:"options,omitempty"`
	Deviations   []string        `json:"deviations,omitempty"`
	Problem      string          `json:"problem,omitempty"`
}

func newPluginList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List built-in strategies and backends, and the plugins that were found", Args: usageArgs(cobra.NoArgs),
		Example: "  gpubench plugin list\n  gpubench plugin list --format json   # with options, promises and known deviations",
	}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := pluginEntries(cmd)
		if err != nil {
			return err
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "KIND\tNAME\tWHERE\tWHAT")
		for _, e := range list {
			what := e.Summary
			if e.Problem != "" {
				what = "UNUSABLE: " + e.Problem
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", e.Kind, e.Name, e.Where, what)
		}
		return tw.Flush()
	}
	return cmd
}

func pluginEntries(cmd *cobra.Command) ([]pluginEntry, error) {
	launcher, err := newLauncher(cmd.Context(), "ideal")
	if err != nil {
		return nil, err
	}
	d, err := launcher.Describe(cmd.Context(), harness.Executable{})
	if err != nil {
		return nil, err
	}
	list := entriesOf(d, "built in")
	found, problems := host.List(host.Places())
	for _, f := range found {
		if f.Problem != nil {
			list = append(list, pluginEntry{Kind: string(f.Kind), Name: f.Name, Where: f.Path, Problem: f.Problem.Error()})
			continue
		}
		d, err := launcher.Describe(cmd.Context(), harness.Executable{Path: f.Path, SHA256: f.SHA256})
		if err != nil {
			list = append(list, pluginEntry{Kind: string(f.Kind), Name: f.Name, Where: f.Path, Problem: oneLine(err.Error())})
			continue
		}
		list = append(list, entriesOf(d, f.Path)...)
	}
	for _, p := range problems {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+oneLine(p.Error()))
	}
	return list, nil
}

func entriesOf(d *host.Description, where string) []pluginEntry {
	var list []pluginEntry
	for _, s := range d.GetStrategies() {
		e := pluginEntry{Kind: "strategy", Name: s.GetName(), Version: s.GetVersion(), Summary: s.GetSummary(), Where: where,
			Promises: s.GetPromises(), Capabilities: s.GetCapabilities(), Options: rawJSON(s.GetOptionsSchema())}
		for _, x := range s.GetDeviations() {
			e.Deviations = append(e.Deviations, fmt.Sprintf("%s: %s (%s)", x.GetId(), x.GetText(), x.GetSection()))
		}
		list = append(list, e)
	}
	for _, b := range d.GetBackends() {
		list = append(list, pluginEntry{Kind: "backend", Name: b.GetName(), Version: b.GetVersion(), Summary: b.GetSummary(), Where: where,
			Capabilities: b.GetCapabilities(), Options: rawJSON(b.GetOptionsSchema())})
	}
	for _, t := range d.GetTelemetry() {
		list = append(list, pluginEntry{Kind: "telemetry", Name: t.GetName(), Version: t.GetVersion(), Summary: t.GetSummary(), Where: where})
	}
	return list
}

func rawJSON(s string) json.RawMessage {
	if s == "" || !json.Valid([]byte(s)) {
		return nil
	}
	return json.RawMessage(s)
}

func newPluginCheck() *cobra.Command {
	var strategy string
	cmd := &cobra.Command{
		Use: "check PATH", Short: "Check a plugin executable against the contract, every answer against the ledger",
		Long: `Starts the executable, has it describe itself, looks at its options, sends it requests that it must refuse, replays conformance traces
through every strategy with every answer checked, again after a reset and in another process, and ends it. PATH may be the name of an installed plugin.`,
		Example: "  gpubench plugin check ./gpubench-strategy-mine", Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().StringVar(&strategy, "strategy", "", "check only this strategy of the executable")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := checkPlugin(cmd, args[0], strategy)
		if err != nil {
			return usageError(err)
		}
		if format(*form) == formatJSON {
			err = printJSON(cmd.OutOrStdout(), report)
		} else {
			err = report.WriteText(cmd.OutOrStdout())
		}
		if err == nil && !report.OK() {
			return withCode(codeFinding, errors.New(args[0]+" does not keep the contract"))
		}
		return err
	}
	return cmd
}

func checkPlugin(cmd *cobra.Command, name, strategy string) (*host.Report, error) {
	path, args := name, []string(nil)
	launcher, err := newLauncher(cmd.Context(), "ideal")
	if err != nil {
		return nil, err
	}
	switch {
	case name == "builtin":
		path, args = launcher.Self, launcher.Args
	case !strings.Contains(name, "/"):
		if f, err := host.Find(host.KindStrategy, name, host.Places()); err == nil {
			path = f.Path
		}
	}
	r, err := host.Check(cmd.Context(), path, host.CheckOptions{
		Args: args, Strategy: strategy, BackendName: "ideal", Backend: host.Spec{Path: launcher.Self, Args: launcher.Args},
		NewChecker: func(t *trace.Trace, s *host.StrategyDescription) host.Checker { return newLedgerChecker(t, s) },
	})
	return &r, err
}

// ledgerChecker keeps the ledger's books over a conformance replay.
type ledgerChecker struct {
	t    *trace.Trace
	l    *ledger.Ledger
	next uint64
}

func newLedgerChecker(t *trace.Trace, s *host.StrategyDescription) *ledgerChecker {
	return &ledgerChecker{t: t, l: ledger.New(ledger.Config{Extras: t.Extras, Strings: t.Strings, Start: t.Start, AlignmentBytes: s.GetAlignmentBytes()})}
}

// Records implements host.Checker.
func (c *ledgerChecker) Records(outcomes []trace.Outcome, calls []trace.Call) error {
	end := c.next + uint64(len(outcomes))
	if end > uint64(len(c.t.Events)) {
		return fmt.Errorf("%d outcomes for %d events", end, len(c.t.Events))
	}
	err := c.l.Feed(c.next, c.t.Events[c.next:end], nil, outcomes, calls)
	c.next = end
	return err
}

// End implements host.Checker.
func (c *ledgerChecker) End() error {
	r := c.l.Finish()
	if r.Exact.ViolationsTotal == 0 {
		return nil
	}
	return fmt.Errorf("%d violations, the first: %s", r.Exact.ViolationsTotal, r.Exact.Violations[0])
}
