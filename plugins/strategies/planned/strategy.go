package planned

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/learn"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "planned"

// unitBytes is what planned sizes are rounded up to, as the fallback rounds them.
const unitBytes = 512

// Options of the strategy.
type Options struct {
	Mark            string `json:"mark"`
	LearnIterations int    `json:"learn_iterations"`
	Match           string `json:"match"`
	HeadroomPercent uint64 `json:"headroom_percent"`
	MaxPlannedBytes uint64 `json:"max_planned_bytes"`
	Conf            string `json:"conf"`
}

// Strategy is the planner over its fallback.
type Strategy struct {
	*pytorch.Allocator // the fallback
	opt                Options
	area               *learn.Area
	rec                learn.Recorder
	slots              []slot // the plan, by position
	largest            []uint64
	next               int // position of the next request in its iteration
	learning           bool
	misfit             bool // the iteration had requests larger than planned, or more
	routed             int  // private pools begun
	planned            uint64
	mismatches         uint64
	plans              uint64
}

// slot is a position of the plan; size 0: left to the fallback.
type slot struct {
	offset, size uint64
	asked        uint64 // size that was learnt
	stream       sdk.Stream
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "STAlloc: learns the first iterations, plans the next ones, and falls back on PyTorch's allocator",
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "planned-fallback", Section: "STAlloc Allocator/StaticAllocator.hpp",
			Text: "The fallback's deviations apply to what is not planned; free planned memory serves no other request, so one may fail that would fit there.",
		}},
		Options: arena.ObjectSchema(
			`"mark":{"type":"string","default":"iteration","description":"key of the marks between iterations"}`,
			`"learn_iterations":{"type":"integer","minimum":1,"maximum":100,"default":3,"description":"iterations that are recorded before the first plan"}`,
			`"match":{"enum":["fits","equal"],"default":"fits","description":"which requests get their planned place: those not larger than planned, or those of the same size (STAlloc)"}`,
			`"headroom_percent":{"type":"integer","minimum":0,"maximum":1000,"default":10,"description":"with match fits, how much larger than seen each size is planned"}`,
			`"max_planned_bytes":{"type":"integer","minimum":0,"default":0,"description":"larger requests are not planned; 0 = no limit"}`,
			`"conf":{"type":"string","default":"","description":"settings of the fallback, as in PYTORCH_CUDA_ALLOC_CONF"}`,
		),
		Alignment: unitBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	s := &Strategy{opt: Options{Mark: "iteration", LearnIterations: 3, Match: "fits", HeadroomPercent: 10}, area: learn.NewArea(env), learning: true}
	if err := sdk.DecodeOptions(env.Options, &s.opt); err != nil {
		return nil, err
	}
	if s.opt.Match != "fits" && s.opt.Match != "equal" || s.opt.LearnIterations < 1 {
		return nil, fmt.Errorf(`%s: option match is %q, learn_iterations %d; give "fits" or "equal", and at least 1`, Name, s.opt.Match, s.opt.LearnIterations)
	}
	if s.opt.Match == "equal" {
		s.opt.HeadroomPercent = 0
	}
	below := *env
	var err error
	if below.Options, err = json.Marshal(map[string]string{"conf": s.opt.Conf}); err != nil {
		return nil, err
	}
	fallback, err := pytorch.Description().New(&below)
	if err != nil {
		return nil, fmt.Errorf("%s: fallback: %w", Name, err)
	}
	s.Allocator = fallback.(*pytorch.Allocator)
	return s, nil
}

// Alloc gives the planned place, or asks the fallback.
func (s *Strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	n := s.next
	s.next++
	if n < len(s.slots) {
		if x := &s.slots[n]; x.size != 0 {
			if s.matches(x, r) && s.area.Take(x.offset, roundUp(r.Size), r.Stream, b) {
				s.planned++
				s.record(n, r, b.Addr, true)
				return trace.StatusOK
			}
			s.mismatches++
			if r.Size > x.size {
				s.outgrown()
			}
		}
	} else if len(s.slots) > 0 {
		s.misfit = true
	}
	st := s.Allocator.Alloc(r, b)
	if st == trace.StatusFailed && s.area.Bytes > 0 && s.area.Close() { // the plan's memory lies idle: better none than failing
		s.slots = nil
		if st = s.Allocator.Alloc(r, b); st == trace.StatusOK {
			st = trace.StatusRecovered
		}
	}
	s.record(n, r, b.Addr, st.Placed())
	return st
}

// outgrown notes that the plan is too small. While nothing lives in it, which is the case where an iteration begins to be larger, it is given up at
// once with match fits, so that the iteration is not held twice.
func (s *Strategy) outgrown() {
	s.misfit = true
	if s.opt.Match == "fits" && s.area.Live() == 0 && s.area.Close() {
		s.slots = nil
	}
}

func (s *Strategy) record(n int, r *sdk.Request, addr uint64, placed bool) {
	if n < len(s.largest) {
		s.largest[n] = max(s.largest[n], r.Size)
	}
	if !s.recording() {
		return
	}
	if placed && r.Size != 0 && r.Pool == 0 && s.routed == 0 {
		s.rec.Alloc(addr, r.Size, r.Stream)
	} else {
		s.rec.Missed(r.Size, r.Stream)
	}
}

// recording: with match fits every iteration is recorded, since any may be planned after.
func (s *Strategy) recording() bool { return s.learning || s.opt.Match == "fits" }

func (s *Strategy) matches(x *slot, r *sdk.Request) bool {
	if r.Stream != x.stream || r.Pool != 0 || s.routed > 0 || r.Size == 0 || r.Align > unitBytes {
		return false
	}
	return r.Size == x.asked || s.opt.Match == "fits" && r.Size <= x.size
}

// Free gives a block back to where it came from.
func (s *Strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.recording() {
		s.rec.Free(b.Addr, stream)
	}
	if s.area.Has(b.Addr) && b.Size != 0 {
		return s.area.Free(b, stream)
	}
	return s.Allocator.Free(b, stream)
}

// Use notes a use on another stream.
func (s *Strategy) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.recording() {
		s.rec.Use(b.Addr, stream)
	}
	if s.area.Has(b.Addr) && b.Size != 0 {
		return s.area.Use(b, stream)
	}
	return s.Allocator.Use(b, stream)
}

// FreeWrong says what a deliberately wrong free is.
func (s *Strategy) FreeWrong(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.area.Has(b.Addr) && b.Size != 0 {
		return s.area.FreeWrong(b)
	}
	return s.Allocator.FreeWrong(b, stream)
}

// PoolBegin routes requests to a private pool of the fallback, past the plan.
func (s *Strategy) PoolBegin(p sdk.Pool) trace.Status {
	s.routed++
	return s.Allocator.PoolBegin(p)
}

// PoolEnd ends the routing.
func (s *Strategy) PoolEnd(p sdk.Pool) trace.Status {
	s.routed = max(0, s.routed-1)
	return s.Allocator.PoolEnd(p)
}

// Mark ends an iteration and plans when enough were seen, or when the last one did not fit the plan.
func (s *Strategy) Mark(key string, value uint64) {
	if key != s.opt.Mark {
		return
	}
	fewer := s.next < len(s.slots)
	s.next = 0
	if !s.recording() {
		return
	}
	s.rec.Mark()
	s.rec.Keep(s.opt.LearnIterations)
	if n := len(s.rec.Iterations); n == s.opt.LearnIterations && (s.learning || s.misfit || fewer && s.area.Live() == 0 && len(s.slots) > 0) {
		s.plan()
	}
	s.misfit = false
}

// plan lays out the last recorded iteration, with the largest sizes that the recorded ones of equal length had, and takes the memory for it.
func (s *Strategy) plan() {
	if s.rec.Overflow || !s.area.Close() {
		return
	}
	last := s.rec.Iterations[len(s.rec.Iterations)-1]
	if len(last) != len(s.largest) {
		s.largest = make([]uint64, len(last))
	}
	for _, iteration := range s.rec.Iterations {
		if len(iteration) == len(last) {
			for i := range iteration {
				s.largest[i] = max(s.largest[i], iteration[i].Size)
			}
		}
	}
	var items []learn.Item
	s.slots = make([]slot, len(last))
	for i, t := range last {
		if t.End == 0 || t.Shared || t.Size == 0 || s.opt.MaxPlannedBytes != 0 && t.Size > s.opt.MaxPlannedBytes {
			continue
		}
		size := t.Size
		if s.opt.Match == "fits" {
			size = s.largest[i]
		}
		s.slots[i] = slot{size: roundUp(size + size/100*s.opt.HeadroomPercent), asked: t.Size, stream: t.Stream}
		items = append(items, learn.Item{Size: s.slots[i].size, Start: t.Start, End: t.End})
	}
	offsets, height := learn.Plan(items)
	k := 0
	for i := range s.slots {
		if s.slots[i].size != 0 {
			s.slots[i].offset = offsets[k]
			k++
		}
	}
	s.Allocator.Trim()
	if height == 0 || !s.area.Open(height) {
		s.slots = nil
		return
	}
	s.learning = false
	s.plans++
}

func roundUp(n uint64) uint64 { return (n + unitBytes - 1) &^ (unitBytes - 1) }

// Trim gives the fallback's caches back, and the plan's memory when none of it is in use.
func (s *Strategy) Trim() trace.Status {
	if s.area.Close() {
		s.slots = nil
		s.learning = true
	}
	return s.Allocator.Trim()
}

// Reset frees everything and forgets what was learnt.
func (s *Strategy) Reset() trace.Status {
	s.area.Discard()
	s.slots, s.largest, s.rec, s.learning, s.misfit, s.next, s.routed = nil, nil, learn.Recorder{}, true, false, 0, 0
	return s.Allocator.Reset()
}

// Close gives everything back.
func (s *Strategy) Close() error {
	return errors.Join(s.area.Discard().Err(), s.Allocator.Close())
}

// Inspect shows the fallback's segments, the planned memory, and how many requests got their place.
func (s *Strategy) Inspect() sdk.Inspection {
	in := s.Allocator.Inspect()
	s.area.Inspect(&in)
	if in.Counters == nil {
		in.Counters = map[string]uint64{}
	}
	in.Counters["planned_requests"], in.Counters["mismatches"], in.Counters["plans"] = s.planned, s.mismatches, s.plans
	in.Counters["plan_bytes"] = s.area.Bytes
	in.MetaBytes += uint64(cap(s.slots)) * 40
	return in
}
