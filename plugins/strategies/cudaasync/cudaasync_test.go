package cudaasync

import (
	"encoding/json"
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/conformtest"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
	"github.com/gpubench/gpubench/trace"
)

const mib = 1 << 20

func TestConformance(t *testing.T) {
	conformtest.Patterns(t, Description(), 1500, `{}`, `{"release_threshold":1099511627776}`,
		`{"reuse_follow_event_dependencies":false,"reuse_allow_opportunistic":false}`,
		`{"reuse_allow_internal_dependencies":false,"segment_bytes":2097152}`)
}

func TestInvariants(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{}`, 16384, 262144)
}

type rig struct {
	t   *testing.T
	dev *ideal.Device
	s   sdk.Strategy
}

func open(t *testing.T, totalMiB uint64, streams int, options string) *rig {
	t.Helper()
	dev, err := ideal.New(ideal.Config{TotalBytes: totalMiB * mib})
	if err != nil {
		t.Fatal(err)
	}
	dev.SetManualEvents(true)
	s, err := Description().New(&sdk.Env{Device: dev, CapacityBytes: totalMiB * mib, Options: json.RawMessage(options), Streams: make([]uint64, streams)})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, dev, s}
}

func (r *rig) alloc(sizeMiB uint64, s sdk.Stream, want trace.Status, atMiB uint64) sdk.Block {
	r.t.Helper()
	var b sdk.Block
	st := r.s.Alloc(&sdk.Request{Size: sizeMiB * mib, Stream: s}, &b)
	if st != want || st.Placed() && b.Addr != atMiB*mib {
		r.t.Fatalf("%d MiB on stream %d: %v at %d MiB, want %v at %d MiB", sizeMiB, s, st, b.Addr/mib, want, atMiB)
	}
	return b
}

func (r *rig) free(b sdk.Block, s sdk.Stream) {
	r.t.Helper()
	if st := r.s.Free(&b, s); st != trace.StatusOK {
		r.t.Fatalf("free: %v", st)
	}
}

func (r *rig) reserved(wantMiB uint64) {
	r.t.Helper()
	if free, total := r.dev.MemInfo(); total-free != wantMiB*mib {
		r.t.Fatalf("%d MiB are reserved, want %d", (total-free)/mib, wantMiB)
	}
}

// TestRules walks through the order of the rules on a device of two segments of 32 MiB, each filled by one block.
func TestRules(t *testing.T) {
	r := open(t, 64, 4, `{}`)
	a := r.alloc(32, 1, trace.StatusOK, 0)
	r.free(a, 1)
	a = r.alloc(32, 1, trace.StatusOK, 0) // same stream, although nothing has completed
	r.free(a, 1)
	b := r.alloc(32, 2, trace.StatusOK, 32) // another stream: grow
	r.reserved(64)
	r.s.(sdk.StreamWaiter).StreamWait(3, 1)
	c := r.alloc(32, 3, trace.StatusOK, 0) // 3 is behind 1: event dependency
	r.free(c, 3)
	r.free(b, 2)
	r.dev.Complete(3)
	d := r.alloc(32, 1, trace.StatusOK, 0)         // 3 has completed: opportunistic
	e := r.alloc(32, 1, trace.StatusRecovered, 32) // no growth is left: an internal dependency on 2
	r.alloc(1, 2, trace.StatusFailed, 0)
	r.free(d, 1)
	r.free(e, 1)
	if got := r.s.(sdk.Inspector).Inspect().Counters["internal_dependencies"]; got != 1 {
		t.Fatalf("%d internal dependencies, want 1", got)
	}
}

// TestWaitIsTransitive: 3 waits on 2, which has waited on 1; a later free on 1 is not covered.
func TestWaitIsTransitive(t *testing.T) {
	r := open(t, 64, 4, `{"reuse_allow_opportunistic":false,"reuse_allow_internal_dependencies":false}`)
	a := r.alloc(16, 1, trace.StatusOK, 0)
	b := r.alloc(16, 1, trace.StatusOK, 16)
	c := r.alloc(32, 1, trace.StatusOK, 32)
	r.free(a, 1)
	w := r.s.(sdk.StreamWaiter)
	w.StreamWait(2, 1)
	w.StreamWait(3, 2)
	r.alloc(16, 3, trace.StatusOK, 0)
	r.free(b, 1)
	r.alloc(16, 3, trace.StatusFailed, 0)
	if st := r.s.(sdk.Setter).Set("reuse_allow_opportunistic", "true"); st != trace.StatusOK {
		t.Fatal(st)
	}
	r.dev.Complete(1)
	r.alloc(16, 3, trace.StatusOK, 16)
	_ = c
}

// TestThreshold: at a synchronisation of the host unused segments go back until the threshold is met; pending ones count as used.
func TestThreshold(t *testing.T) {
	r := open(t, 128, 2, `{"release_threshold":33554432}`)
	var b [3]sdk.Block
	for i := range b {
		b[i] = r.alloc(32, 0, trace.StatusOK, uint64(32*i))
	}
	for i := range b {
		r.free(b[i], sdk.Stream(i%2))
	}
	sync := func(s sdk.Stream, host bool) {
		r.dev.Complete(s)
		r.s.(sdk.Completer).Completed(s, false, host)
	}
	r.reserved(96)
	sync(0, false)
	r.reserved(96) // the host did not wait
	sync(0, true)
	r.reserved(32) // the first and the last are complete and go; the second, of stream 1, is still pending
	sync(1, true)
	r.reserved(32) // within the threshold
	r.s.(sdk.Trimmer).Trim()
	r.reserved(0)
}

// TestUse: a block used on stream 1 and freed on stream 0 serves stream 0 at once, ordered by a wait, but nobody else before both
// have completed.
func TestUse(t *testing.T) {
	r := open(t, 64, 3, `{"reuse_allow_internal_dependencies":false}`)
	a := r.alloc(32, 0, trace.StatusOK, 0)
	r.s.(sdk.StreamUser).Use(&a, 1)
	r.free(a, 0)
	r.dev.Complete(0)
	r.alloc(32, 2, trace.StatusOK, 32)
	r.alloc(32, 2, trace.StatusFailed, 0)
	r.dev.Complete(1)
	r.alloc(32, 2, trace.StatusOK, 0)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), `{}`) }
