package trace

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text writes the statistics for people: the facts first, then the tables.
func (s *Stats) Text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	s.facts(tw)
	s.tables(tw)
	return tw.Flush()
}

// human writes bytes in the largest binary unit with three digits, and exactly when that hides something.
func human(n uint64) string {
	v, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}

func (s *Stats) facts(w io.Writer) {
	m := &s.Meta
	title := m.Source
	if m.Title != "" {
		title += ": " + m.Title
	}
	fmt.Fprintf(w, "source\t%s\n", title)
	fmt.Fprintf(w, "covers\t%g%% of the history of what was live at the peak\n", m.CoversPercent)
	if m.CapacityBytes != 0 {
		fmt.Fprintf(w, "device\t%d, %s\n", m.Device, human(m.CapacityBytes))
	} else {
		fmt.Fprintf(w, "device\t%d, capacity not recorded\n", m.Device)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Settings)) {
		fmt.Fprintf(w, "setting\t%s=%s\n", k, m.Settings[k])
	}
	for _, warning := range m.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", warning)
	}
	if m.Skipped > 0 {
		fmt.Fprintf(w, "skipped\t%d records of the recording became no event\n", m.Skipped)
	}
	kinds := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		kinds[i] = fmt.Sprintf("%d %s", k.Events, k.Kind)
	}
	fmt.Fprintf(w, "events\t%d: %s\n", s.Events, strings.Join(kinds, ", "))
	fmt.Fprintf(w, "handles\t%d in %d slots, at most %d live at a time\n", s.Handles, s.Slots, s.Live.HandlesMax)
	at := fmt.Sprintf("after event %d", s.Live.BytesMaxEvent)
	if s.Live.BytesMaxTimeNs != nil {
		at += fmt.Sprintf(" (%s)", AppendTime(nil, *s.Live.BytesMaxTimeNs))
	}
	fmt.Fprintf(w, "live peak\t%s (%d bytes) %s\n", human(s.Live.BytesMax), s.Live.BytesMax, at)
	fmt.Fprintf(w, "live at the end\t%s in %d handles\n", human(s.Live.BytesEnd), s.Live.HandlesEnd)
	fmt.Fprintf(w, "requested in all\t%s\n", human(s.RequestedBytes))
	if s.DurationNs != nil {
		fmt.Fprintf(w, "duration\t%s\n", AppendTime(nil, *s.DurationNs))
	}
	if s.RecordedEvents > 0 || s.SegmentEvents > 0 {
		fmt.Fprintf(w, "recorded\t%d answers, of which %d failures; %d segment events\n", s.RecordedEvents, s.RecordedFailed, s.SegmentEvents)
	}
	if st := s.Start; st != nil {
		fmt.Fprintf(w, "start state\t%d segments of %s: %d live blocks of %s, %d pending, %s free, the largest piece %s\n",
			st.Segments, human(st.ReservedBytes), st.LiveBlocks, human(st.LiveBytes), st.PendingBlocks, human(st.FreeBytes), human(st.LargestFree))
	}
	size := s.Sizes
	fmt.Fprintf(w, "sizes\tmin %s, median %s, p90 %s, p99 %s, max %s, mean %s\n", human(size.Min), human(size.P50), human(size.P90), human(size.P99),
		human(size.Max), human(uint64(size.Mean)))
	if l := s.Lifetimes; l.Count > 0 {
		fmt.Fprintf(w, "lifetimes\tmedian %d events, p90 %d, p99 %d, max %d, mean %.1f\n", l.P50, l.P90, l.P99, l.Max, l.Mean)
	}
}

// barWidth is the length of the longest bar of the histogram.
const barWidth = 40

func (s *Stats) tables(w io.Writer) {
	if len(s.Sizes.Histogram) > 0 {
		fmt.Fprintf(w, "\nsize from\trequests\tbytes\n")
		most := uint64(1)
		for _, b := range s.Sizes.Histogram {
			most = max(most, b.Count)
		}
		for _, b := range s.Sizes.Histogram {
			bar := strings.Repeat("#", int(float64(b.Count)/float64(most)*barWidth+0.999))
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", human(b.From), b.Count, human(b.Sum), bar)
		}
	}
	if len(s.Streams) > 1 {
		fmt.Fprintf(w, "\nstream\tallocs\tfrees\tuses\tallocated\tlive peak\n")
		for _, r := range s.Streams {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t%s\n", r.Stream, r.Allocs, r.Frees, r.Uses, human(r.AllocBytes), human(r.LiveBytesMax))
		}
	}
	if len(s.Pools) > 1 {
		fmt.Fprintf(w, "\npool\tallocs\tallocated\tlive peak\n")
		for _, r := range s.Pools {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.Pool, r.Allocs, human(r.AllocBytes), human(r.LiveBytesMax))
		}
	}
	if len(s.Marks) > 0 {
		fmt.Fprintf(w, "\nmark\tcount\tlive at the first\tat the last\tgrowth a mark\n")
		for _, m := range s.Marks {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%+.0f B\n", m.Key, m.Count, human(m.LiveBytesFirst), human(m.LiveBytesLast), m.GrowthBytesPerMark)
		}
	}
}
