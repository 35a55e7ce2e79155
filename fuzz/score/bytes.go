package score

import (
	"math/bits"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/trace"
)

const (
	inputBytesMax = 2048
	featureBits   = 16
)

// byteStrings decodes events from strings of bytes, mutates those that led to something new, and makes new ones now and then.
type byteStrings struct {
	d      decoder
	seed   uint64
	src    *plan.Random
	corpus [][]byte
	input  []byte
	seen   [1 << featureBits / 64]uint64
}

func newBytes(l plan.Limits, seed uint64) *byteStrings {
	return &byteStrings{d: newDecoder(l), seed: seed, src: plan.NewRandom(seed, 0)}
}

func (b *byteStrings) Batch(n uint64) (deviceBytes, arenaBytes uint64) {
	b.src = plan.NewRandom(b.seed, n)
	return b.d.sizes(b.src)
}

func (b *byteStrings) Program() *trace.Trace {
	b.input = b.input[:0]
	if len(b.corpus) == 0 || b.src.Draw(8) == 0 {
		for n := 8 + b.src.Draw(256); n > 0; n-- {
			b.input = append(b.input, byte(b.src.Draw(256)))
		}
	} else {
		b.input = append(b.input, b.corpus[b.src.Draw(len(b.corpus))]...)
		for n := 1 + b.src.Draw(5); n > 0; n-- {
			b.mutate()
		}
	}
	return b.d.program(plan.NewBytes(b.input))
}

// interesting are the bytes that mutators of bytes like to set.
var interesting = [...]byte{0, 1, 16, 32, 64, 100, 127, 128, 255}

// mutate makes one of the changes of Go's own mutator (internal/fuzz): remove, insert or repeat a run, swap two bytes, add to one, set
// one, flip a bit.
func (b *byteStrings) mutate() {
	in := b.input
	if len(in) == 0 {
		b.input = append(in, byte(b.src.Draw(256)))
		return
	}
	i := b.src.Draw(len(in))
	run := 1 + b.src.Draw(min(16, len(in)-i))
	switch b.src.Draw(7) {
	case 0:
		b.input = append(in[:i], in[i+run:]...)
	case 1:
		part := make([]byte, run)
		for k := range part {
			part[k] = byte(b.src.Draw(256))
		}
		b.insert(i, part)
	case 2:
		b.insert(b.src.Draw(len(in)), append([]byte(nil), in[i:i+run]...))
	case 3:
		k := b.src.Draw(len(in))
		in[i], in[k] = in[k], in[i]
	case 4:
		in[i] += byte(1 + b.src.Draw(35))
	case 5:
		in[i] = interesting[b.src.Draw(len(interesting))]
	case 6:
		in[i] ^= 1 << b.src.Draw(8)
	}
}

func (b *byteStrings) insert(i int, part []byte) {
	if len(b.input)+len(part) > inputBytesMax {
		return
	}
	tail := append(part, b.input[i:]...)
	b.input = append(b.input[:i], tail...)
}

// learn keeps the input if two successive events had outcomes that no two had before.
func (b *byteStrings) learn(t *trace.Trace, outcomes []trace.Outcome) {
	prev, fresh := uint64(0), false
	for i := range outcomes {
		o := &outcomes[i]
		now := uint64(t.Events[i].Kind)<<16 | uint64(o.Status)<<8 | uint64(bits.Len64(o.Granted))
		edge := (prev*0x9E3779B97F4A7C15 ^ now*0xBF58476D1CE4E5B9) >> (64 - featureBits)
		if b.seen[edge/64]>>(edge%64)&1 == 0 {
			b.seen[edge/64] |= 1 << (edge % 64)
			fresh = true
		}
		prev = now
	}
	if fresh {
		b.corpus = append(b.corpus, append([]byte(nil), b.input...))
	}
}
