package bfc

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

const kib = 1 << 10

// rig is the strategy over an ideal device of 2 MiB.
type rig struct {
	t testing.TB
	s sdk.Strategy
}

func open2MiB(t testing.TB, options string) *rig {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	env := &sdk.Env{Device: dev, CapacityBytes: 2 << 20, Options: json.RawMessage(options), Streams: []uint64{0, 7}, Pools: []string{"0:0", "0:1"}}
	s, err := Description().New(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, s}
}

// alloc expects the status and, where it is placed, the address in KiB.
func (r *rig) alloc(req sdk.Request, want trace.Status, atKiB uint64) sdk.Block {
	r.t.Helper()
	var b sdk.Block
	if st := r.s.Alloc(&req, &b); st != want || st.Placed() && b.Addr != atKiB*kib {
		r.t.Fatalf("%+v: %v at %d KiB, want %v at %d KiB", req, st, b.Addr/kib, want, atKiB)
	}
	return b
}

func (r *rig) free(blocks ...sdk.Block) {
	r.t.Helper()
	for _, b := range blocks {
		if st := r.s.Free(&b, 0); st != trace.StatusOK {
			r.t.Fatalf("free of %+v: %v", b, st)
		}
	}
}

func (r *rig) states() (states []string) {
	for _, b := range r.s.(sdk.Inspector).Inspect().Segments[0].Blocks {
		states = append(states, b.State)
	}
	return states
}

func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.states(); !slices.Equal(got, want) {
		r.t.Fatalf("chunks are %v, want %v", got, want)
	}
}

// TestTimestamps follows chunks of 512 KiB, four of which fill the region, by hand.
func TestTimestamps(t *testing.T) {
	r := open2MiB(t, `{"timestamps": true}`)
	half := sdk.Request{Size: 512 * kib}
	a, b := r.alloc(half, trace.StatusOK, 0), r.alloc(half, trace.StatusOK, 512)
	c, d := r.alloc(half, trace.StatusOK, 1024), r.alloc(half, trace.StatusOK, 1536)
	r.free(a, b) // times 1 and 2
	r.expect("pending", "pending", "live", "live")

	// Another stream may not have them; the default stream may, the lowest of equals.
	r.alloc(sdk.Request{Size: 512 * kib, Stream: 1}, trace.StatusFailed, 0)
	a = r.alloc(half, trace.StatusOK, 0)
	r.free(a) // time 3

	// The default stream has completed: they are safe, and the next allocation joins them.
	r.s.(sdk.Completer).Completed(1, false, false) // of another stream: nothing
	r.expect("pending", "pending", "live", "live")
	r.s.(sdk.Completer).Completed(0, false, false)
	r.expect("free", "free", "live", "live")
	whole := r.alloc(sdk.Request{Size: 1024 * kib, Stream: 1}, trace.StatusOK, 0)
	r.expect("live", "live", "live")

	// Not completed, but a request of the default stream that nothing serves joins them by force.
	r.free(whole, c, d) // times 4, 5, 6
	r.expect("pending", "pending", "pending")
	r.alloc(sdk.Request{Size: 2048 * kib, Stream: 1}, trace.StatusFailed, 0)
	r.expect("pending", "pending", "pending")
	all := r.alloc(sdk.Request{Size: 2048 * kib}, trace.StatusRecovered, 0)
	r.free(all)
}

// TestForcedMergeStopsEarly: the chunk freed first joins both its neighbours, which makes 1.5 MiB, more than is needed; so the
// last of the four stays apart. Half of 1.5 MiB is less than the request: the chunk is handed out whole.
func TestForcedMergeStopsEarly(t *testing.T) {
	r := open2MiB(t, `{"timestamps": true}`)
	half := sdk.Request{Size: 512 * kib}
	var four []sdk.Block
	for i := range uint64(4) {
		four = append(four, r.alloc(half, trace.StatusOK, i*512))
	}
	r.free(four[2], four[3], four[0], four[1])
	r.alloc(sdk.Request{Size: 1024 * kib}, trace.StatusRecovered, 512)
	r.expect("pending", "live")
}

// TestSpatialPartitioning follows both ends by hand: L, U and the gap between them.
func TestSpatialPartitioning(t *testing.T) {
	r := open2MiB(t, `{"spatial_partitioning": true}`)
	lower := func(n uint64) sdk.Request { return sdk.Request{Size: n * kib} }
	upper := func(n uint64) sdk.Request { return sdk.Request{Size: n * kib, Pool: 1} }
	l1 := r.alloc(lower(256), trace.StatusOK, 0)
	u1 := r.alloc(upper(256), trace.StatusOK, 1792)
	l2 := r.alloc(lower(256), trace.StatusOK, 256)
	u2 := r.alloc(upper(512), trace.StatusOK, 1280)
	l3 := r.alloc(lower(256), trace.StatusOK, 512)

	// l2 is a hole of the lower end: the upper end does not use it, the lower end does before the gap.
	r.free(l2)
	u3 := r.alloc(upper(256), trace.StatusOK, 1024)
	l2 = r.alloc(lower(256), trace.StatusOK, 256)

	// u1 is a hole of the upper end; a part of it is taken from above, since half and less is worth splitting.
	r.free(u1)
	u1 = r.alloc(upper(64), trace.StatusOK, 1984)
	r.free(u1)

	// The hole of u1 and the freed u2 stay the upper end's, until u3 at the border goes: all three are gap then.
	r.free(u2)
	r.alloc(lower(512), trace.StatusFailed, 0)
	r.free(u3)
	big := r.alloc(lower(1280), trace.StatusOK, 768)
	r.free(big, l1, l2, l3)
	r.expect("free")
	r.alloc(upper(2048), trace.StatusOK, 0)
}

// TestExactSplit: a hole of 256 KiB that is not twice 192 KiB is handed out whole by the heuristic rule and cut by the exact one.
func TestExactSplit(t *testing.T) {
	for options, want := range map[string]struct{ size, at uint64 }{
		`{"spatial_partitioning": true}`:                         {256 * kib, 1792},
		`{"spatial_partitioning": true, "upper_split": "exact"}`: {192 * kib, 1856},
	} {
		r := open2MiB(t, options)
		hole := r.alloc(sdk.Request{Size: 256 * kib, Pool: 1}, trace.StatusOK, 1792)
		r.alloc(sdk.Request{Size: 256 * kib, Pool: 1}, trace.StatusOK, 1536)
		r.free(hole)
		if b := r.alloc(sdk.Request{Size: 192 * kib, Pool: 1}, trace.StatusOK, want.at); b.Size != want.size {
			t.Errorf("%s: granted %d KiB, want %d", options, b.Size/kib, want.size/kib)
		}
	}
}

// TestOptionsThatContradict checks the errors, which must name the option.
func TestOptionsThatContradict(t *testing.T) {
	for _, options := range []string{
		`{"spatial_partitioning": true, "allow_growth": true}`, `{"upper_split": "exact"}`, `{"spatial_partitioning": true, "lower_split": "some"}`,
	} {
		if _, err := Description().New(&sdk.Env{Options: json.RawMessage(options)}); err == nil {
			t.Errorf("%s was accepted", options)
		}
	}
}

// TestEndsAreIndependent is what spatial partitioning is for: as long as nothing fails, the places of the lower end are the same
// whatever happens at the upper end.
func TestEndsAreIndependent(t *testing.T) {
	type step struct {
		upper bool
		size  uint64 // 0: free
		which int
	}
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			st := step{upper: rapid.Bool().Draw(t, "upper"), which: rapid.IntRange(0, 99).Draw(t, "which")}
			if rapid.Bool().Draw(t, "alloc") {
				st.size = rapid.Uint64Range(1, 64*kib).Draw(t, "size")
			}
			return st
		}), 1, 60).Draw(t, "steps")
		run := func(withUpper bool) (places []uint64, failed bool) {
			dev, err := ideal.New(ideal.Config{TotalBytes: 2 << 20})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Description().New(&sdk.Env{Device: dev, CapacityBytes: 2 << 20, Options: json.RawMessage(`{"spatial_partitioning": true}`)})
			if err != nil {
				t.Fatal(err)
			}
			var live [2][]sdk.Block
			for _, st := range steps {
				end := 0
				if st.upper {
					if end = 1; !withUpper {
						continue
					}
				}
				if n := len(live[end]); st.size == 0 && n > 0 {
					k := st.which % n
					s.Free(&live[end][k], 0)
					live[end] = slices.Delete(live[end], k, k+1)
				} else if st.size > 0 {
					var b sdk.Block
					if !s.Alloc(&sdk.Request{Size: st.size, Pool: sdk.Pool(end)}, &b).Placed() {
						return places, true
					}
					if live[end] = append(live[end], b); end == 0 {
						places = append(places, b.Addr)
					}
				}
			}
			return places, false
		}
		with, failed := run(true)
		without, _ := run(false)
		if !failed && !slices.Equal(with, without) {
			t.Fatalf("places of the lower end: %v with requests at the upper end, %v without", with, without)
		}
	})
}

// TestInvariantsTagged: with times of free, neighbours do not join at the free, so that promise is not checked.
func TestInvariantsTagged(t *testing.T) {
	goldentest.Invariants(t, Description(), `{"spatial_partitioning": true}`)
	desc := Description()
	desc.Promises = slices.DeleteFunc(desc.Promises, func(p sdk.Promise) bool { return p == sdk.PromiseCoalesces })
	for _, options := range []string{`{"timestamps": true}`, `{"timestamps": true, "allow_growth": true, "garbage_collection": true}`} {
		t.Run(options, func(t *testing.T) { goldentest.Invariants(t, desc, options) })
	}
}
