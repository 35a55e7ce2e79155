package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/synth"
)

func newTrace() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", GroupID: groupTraces, Short: "Look at, convert, make and cut recordings",
		Long: `Recordings are read by their content: PyTorch memory snapshots (pickle of any protocol, JSON), RMM CSV logs, allocation scripts,
recorded operations, and gpubench's own text and binary forms, each also gzipped. docs/TRACES.md describes the language.`,
		Args: usageArgs(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTraceInfo(), newTraceConvert(), newTraceSynth(), newTraceCut(), newTraceAnonymize())
	return cmd
}

// deviceFlag adds --device for recordings of several devices.
func deviceFlag(cmd *cobra.Command) *int {
	return cmd.Flags().Int("device", -1, "device of a recording of several devices; -1 = all, or the only one")
}

func devicePointer(d int) *int {
	if d < 0 {
		return nil
	}
	return &d
}

// traceInfo is what `gpubench trace info` prints of one device of a recording.
type traceInfo struct {
	Format importers.Format `json:"format"`
	SHA256 string           `json:"sha256"`
	Facts  importers.Facts  `json:"facts"`
	Stats  *trace.Stats     `json:"stats"`
}

func newTraceInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "info FILE…", Short: "Say what a recording holds and how much of history it covers",
		Example: "  gpubench trace info snapshot.pickle\n  gpubench trace info rmm.csv --format json", Args: usageArgs(cobra.MinimumNArgs(1)),
	}
	form := formatFlag(cmd, formatText, formatJSON)
	device := deviceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var all []traceInfo
		for _, name := range args {
			infos, err := describeRecording(name, devicePointer(*device))
			if err != nil {
				return usageError(err)
			}
			all = append(all, infos...)
			if format(*form) == formatText {
				for i := range infos {
					if err := printInfo(cmd.OutOrStdout(), name, &infos[i]); err != nil {
						return err
					}
				}
			}
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), all)
		}
		return nil
	}
	return cmd
}

func describeRecording(name string, device *int) ([]traceInfo, error) {
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	list, err := loadRecordings(name, dir, device)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeAll(list) }()
	var out []traceInfo
	for i := range list {
		l := &list[i]
		out = append(out, traceInfo{Format: l.format, SHA256: l.SHA256, Facts: l.facts, Stats: trace.Describe(l.Trace)})
	}
	return out, nil
}

// counts of what the trace asks for and gives back, by every kind of event that does.
func (in *traceInfo) counts() (allocs, frees uint64) {
	for _, k := range in.Stats.Kinds {
		switch k.Kind {
		case trace.KindAlloc.String(), trace.KindRealloc.String():
			allocs += k.Events
		case trace.KindFree.String(), trace.KindFreeWrong.String():
			frees += k.Events
		}
	}
	return allocs, frees
}

func printInfo(w io.Writer, name string, in *traceInfo) error {
	f := &in.Facts
	state := "consistent"
	switch {
	case !f.Consistent():
		state = "INCONSISTENT: the file contradicts itself; do not trust a replay of it"
	case f.Proven && in.Stats.Events == 0:
		state = "a state without events, consistent"
	case f.Proven:
		state = "consistent, proven by replaying every event at its recorded address"
	case f.Unproven != "":
		state = "nothing contradicts it, but it could not be proven: " + f.Unproven
	}
	allocs, frees := in.counts()
	fmt.Fprintf(w, "%s: %s, %d allocs, %d frees, peak live %s, %s\n", name, in.Format, allocs, frees, results.Bytes(in.Stats.Live.BytesMax), state)
	for _, x := range f.Inconsistent {
		fmt.Fprintf(w, "  inconsistent: %s\n", x)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k string, v any) { fmt.Fprintf(tw, "  %s\t%v\n", k, v) }
	row("sha256", in.SHA256)
	row("records of the file", f.Records)
	row("failed allocs", f.FailedAllocs)
	row("segment allocs, frees, maps, unmaps", fmt.Sprintf("%d, %d, %d, %d", f.SegmentAllocs, f.SegmentFrees, f.SegmentMaps, f.SegmentUnmaps))
	row("live at start", fmt.Sprintf("%d blocks, %s", f.LiveAtStart, results.Bytes(f.LiveAtStartBytes)))
	row("covers", fmt.Sprintf("%.1f %% of the blocks live at the peak", f.CoversPercent))
	row("final state", fmt.Sprintf("%d segments, %d blocks, %d pools, %s reserved, %s allocated, %s pending", f.Segments, f.Blocks, f.Pools,
		results.Bytes(f.ReservedBytes), results.Bytes(f.AllocatedBytes), results.Bytes(f.PendingBytes)))
	if err := tw.Flush(); err != nil {
		return err
	}
	return in.Stats.Text(w)
}

func newTraceConvert() *cobra.Command {
	cmd := &cobra.Command{
		Use: "convert FILE OUT", Short: "Convert a recording to the text form (OUT ends in .txt or is -) or the binary form (.trace)",
		Example: "  gpubench trace convert snapshot.pickle out.trace\n  gpubench trace convert rmm.csv - | less", Args: usageArgs(cobra.ExactArgs(2)),
	}
	device := deviceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withTrace(args[0], *device, func(l *loaded) error { return writeTrace(cmd.OutOrStdout(), args[1], l.Trace) })
	}
	return cmd
}

// withTrace opens the one device of a recording that was chosen.
func withTrace(name string, device int, use func(*loaded) error) error {
	dir, remove, err := tempDir()
	if err != nil {
		return err
	}
	defer remove()
	list, err := loadRecordings(name, dir, devicePointer(device))
	if err != nil {
		return usageError(err)
	}
	defer func() { _ = closeAll(list) }()
	if len(list) != 1 {
		return usageError(fmt.Errorf("%s holds %d devices; choose one with --device", name, len(list)))
	}
	if err := use(&list[0]); err != nil {
		return usageError(err)
	}
	return nil
}

// writeTrace writes the form that the name asks for; "-" is the text form on standard output.
func writeTrace(stdout io.Writer, path string, t *trace.Trace) error {
	switch {
	case path == "-":
		return trace.Format(stdout, t)
	case strings.HasSuffix(path, ".trace"):
		return trace.WriteFile(path, t)
	case strings.HasSuffix(path, ".txt"):
		return writeText(path, t)
	}
	return fmt.Errorf("%s: end the name in .trace (binary) or .txt (text), or write - for standard output", path)
}

// writeText writes the text form. The file appears under its name only when it is whole.
func writeText(path string, t *trace.Trace) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gpubench-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Unwrap(err))
	}
	err = errors.Join(trace.Format(f, t), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

func newTraceSynth() *cobra.Command {
	var o synth.Options
	var params []string
	var requests string
	cmd := &cobra.Command{
		Use: "synth PATTERN OUT", Short: "Make a synthetic trace", Long: "Makes a trace of a common pattern, the same for the same seed.\n\nPatterns:\n" + patternHelp(),
		Example: "  gpubench trace synth powerlaw big.trace --events 10000000 --seed 7\n  gpubench trace synth serving kv.trace --requests azure.csv",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed")
	cmd.Flags().Uint64Var(&o.Events, "events", 0, "number of events; 0 = the pattern's default")
	cmd.Flags().StringArrayVar(&params, "param", nil, "a parameter of the pattern, name=number; may be repeated")
	cmd.Flags().StringVar(&requests, "requests", "", "CSV of LLM requests for the pattern serving")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Pattern = args[0]
		if err := synthInto(cmd.OutOrStdout(), args[1], o, params, requests); err != nil {
			return usageError(err)
		}
		return nil
	}
	return cmd
}

func patternHelp() string {
	var b strings.Builder
	for _, p := range synth.Patterns() {
		fmt.Fprintf(&b, "  %-10s %s\n", p.Name, p.Doc)
		for _, q := range p.Params {
			fmt.Fprintf(&b, "             %s (%d; %d to %d): %s\n", q.Name, q.Default, q.Min, q.Max, q.Doc)
		}
	}
	return b.String()
}

func synthInto(stdout io.Writer, path string, o synth.Options, params []string, requests string) error {
	o.Params = map[string]uint64{}
	for _, p := range params {
		name, val, ok := strings.Cut(p, "=")
		n, err := trace.ParseSize(val)
		if !ok || err != nil {
			return fmt.Errorf("--param %q: write name=number", p)
		}
		o.Params[name] = n
	}
	if requests != "" {
		f, err := os.Open(requests)
		if err != nil {
			return err
		}
		defer f.Close()
		if o.Requests, err = synth.ReadRequests(f); err != nil {
			return fmt.Errorf("%s: %w", requests, err)
		}
	}
	if !strings.HasSuffix(path, ".trace") {
		t, err := synth.Build(o)
		if err != nil {
			return err
		}
		return writeTrace(stdout, path, t)
	}
	b, err := trace.CreateFile(path)
	if err != nil {
		return err
	}
	meta, err := synth.Generate(b, o)
	if err == nil {
		_, err = b.Finish(meta)
	}
	if err != nil {
		b.Abandon()
	}
	return err
}

func newTraceCut() *cobra.Command {
	var from, to uint64
	var fromMark, toMark string
	cmd := &cobra.Command{
		Use: "cut FILE OUT", Short: "Cut a range of events out; what is live at its start is kept",
		Example: "  gpubench trace cut big.trace part.txt --from 1000 --to 5000\n  gpubench trace cut t.trace part.txt --from-mark iteration=2 --to-mark iteration=3",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "first event")
	cmd.Flags().Uint64Var(&to, "to", 0, "event to stop before; 0 = the end")
	cmd.Flags().StringVar(&fromMark, "from-mark", "", "begin at this mark, key=value")
	cmd.Flags().StringVar(&toMark, "to-mark", "", "stop before this mark, key=value")
	device := deviceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withTrace(args[0], *device, func(l *loaded) error {
			lo, hi, err := cutRange(l.Trace, from, to, fromMark, toMark)
			if err != nil {
				return err
			}
			t, err := trace.Cut(l.Trace, lo, hi)
			if err != nil {
				return err
			}
			return writeTrace(cmd.OutOrStdout(), args[1], t)
		})
	}
	return cmd
}

func cutRange(t *trace.Trace, from, to uint64, fromMark, toMark string) (lo, hi uint64, err error) {
	lo, hi = from, to
	if hi == 0 {
		hi = uint64(len(t.Events))
	}
	if fromMark != "" {
		if lo, err = findMark(t, fromMark); err != nil {
			return 0, 0, err
		}
	}
	if toMark != "" {
		if hi, err = findMark(t, toMark); err != nil {
			return 0, 0, err
		}
	}
	if n := uint64(len(t.Events)); lo > hi || hi > n {
		return 0, 0, fmt.Errorf("from event %d to before event %d is no range of a trace of %d events", lo, hi, n)
	}
	return lo, hi, nil
}

// findMark returns the event of a mark written key=value.
func findMark(t *trace.Trace, mark string) (uint64, error) {
	var have []string
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != trace.KindMark {
			continue
		}
		m := fmt.Sprintf("%s=%d", t.Strings[e.Aux], e.Size)
		if m == mark {
			return uint64(i), nil
		}
		have = append(have, m)
	}
	if len(have) == 0 {
		return 0, fmt.Errorf("there is no mark %s; the trace has no marks", mark)
	}
	sort.Strings(have)
	return 0, fmt.Errorf("there is no mark %s; the trace has %d marks: %s", mark, len(have), strings.Join(have[:min(len(have), 10)], ", "))
}

func newTraceAnonymize() *cobra.Command {
	var key, quantum string
	cmd := &cobra.Command{
		Use: "anonymize FILE OUT", Short: "Replace every name by a pseudonym, so that a recording can be given away",
		Example: "  gpubench trace anonymize snapshot.pickle share.txt --key \"$(cat secret)\"", Args: usageArgs(cobra.ExactArgs(2)),
	}
	cmd.Flags().StringVar(&key, "key", "", "secret mixed into the pseudonyms: nobody can confirm a guessed name without it")
	cmd.Flags().StringVar(&quantum, "size-quantum", "", "round sizes up to a multiple of this power of two")
	device := deviceFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o := trace.AnonymizeOptions{Key: []byte(key)}
		if quantum != "" {
			var err error
			if o.SizeQuantumBytes, err = trace.ParseSize(quantum); err != nil {
				return usageError(fmt.Errorf("--size-quantum: %w", err))
			}
		}
		return withTrace(args[0], *device, func(l *loaded) error {
			t, err := trace.Anonymize(l.Trace, o)
			if err != nil {
				return err
			}
			return writeTrace(cmd.OutOrStdout(), args[1], t)
		})
	}
	return cmd
}
