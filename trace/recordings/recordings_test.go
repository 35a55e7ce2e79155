package recordings

import (
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/trace"
)

func TestEveryBundledRecordingIsATrace(t *testing.T) {
	// Allocs and frees as counted in the snapshots themselves.
	want := map[string][2]int{"complete-forward-backward": {3853, 3691}, "complete-forward": {785, 744}, "complete-tiny": {36, 26},
		"expandable-forward": {1704, 1704}, "windowed-1721": {1721, 1721}, "windowed-forward": {681, 681}, "windowed-training": {7591, 7370}}
	if len(Names()) != len(want) {
		t.Fatalf("bundled: %v", Names())
	}
	for _, name := range Names() {
		r, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := trace.Parse(r, name)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int
		for _, e := range tr.Events {
			switch e.Kind {
			case trace.KindAlloc:
				got[0]++
			case trace.KindFree:
				got[1]++
			}
		}
		if got != want[name] {
			t.Errorf("%s: %v allocs and frees, want %v", name, got, want[name])
		}
	}
	if _, err := Open("nothing"); err == nil {
		t.Error("a recording that is not there was opened")
	}
}
