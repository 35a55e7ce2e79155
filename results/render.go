package results

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// RenderText writes the ranking for a person: the verdict first, then a table a trace, then what to know about it.
func RenderText(w io.Writer, r *Ranking, color bool) error {
	var b strings.Builder
	b.WriteString(r.Verdict + "\n")
	for i := range r.Traces {
		t := &r.Traces[i]
		b.WriteString("\n" + traceTitle(t) + "\n")
		tw := rankTable(t, color)
		b.WriteString(tw.Render() + "\n")
		b.WriteString(legend(t))
	}
	if r.Across != nil {
		b.WriteString("\nAcross " + strconv.Itoa(r.Across.Traces) + " recordings (average rank; letters join strategies that are not told apart)\n")
		b.WriteString(acrossTable(r.Across).Render() + "\n")
	}
	writeNotes(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

// RenderMarkdown writes the same tables as Markdown.
func RenderMarkdown(w io.Writer, r *Ranking) error {
	var b strings.Builder
	b.WriteString("**" + r.Verdict + "**\n")
	for i := range r.Traces {
		t := &r.Traces[i]
		b.WriteString("\n### " + traceTitle(t) + "\n\n")
		b.WriteString(rankTable(t, false).RenderMarkdown() + "\n\n")
		b.WriteString(legend(t))
	}
	if r.Across != nil {
		b.WriteString("\n### Across recordings\n\n" + acrossTable(r.Across).RenderMarkdown() + "\n")
	}
	writeNotes(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

// RenderCSV writes one line a strategy and trace, disqualified ones included, with units in the header.
func RenderCSV(w io.Writer, r *Ranking) error {
	cw := csv.NewWriter(w)
	_ = cw.Write([]string{"trace", "label", "strategy", "place", "tied", "pareto", "success_rate", "external_fragmentation_weighted",
		"latency_ns_mean", "latency_ns_low", "latency_ns_high", "policy_ns_p50", "policy_ns_p99", "failed", "recovered", "spurious",
		"peak_reserved_bytes", "device_calls_per_1000_events", "status"})
	for i := range r.Traces {
		t := &r.Traces[i]
		for j := range t.Rows {
			x := &t.Rows[j]
			_ = cw.Write([]string{t.Trace, x.Label, x.Strategy, strconv.Itoa(x.Place), strconv.FormatBool(x.Tied), strconv.FormatBool(x.Pareto),
				num(x.Success.Value), num(x.Fragmentation.Value), optMetric(x.Latency, x.Latency.Value), optMetric(x.Latency, x.Latency.Low),
				optMetric(x.Latency, x.Latency.High), optNum(x.PolicyP50Ns), optNum(x.PolicyP99Ns), strconv.FormatUint(x.Failed, 10),
				strconv.FormatUint(x.Recovered, 10), strconv.FormatUint(x.Spurious, 10), strconv.FormatUint(x.PeakReservedBytes, 10),
				num(x.DeviceCallsPer1000), "ranked"})
		}
		for _, d := range t.Disqualified {
			_ = cw.Write(padded(t.Trace, d.Label, d.Strategy, "disqualified: "+d.Finding))
		}
		for _, u := range t.Unmeasured {
			_ = cw.Write(padded(t.Trace, u.Label, "", u.Class+": "+u.Text))
		}
	}
	cw.Flush()
	return cw.Error()
}

// padded is a CSV line that has only a status.
func padded(trace, label, strategy, status string) []string {
	line := make([]string, 19)
	line[0], line[1], line[2], line[18] = trace, label, strategy, status
	return line
}

func traceTitle(t *TraceRanking) string {
	s := fmt.Sprintf("%s: lower bound %s%s", t.Trace, Bytes(t.LowerBoundBytes), packingText(t))
	if t.TightBytes != 0 {
		s += fmt.Sprintf("; success and fragmentation at %s (tight), latency at %s", Bytes(t.TightBytes), Bytes(t.DeviceBytes))
	} else {
		s += fmt.Sprintf("; all at %s", Bytes(t.DeviceBytes))
	}
	return s
}

// packingText says what a packing that knows the whole future would need.
func packingText(t *TraceRanking) string {
	b := t.Bounds
	switch {
	case b == nil || b.GreedyBytes == 0:
		return ""
	case b.PackedOptimal:
		return fmt.Sprintf(", %s without moving blocks (optimal packing)", Bytes(b.PackedBytes))
	case b.PackedBytes != 0 && b.PackedBytes < b.GreedyBytes:
		return fmt.Sprintf(", %s in the best packing found, %s greedily", Bytes(b.PackedBytes), Bytes(b.GreedyBytes))
	}
	return fmt.Sprintf(", %s packed greedily with the future known", Bytes(b.GreedyBytes))
}

func rankTable(t *TraceRanking, color bool) table.Writer {
	tw := table.NewWriter()
	tw.SetStyle(table.StyleLight)
	tw.Style().Options.SeparateRows = false
	tw.Style().Format.Header = text.FormatDefault
	head := table.Row{"#", "strategy", "success", "failed", "spurious", "ext. frag.", "latency", "95 % interval", "policy p50", "p99", "peak reserved", "calls/1000", ""}
	minCap, score := hasMinCapacity(t), hasScore(t)
	if minCap {
		head = append(head, "min. capacity")
	}
	if score {
		head = append(head, "score")
	}
	tw.AppendHeader(head)
	for i := range t.Rows {
		r := &t.Rows[i]
		row := table.Row{place(r), r.Label, percent(r.Success.Value), r.Failed, r.Spurious, fmt.Sprintf("%.4f", r.Fragmentation.Value),
			latency(r.Latency), interval(r.Latency), optNs(r.PolicyP50Ns), optNs(r.PolicyP99Ns), Bytes(r.PeakReservedBytes),
			fmt.Sprintf("%.1f", r.DeviceCallsPer1000), marks(r)}
		if minCap {
			row = append(row, optBytes(r.MinCapacityBytes))
		}
		if score {
			row = append(row, optNum(r.Score))
		}
		tw.AppendRow(row)
	}
	for _, d := range t.Disqualified {
		label := "disqualified"
		if color {
			label = text.FgRed.Sprint(label)
		}
		tw.AppendRow(table.Row{"–", d.Label, label, "", "", "", "", "", "", "", "", "", d.Finding})
	}
	for _, u := range t.Unmeasured {
		tw.AppendRow(table.Row{"–", u.Label, "no result", "", "", "", "", "", "", "", "", "", u.Class + ": " + u.Text})
	}
	tw.SetColumnConfigs([]table.ColumnConfig{{Name: "", WidthMax: 48, WidthMaxEnforcer: text.WrapSoft}})
	return tw
}

func acrossTable(a *Across) table.Writer {
	tw := table.NewWriter()
	tw.SetStyle(table.StyleLight)
	tw.Style().Format.Header = text.FormatDefault
	tw.AppendHeader(table.Row{"strategy", "average rank", "wins", "group"})
	for _, r := range a.Rows {
		tw.AppendRow(table.Row{r.Label, fmt.Sprintf("%.2f", r.AverageRank), r.Wins, r.Group})
	}
	return tw
}

func legend(t *TraceRanking) string {
	var b strings.Builder
	b.WriteString("= tie · P no other strategy is at least as good on all three and better on one · latency: " + t.LatencyBasis + "\n")
	if t.NoiseFloorRelative != nil {
		fmt.Fprintf(&b, "A/A control: the same case measured twice differs by up to %s (%.1f %%); smaller differences are ties.\n", Ns(*t.NoiseFloorNs), 100**t.NoiseFloorRelative)
	}
	return b.String()
}

func writeNotes(b *strings.Builder, r *Ranking) {
	for _, d := range r.Findings {
		kind := "Finding"
		if d.Canary {
			kind = "Canary caught, as it must be"
		}
		fmt.Fprintf(b, "\n%s: %s on %s: %s (%d in all)\n", kind, d.Label, d.Trace, d.Finding, d.Count)
		if d.Map != "" {
			b.WriteString(indent(d.Map))
		}
		b.WriteString("  next: " + d.Next + "\n")
	}
	var warnings []string
	warnings = append(warnings, r.Warnings...)
	for i := range r.Traces {
		warnings = append(warnings, r.Traces[i].Warnings...)
		warnings = append(warnings, rowWarnings(r.Traces[i].Rows)...)
	}
	if r.Across != nil {
		warnings = append(warnings, r.Across.Warnings...)
	}
	if len(warnings) > 0 {
		b.WriteString("\nWarnings:\n")
		for _, w := range warnings {
			b.WriteString("  - " + w + "\n")
		}
	}
	writeDeviations(b, r)
}

// rowWarnings are the warnings of single strategies; what several have in common is said once.
func rowWarnings(rows []Row) []string {
	var texts []string
	labels := map[string][]string{}
	for i := range rows {
		for _, w := range rows[i].Warnings {
			if len(labels[w]) == 0 {
				texts = append(texts, w)
			}
			labels[w] = append(labels[w], rows[i].Label)
		}
	}
	for i, w := range texts {
		texts[i] = strings.Join(labels[w], ", ") + ": " + w
	}
	return texts
}

// writeDeviations names the known deviations shortly; JSON and the HTML report have the sentences.
func writeDeviations(b *strings.Builder, r *Ranking) {
	seen := map[string]bool{}
	for i := range r.Traces {
		for j := range r.Traces[i].Rows {
			x := &r.Traces[i].Rows[j]
			if len(x.Deviations) == 0 || seen[x.Strategy] {
				continue
			}
			if len(seen) == 0 {
				b.WriteString("\nKnown deviations that exact copies keep on purpose (not findings; the report and --format json explain them):\n")
			}
			seen[x.Strategy] = true
			ids := make([]string, len(x.Deviations))
			for k, d := range x.Deviations {
				ids[k] = d.ID
			}
			fmt.Fprintf(b, "  - %s: %s\n", x.Strategy, strings.Join(ids, ", "))
		}
	}
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
}

func place(r *Row) string {
	if r.Tied {
		return strconv.Itoa(r.Place) + "="
	}
	return strconv.Itoa(r.Place)
}

func marks(r *Row) string {
	if r.Pareto {
		return "P"
	}
	return ""
}

func hasMinCapacity(t *TraceRanking) bool {
	for i := range t.Rows {
		if t.Rows[i].MinCapacityBytes != nil {
			return true
		}
	}
	return false
}

func hasScore(t *TraceRanking) bool {
	for i := range t.Rows {
		if t.Rows[i].Score != nil {
			return true
		}
	}
	return false
}

func percent(v float64) string {
	if v == 1 {
		return "100 %"
	}
	return strconv.FormatFloat(math.Floor(v*1e4)/100, 'f', 2, 64) + " %" // rounded down: never 100 % with a failure
}

func latency(m Metric) string {
	if m.Missing != "" {
		return "–"
	}
	return Ns(m.Value)
}

func interval(m Metric) string {
	if m.Missing != "" || m.Exact {
		return "–"
	}
	return Ns(m.Low) + " … " + Ns(m.High)
}

// Ns prints a time with a unit that keeps three figures.
func Ns(v float64) string {
	switch a := math.Abs(v); {
	case a < 1e3:
		return sig(v) + " ns"
	case a < 1e6:
		return sig(v/1e3) + " µs"
	case a < 1e9:
		return sig(v/1e6) + " ms"
	}
	return sig(v/1e9) + " s"
}

func sig(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Bytes prints a number of bytes in binary units with up to two decimals.
func Bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	return s + " " + units[u]
}

func num(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func optNum(v *float64) string {
	if v == nil {
		return ""
	}
	return num(*v)
}

func optMetric(m Metric, v float64) string {
	if m.Missing != "" {
		return ""
	}
	return num(v)
}

func optNs(v *float64) string {
	if v == nil {
		return "refused"
	}
	return Ns(*v)
}

func optBytes(v *uint64) string {
	if v == nil {
		return "–"
	}
	return Bytes(*v)
}
