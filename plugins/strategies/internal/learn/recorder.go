package learn

import "github.com/gpubench/gpubench/plugins/sdk"

// MaxTensors bounds the allocations of an iteration that are learnt: planning compares every two.
const MaxTensors = 20_000

// Tensor is an allocation of one iteration. Start and End are counted in allocations and frees since the iteration began.
type Tensor struct {
	Size   uint64 // requested
	Stream sdk.Stream
	Start  int
	End    int  // 0: not freed in its iteration
	Shared bool // used on, or freed by, another stream
}

// Recorder records the tensors of iterations.
type Recorder struct {
	Iterations [][]Tensor // finished ones
	Lengths    []int      // events of each
	Overflow   bool       // an iteration had more than MaxTensors
	now        []Tensor
	clock      int
	live       map[uint64]int // address of a live tensor of this iteration -> its number
	running    bool
	spare      []Tensor
}

// Mark begins an iteration, and ends the one before.
func (r *Recorder) Mark() {
	if r.running {
		r.Iterations = append(r.Iterations, r.now)
		r.Lengths = append(r.Lengths, r.clock)
	}
	r.running = true
	r.now, r.spare = r.spare[:0], nil
	if r.live == nil {
		r.live = map[uint64]int{}
	}
	clear(r.live)
	r.clock = 0
}

// Keep forgets the oldest iterations until at most n are left.
func (r *Recorder) Keep(n int) {
	for len(r.Iterations) > n {
		r.spare = r.Iterations[0]
		k := copy(r.Iterations, r.Iterations[1:])
		copy(r.Lengths, r.Lengths[1:])
		r.Iterations, r.Lengths = r.Iterations[:k], r.Lengths[:k]
	}
}

// Alloc records an allocation at addr.
func (r *Recorder) Alloc(addr, size uint64, s sdk.Stream) {
	if !r.running {
		return
	}
	if len(r.now) == MaxTensors {
		r.Overflow = true
		return
	}
	r.live[addr] = len(r.now)
	r.now = append(r.now, Tensor{Size: size, Stream: s, Start: r.clock})
	r.clock++
}

// Missed records an allocation that failed, so that the numbers of those after it are right.
func (r *Recorder) Missed(size uint64, s sdk.Stream) {
	if r.running && len(r.now) < MaxTensors {
		r.now = append(r.now, Tensor{Size: size, Stream: s, Start: r.clock})
		r.clock++
	}
}

// Free records the free of what lies at addr.
func (r *Recorder) Free(addr uint64, s sdk.Stream) {
	i, ok := r.live[addr]
	if !ok {
		return
	}
	delete(r.live, addr)
	r.clock++
	r.now[i].End = r.clock
	r.now[i].Shared = r.now[i].Shared || s != r.now[i].Stream
}

// Use records a use on another stream.
func (r *Recorder) Use(addr uint64, s sdk.Stream) {
	if i, ok := r.live[addr]; ok && s != r.now[i].Stream {
		r.now[i].Shared = true
	}
}
