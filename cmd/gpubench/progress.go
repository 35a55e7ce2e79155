package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/results"
)

// plainLines is about how many lines a run prints where there is no terminal.
const plainLines = 10

// progress shows how a run goes: a bar on a terminal, a plain line now and then elsewhere.
type progress struct {
	w       io.Writer
	bar     *progressbar.ProgressBar
	tty     bool
	verbose bool
	every   int
	told    map[string]bool // faults already shown, by case and text
}

func newProgress(cmd *cobra.Command, verbose bool) harness.Progress {
	w := cmd.ErrOrStderr()
	f, ok := w.(*os.File)
	return &progress{w: w, tty: ok && isTerminal(f), verbose: verbose}
}

// Begin implements harness.Progress.
func (p *progress) Begin(planned, done int) {
	p.every, p.told = max(1, planned/plainLines), map[string]bool{}
	if p.tty {
		p.bar = progressbar.NewOptions(planned, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription("trials"),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		_ = p.bar.Set(done)
	}
}

// Trial implements harness.Progress.
func (p *progress) Trial(c *results.Case, t *results.Trial, done, planned int) {
	fresh := t.Fault != nil && !p.told[t.Case+t.Fault.Text]
	if fresh || p.verbose {
		if p.bar != nil {
			_ = p.bar.Clear()
		}
		text := string(t.Status)
		if t.Fault != nil {
			text += ": " + t.Fault.Text
			p.told[t.Case+t.Fault.Text] = true
		}
		fmt.Fprintf(p.w, "%s %s (%s) in %v: %s\n", t.ID, c.Label, c.Scope, time.Duration(t.TookNs).Round(time.Millisecond), text)
	}
	switch {
	case p.bar != nil:
		_ = p.bar.Set(done)
	case !p.verbose && (done%p.every == 0 || done == planned):
		fmt.Fprintf(p.w, "%d of %d trials done\n", done, planned)
	}
}

// End implements harness.Progress.
func (p *progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
