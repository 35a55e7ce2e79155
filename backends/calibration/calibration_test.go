package calibration

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/backends/fault"
	"github.com/gpubench/gpubench/backends/pmm"

	model "github.com/gpubench/gpubench/pmm"
)

// By hand, from the binomial distribution of n throws: with n = 31 P(fewer than 10 heads) = 1.47 % and P(fewer than 11) = 3.54 %, so the
// interval is from the 10th value to the 22nd; with n = 6 P(0 heads) = 1.6 % and P(fewer than 2) = 10.9 %: the whole range.
func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		n                 int
		median, low, high float64
	}{{1, 1, 1, 1}, {4, 2.5, 1, 4}, {6, 3.5, 1, 6}, {9, 5, 2, 8}, {31, 16, 10, 22}} {
		var v []float64
		for i := c.n; i >= 1; i-- {
			v = append(v, float64(i))
		}
		if m, l, h := MedianInterval(v); m != c.median || l != c.low || h != c.high {
			t.Errorf("n=%d: %g [%g, %g], want %g [%g, %g]", c.n, m, l, h, c.median, c.low, c.high)
		}
	}
}

func device(t *testing.T) *pmm.Device {
	t.Helper()
	costs := model.DefaultCosts()
	costs.MallocNs.Value, costs.CreateNs.Value, costs.UnmapNs.Value, costs.MemInfoNs.Value = 100_000, 30_000, 20_000, 6_000
	d, err := pmm.New(pmm.Config{TotalBytes: 4 << 30, Costs: &costs})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What the model was told comes out again: the median of every call is at least its own figure, and the difference is what the model
// adds for pages and invalidation.
func TestTheModelShowsWhatItWasTold(t *testing.T) {
	d := device(t)
	r, err := Measure(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Figure{}
	for _, f := range r.Figures {
		if f.Cost != "" {
			got[f.Cost] = f
		}
		if f.Samples != DefaultSamples || f.Low > f.Median || f.Median > f.High {
			t.Errorf("figure %+v", f)
		}
	}
	for name, want := range map[string]float64{"malloc_ns": 100_000, "create_ns": 30_000} {
		if f := got[name]; f.Median < want || f.Median > 1.5*want {
			t.Errorf("%s is %g, the model was told %g", name, f.Median, want)
		}
	}
	if f := got["unmap_ns"]; f.Median < 20_000 {
		t.Errorf("unmap_ns is %g, the model was told 20000 and adds an invalidation", f.Median)
	}
	if len(r.Warnings) != 3 {
		t.Errorf("warnings %q: no memset, no copies, and a model's times", r.Warnings)
	}
	if free, total := d.MemInfo(); free != total {
		t.Errorf("%d bytes are held after the measurement", total-free)
	}
}

func TestNothingIsHeldAfterAFailure(t *testing.T) {
	for k := uint64(1); k < 400; k += 13 {
		d := device(t)
		f, err := fault.New(d, 1)
		if err != nil {
			t.Fatal(err)
		}
		f.FailNext(k)
		_, err = Measure(f, Options{Samples: 6})
		if err != nil && !errors.Is(err, ErrCall) {
			t.Fatalf("call %d: %v", k, err)
		}
		if free, total := d.MemInfo(); free != total {
			t.Errorf("call %d failed: %d bytes are held", k, total-free)
		}
	}
}

func TestBounds(t *testing.T) {
	if _, err := Measure(device(t), Options{Samples: 5}); !errors.Is(err, ErrSamples) {
		t.Errorf("five samples: %v", err)
	}
	r, err := Measure(device(t), Options{Samples: 6, BytesMax: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if f.SizeBytes > 2<<20 {
			t.Errorf("%s used a block of %d bytes", f.Name, f.SizeBytes)
		}
	}
}
