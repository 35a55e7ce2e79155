package synth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/synth"

	_ "github.com/gpubench/gpubench/internal/testflags"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hashes hold every pattern to the bytes: a change here makes every trace that somebody made from a seed another one.
var hashes = map[string]string{
	"adversary": "74cedf54772a27750948f64e03e959dd1d00b35b735d78c59adf23cd1024b544",
	"growing":   "e7c9c7c0e085acf612c2fac2566c83d80db2ffbc0ae268473d316be156b62dfd",
	"pools":     "0212fb294bd3188f4044904b5f655285caa34f253975ec1a20507189990dbda4",
	"powerlaw":  "f3dc63154ab4a1a54615731cb340259a9d447b42de1774a47fae6a321c1b7151",
	"sawtooth":  "3494e77d651382df2035b16c5b5e14135597c8278db6afed23782494fc12f770",
	"serving":   "7ee5b456ef7fb0b3375f0b7c495d090d090b4a67731bbf2089a3afd5bfa54225",
	"streams":   "73ee51455fb5067986bee75ef9b5a052400395a44948d5edf346fcaf8d783615",
	"training":  "852972f75fb2572a41ed653109337867cf8aa6ff3f9e07ba2d2321ffe51cd1b6",
}

func TestPatterns(t *testing.T) {
	for _, p := range synth.Patterns() {
		t.Run(p.Name, func(t *testing.T) {
			o := synth.Options{Pattern: p.Name, Seed: 7, Events: 20_000}
			tr, err := synth.Build(o)
			must(t, err)
			must(t, trace.Validate(tr))
			if len(tr.Events) != 20_000 {
				t.Errorf("%d events", len(tr.Events))
			}
			again, err := synth.Build(o)
			must(t, err)
			o.Seed++
			other, err := synth.Build(o)
			must(t, err)
			h := trace.Hash(tr)
			if h != trace.Hash(again) {
				t.Error("the same seed gave another trace")
			}
			if h == trace.Hash(other) {
				t.Error("another seed gave the same trace")
			}
			if h != hashes[p.Name] {
				t.Errorf("hash %q: got %s", p.Name, h)
			}
			// Streamed into a file it is the same.
			path := filepath.Join(t.TempDir(), "t")
			b, err := trace.CreateFile(path)
			must(t, err)
			o.Seed--
			meta, err := synth.Generate(b, o)
			must(t, err)
			_, err = b.Finish(meta)
			must(t, err)
			opened, c, err := trace.Open(path)
			must(t, err)
			defer c.Close()
			if trace.Hash(opened) != h || !strings.HasPrefix(opened.Meta.Title, p.Name+" seed=7 events=20000 ") {
				t.Errorf("the file differs: %s", opened.Meta.Title)
			}
			// Every parameter at its smallest, and each at its smallest and largest alone, still makes a legal trace.
			small := map[string]uint64{}
			for _, q := range p.Params {
				small[q.Name] = q.Min
				for _, v := range []uint64{q.Min, min(q.Max, 1<<20)} {
					params := map[string]uint64{q.Name: v}
					if strings.HasSuffix(q.Name, "_min") {
						params[strings.TrimSuffix(q.Name, "_min")+"_max"] = max(v, q.Default) + 1<<20
						if strings.HasPrefix(q.Name, "sequence") {
							params["sequence_tokens_max"] = 1 << 20
						}
					}
					if q.Name == "size_bytes_max" {
						params["size_bytes_min"] = 1
					}
					if q.Name == "sequence_tokens_max" {
						params["sequence_tokens_min"] = 1
					}
					legal(t, p.Name, params)
				}
			}
			legal(t, p.Name, small)
		})
	}
}

func legal(t *testing.T, pattern string, params map[string]uint64) {
	t.Helper()
	tr, err := synth.Build(synth.Options{Pattern: pattern, Events: 500, Params: params})
	if err == nil {
		err = trace.Validate(tr)
	}
	if err != nil {
		t.Errorf("%v: %v", params, err)
	} else if len(tr.Events) != 500 {
		t.Errorf("%v: %d events", params, len(tr.Events))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    synth.Options
		want string
	}{
		{synth.Options{Pattern: "zigzag"}, "there are adversary, growing, pools, powerlaw, sawtooth, serving, streams, training"},
		{synth.Options{Pattern: "growing", Params: map[string]uint64{"live_blocks": 1}}, "it has buffers, start_bytes"},
		{synth.Options{Pattern: "growing", Params: map[string]uint64{"buffers": 0}}, "buffers=0 is not between 1 and"},
		{synth.Options{Pattern: "powerlaw", Params: map[string]uint64{"size_bytes_min": 1 << 30}}, "is above size_bytes_max"},
		{synth.Options{Pattern: "powerlaw", Events: 1 << 40}, "MaxEvents"},
		{synth.Options{Pattern: "powerlaw", Requests: []synth.Request{}}, "requests are for the pattern serving"},
	} {
		_, err := synth.Build(c.o)
		if !errors.Is(err, synth.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

// TestPowerLawIsShapedLikeTheClassics: the script that the golden recordings of the strategies were made from has sizes
// with quartiles 766, 3144 and 25508, and lifetimes with median 2858 at about 3700 blocks.
func TestPowerLawIsShapedLikeTheClassics(t *testing.T) {
	tr, err := synth.Build(synth.Options{Pattern: "powerlaw", Seed: 1, Events: 200_000})
	must(t, err)
	s := trace.Describe(tr)
	for _, c := range []struct {
		what        string
		got, lo, hi uint64
	}{
		{"smallest", s.Sizes.Min, 256, 260}, {"median size", s.Sizes.P50, 2500, 4000}, {"p90 size", s.Sizes.P90, 120_000, 220_000},
		{"largest", s.Sizes.Max, 1_000_000, 1 << 20}, {"live blocks", s.Live.HandlesMax, 2990, 3010},
		{"median lifetime", s.Lifetimes.P50, 2000, 6000},
	} {
		if c.got < c.lo || c.got > c.hi {
			t.Errorf("%s %d is not between %d and %d", c.what, c.got, c.lo, c.hi)
		}
	}
}

// TestServingFollowsTheRequests: with a list of requests each is served, and the blocks of keys and values that come and go are
// as many as its tokens need.
func TestServingFollowsTheRequests(t *testing.T) {
	f, err := os.Open("testdata/azure-2023-code-head.csv")
	must(t, err)
	defer f.Close()
	list, err := synth.ReadRequests(f)
	must(t, err)
	// First and second line of the file: 18:17:03.9799600 and 18:17:04.0319600.
	if len(list) != 300 || list[0] != (synth.Request{Context: 4808, Generated: 10}) || list[1] != (synth.Request{ArrivalNs: 52_000_000, Context: 3180, Generated: 8}) {
		t.Fatalf("%d requests: %+v", len(list), list[:2])
	}
	tr, err := synth.Build(synth.Options{Pattern: "serving", Requests: list})
	must(t, err)
	must(t, trace.Validate(tr))
	want, got := uint64(0), uint64(0)
	for _, q := range list {
		// The last token of an answer is given out, not kept.
		want += (q.Context + max(q.Generated, 1) - 1 + 255) / 256
	}
	for _, ev := range tr.Events {
		if ev.Kind == trace.KindAlloc && tr.Tag(&ev) == "kv" {
			got++
		}
	}
	if got != want {
		t.Errorf("%d blocks of keys and values, want %d", got, want)
	}
	// Only the weights are left: 32 layers of four.
	if s := trace.Describe(tr); s.Live.HandlesEnd != 128 {
		t.Errorf("%d handles live at the end", s.Live.HandlesEnd)
	}
}

func TestReadRequestsRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1"},
		{"TIMESTAMP,ContextTokens\n", "no column GeneratedTokens"},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", `line 2: timestamp "yesterday"`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n2.5,1,1\n1,1,1\n", "line 3: it arrives 1.5s before"},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n1,-1,1\n", `line 2: "-1" is no number of tokens`},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n1,1\n", "line 2"},
	} {
		_, err := synth.ReadRequests(strings.NewReader(c.text))
		if !errors.Is(err, synth.ErrRequests) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzReadRequests(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n1,1,1\n")
	f.Add("GeneratedTokens,x,ContextTokens,timestamp\n1,,2,0.5\n")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := synth.ReadRequests(strings.NewReader(s))
		if err != nil && (!errors.Is(err, synth.ErrRequests) || list != nil) {
			t.Fatalf("%v", err)
		}
		for i := 1; i < len(list); i++ {
			if list[i].ArrivalNs < list[i-1].ArrivalNs {
				t.Fatalf("request %d arrives before the one above it", i)
			}
		}
	})
}

func BenchmarkGenerate(b *testing.B) {
	const n = 1_000_000
	for _, p := range synth.Patterns() {
		b.Run(p.Name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "t")
			b.ReportAllocs()
			for range b.N {
				fb, err := trace.CreateFile(path)
				must(b, err)
				meta, err := synth.Generate(fb, synth.Options{Pattern: p.Name, Events: n})
				must(b, err)
				_, err = fb.Finish(meta)
				must(b, err)
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func ExamplePatterns() {
	for _, p := range synth.Patterns() {
		fmt.Println(p.Name)
	}
	// Output:
	// adversary
	// growing
	// pools
	// powerlaw
	// sawtooth
	// serving
	// streams
	// training
}
