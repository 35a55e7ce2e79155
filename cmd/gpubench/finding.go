package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/trace"
)

func newFinding() *cobra.Command {
	cmd := &cobra.Command{
		Use: "finding", GroupID: groupCompare, Short: "List, show, shrink and repeat findings",
		Long: `A finding is a directory that gpubench fuzz wrote: the smallest program that breaks an allocator, what was expected and observed, the
addresses over time, and where it was found. docs/FINDINGS.md describes its files.`,
		Args: usageArgs(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFindingList(), newFindingShow(), newFindingReduce(), newFindingReplay())
	return cmd
}

func newFindingList() *cobra.Command {
	cmd := &cobra.Command{Use: "list [DIR]", Short: "List the findings in a directory (default: findings)", Args: usageArgs(cobra.MaximumNArgs(1))}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := "findings"
		if len(args) > 0 {
			dir = args[0]
		}
		list, err := fuzz.ReadFindings(dir)
		if err != nil {
			return usageError(err)
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		if len(list) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "no findings in %s\n", dir)
			return nil
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "FINDING\tTARGET\tCHECK\tEVENTS\tCOUNT\tLAST SEEN\tTITLE")
		for _, f := range list {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", f.Name(), f.Target, f.Breach.Check, f.Events, f.Count, f.LastSeen, f.Title)
		}
		return tw.Flush()
	}
	return cmd
}

// readFinding reads a finding by its directory, or by its name in findings/.
func readFinding(arg string) (*fuzz.Finding, string, error) {
	for _, dir := range []string{arg, filepath.Join("findings", arg)} {
		f, err := fuzz.ReadFinding(dir)
		if err == nil {
			return f, dir, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, "", usageError(err)
		}
	}
	return nil, "", usageError(fmt.Errorf("%s is no finding: it holds no %s; see: gpubench finding list", arg, fuzz.FindingFile))
}

func newFindingShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show FINDING", Short: "Show a finding: program, addresses over time, expected against observed", Args: usageArgs(cobra.ExactArgs(1))}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, dir, err := readFinding(args[0])
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if format(*form) == formatJSON {
			return printJSON(w, f)
		}
		fmt.Fprintf(w, "%s\n%s\nseen %d times, first %s, last %s; shows in %s runs; seed %d, batch %d, program %d\n\n", f.Title, f.Breach.String(), f.Count, f.FirstSeen,
			f.LastSeen, f.Reliability, f.Seed, f.Batch, f.Program)
		for _, name := range []string{fuzz.ProgramFile, fuzz.ScriptFile, fuzz.DiagramFile, fuzz.DiffFile, fuzz.StackFile} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "--- %s\n%s\n", name, text)
		}
		fmt.Fprintf(w, "repeat: gpubench finding replay %s\n", dir)
		return nil
	}
	return cmd
}

func newFindingReduce() *cobra.Command {
	return &cobra.Command{
		Use: "reduce FINDING", Short: "Shrink a finding's program once more, from the program as it was found", Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, dir, err := readFinding(args[0])
			if err != nil {
				return err
			}
			if f.Script != nil {
				return usageError(errors.New("findings of the model are shrunk when they are found"))
			}
			t, err := openFuzzTarget(cmd, f.Target, f.Config.Backend, false)
			if err != nil {
				return err
			}
			defer t.close()
			n, err := fuzz.Reduce(t.Target, f)
			if err != nil {
				return withCode(codeInconclusive, err)
			}
			path, err := n.Write(filepath.Dir(dir), time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d events, %d before; %d candidates were run; the smaller is in %s\n", n.Events, f.Events, n.ShrinkRuns, path)
			return nil
		},
	}
}

func newFindingReplay() *cobra.Command {
	return &cobra.Command{
		Use: "replay FINDING|PROGRAM", Short: "Run a finding's program again, with every check; exit code 4 if it breaks one",
		Long: `Runs the smallest program of a finding, or a program file that says in its header what it is for (every program.txt does), and makes
every check. Exit codes: 4 the breach shows, 0 it does not.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, name, err := replayArg(cmd, args[0])
			if err != nil {
				return err
			}
			if b == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: no breach\n", name)
				return nil
			}
			printBreach(cmd.OutOrStdout(), name, b)
			return withCode(codeFinding, nil)
		},
	}
}

func printBreach(w io.Writer, name string, b *fuzz.Breach) {
	fmt.Fprintf(w, "%s: %s\n", name, b.String())
	if b.Map != "" {
		fmt.Fprintln(w, b.Map)
	}
}

// replayArg runs what the argument names.
func replayArg(cmd *cobra.Command, arg string) (*fuzz.Breach, string, error) {
	if info, err := os.Stat(arg); err == nil && !info.IsDir() {
		t, err := readProgramFile(arg)
		if err != nil {
			return nil, "", err
		}
		name, cfg, err := fuzz.ConfigOf(t)
		if err != nil {
			return nil, "", usageError(fmt.Errorf("%s: %w", arg, err))
		}
		return replayOn(cmd, name, cfg, t)
	}
	f, _, err := readFinding(arg)
	if err != nil {
		return nil, "", err
	}
	if f.Script != nil {
		b, err := fuzz.JudgeScript(f.Script)
		return b, f.Target, err
	}
	if f.Minimal == nil {
		return nil, "", usageError(fmt.Errorf("%s lacks its %s", arg, fuzz.ProgramFile))
	}
	return replayOn(cmd, f.Target, f.Config, f.Minimal)
}

func replayOn(cmd *cobra.Command, name string, cfg fuzz.Config, t *trace.Trace) (*fuzz.Breach, string, error) {
	target, err := openFuzzTarget(cmd, name, cfg.Backend, false)
	if err != nil {
		return nil, "", err
	}
	defer target.close()
	b, err := fuzz.Replay(target.Target, cfg, t)
	return b, name, err
}

func readProgramFile(path string) (*trace.Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	t, err := trace.Parse(f, path)
	if err == nil {
		err = trace.Validate(t)
	}
	if err != nil {
		return nil, usageError(err)
	}
	return t, nil
}
