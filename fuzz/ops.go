package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/script"
)

const (
	// TargetPMM is the name of the target that is the model itself, by its own operations.
	TargetPMM = "pmm"
	// ScriptFile is the smallest program of a finding in the model, in the form of pmm/script.
	ScriptFile = "program.ops"
	// scriptOpsMax is the length of a script: longer ones spend their time in the census (pmm/script).
	scriptOpsMax = 120
	// scriptIDs bounds the numbers of chunks that an operation may name beyond those there are.
	scriptIDs = 4
)

// scriptOp says how to draw an operation of the model: its weight, and its arguments.
type scriptOp struct {
	name   string
	weight uint8
	args   func(g *scripter) []uint64
}

// scripter draws scripts.
type scripter struct {
	src plan.Source
	cfg pmm.Config
	ids int // about as many chunks were named
}

func (g *scripter) id() uint64    { return uint64(g.src.Draw(g.ids + scriptIDs)) }
func (g *scripter) block() uint64 { return uint64(g.src.Draw(4)) }

// sizes draws a chunk size, rarely an impossible one.
func (g *scripter) size(mask uint64) uint64 {
	k := g.src.Draw(12)
	if k == 11 {
		return 1 << g.src.Draw(24)
	}
	for ; k > 0; k-- {
		if next := mask & (mask - 1); next != 0 {
			mask = next
		} else {
			break
		}
	}
	return mask & -mask
}

// scriptOps are the operations of pmm/script with their arguments, in its order of arguments.
var scriptOps = []scriptOp{
	{"alloc", 60, func(g *scripter) []uint64 {
		typ := uint64(g.src.Draw(2))
		mask := g.cfg.UserSizes
		if typ == 1 {
			mask = g.cfg.KernelSizes
		}
		n := uint64(1 + g.src.Draw(4))
		g.ids += int(n)
		return []uint64{typ, g.size(mask), uint64(g.src.Draw(int(pmm.FlagsMask) + 1)), n, uint64(g.src.Draw(2))}
	}},
	{"unpin", 30, func(g *scripter) []uint64 { return []uint64{g.id(), g.block()} }},
	{"free", 50, func(g *scripter) []uint64 { return []uint64{g.id(), uint64(g.src.Draw(3))} }},
	{"split", 14, func(g *scripter) []uint64 { g.ids += 4; return []uint64{g.id(), g.size(g.cfg.UserSizes)} }},
	{"merge", 10, func(g *scripter) []uint64 { return []uint64{g.id()} }},
	{"mark", 8, func(g *scripter) []uint64 { return []uint64{g.id(), uint64(g.src.Draw(3))} }},
	{"evict", 8, func(*scripter) []uint64 { return nil }},
	{"evict_phys", 4, func(g *scripter) []uint64 { return []uint64{uint64(g.src.Draw(g.cfg.Roots + 1))} }},
	{"pma_alloc", 6, func(g *scripter) []uint64 {
		g.ids++
		return []uint64{uint64(1 + g.src.Draw(3)), uint64(16 + 5*g.src.Draw(2)), uint64(g.src.Draw(2))}
	}},
	{"pma_free", 4, func(g *scripter) []uint64 { return []uint64{g.id()} }},
	{"pma_evict_range", 4, func(g *scripter) []uint64 {
		from := g.src.Draw(g.cfg.Roots)
		return []uint64{uint64(from), uint64(from + g.src.Draw(g.cfg.Roots-from))}
	}},
	{"release", 4, func(*scripter) []uint64 { return nil }},
	{"sync", 4, func(*scripter) []uint64 { return nil }},
	{"lazyfree", 8, func(g *scripter) []uint64 { return []uint64{g.id()} }},
	{"flush", 4, func(*scripter) []uint64 { return nil }},
	{"complete", 5, func(g *scripter) []uint64 { return []uint64{uint64(g.src.Draw(3))} }},
	{"inject_split", 3, func(g *scripter) []uint64 { return []uint64{g.id()} }},
	{"inject_evict", 3, func(g *scripter) []uint64 { return []uint64{g.block(), 1} }},
	{"inject_pma", 3, func(g *scripter) []uint64 { return []uint64{uint64(1 + g.src.Draw(2))} }},
	{"inject_pin", 2, func(g *scripter) []uint64 { return []uint64{uint64(1 + g.src.Draw(2))} }},
	{"inject_kmem", 2, func(g *scripter) []uint64 { return []uint64{uint64(g.src.Draw(3))} }},
	{"subchunks", 3, func(g *scripter) []uint64 {
		return []uint64{g.id(), uint64(g.src.Draw(1 << 12)), uint64(1 + g.src.Draw(1<<12))}
	}},
}

// NewScript draws a script: a configuration of the model, and operations on it.
func NewScript(src plan.Source) *script.Script {
	g := &scripter{src: src}
	g.cfg = pmm.Config{Roots: 1 + src.Draw(6), BatchOrder: src.Draw(2), Scrub: src.Draw(2) == 1, Oversubscription: src.Draw(4) > 0}
	g.cfg.UserSizes, g.cfg.KernelSizes = pmm.RootBytes, pmm.RootBytes
	for _, k := range []uint{12, 16, 20} {
		g.cfg.UserSizes |= uint64(src.Draw(2)) << k
		g.cfg.KernelSizes |= uint64(src.Draw(2)) << k
	}
	s := &script.Script{Config: g.cfg}
	sum := 0
	for i := range scriptOps {
		sum += int(scriptOps[i].weight)
	}
	for n := 1 + src.Draw(scriptOpsMax); n > 0; n-- {
		k := src.Draw(sum)
		for i := range scriptOps {
			if k -= int(scriptOps[i].weight); k < 0 {
				s.Ops = append(s.Ops, script.Op{Line: len(s.Ops) + 2, Name: scriptOps[i].name, Args: scriptOps[i].args(g)})
				break
			}
		}
	}
	return s
}

// JudgeScript runs a script on a fresh model with every invariant checked after every operation.
func JudgeScript(s *script.Script) (b *Breach, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = crashed(crashOf(p, debug.Stack()), StageRun), nil
		}
	}()
	event := -1
	err = s.Run(io.Discard, script.Options{Check: true, Observe: func(script.Op, *pmm.Model) { event++ }})
	if err == nil {
		return nil, nil
	}
	if event < 0 {
		return nil, err // the model refuses the configuration
	}
	b = &Breach{Check: CheckEviction, Code: "invariant", Event: event, Kind: s.Ops[event].Name, Expected: "every invariant of the model to hold", Observed: err.Error()}
	return b, nil
}

// scriptText is a script as text.
func scriptText(s *script.Script) []byte {
	var b bytes.Buffer
	b.WriteString(script.HeaderLine(s.Config) + "\n")
	for _, o := range s.Ops {
		b.WriteString(o.String() + "\n")
	}
	return b.Bytes()
}

// ShrinkScript leaves out operations, then lowers arguments, for as long as judge finds the same breach.
func ShrinkScript(s *script.Script, keep *Breach, judge func(*script.Script) (*Breach, error)) (small *script.Script, b *Breach, runs int) {
	small, b = &script.Script{Config: s.Config, Ops: append([]script.Op(nil), s.Ops...)}, keep
	try := func(cand []script.Op) bool {
		if runs++; runs > shrinkRunsMax {
			return false
		}
		for i := range cand {
			cand[i].Line = i + 2
		}
		c := &script.Script{Config: s.Config, Ops: cand}
		if got, err := judge(c); err == nil && keep.Same(got) {
			small, b = c, got
			return true
		}
		return false
	}
	for before := -1; before != len(small.Ops); {
		before = len(small.Ops)
		if b.Event+1 < len(small.Ops) {
			try(append([]script.Op(nil), small.Ops[:b.Event+1]...))
		}
		ddmin(small.Ops, func(cand []script.Op) ([]script.Op, bool) {
			ok := try(cand)
			return small.Ops, ok
		})
	}
	for i := 0; i < len(small.Ops); i++ {
		for a := 0; a < len(small.Ops[i].Args); a++ {
			for _, lower := range []uint64{0, 1} {
				if small.Ops[i].Args[a] <= lower {
					break
				}
				cand := append([]script.Op(nil), small.Ops...)
				cand[i].Args = append([]uint64(nil), cand[i].Args...)
				cand[i].Args[a] = lower
				if try(cand) {
					break
				}
			}
		}
	}
	return small, b, runs
}

// RunPMM runs a campaign on the model itself, by its own operations.
func RunPMM(ctx context.Context, o Options) (*Report, error) {
	start := clock.Monotonic()
	r := &Report{Target: TargetPMM, Backend: TargetPMM, Seed: o.Seed, Canary: canaryNotRun, Checks: []CheckState{
		{Check: CheckConservation, What: "every chunk is in exactly one list, tree or owner", Applied: true},
		{Check: CheckStatistics, What: "counters agree with the lists", Applied: true},
		{Check: CheckCrash, What: "no crash", Applied: true},
		{Check: CheckEviction, What: "eviction is legal, pins are respected, the lists' order holds", Applied: true},
	}}
	causes := map[string]*Finding{}
	src := plan.NewRandom(o.Seed, 0)
	var told time.Duration
	for ctx.Err() == nil && (o.Time == 0 || clock.Monotonic()-start < o.Time) && (o.Programs == 0 || r.Programs < o.Programs) &&
		!(o.UntilFinding && len(r.Findings) > 0) {
		src.Seed(o.Seed, r.Programs)
		s := NewScript(src)
		b, err := JudgeScript(s)
		r.Programs++
		r.Events += uint64(len(s.Ops))
		if err != nil {
			r.Refused++
			continue
		}
		if b != nil && causes[b.Cause()] == nil {
			f := scriptFinding(s, b)
			f.Seed, f.Programs, f.Environment = o.Seed, r.Programs, HereAndNow(o.Version)
			causes[b.Cause()] = f
			r.Findings = append(r.Findings, f)
			if o.Findings != "" {
				path, err := f.Write(o.Findings, clock.Now())
				if err != nil {
					return r, err
				}
				r.Paths = append(r.Paths, path)
			}
		} else if b != nil {
			causes[b.Cause()].Count++
		}
		now := clock.Monotonic()
		r.Seconds = (now - start).Seconds()
		if o.Progress != nil && now-told > 200*time.Millisecond {
			told = now
			o.Progress(r)
		}
	}
	r.Judged = r.Programs
	return r, nil
}

func scriptFinding(s *script.Script, b *Breach) *Finding {
	small, b, runs := ShrinkScript(s, b, JudgeScript)
	f := &Finding{Class: b.Code, Target: TargetPMM, Breach: *b, Config: Config{Backend: TargetPMM}, Events: len(small.Ops), OriginalEvents: len(s.Ops),
		ShrinkRuns: runs, Reliability: fmt.Sprintf("%d/%d", flakyRuns, flakyRuns), Count: 1, Script: small, originalScript: s}
	f.Title = f.title()
	return f
}

// ReadScript reads a script.
func ReadScript(text string) (*script.Script, error) { return script.Parse(strings.NewReader(text)) }
