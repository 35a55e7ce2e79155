package trace_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

const statsText = `# gpubench trace 1
# source text  covers 100%  device 0  capacity 1GiB
state
segment 0x0 2MiB small
  block h1 512 requested=500
  block free 2096640
end
h2 = alloc 1000 @1us
mark step=1
h3 = alloc 3000 stream=7 pool=0:1 tag="x"
h4 = alloc 1MiB -> failed
free h2 @2us
mark step=2
h5 = realloc h3 4000 stream=7
free h4
mark step=3
free h1
`

const statsReport = `source            text
covers            100% of the history of what was live at the peak
device            0, 1.00 GiB
events            10: 3 alloc, 3 free, 1 realloc, 3 mark
handles           5 in 5 slots, at most 3 live at a time
live peak         4.39 KiB (4500 bytes) after event 2 (1us)
live at the end   3.91 KiB in 1 handles
requested in all  1.01 MiB
duration          2us
recorded          1 answers, of which 1 failures; 0 segment events
start state       1 segments of 2.00 MiB: 1 live blocks of 500 B, 0 pending, 2.00 MiB free, the largest piece 2.00 MiB
sizes             min 1000 B, median 2.93 KiB, p90 1.00 MiB, p99 1.00 MiB, max 1.00 MiB, mean 257.95 KiB
lifetimes         median 4 events, p90 4, p99 4, max 4, mean 4.0

size from  requests  bytes
512 B      1         1000 B    ####################
2.00 KiB   2         6.84 KiB  ########################################
1.00 MiB   1         1.00 MiB  ####################

stream  allocs  frees  uses  allocated  live peak
0       2       3      0     1.00 MiB   1.46 KiB
7       2       0      0     6.84 KiB   3.91 KiB

pool  allocs  allocated  live peak
0:0   3       1.00 MiB   4.39 KiB
0:1   1       2.93 KiB   2.93 KiB

mark  count  live at the first  at the last  growth a mark
step  3      1.46 KiB           4.39 KiB     +1500 B
`

func TestDescribe(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(statsText), "t")
	must(t, err)
	s := trace.Describe(tr)
	// Live after the events: 500 at the start; 1500; 4500 (the peak, event 2); h4 failed; 3500; realloc 4500 (not above
	// the peak); at the end h5 alone, 4000.
	l := s.Live
	if l.BytesMax != 4500 || l.BytesMaxEvent != 2 || *l.BytesMaxTimeNs != 1000 || l.HandlesMax != 3 || l.BytesEnd != 4000 || l.HandlesEnd != 1 {
		t.Errorf("live %+v at %d ns", l, *l.BytesMaxTimeNs)
	}
	if s.Handles != 5 || s.Events != 10 || s.RecordedFailed != 1 || s.RequestedBytes != 1000+3000+1<<20+4000 || *s.DurationNs != 2000 {
		t.Errorf("%+v", s)
	}
	// h2 lives from event 0 to 4. h3 ends by realloc, h4 failed, h1 was there before: none of them counts.
	if f := s.Lifetimes; f.Count != 1 || f.Max != 4 {
		t.Errorf("lifetimes %+v", f)
	}
	if z := s.Sizes; z.Count != 4 || z.Min != 1000 || z.P50 != 3000 || z.P90 != 1<<20 || z.Max != 1<<20 || len(z.Histogram) != 3 {
		t.Errorf("sizes %+v", z)
	}
	// 512…1023, 2048…4095 (two values), 2^20…2^21-1.
	if b := s.Sizes.Histogram[1]; b != (trace.Bucket{From: 2048, To: 4095, Count: 2, Sum: 7000}) {
		t.Errorf("bucket %+v", b)
	}
	m := s.Marks[0]
	// Live at the marks: 1500, 3500, 4500; maxima since the mark before: 1500, 4500, 4500; growth (4500-1500)/2.
	if m.Count != 3 || m.GrowthBytesPerMark != 1500 || m.Points[1] != (trace.MarkPoint{Value: 2, Event: 5, LiveBytes: 3500, LiveBytesMax: 4500}) {
		t.Errorf("mark %+v", m)
	}
	if r := s.Streams[1]; r != (trace.StreamStats{Stream: 7, Allocs: 2, AllocBytes: 7000, LiveBytesMax: 4000}) {
		t.Errorf("stream %+v", r)
	}
	if st := s.Start; st.LiveBytes != 500 || st.GrantedMinusRq != 12 || st.LargestFree != 2096640 || st.ReservedBytes != 2<<20 {
		t.Errorf("start %+v", st)
	}

	var text, js bytes.Buffer
	must(t, s.Text(&text))
	if text.String() != statsReport {
		t.Errorf("got\n%s\nwant\n%s", text.String(), statsReport)
	}
	must(t, json.NewEncoder(&js).Encode(s))
	if !strings.Contains(js.String(), `"bytes_max":4500`) || !strings.Contains(js.String(), `"covers_percent":100`) {
		t.Error(js.String())
	}
}

// TestQuantiles compares the radix selection with sorting.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 99, 100, 101, 5000} {
		b := trace.NewBuilder()
		var sizes []uint64
		for i := range n {
			v := rng.Uint64() >> rng.UintN(64)
			sizes = append(sizes, v)
			must(t, b.Alloc(trace.Handle(i+1), v, trace.AllocArgs{}))
		}
		tr, err := b.Finish(trace.Meta{})
		must(t, err)
		slices.Sort(sizes)
		rank := func(q int) uint64 { return sizes[(n*q+99)/100-1] }
		z := trace.Describe(tr).Sizes
		if z.P50 != rank(50) || z.P90 != rank(90) || z.P99 != rank(99) || z.Max != sizes[n-1] || z.Min != sizes[0] {
			t.Errorf("n=%d: got %d %d %d, want %d %d %d", n, z.P50, z.P90, z.P99, rank(50), rank(90), rank(99))
		}
	}
}

func TestManyMarksAreThinned(t *testing.T) {
	b := trace.NewBuilder()
	const n = 5000
	for i := range n {
		must(t, b.Mark("step", uint64(i)))
		must(t, b.Alloc(trace.Handle(i+1), 10, trace.AllocArgs{}))
	}
	tr, err := b.Finish(trace.Meta{})
	must(t, err)
	m := trace.Describe(tr).Marks[0]
	if m.Count != n || len(m.Points) > trace.MaxMarkPoints || len(m.Points) < trace.MaxMarkPoints/2 || m.GrowthBytesPerMark != 10 {
		t.Errorf("%d marks, %d points, growth %v", m.Count, len(m.Points), m.GrowthBytesPerMark)
	}
	for i, p := range m.Points {
		if p.Value != m.Points[1].Value*uint64(i) || p.LiveBytes != 10*p.Value || p.LiveBytesMax != p.LiveBytes {
			t.Fatalf("point %d: %+v", i, p)
		}
	}
}
