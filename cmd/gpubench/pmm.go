package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/explore"
	"github.com/gpubench/gpubench/pmm/managed"
	"github.com/gpubench/gpubench/pmm/script"
	"github.com/gpubench/gpubench/pmm/view"
)

func newPMM() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pmm", GroupID: groupPlugins, Short: "Run, look into and explore the model of the physical memory manager",
		Long: `The model takes the decisions of NVIDIA's physical memory manager (open kernel modules 595.45.04), step by step. docs/PMM.md tells
how it works.`,
		Args: usageArgs(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPMMRun(), newPMMView("map", "Draw the chunk tree after a script", view.Map), newPMMView("stats", "Print the census after a script", view.Stats),
		newPMMView("states", "Print which states and transitions a script covers", func(w io.Writer, m *pmm.Model) error {
			return view.States(w, m.Coverage())
		}), newPMMExplore(), newPMMSweep())
	return cmd
}

// openScript opens a script; "-" is standard input.
func openScript(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError(err)
	}
	return f, nil
}

func newPMMRun() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "run SCRIPT.ops", Short: "Run a script and print one JSON line an operation", Example: "  gpubench pmm run seed_01.ops --check",
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVar(&check, "check", false, "verify every invariant after every operation; stop with exit code 4 at the first breach")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := openScript(cmd, args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		return scriptError(args[0], script.Run(f, cmd.OutOrStdout(), script.Options{Check: check}))
	}
	return cmd
}

// scriptError gives an error of a script its exit code: a breach of an invariant is a finding.
func scriptError(name string, err error) error {
	if err == nil {
		return nil
	}
	var v pmm.Violation
	if errors.As(err, &v) {
		return withCode(codeFinding, fmt.Errorf("%s: %w", name, err))
	}
	return usageError(fmt.Errorf("%s: %w", name, err))
}

func newPMMView(verb, short string, draw func(io.Writer, *pmm.Model) error) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " SCRIPT.ops", Short: short, Example: "  gpubench pmm " + verb + " seed_01.ops", Args: usageArgs(cobra.ExactArgs(1))}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := openScript(cmd, args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		m, err := script.Play(f)
		if err != nil {
			return scriptError(args[0], err)
		}
		return draw(cmd.OutOrStdout(), m)
	}
	return cmd
}

func newPMMExplore() *cobra.Command {
	o := explore.DefaultOptions()
	cmd := &cobra.Command{
		Use: "explore", Short: "Run all sequences of operations on a small model and check every invariant in every state",
		Example: "  gpubench pmm explore --states 1000000\n  gpubench pmm explore --depth 6 --roots 3", Args: usageArgs(cobra.NoArgs),
	}
	cmd.Flags().IntVar(&o.Roots, "roots", o.Roots, "root chunks of 2 MiB")
	cmd.Flags().IntVar(&o.DepthMax, "depth", o.DepthMax, "longest sequence; 0 = no limit")
	cmd.Flags().IntVar(&o.StatesMax, "states", o.StatesMax, "distinct states to stop at")
	cmd.Flags().BoolVar(&o.Injections, "inject", o.Injections, "with injected errors")
	cmd.Flags().BoolVar(&o.Interleave, "interleave", o.Interleave, "with another thread's operations where an eviction drops the mutex")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f, ok := cmd.ErrOrStderr().(*os.File); ok && isTerminal(f) {
			o.Progress = func(depth, states int, transitions uint64) {
				fmt.Fprintf(f, "depth %d: %d states, %d transitions\n", depth, states, transitions)
			}
		}
		r, err := explore.Run(o)
		if err != nil {
			return usageError(err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), r.Statement())
		if r.Violation != nil {
			return withCode(codeFinding, r.Violation)
		}
		return nil
	}
	return cmd
}

func newPMMSweep() *cobra.Command {
	o := managed.DefaultSweep()
	cmd := &cobra.Command{
		Use: "sweep", Short: "Sweep the working set over the capacity: where oversubscribed managed memory falls off the cliff",
		Example: "  gpubench pmm sweep", Args: usageArgs(cobra.NoArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		points, err := managed.Sweep(o)
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), managed.SweepTable(points))
		return err
	}
	return cmd
}
