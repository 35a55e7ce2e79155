package score

import (
	"bytes"
	"context"
	"time"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/trace"
)

// Curve is the survival curve of one generator: at each time, the share of searches that had found nothing by then.
type Curve struct {
	Generator string    `json:"generator"`
	Searches  int       `json:"searches"` // mutants × seeds
	Found     int       `json:"found"`
	AtCPUS    []float64 `json:"at_cpu_s"`
	Surviving []float64 `json:"surviving"`
	NeverIDs  []string  `json:"never"` // mutants that no seed found
}

// Curves searches every mutant with every generator and seed at the same CPU time and with the same checks.
func Curves(ctx context.Context, o Options) ([]Curve, error) {
	list, err := chosen(o.Only)
	if err != nil {
		return nil, err
	}
	var curves []Curve
	for _, kind := range Generators() {
		c := Curve{Generator: kind, AtCPUS: times(o.Time), NeverIDs: []string{}}
		var found []time.Duration
		for i := range list {
			if o.Progress != nil {
				o.Progress(kind+" on "+zoo.Prefix+list[i].ID, i, len(list))
			}
			hits, err := searches(ctx, kind, &list[i], &o)
			if err != nil {
				return curves, err
			}
			if ctx.Err() != nil {
				return curves, nil // the one under way is not shown: it has seen fewer mutants than the others
			}
			if len(hits) == 0 {
				c.NeverIDs = append(c.NeverIDs, list[i].ID)
			}
			found = append(found, hits...)
			c.Searches += o.Seeds
		}
		c.Found = len(found)
		c.Surviving = surviving(found, c.Searches, c.AtCPUS)
		curves = append(curves, c)
	}
	return curves, nil
}

// searches returns the times at which the seeds that found the mutant did.
func searches(ctx context.Context, kind string, m *zoo.Mutant, o *Options) ([]time.Duration, error) {
	t, err := targetOf(m.Description(), o.BlackBox)
	if err != nil {
		return nil, err
	}
	var hits []time.Duration
	for seed := range o.Seeds {
		g, err := NewGenerator(kind, t.Limits(), uint64(seed+1))
		if err != nil {
			return nil, err
		}
		r, err := Search(ctx, t, g, o.Time)
		if err != nil {
			return nil, err
		}
		if r.Found {
			hits = append(hits, r.CPU)
		}
	}
	return hits, nil
}

// times are the times of a curve: a millisecond, and then three a decade up to the limit.
func times(limit time.Duration) []float64 {
	var list []float64
	for decade := 1e-3; decade < limit.Seconds(); decade *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if at := k * decade; at < limit.Seconds() {
				list = append(list, at)
			}
		}
	}
	return append(list, limit.Seconds())
}

// surviving is the share of searches that had found nothing at each time. All are censored at the same time, so that no estimate is
// needed. A search may pass its limit by the last program; what it finds then counts at the limit.
func surviving(found []time.Duration, searches int, at []float64) []float64 {
	list := make([]float64, len(at))
	for i, t := range at {
		n := searches
		for _, f := range found {
			if f.Seconds() <= t || i == len(at)-1 {
				n--
			}
		}
		if searches > 0 {
			list[i] = float64(n) / float64(searches)
		}
	}
	return list
}

// text is the smallest program of a finding in the text form, without its header.
func text(f *fuzz.Finding) string {
	var b bytes.Buffer
	if err := trace.Format(&b, f.Minimal); err != nil {
		return err.Error()
	}
	var out []byte
	for line := range bytes.Lines(b.Bytes()) {
		if line[0] != '#' && len(bytes.TrimSpace(line)) > 0 {
			out = append(out, line...)
		}
	}
	return string(out)
}
