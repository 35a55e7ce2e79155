package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/fuzz/score"
)

// zooReport is what `gpubench zoo` prints.
type zooReport struct {
	*score.Score
	Curves []score.Curve `json:"curves,omitempty"`
}

func newZoo() *cobra.Command {
	o := score.Options{Clean: true}
	var curves bool
	cmd := &cobra.Command{
		Use: "zoo [ID…]", GroupID: groupCompare, Short: "Measure the fuzzer: which of the bugs that real allocators had does it find, and how fast",
		Long: `Searches every allocator of the zoo, each with one bug that a real allocator had, until a check is broken, and shrinks the program. Prints
for each which check caught it, after how many programs and how much CPU time, and how long the smallest program is. The clean
allocators are searched first and must be silent. With --curves, the fuzzer's generator is compared with uniform random programs, rapid and
mutated byte strings, as of go test -fuzz, at equal CPU time and with the same checks. Try one yourself: gpubench fuzz zoo/Z46.

Exit codes: 0 every bug found with every seed, 3 some not found, 4 a false alarm on a clean allocator.`,
		Example: `  gpubench zoo                                # the score, one seed
  gpubench zoo Z46 Z68 --seeds 20             # two bugs, twenty seeds
  gpubench zoo --curves --seeds 20 --time 5s  # against other generators`,
	}
	fl := cmd.Flags()
	fl.DurationVar(&o.Time, "time", 10*time.Second, "CPU time of one search")
	fl.IntVar(&o.Seeds, "seeds", 1, "searches of each bug")
	fl.BoolVar(&o.BlackBox, "black-box", false, "without a look at what the allocators show of themselves")
	fl.BoolVar(&curves, "curves", false, "survival curves against other generators, instead of the score")
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Time <= 0 || o.Seeds < 1 {
			return usageError(errors.New("--time is more than 0 and --seeds at least 1"))
		}
		o.Only = args
		if isTerminal(os.Stderr) {
			o.Progress = func(what string, done, of int) {
				fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s (%d of %d)", what, done+1, of)
			}
		}
		return runZoo(cmd, &o, curves, format(*form))
	}
	return cmd
}

func runZoo(cmd *cobra.Command, o *score.Options, curves bool, form format) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	r := zooReport{}
	var err error
	if curves {
		r.Curves, err = score.Curves(ctx, *o)
	} else {
		r.Score, err = score.Run(ctx, *o)
	}
	if o.Progress != nil {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	if errors.Is(err, score.ErrMutant) {
		return usageError(fmt.Errorf("%w; gpubench zoo --time 1ms lists them all", err))
	}
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	switch {
	case form == formatJSON:
		err = printJSON(w, &r)
	case curves:
		err = printCurves(w, r.Curves, o)
	default:
		err = printScore(w, r.Score)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return withCode(codeInterrupted, nil)
	case curves:
		return nil
	case len(r.Alarms) > 0:
		return withCode(codeFinding, nil)
	case r.FoundAll < r.Mutants:
		return withCode(codeGate, nil)
	}
	return nil
}

func printScore(w io.Writer, s *score.Score) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "bug\tallocator\tfound\tby\tprograms\tCPU s\tevents\twhat is wrong")
	for i := range s.Rows {
		r := &s.Rows[i]
		fmt.Fprintf(tw, "%s\t%s\t%d/%d\t", r.ID, r.Allocator, r.Found, r.Seeds)
		if r.Found == 0 {
			fmt.Fprintf(tw, "-\t-\t> %.3g\t-\t%s\n", s.CPUSLimit, r.Wrong)
			continue
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%.2g\t%.3g\t%s\n", strings.Join(r.Checks, " "), r.ProgramsMedian, r.CPUSMedian, r.EventsMedian, r.Wrong)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	eyes := "all checks"
	if s.BlackBox {
		eyes = "black box"
	}
	fmt.Fprintf(w, "\n%d of %d found with every one of %d seeds (%d with any), %s, at most %.3g s of CPU time a search\n", s.FoundAll, s.Mutants, s.Seeds,
		s.FoundAny, eyes, s.CPUSLimit)
	fmt.Fprintf(w, "first finding: median %.2g s, slowest %.2g s; smallest programs: median %.3g events, longest %d\n", s.CPUSMedian, s.CPUSMax,
		s.EventsMedian, s.EventsMax)
	fmt.Fprintf(w, "clean allocators: %d searched, %d programs, %d false alarms\n", s.CleanSearched, s.CleanPrograms, len(s.Alarms))
	for _, a := range s.Alarms {
		fmt.Fprintf(w, "\nFALSE ALARM on %s: %s\n%s", a.Strategy, a.Breach, a.Program)
	}
	_, err := fmt.Fprintf(w, "note: %s\n", s.Note)
	return err
}

// curveColumns is the width of the bar of a share.
const curveColumns = 20

func printCurves(w io.Writer, curves []score.Curve, o *score.Options) error {
	if len(curves) == 0 {
		_, err := fmt.Fprintln(w, "no generator was finished")
		return err
	}
	fmt.Fprintf(w, "share of searches that had found nothing, by CPU time (%d searches a generator, at most %v each)\n\n", curves[0].Searches, o.Time)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "CPU s")
	for i := range curves {
		fmt.Fprintf(tw, "\t%s", curves[i].Generator)
	}
	fmt.Fprintln(tw)
	for k, at := range curves[0].AtCPUS {
		fmt.Fprintf(tw, "%.3g", at)
		for i := range curves {
			share := curves[i].Surviving[k]
			fmt.Fprintf(tw, "\t%5.1f %% %s", 100*share, strings.Repeat("#", int(share*curveColumns+0.5)))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range curves {
		c := &curves[i]
		fmt.Fprintf(w, "%s: %d of %d found", c.Generator, c.Found, c.Searches)
		if len(c.NeverIDs) > 0 {
			fmt.Fprintf(w, "; by no seed: %s", strings.Join(c.NeverIDs, " "))
		}
		fmt.Fprintln(w)
	}
	return nil
}
