package synth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

// Param is one parameter of a pattern: a whole number with its limits. Units stand last in the name.
type Param struct {
	Name              string
	Doc               string
	Default, Min, Max uint64
}

// Pattern describes one shape of trace.
type Pattern struct {
	Name   string
	Doc    string
	Params []Param
	run    func(*gen)
}

// Options choose what Generate writes.
type Options struct {
	Pattern string
	Seed    uint64
	Events  uint64            // where to stop; 0 = DefaultEvents, or, for serving with Requests, when all are served
	Params  map[string]uint64 // by name; those not named have their defaults
	// Requests are the requests of the pattern serving; nil = the seeded arrival model. See ReadRequests.
	Requests []Request
}

// DefaultEvents is the length of a trace when none is asked for; MaxEvents the longest.
const (
	DefaultEvents = 100_000
	MaxEvents     = 1 << 36
)

// ErrOption is the reason for which options are refused: an unknown pattern or parameter, a value outside its limits.
var ErrOption = errors.New("illegal option")

// Patterns returns all patterns in order of their names.
func Patterns() []Pattern {
	list := []Pattern{training, serving, powerlaw, sawtooth, growing, streams, pools, adversary}
	slices.SortFunc(list, func(a, b Pattern) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Generate writes a pattern into a builder and returns the Meta to finish it with. Its title holds all that is needed to
// make the trace again.
func Generate(b *trace.Builder, o Options) (trace.Meta, error) {
	p, values, err := o.resolve()
	if err != nil {
		return trace.Meta{}, err
	}
	g := &gen{b: b, r: newRNG(o.Seed, p.Name), p: values, max: o.Events, requests: o.Requests}
	if g.max == 0 {
		g.max = DefaultEvents
		if o.Requests != nil {
			g.max = MaxEvents
		}
	}
	p.run(g)
	if g.err != nil {
		return trace.Meta{}, fmt.Errorf("synth %s: %w", p.Name, g.err)
	}
	return trace.Meta{Source: trace.SourceSynth, CoversPercent: 100, Title: o.title(p, values)}, nil
}

// Build is Generate in memory.
func Build(o Options) (*trace.Trace, error) {
	b := trace.NewBuilder()
	meta, err := Generate(b, o)
	if err != nil {
		return nil, err
	}
	return b.Finish(meta)
}

// resolve checks the options and fills in the defaults.
func (o *Options) resolve() (Pattern, map[string]uint64, error) {
	list := Patterns()
	i := slices.IndexFunc(list, func(p Pattern) bool { return p.Name == o.Pattern })
	if i < 0 {
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.Name
		}
		return Pattern{}, nil, fmt.Errorf("%w: no pattern %q: there are %s", ErrOption, o.Pattern, strings.Join(names, ", "))
	}
	p := list[i]
	if o.Events > MaxEvents {
		return p, nil, fmt.Errorf("%w: %d events: at most MaxEvents = %d", ErrOption, o.Events, uint64(MaxEvents))
	}
	if o.Requests != nil && p.Name != serving.Name {
		return p, nil, fmt.Errorf("%w: requests are for the pattern serving, not %s", ErrOption, p.Name)
	}
	values := make(map[string]uint64, len(p.Params))
	for _, q := range p.Params {
		values[q.Name] = q.Default
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		j := slices.IndexFunc(p.Params, func(q Param) bool { return q.Name == name })
		if j < 0 {
			return p, nil, fmt.Errorf("%w: pattern %s has no parameter %q: it has %s", ErrOption, p.Name, name, p.paramNames())
		}
		q, v := p.Params[j], o.Params[name]
		if v < q.Min || v > q.Max {
			return p, nil, fmt.Errorf("%w: %s=%d is not between %d and %d", ErrOption, name, v, q.Min, q.Max)
		}
		values[name] = v
	}
	for lo, hi := range map[string]string{"size_bytes_min": "size_bytes_max", "sequence_tokens_min": "sequence_tokens_max"} {
		if values[lo] > values[hi] {
			return p, nil, fmt.Errorf("%w: %s=%d is above %s=%d", ErrOption, lo, values[lo], hi, values[hi])
		}
	}
	return p, values, nil
}

func (p *Pattern) paramNames() string {
	names := make([]string, len(p.Params))
	for i, q := range p.Params {
		names[i] = q.Name
	}
	return strings.Join(names, ", ")
}

func (o *Options) title(p Pattern, values map[string]uint64) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s seed=%d events=%d", p.Name, o.Seed, o.Events)
	if o.Requests != nil {
		fmt.Fprintf(&s, " requests=%d", len(o.Requests))
	}
	for _, q := range p.Params {
		fmt.Fprintf(&s, " %s=%d", q.Name, values[q.Name])
	}
	return s.String()
}

// gen is what a pattern writes with. The first error is kept, and makes it full.
type gen struct {
	b        *trace.Builder
	r        rng
	p        map[string]uint64
	max      uint64
	next     trace.Handle
	requests []Request
	err      error
}

// full reports that the pattern must stop.
func (g *gen) full() bool { return g.err != nil || g.b.Len() >= g.max }

// keep keeps the first error.
func (g *gen) keep(err error) {
	if g.err == nil {
		g.err = err
	}
}

// alloc adds a request; 0 is returned when the trace is full.
func (g *gen) alloc(size uint64, a trace.AllocArgs) trace.Handle {
	if g.full() {
		return 0
	}
	g.next++
	g.keep(g.b.Alloc(g.next, size, a))
	return g.next
}

// free adds a free unless the handle is 0 or the trace is full.
func (g *gen) free(h trace.Handle) {
	if h != 0 && !g.full() {
		g.keep(g.b.Free(h, trace.FreeArgs{}))
	}
}

// do adds another event unless the trace is full.
func (g *gen) do(add func() error) {
	if !g.full() {
		g.keep(add())
	}
}

// mark adds a mark.
func (g *gen) mark(key string, value uint64) { g.do(func() error { return g.b.Mark(key, value) }) }

// tag interns a tag.
func (g *gen) tag(s string) uint32 { return g.b.String(s) }

// shuffle puts the handles into a random order.
func (g *gen) shuffle(list []trace.Handle) {
	for i := len(list) - 1; i > 0; i-- {
		j := g.r.below(uint64(i + 1))
		list[i], list[j] = list[j], list[i]
	}
}
