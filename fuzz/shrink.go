package fuzz

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

// Reruns of one candidate on a target whose breach comes and goes: it counts when it shows in flakyNeed of flakyRuns (the rule
// of syzkaller's triage, whose comment has the binomial arithmetic).
const (
	flakyRuns = 5
	flakyNeed = 3
)

// shrinkRunsMax bounds the candidates of one shrinking. The toy allocator of the trial needed at most 443; this leaves room for
// long programs, and ends in a second or two in process.
const shrinkRunsMax = 20_000

// Shrinker makes a program small that breaks a check: it tries candidates, in the order of its passes, and keeps one if
// it breaks the same check in the same way. It repeats its passes until none changes anything, so that the result is a fixed point: no
// single step of any pass makes it smaller.
type Shrinker struct {
	// Test judges a candidate; an error counts as "does not show it".
	Test func(t *trace.Trace) (*Breach, error)
	// Keep is the breach to keep.
	Keep *Breach
	// AlignBytes is the granularity of the target: sizes are lowered towards its multiples.
	AlignBytes uint64
	// RunsMax bounds the candidates; 0 is shrinkRunsMax.
	RunsMax int
	// Flaky makes every candidate run flakyRuns times.
	Flaky bool

	// Streams is the length of the table of streams of the program, which strategies see; a pass tries to do with those in use.
	Streams int

	writer *plan.Writer
	seen   map[uint64]bool
	seed   maphash.Seed
	ops    []plan.Op
	breach *Breach
	runs   int
	buf    []byte
	by     map[string]int // successful steps by pass
}

// Shrunk is the result of a shrinking.
type Shrunk struct {
	Ops     []plan.Op
	Streams int // length of the table of streams that it needs
	Breach  *Breach
	Runs    int            // candidates that were run
	Steps   map[string]int // candidates that were kept, by pass
}

// Shrink shrinks ops.
func (s *Shrinker) Shrink(ops []plan.Op) Shrunk {
	s.writer = plan.NewWriter(nil)
	s.seen = map[uint64]bool{}
	s.seed = maphash.MakeSeed()
	s.by = map[string]int{}
	if s.RunsMax == 0 {
		s.RunsMax = shrinkRunsMax
	}
	if s.AlignBytes == 0 {
		s.AlignBytes = 1
	}
	s.ops = slices.Clone(ops)
	s.breach = s.Keep
	passes := []struct {
		name string
		run  func()
	}{
		{"cut", s.cut}, {"chunks", s.chunks}, {"pairs", s.pairs}, {"streams", s.dropStreams}, {"weaken", s.weaken}, {"join", s.join}, {"sizes", s.sizes},
		{"merge-streams", s.mergeStreams}, {"faults", s.faults}, {"names", s.names}, {"order", s.order},
	}
	for changed := true; changed && s.runs < s.RunsMax; {
		changed = false
		for _, p := range passes {
			before := s.by[""]
			s.by[""] = 0
			p.run()
			s.by[p.name] += s.by[""]
			changed = changed || s.by[""] > 0
			s.by[""] = before
		}
	}
	delete(s.by, "")
	return Shrunk{Ops: s.ops, Streams: max(s.Streams, plan.StreamsUsed(s.ops)), Breach: s.breach, Runs: s.runs, Steps: s.by}
}

// try keeps a candidate if it shows the breach. What was tried before is not tried again.
func (s *Shrinker) try(cand []plan.Op) bool {
	if s.runs >= s.RunsMax {
		return false
	}
	t := s.writer.Write(cand, s.Streams)
	if h := s.hash(t); s.seen[h] {
		return false
	} else {
		s.seen[h] = true
	}
	b := s.test(t)
	if b == nil {
		return false
	}
	// What the writer left out as illegal is gone for good.
	s.ops, s.breach = plan.Ops(s.ops[:0:0], t), b
	s.by[""]++
	return true
}

// test runs a candidate, several times if the breach is flaky, and returns the breach if it shows.
func (s *Shrinker) test(t *trace.Trace) *Breach {
	s.runs++
	if !s.Flaky {
		b, err := s.Test(t)
		if err != nil || !s.Keep.Same(b) {
			return nil
		}
		return b
	}
	var last *Breach
	for shown, run := 0, 0; run < flakyRuns; run++ {
		if b, err := s.Test(t); err == nil && s.Keep.Same(b) {
			last = b
			if shown++; shown == flakyNeed {
				return last
			}
		}
		if shown+flakyRuns-1-run < flakyNeed {
			return nil
		}
	}
	return nil
}

func (s *Shrinker) hash(t *trace.Trace) uint64 {
	s.buf = append(s.buf[:0], byte(len(t.Streams)))
	for i := range t.Events {
		ev := &t.Events[i]
		s.buf = append(s.buf, byte(ev.Kind), byte(ev.Flags), ev.AlignLog2, byte(ev.Stream), byte(ev.Pool))
		s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(ev.Handle))
		s.buf = binary.LittleEndian.AppendUint64(s.buf, ev.Size)
		if ev.Flags&trace.FlagExtra != 0 {
			x := &t.Extras[ev.Aux]
			s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(x.Handle2)<<32^x.Offset)
		} else {
			s.buf = binary.LittleEndian.AppendUint32(s.buf, ev.Aux)
		}
	}
	return maphash.Bytes(s.seed, s.buf)
}

// cut leaves out what comes behind the event that showed the breach.
func (s *Shrinker) cut() {
	for e := s.breach.Event + 1; e > 0 && e < len(s.ops); e = s.breach.Event + 1 {
		if !s.try(s.ops[:e]) {
			return
		}
	}
	// The breach may show at the end only, by something that happened long before: bisect for the shortest prefix.
	for step := len(s.ops) / 2; step > 0; step /= 2 {
		for len(s.ops) > step && s.try(s.ops[:len(s.ops)-step]) {
		}
	}
}

// chunks leaves out ever smaller parts (delta debugging; Zeller and Hildebrandt 2002).
func (s *Shrinker) chunks() {
	ddmin(s.ops, func(cand []plan.Op) ([]plan.Op, bool) {
		ok := s.try(cand)
		return s.ops, ok
	})
}

// ddmin removes parts of a list, halving their size while nothing can be removed. test returns the list as it is after a success, which
// may be shorter than what was asked for.
func ddmin[T any](list []T, test func(cand []T) ([]T, bool)) []T {
	for size := (len(list) + 1) / 2; size > 0; {
		removed := false
		for at := 0; at < len(list); {
			cand := append(slices.Clone(list[:at]), list[min(at+size, len(list)):]...)
			if next, ok := test(cand); ok {
				list, removed = next, true
				continue
			}
			at += size
		}
		if size == 1 && !removed {
			break
		}
		if !removed || size > len(list) {
			size = min(size/2, max(len(list)/2, 1))
		}
	}
	return list
}

// pairs leaves out a handle with all its events.
func (s *Shrinker) pairs() {
	for i := 0; i < len(s.ops); i++ {
		h := s.ops[i].Handle
		if h == 0 || !s.ops[i].Kind.TakesMemory() {
			continue
		}
		s.try(without(s.ops, func(o *plan.Op) bool { return o.Handle == h || o.Old == h }))
	}
	// Pairs of events that only go together: a size-preserving swap of two removals.
	if len(s.ops) <= 24 {
		for i := 0; i < len(s.ops); i++ {
			for k := i + 1; k < len(s.ops); k++ {
				if s.try(append(append(slices.Clone(s.ops[:i]), s.ops[i+1:k]...), s.ops[k+1:]...)) {
					k = i
				}
			}
		}
	}
}

func without(list []plan.Op, drop func(o *plan.Op) bool) []plan.Op {
	return slices.DeleteFunc(slices.Clone(list), func(o plan.Op) bool { return drop(&o) })
}

// dropStreams leaves out everything on a stream.
func (s *Shrinker) dropStreams() {
	if was := s.Streams; was > plan.StreamsUsed(s.ops) {
		s.Streams = 0
		if !s.try(s.ops) {
			s.Streams = was
		}
	}
	for st := uint16(plan.StreamsMax - 1); st > 0; st-- {
		if slices.ContainsFunc(s.ops, func(o plan.Op) bool { return o.Stream == st }) {
			s.try(without(s.ops, func(o *plan.Op) bool { return o.Stream == st || o.Kind == trace.KindWait && o.On == st }))
		}
	}
}

// weaken replaces an op by one that does less.
func (s *Shrinker) weaken() {
	for i := 0; i < len(s.ops); i++ {
		o := s.ops[i]
		var weaker []plan.Op
		switch o.Kind {
		case trace.KindRealloc:
			w := o
			w.Kind, w.Old = trace.KindAlloc, 0
			weaker = append(weaker, w)
		case trace.KindSync, trace.KindComplete:
			if o.Flags&trace.FlagAll != 0 {
				w := o
				w.Flags = 0
				weaker = append(weaker, w)
			} else if o.Kind == trace.KindSync {
				w := o
				w.Kind = trace.KindComplete
				weaker = append(weaker, w)
			}
		case trace.KindFree:
			if o.Flags != 0 {
				w := o
				w.Flags, w.Stream = 0, 0
				weaker = append(weaker, w)
			}
		case trace.KindRestore:
			w := o
			w.Kind, w.Text = trace.KindReset, ""
			weaker = append(weaker, w)
		}
		if o.AlignLog2 != 0 {
			w := o
			w.AlignLog2 = 0
			weaker = append(weaker, w)
		}
		if o.Pool != 0 && o.Kind.TakesMemory() {
			w := o
			w.Pool = 0
			weaker = append(weaker, w)
		}
		for _, w := range weaker {
			if i < len(s.ops) {
				s.try(replaced(s.ops, i, w))
			}
		}
	}
}

func replaced(list []plan.Op, i int, o plan.Op) []plan.Op {
	list = slices.Clone(list)
	list[i] = o
	return list
}

// joinEvents bounds the programs whose allocs are joined: every pair is tried.
const joinEvents = 32

// join makes one alloc of two: where what matters is how full the arena is, one large block does what several do.
func (s *Shrinker) join() {
	for i := 0; i < len(s.ops) && len(s.ops) <= joinEvents; i++ {
		for k := 0; k < len(s.ops) && i < len(s.ops); k++ {
			a, b := s.ops[i], s.ops[k]
			sum := b.Size + roundUp(a.Size, s.AlignBytes)
			if k == i || !a.Kind.TakesMemory() || !b.Kind.TakesMemory() || sum < b.Size {
				continue
			}
			cand := slices.Clone(s.ops)
			cand[k].Size = sum
			if s.try(without(cand, func(o *plan.Op) bool { return o.Handle == a.Handle || o.Old == a.Handle })) {
				k = -1
			}
		}
	}
}

// sizes moves sizes towards the simplest that still shows the breach: all together, then one by one. Simple are 1, the
// granularity and its multiples, powers of two; and, for those that need it, the largest numbers, from which the next ones
// below differ by little.
func (s *Shrinker) sizes() {
	for _, size := range []uint64{s.AlignBytes, 1, 512, 1 << 20} {
		cand := slices.Clone(s.ops)
		same := true
		for i := range cand {
			if cand[i].Kind.TakesMemory() && cand[i].Size > size {
				cand[i].Size, same = size, false
			}
		}
		if !same && s.try(cand) {
			break
		}
	}
	for i := 0; i < len(s.ops); i++ {
		if s.ops[i].Kind.TakesMemory() {
			s.lower(i)
		}
	}
}

// lower lowers one size: to simple sizes, then by bisection between the last that failed and the one that holds, rounded to the
// granularity; then down by what is beside a boundary.
func (s *Shrinker) lower(i int) {
	try := func(n uint64) bool {
		if i >= len(s.ops) || n == s.ops[i].Size || simpler(s.ops[i].Size, n) {
			return false
		}
		o := s.ops[i]
		o.Size = n
		return s.try(replaced(s.ops, i, o))
	}
	for _, n := range []uint64{0, 1, s.AlignBytes, 2 * s.AlignBytes} {
		if n < s.ops[i].Size && try(n) {
			return
		}
	}
	low := uint64(0)
	for n := 0; n < 64 && i < len(s.ops); n++ {
		have := s.ops[i].Size
		mid := low + (have-low)/2
		if r := roundUp(mid, s.AlignBytes); r < have && r > low {
			mid = r
		}
		if mid <= low || mid >= have {
			break
		}
		if !try(mid) {
			low = mid
		}
	}
	if i >= len(s.ops) {
		return
	}
	have := s.ops[i].Size
	if k := bits.Len64(have); k > 1 {
		top := uint64(1) << (k - 1)
		for _, n := range []uint64{top, top + 1, top - 1, top + s.AlignBytes, top - s.AlignBytes, roundUp(have, s.AlignBytes)} {
			if try(n) {
				return
			}
		}
	}
}

// simpler orders sizes: fewer bits set is simpler, among equals the smaller one; a number beside 2^64 is as simple as its
// distance.
func simpler(a, b uint64) bool {
	wa, wb := weight(a), weight(b)
	if wa != wb {
		return wa < wb && a <= b
	}
	return a < b
}

func weight(n uint64) int { return min(bits.OnesCount64(n), 1+bits.OnesCount64(-n)) }

// mergeStreams and pools moves everything of one stream, or pool, to another.
func (s *Shrinker) mergeStreams() {
	for from := uint16(plan.StreamsMax - 1); from > 0; from-- {
		used := slices.ContainsFunc(s.ops, func(o plan.Op) bool { return o.Stream == from || o.Kind == trace.KindWait && o.On == from })
		for to := uint16(0); used && to < from; to++ {
			cand := slices.Clone(s.ops)
			for i := range cand {
				if cand[i].Stream == from {
					cand[i].Stream = to
				}
				if cand[i].Kind == trace.KindWait && cand[i].On == from {
					cand[i].On = to
				}
			}
			if s.try(cand) {
				break
			}
		}
	}
	for from := uint16(plan.PoolsMax - 1); from > 0; from-- {
		cand := slices.Clone(s.ops)
		for i := range cand {
			if cand[i].Pool == from {
				cand[i].Pool = from - 1
			}
		}
		s.try(cand)
	}
}

// faults makes fewer calls fail: the first that can, if it must be one.
func (s *Shrinker) faults() {
	for i := 0; i < len(s.ops); i++ {
		for o := s.ops[i]; o.Kind == trace.KindFailNext && o.Size > 1; {
			o.Size--
			if !s.try(replaced(s.ops, i, o)) {
				break
			}
		}
	}
}

// names renames handles to 1, 2, 3, … in order of appearance.
func (s *Shrinker) names() {
	cand := slices.Clone(s.ops)
	plan.Rename(cand)
	if !slices.Equal(cand, s.ops) {
		s.try(cand)
	}
}

// order moves events that need not stand where they are to where people look for them: frees by number of the handle, equal
// neighbours in the order of their kinds.
func (s *Shrinker) order() {
	for i := 0; i+1 < len(s.ops); i++ {
		a, b := &s.ops[i], &s.ops[i+1]
		if a.Kind == trace.KindFree && b.Kind == trace.KindFree && a.Handle > b.Handle || a.Kind == trace.KindFree && b.Kind == trace.KindAlloc {
			cand := slices.Clone(s.ops)
			cand[i], cand[i+1] = cand[i+1], cand[i]
			s.try(cand)
		}
	}
}
