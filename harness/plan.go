package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpubench/gpubench/results"
	"github.com/gpubench/gpubench/trace"
)

// pageBytes is the unit of device memory on every device modelled: a tight capacity is a whole number of pages.
const pageBytes = 2 << 20

// Recording is one opened trace of a run.
type Recording struct {
	Name       string // for tables: the file's base name, or a bundled recording's
	Path       string // as the user gave it
	BinaryPath string // the mapped binary form that plugins open
	Trace      *trace.Trace
	SHA256     string
	LowerBound uint64 // maximum of live requested bytes
}

// Contender is one strategy entry of a run, found and described.
type Contender struct {
	Strategy     string
	Label        string
	Version      string
	Options      json.RawMessage
	Plugin       string // path of the executable; "" = built in
	PluginSHA256 string
	Promises     []string
	Deviations   []results.Deviation
	Canary       bool
	Alignment    uint64   // bytes: every address is a multiple of it
	CanRestore   bool     // takes over the start state of a trace that begins mid-way
	Backends     []string // what its executable serves itself: any other backend needs a second process
}

func (c *Contender) promises(word string) bool { return slices.Contains(c.Promises, word) }

// Spec is everything a plan depends on.
type Spec struct {
	Title          string
	Seed           uint64
	Trials         int
	Recordings     []Recording
	Contenders     []Contender
	Backend        string
	BackendOptions json.RawMessage
	CapacityBytes  uint64  // of the device
	TightFactor    float64 // 0 = no tight cases
	Control        bool
	Remote         bool
}

// ErrNothingToRun is returned for a plan without recordings or strategies.
var ErrNothingToRun = errors.New("nothing to run")

// Plan expands a spec into cases and a seeded order of trials. The exact metrics of a tight case need no repetition, but it
// runs twice, so that a strategy that answers differently the second time is found.
func Plan(s Spec) ([]results.Case, []results.Unit, error) {
	if len(s.Recordings) == 0 {
		return nil, nil, fmt.Errorf("%w: no recording was given", ErrNothingToRun)
	}
	if len(s.Contenders) == 0 {
		return nil, nil, fmt.Errorf("%w: no strategy was given", ErrNothingToRun)
	}
	var cases []results.Case
	repeat := map[string]int{}
	add := func(c results.Case, trials int) string {
		c.ID = fmt.Sprintf("c%03d", len(cases))
		repeat[c.ID] = trials
		cases = append(cases, c)
		return c.ID
	}
	control := controlContender(s.Contenders)
	for ti := range s.Recordings {
		for ci := range s.Contenders {
			base := makeCase(&s, ti, &s.Contenders[ci])
			id := add(base, s.Trials)
			if tight := TightCapacity(s.Recordings[ti].LowerBound, s.TightFactor, s.CapacityBytes); tight != 0 {
				t := base
				t.Scope, t.CapacityBytes = results.ScopeTight, tight
				add(t, exactTrials)
			}
			if s.Control && ci == control {
				c := base
				c.Control, c.ControlOf = true, id
				add(c, s.Trials)
			}
		}
	}
	return cases, order(cases, repeat, s.Seed), nil
}

// controlContender chooses the strategy that is measured twice: no canary, and if there is one, a strategy that keeps memory. One that
// goes to the device at every event shows mostly the device's time, which on a model has no noise; -1 when all are canaries.
func controlContender(list []Contender) int {
	any := -1
	for i := range list {
		switch {
		case list[i].Canary:
		case !list[i].promises("returns-on-free"):
			return i
		case any < 0:
			any = i
		}
	}
	return any
}

// exactTrials is how often a case runs whose metrics are all exact: twice, to see that they are.
const exactTrials = 2

func makeCase(s *Spec, ti int, c *Contender) results.Case {
	binding := "fused"
	if s.Remote || !slices.Contains(c.Backends, s.Backend) {
		binding = "remote"
	}
	return results.Case{
		Trace: ti, Strategy: c.Strategy, Label: c.Label, Version: c.Version, Options: c.Options,
		Backend: s.Backend, BackendOptions: s.BackendOptions, CapacityBytes: s.CapacityBytes, Scope: results.ScopeDevice,
		Binding: binding, Plugin: c.Plugin, PluginSHA256: c.PluginSHA256, Promises: c.Promises, Deviations: c.Deviations, Canary: c.Canary,
	}
}

// TightCapacity is factor × the lower bound, up to whole pages; 0 when there is no tight case: no factor, an empty trace, or
// a device that is no larger anyway.
func TightCapacity(lowerBound uint64, factor float64, capacity uint64) uint64 {
	if factor <= 0 || lowerBound == 0 {
		return 0
	}
	want := factor * float64(lowerBound)
	if want >= float64(capacity) {
		return 0
	}
	pages := (uint64(want) + pageBytes - 1) / pageBytes
	return pages * pageBytes
}

// order interleaves: round r holds every case that has an r-th trial, in a permutation of its own.
func order(cases []results.Case, repeat map[string]int, seed uint64) []results.Unit {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) // second word: the golden ratio, an arbitrary fixed stream
	var units []results.Unit
	for round := 1; ; round++ {
		var ids []string
		for _, c := range cases {
			if repeat[c.ID] >= round {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) == 0 {
			return units
		}
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			units = append(units, results.Unit{Case: id, Number: round})
		}
	}
}

// Missing returns the units of the order that have no trial yet, in order.
func Missing(order []results.Unit, done []results.Trial) []results.Unit {
	have := map[string]bool{}
	for i := range done {
		have[done[i].ID] = true
	}
	var out []results.Unit
	for _, u := range order {
		if !have[u.TrialID()] {
			out = append(out, u)
		}
	}
	return out
}
