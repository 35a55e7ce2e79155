package predictive

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/learn"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "predictive"

const (
	// probes is how many free blocks of a pool are tried when others lie over them.
	probes = 4
	// missShare: when more than one request in missShare missed in an iteration, the prediction is made anew.
	missShare = 10
	// minMisses is how many misses make a prediction wrong within an iteration.
	minMisses = 4
)

// Options of the strategy.
type Options struct {
	Mark            string `json:"mark"`
	LearnIterations int    `json:"learn_iterations"`
	HeadroomPercent uint64 `json:"headroom_percent"`
	SlackPercent    uint64 `json:"slack_percent"`
	Conf            string `json:"conf"`
}

// Strategy is the predictor over its fallback.
type Strategy struct {
	*pytorch.Allocator // the fallback
	opt                Options
	area               *learn.Area
	rec                learn.Recorder
	learning           bool
	pools              []pool // by class, then stream
	routed             int    // private pools begun
	hits, misses       uint64
	hitsNow, missesNow uint64 // of the running iteration
	predictions        uint64
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "learns the sizes and lifetimes of the first iterations and prepares pools that lie over each other; our own design",
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{{
			ID: "predictive-fallback", Section: "package predictive",
			Text: "The fallback's deviations apply to what is not predicted; free prepared memory serves no other size.",
		}},
		Options: arena.ObjectSchema(
			`"mark":{"type":"string","default":"iteration","description":"key of the marks between iterations"}`,
			`"learn_iterations":{"type":"integer","minimum":1,"maximum":100,"default":3,"description":"iterations that are recorded before a prediction"}`,
			`"headroom_percent":{"type":"integer","minimum":0,"maximum":1000,"default":0,"description":"how many more blocks than seen are prepared"}`,
			`"slack_percent":{"type":"integer","minimum":0,"maximum":100,"default":2,"description":"by what share of an iteration the time of a class is widened on both sides"}`,
			`"conf":{"type":"string","default":"","description":"settings of the fallback, as in PYTORCH_CUDA_ALLOC_CONF"}`,
		),
		Alignment: unitBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	s := &Strategy{opt: Options{Mark: "iteration", LearnIterations: 3, SlackPercent: 2}, area: learn.NewArea(env), learning: true}
	if err := sdk.DecodeOptions(env.Options, &s.opt); err != nil {
		return nil, err
	}
	if s.opt.LearnIterations < 1 {
		return nil, fmt.Errorf("%s: option learn_iterations is %d; give at least 1", Name, s.opt.LearnIterations)
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

// poolOf returns the pool of a class and stream.
func (s *Strategy) poolOf(class uint32, stream sdk.Stream) *pool {
	i := sort.Search(len(s.pools), func(i int) bool {
		p := &s.pools[i]
		return p.class > class || p.class == class && p.stream >= stream
	})
	if i < len(s.pools) && s.pools[i].class == class && s.pools[i].stream == stream {
		return &s.pools[i]
	}
	return nil
}

// Alloc takes a block of the class, or asks the fallback.
func (s *Strategy) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if len(s.pools) > 0 && r.Size != 0 && r.Size < 1<<60 && r.Pool == 0 && s.routed == 0 && r.Align <= unitBytes {
		if p := s.poolOf(classOf(r.Size), r.Stream); p != nil {
			if s.take(p, r.Stream, b) {
				s.hits++
				s.hitsNow++
				return trace.StatusOK
			}
		}
		s.misses++
		s.missesNow++
		if s.area.Live() == 0 && s.missesNow >= minMisses && s.wrong() && s.area.Close() { // rather than hold the iteration twice
			s.pools, s.learning, s.rec = nil, true, learn.Recorder{}
		}
	}
	st := s.Allocator.Alloc(r, b)
	if st == trace.StatusFailed && s.area.Bytes > 0 && s.area.Close() { // the prepared memory lies idle: better none than failing
		s.pools, s.learning = nil, true
		if st = s.Allocator.Alloc(r, b); st == trace.StatusOK {
			st = trace.StatusRecovered
		}
	}
	if s.learning && st.Placed() && r.Pool == 0 && s.routed == 0 {
		s.rec.Alloc(b.Addr, r.Size, r.Stream)
	}
	return st
}

// wrong reports whether too many requests of the running iteration were not predicted.
func (s *Strategy) wrong() bool { return s.missesNow*missShare > s.hitsNow+s.missesNow }

// take takes one of the blocks on top of the pool's stack whose bytes are free.
func (s *Strategy) take(p *pool, stream sdk.Stream, b *sdk.Block) bool {
	bytes := classBytes(p.class)
	for k := len(p.free) - 1; k >= max(0, len(p.free)-probes); k-- {
		n := p.free[k]
		if s.area.Take(p.offset+uint64(n)*bytes, bytes, stream, b) {
			p.free = append(p.free[:k], p.free[k+1:]...)
			return true
		}
	}
	return false
}

// Free gives a block back to where it came from. A block that is held back is on its stack already: its bytes are not free until
// the streams that used it have completed.
func (s *Strategy) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.learning {
		s.rec.Free(b.Addr, stream)
	}
	if !s.area.Has(b.Addr) || b.Size == 0 {
		return s.Allocator.Free(b, stream)
	}
	of := s.area.StreamOf(b)
	st := s.area.Free(b, stream)
	if st != trace.StatusOK {
		return st
	}
	if p := s.poolOf(classOf(b.Size), of); p != nil {
		p.free = append(p.free, uint32((b.Addr-s.area.Base-p.offset)/b.Size))
	}
	return st
}

// Use notes a use on another stream.
func (s *Strategy) Use(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.learning {
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

// PoolBegin routes requests to a private pool of the fallback.
func (s *Strategy) PoolBegin(p sdk.Pool) trace.Status {
	s.routed++
	return s.Allocator.PoolBegin(p)
}

// PoolEnd ends the routing.
func (s *Strategy) PoolEnd(p sdk.Pool) trace.Status {
	s.routed = max(0, s.routed-1)
	return s.Allocator.PoolEnd(p)
}

// Mark ends an iteration. While learning, enough of them make a prediction; a bad one is given up and learnt anew.
func (s *Strategy) Mark(key string, value uint64) {
	if key != s.opt.Mark {
		return
	}
	if !s.learning && s.wrong() && s.area.Close() {
		s.pools, s.learning, s.rec = nil, true, learn.Recorder{}
	}
	s.hitsNow, s.missesNow = 0, 0
	if !s.learning {
		return
	}
	s.rec.Mark()
	s.rec.Keep(s.opt.LearnIterations)
	if len(s.rec.Iterations) < s.opt.LearnIterations || s.rec.Overflow ||
		!stable(s.rec.Iterations, s.rec.Lengths, s.opt.SlackPercent) || !s.area.Close() {
		return
	}
	pools, height := predict(s.rec.Iterations, s.rec.Lengths, s.opt.HeadroomPercent, s.opt.SlackPercent)
	s.Allocator.Trim()
	if height == 0 || !s.area.Open(height) {
		return
	}
	s.pools, s.learning = pools, false
	s.predictions++
}

// Trim gives the fallback's caches back, and the prepared memory when none of it is in use.
func (s *Strategy) Trim() trace.Status {
	if s.area.Close() {
		s.pools, s.learning = nil, true
	}
	return s.Allocator.Trim()
}

// Reset frees everything and forgets what was learnt.
func (s *Strategy) Reset() trace.Status {
	s.area.Discard()
	s.pools, s.rec, s.learning, s.routed, s.hitsNow, s.missesNow = nil, learn.Recorder{}, true, 0, 0, 0
	return s.Allocator.Reset()
}

// Close gives everything back.
func (s *Strategy) Close() error {
	return errors.Join(s.area.Discard().Err(), s.Allocator.Close())
}

// Inspect shows the fallback's segments, the prepared memory, and how many requests were predicted.
func (s *Strategy) Inspect() sdk.Inspection {
	in := s.Allocator.Inspect()
	s.area.Inspect(&in)
	if in.Counters == nil {
		in.Counters = map[string]uint64{}
	}
	in.Counters["predicted_requests"], in.Counters["misses"], in.Counters["predictions"] = s.hits, s.misses, s.predictions
	in.Counters["prepared_bytes"] = s.area.Bytes
	for i := range s.pools {
		in.MetaBytes += 64 + 4*uint64(cap(s.pools[i].free))
	}
	return in
}
