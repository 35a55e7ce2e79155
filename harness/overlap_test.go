package harness

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

func TestOverlapKeepsOrderAndContents(t *testing.T) {
	var got []uint64
	o := NewOverlap(func(w Window) error {
		for i := range w.Outcomes {
			got = append(got, w.First+uint64(i), w.Outcomes[i].Addr, uint64(len(w.Calls)))
		}
		return nil
	})
	window := make([]trace.Outcome, 3) // one memory for all windows, as the plugin's
	for k := range uint64(50) {
		n := 1 + k%3
		for i := range n {
			window[i].Addr = 1000*k + i
		}
		if err := o.Add(Window{First: 10 * k, Outcomes: window[:n], Calls: make([]trace.Call, k%2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Wait(); err != nil {
		t.Fatal(err)
	}
	at := 0
	for k := range uint64(50) {
		for i := range 1 + k%3 {
			if got[at] != 10*k+i || got[at+1] != 1000*k+i || got[at+2] != k%2 {
				t.Fatalf("window %d, outcome %d: %v", k, i, got[at:at+3])
			}
			at += 3
		}
	}
	if at != len(got) {
		t.Errorf("%d values too many", len(got)-at)
	}
}

func TestOverlapReturnsTheConsumersError(t *testing.T) {
	bad := errors.New("bad window")
	o := NewOverlap(func(Window) error { return bad })
	var err error
	for range 10 {
		if err = o.Add(Window{}); err != nil {
			break
		}
	}
	if werr := o.Wait(); !errors.Is(werr, bad) || err != nil && !errors.Is(err, bad) {
		t.Errorf("add %v, wait %v", err, werr)
	}
}
