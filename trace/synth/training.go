package synth

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

var training = Pattern{
	Name: "training",
	Doc:  "iterations of forward, backward and optimizer of a transformer",
	Params: []Param{
		{"layers", "transformer layers", 24, 1, 1024},
		{"hidden", "width of the model", 1024, 8, 1 << 16},
		{"batch", "sequences in a batch", 8, 1, 1 << 16},
		{"sequence_tokens_min", "shortest sequence", 512, 1, 1 << 20},
		{"sequence_tokens_max", "longest sequence; equal to the shortest for static shapes", 1024, 1, 1 << 20},
		{"element_bytes", "bytes of an activation and of a weight", 2, 1, 8},
		{"vocabulary", "rows of the logits", 32000, 1, 1 << 22},
		{"layer_us", "time of a layer's forward pass, in µs; the backward pass takes twice as long", 250, 0, 1 << 30},
	},
	run: func(g *gen) {
		t := &trainer{gen: g, h: g.p["hidden"], e: g.p["element_bytes"], layers: int(g.p["layers"])}
		t.model()
		for i := uint64(0); !g.full(); i++ {
			g.mark("iteration", i)
			t.iteration(i)
		}
	},
}

// trainer follows one training run. Sizes are those of a standard transformer layer: attention with four H×H weights, an
// MLP of width 4H, two norms.
type trainer struct {
	*gen
	h, e      uint64
	layers    int
	ns        int64
	optimizer bool
	weights   [][]uint64     // bytes of each weight, by layer
	acts      []trace.Handle // saved for the backward pass
	actSizes  []uint64
}

func (t *trainer) tick(share int64) {
	t.ns += share * int64(t.p["layer_us"]) * 1000 / 8
	t.b.At(t.ns)
}

// model allocates the weights, which live for ever.
func (t *trainer) model() {
	hh := t.h * t.h * t.e
	for l := range t.layers {
		w := []uint64{3 * hh, hh, 4 * hh, 4 * hh, t.h * t.e, t.h * t.e}
		t.weights = append(t.weights, w)
		tag := t.tag(fmt.Sprintf("model.layers.%d.weight", l))
		for _, n := range w {
			t.alloc(n, trace.AllocArgs{Tag: tag})
		}
	}
	t.alloc(t.p["vocabulary"]*t.h*t.e, trace.AllocArgs{Tag: t.tag("model.embedding.weight")})
}

// iteration writes one step. Gradients are made during the backward pass and live until the optimizer has used them; the
// optimizer's two moments, in four bytes an element, are made in the first step and stay.
func (t *trainer) iteration(i uint64) {
	seq := t.r.between(t.p["sequence_tokens_min"], t.p["sequence_tokens_max"])
	tokens := t.p["batch"] * seq
	t.tick(1)
	input := t.alloc(tokens*8, trace.AllocArgs{Tag: t.tag("input")})
	t.acts, t.actSizes = t.acts[:0], t.actSizes[:0]
	for l := range t.layers {
		t.forward(l, tokens)
	}
	logits := t.alloc(tokens*t.p["vocabulary"]*t.e, trace.AllocArgs{Tag: t.tag("logits")})
	loss := t.alloc(4, trace.AllocArgs{Tag: t.tag("loss")})
	gradLogits := t.alloc(tokens*t.p["vocabulary"]*t.e, trace.AllocArgs{Tag: t.tag("grad.logits")})
	t.free(logits)
	var grads []trace.Handle
	grad := t.alloc(tokens*t.h*t.e, trace.AllocArgs{Tag: t.tag("grad.hidden")})
	t.free(gradLogits)
	for l := t.layers - 1; l >= 0; l-- {
		grad, grads = t.backward(l, tokens, grad, grads)
	}
	t.free(grad)
	t.free(input)
	t.step(grads)
	t.free(loss)
}

// forward writes a layer: what it keeps for the backward pass, between temporaries.
func (t *trainer) forward(l int, tokens uint64) {
	tag := t.tag(fmt.Sprintf("model.layers.%d.forward", l))
	width := tokens * t.h * t.e
	for _, n := range []uint64{width, 3 * width, width, width, 4 * width, 4 * width, width} {
		t.tick(1)
		tmp := trace.Handle(0)
		if n > width {
			tmp = t.alloc(n/2, trace.AllocArgs{Tag: t.tag("workspace")})
		}
		t.acts = append(t.acts, t.alloc(n, trace.AllocArgs{Tag: tag}))
		t.free(tmp)
	}
}

// backward frees what the layer kept, youngest first, and leaves its gradients.
func (t *trainer) backward(l int, tokens uint64, grad trace.Handle, grads []trace.Handle) (trace.Handle, []trace.Handle) {
	width := tokens * t.h * t.e
	tag := t.tag(fmt.Sprintf("model.layers.%d.backward", l))
	for range 7 {
		t.tick(2)
		tmp := t.alloc(2*width, trace.AllocArgs{Tag: t.tag("workspace")})
		last := len(t.acts) - 1
		if last >= 0 {
			t.free(t.acts[last])
			t.acts = t.acts[:last]
		}
		t.free(tmp)
	}
	for _, n := range t.weights[l] {
		grads = append(grads, t.alloc(n, trace.AllocArgs{Tag: t.tag("grad.weight")}))
	}
	next := t.alloc(width, trace.AllocArgs{Tag: tag})
	t.free(grad)
	return next, grads
}

// step is the optimizer.
func (t *trainer) step(grads []trace.Handle) {
	i := 0
	for l := t.layers - 1; l >= 0; l-- {
		for _, n := range t.weights[l] {
			t.tick(1)
			if !t.optimizer {
				for range 2 {
					t.alloc(n/t.e*4, trace.AllocArgs{Tag: t.tag("optimizer.moment")})
				}
			}
			tmp := t.alloc(n/t.e*4, trace.AllocArgs{Tag: t.tag("optimizer.update")})
			t.free(tmp)
			t.free(grads[i])
			i++
		}
	}
	t.optimizer = true
}
