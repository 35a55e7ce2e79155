package demos_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/demos"

	_ "github.com/gpubench/gpubench/internal/testflags"
)

func TestDemos(t *testing.T) {
	want := []string{"cupy-1256", "httomo-667", "pytorch-182446", "rmm-1957", "vma-231"}
	if got := demos.Names(); !slices.Equal(got, want) {
		t.Fatalf("names %q, want %q", got, want)
	}
	// The live peaks, by hand: the largest sum of what is live at one time. In pytorch-182446 it
	// passes 2^64, which is the story.
	peaks := map[string]uint64{"pytorch-182446": math.MaxUint64, "cupy-1256": 6 << 30, "httomo-667": 7 << 30, "rmm-1957": 1 << 30, "vma-231": 576 + 648 + 720}
	for _, name := range want {
		tr, err := demos.Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := trace.Validate(tr); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(tr.Events) > 10 || tr.Meta.Title == "" || tr.Meta.CapacityBytes == 0 {
			t.Errorf("%s: %d events, %+v", name, len(tr.Events), tr.Meta)
		}
		if peak, ok := peaks[name]; ok {
			if s := trace.Describe(tr); s.Live.BytesMax != peak || (s.Live.BytesMax > tr.Meta.CapacityBytes) != (peak == math.MaxUint64) {
				t.Errorf("%s: live peak %d, want %d within %d", name, s.Live.BytesMax, peak, tr.Meta.CapacityBytes)
			}
		}
		text, err := demos.Text(name)
		if err != nil || !strings.Contains(text, "# The story of ") {
			t.Errorf("%s tells no story (%v)", name, err)
		}
	}
	if _, err := demos.Open("nothing"); err == nil || !strings.Contains(err.Error(), "there are cupy-1256") {
		t.Error(err)
	}
}
