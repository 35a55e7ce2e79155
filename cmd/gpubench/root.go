package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The groups of verbs in the help, in order.
const (
	groupCompare = "compare"
	groupTraces  = "traces"
	groupPlugins = "plugins"
	groupMachine = "machine"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gpubench",
		Short: "Compare, check and explain GPU memory allocators",
		Long: `gpubench replays real allocation recordings against allocator strategies, each in its own process, over a model of the GPU's
physical memory manager or real hardware, and ranks them by success rate, latency and fragmentation. It checks every
answer against its own books: a strategy that overlaps two blocks is caught, not ranked.`,
		Example: `  gpubench run                                   # rank the built-in strategies on a bundled recording
  gpubench run snapshot.pickle --device h100-80  # the same on your own PyTorch memory snapshot
  gpubench trace info snapshot.pickle            # what a recording holds
  gpubench replay rmm.csv --strategy tlsf --capacity 24GiB`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(
		&cobra.Group{ID: groupCompare, Title: "Compare and check:"},
		&cobra.Group{ID: groupTraces, Title: "Recordings:"},
		&cobra.Group{ID: groupPlugins, Title: "Plugins and models:"},
		&cobra.Group{ID: groupMachine, Title: "This machine and this program:"},
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(errors.New(err.Error() + "; see: " + cmd.CommandPath() + " --help"))
	})
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError(fmt.Errorf("there is no verb %q; see: gpubench --help", args[0]))
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.AddCommand(verbs()...)
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "The exit codes and what they mean", Long: "Exit codes:\n\n" + exitCodesText})
	return root
}

// verbs lists every verb; each is made in its own file.
func verbs() []*cobra.Command {
	return []*cobra.Command{newRun(), newReplay(), newTrace(), newPlugin(), newPMM(), newDevice(), newCalibrate(), newDoctor(), newConfig(), newVersion(), newFuzz(), newFinding(), newZoo()}
}

// format is how a verb prints: for people, or one of the machine forms.
type format string

const (
	formatText     format = "text"
	formatJSON     format = "json"
	formatMarkdown format = "markdown"
	formatCSV      format = "csv"
)

// formatFlag adds --format with the forms that the verb knows.
func formatFlag(cmd *cobra.Command, known ...format) *string {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	f := cmd.Flags().String("format", words[0], "output form: "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	prev := cmd.PreRunE
	cmd.PreRunE = func(c *cobra.Command, args []string) error {
		for _, w := range words {
			if w == *f {
				if prev != nil {
					return prev(c, args)
				}
				return nil
			}
		}
		return usageError(fmt.Errorf("--format %q is not one of %s", *f, strings.Join(words, ", ")))
	}
	return f
}

// printJSON writes v as indented JSON with a final newline.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// isTerminal reports whether f is a terminal that a person looks at.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// useColor follows https://no-color.org: colour only on a terminal, never with NO_COLOR set or TERM=dumb.
func useColor(f *os.File) bool {
	return isTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
