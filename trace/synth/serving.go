package synth

import (
	"strconv"

	"github.com/gpubench/gpubench/trace"
)

func poolName(n uint64) string { return "0:" + strconv.FormatUint(n, 10) }

var serving = Pattern{
	Name: "serving",
	Doc:  "an LLM server with continuous batching: key-value blocks that grow with every token, between short-lived activations",
	Params: []Param{
		{"layers", "transformer layers", 32, 1, 1024},
		{"hidden", "width of the model", 4096, 8, 1 << 16},
		{"kv_bytes_per_token", "keys and values of one token in all layers; 131072 is 32 layers × 8 heads × 128 × 2 tensors × 2 B", 131072, 1, 1 << 30},
		{"kv_block_tokens", "tokens in one block of keys and values", 256, 1, 1 << 20},
		{"vocabulary", "rows of the logits", 32000, 1, 1 << 22},
		{"batch_max", "requests served at a time; others wait in order of arrival", 48, 1, 1 << 14},
		{"prefill_tokens_per_s", "speed of reading prompts", 12000, 1, 1 << 30},
		{"decode_us", "time of one step that gives every request its next token", 25000, 1, 1 << 30},
		{"arrival_us", "arrival model: mean time between requests", 400000, 1, 1 << 40},
		{"context_tokens", "arrival model: mean length of a prompt", 2000, 1, 1 << 20},
		{"generated_tokens", "arrival model: mean length of an answer", 120, 1, 1 << 20},
	},
	run: runServing,
}

// Request is one request to an LLM server.
type Request struct {
	ArrivalNs int64 // since the first
	Context   uint64
	Generated uint64
}

// session is a request being served.
type session struct {
	Request
	done   uint64 // tokens generated
	blocks []trace.Handle
}

// server is the state of the pattern serving.
type server struct {
	*gen
	ns     int64
	given  int   // requests taken from the list so far
	lastNs int64 // arrival of the last request of the model
	ahead  *Request
	active []*session
	dry    bool // no further request will come
	kvTag  uint32
	tmpTag uint32
}

// runServing serves requests until the trace is full or, with a list of requests, all are answered.
func runServing(g *gen) {
	s := &server{gen: g, kvTag: g.tag("kv"), tmpTag: g.tag("activation")}
	weight := g.p["hidden"] * g.p["hidden"] * 2
	for range g.p["layers"] {
		for _, n := range []uint64{3 * weight, weight, 7 * weight, 3 * weight / 2} {
			g.alloc(n, trace.AllocArgs{Tag: g.tag("weight")})
		}
	}
	for step := uint64(0); !g.full(); step++ {
		s.admit()
		if len(s.active) == 0 {
			if s.dry {
				return
			}
			s.ns = max(s.ns, s.ahead.ArrivalNs)
			continue
		}
		g.mark("step", step)
		s.decode()
	}
}

// request looks at the next request; nil when there is none.
func (s *server) request() *Request {
	if s.ahead != nil || s.dry {
		return s.ahead
	}
	if s.requests != nil {
		if s.given == len(s.requests) {
			s.dry = true
			return nil
		}
		s.ahead = &s.requests[s.given]
		s.given++
		return s.ahead
	}
	s.lastNs += int64(s.r.exponential(s.p["arrival_us"] * 1000))
	s.ahead = &Request{ArrivalNs: s.lastNs, Context: 1 + s.r.exponential(s.p["context_tokens"]), Generated: 1 + s.r.exponential(s.p["generated_tokens"])}
	return s.ahead
}

// admit takes in the requests that have arrived while there is room, and reads their prompts.
func (s *server) admit() {
	for !s.full() && uint64(len(s.active)) < s.p["batch_max"] {
		q := s.request()
		if q == nil || q.ArrivalNs > s.ns {
			return
		}
		s.ahead = nil
		a := &session{Request: *q}
		s.active = append(s.active, a)
		s.b.At(s.ns)
		s.grow(a, a.Context)
		s.layersOf(a.Context)
		s.ns += int64(a.Context * 1_000_000_000 / s.p["prefill_tokens_per_s"])
	}
}

// grow gives a request blocks for that many tokens in all.
func (s *server) grow(a *session, tokens uint64) {
	per := s.p["kv_block_tokens"]
	for uint64(len(a.blocks))*per < tokens && !s.full() {
		a.blocks = append(a.blocks, s.alloc(per*s.p["kv_bytes_per_token"], trace.AllocArgs{Tag: s.kvTag}))
	}
}

// activationLayers is how many layers' temporaries are written out: those of all layers are alike, and reuse shows
// after two.
const activationLayers = 2

// layersOf writes the temporaries of one pass over that many rows, and the logits of the last.
func (s *server) layersOf(rows uint64) {
	width := rows * s.p["hidden"] * 2
	for range activationLayers {
		qkv := s.alloc(3*width/2, trace.AllocArgs{Tag: s.tmpTag})
		att := s.alloc(width, trace.AllocArgs{Tag: s.tmpTag})
		s.free(qkv)
		mlp := s.alloc(7*width/2, trace.AllocArgs{Tag: s.tmpTag})
		s.free(att)
		s.free(mlp)
	}
	s.free(s.alloc(min(rows, s.p["batch_max"])*s.p["vocabulary"]*4, trace.AllocArgs{Tag: s.tmpTag}))
}

// decode gives every active request its next token and ends those that are answered.
func (s *server) decode() {
	s.ns += int64(s.p["decode_us"]) * 1000
	s.b.At(s.ns)
	s.layersOf(uint64(len(s.active)))
	kept := s.active[:0]
	for _, a := range s.active {
		a.done++
		if a.done < a.Generated {
			s.grow(a, a.Context+a.done)
			kept = append(kept, a)
			continue
		}
		for _, h := range a.blocks {
			s.free(h)
		}
	}
	s.active = kept
}
