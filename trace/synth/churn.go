package synth

import "github.com/gpubench/gpubench/trace"

var sizeParams = []Param{
	{"size_bytes_min", "smallest request", 256, 1, 1 << 40},
	{"size_bytes_max", "largest request", 1 << 20, 1, 1 << 40},
	{"octave_ratio_permille", "how likely a size of one octave is against the octave below, in thousandths: 1000 is log-uniform", 850, 1, 4000},
}

var powerlaw = Pattern{
	Name: "powerlaw",
	Doc:  "churn at a constant number of live blocks: sizes by a power law, lifetimes exponential",
	Params: append([]Param{
		{"live_blocks", "blocks live at a time once it is filled", 3000, 1, 1 << 24},
		{"recent_percent", "share of frees that take one of the 16 youngest blocks", 10, 0, 100},
	}, sizeParams...),
	run: func(g *gen) {
		sizes := newOctaves(g.p["size_bytes_min"], g.p["size_bytes_max"], g.p["octave_ratio_permille"])
		want := int(g.p["live_blocks"])
		var live []trace.Handle
		for !g.full() {
			// Filled, it is a fair coin with a pull towards the wanted number.
			if len(live) == 0 || (len(live) < want && g.r.percent(70)) || (len(live) == want && g.r.percent(50)) {
				live = append(live, g.alloc(sizes.draw(g.r), trace.AllocArgs{}))
				continue
			}
			from := 0
			if g.r.percent(g.p["recent_percent"]) {
				from = max(0, len(live)-16)
			}
			i := from + int(g.r.below(uint64(len(live)-from)))
			g.free(live[i])
			// Keep the order of age only at the young end, where it is asked for.
			last := len(live) - 1
			if from == 0 && last > 16 {
				young := last - 16
				if i < young {
					live[i] = live[young]
					i = young
				}
			}
			live = append(live[:i], live[i+1:]...)
		}
	},
}

var sawtooth = Pattern{
	Name: "sawtooth",
	Doc:  "fills up, then frees all but a few, again and again",
	Params: append([]Param{
		{"live_blocks", "blocks at the top of a tooth", 2000, 1, 1 << 24},
		{"kept_permille", "share of the blocks that outlive their tooth, in thousandths", 5, 0, 1000},
		{"order", "of the frees: 0 = youngest first, 1 = oldest first, 2 = at random", 2, 0, 2},
		{"trim", "1 = give cached memory back after every tooth", 0, 0, 1},
	}, sizeParams...),
	run: func(g *gen) {
		sizes := newOctaves(g.p["size_bytes_min"], g.p["size_bytes_max"], g.p["octave_ratio_permille"])
		top := int(g.p["live_blocks"])
		var kept []trace.Handle
		for tooth := uint64(0); !g.full(); tooth++ {
			g.mark("tooth", tooth)
			live := make([]trace.Handle, 0, top)
			for range top {
				live = append(live, g.alloc(sizes.draw(g.r), trace.AllocArgs{}))
			}
			switch g.p["order"] {
			case 0:
				for i := range len(live) / 2 {
					live[i], live[len(live)-1-i] = live[len(live)-1-i], live[i]
				}
			case 2:
				g.shuffle(live)
			}
			for _, h := range live {
				if g.r.below(1000) < g.p["kept_permille"] {
					kept = append(kept, h)
				} else {
					g.free(h)
				}
			}
			// What outlived a tooth dies at random, so that it does not pile up.
			for len(kept) > top/4+1 {
				i := int(g.r.below(uint64(len(kept))))
				g.free(kept[i])
				kept[i] = kept[len(kept)-1]
				kept = kept[:len(kept)-1]
			}
			if g.p["trim"] == 1 {
				g.do(g.b.Trim)
			}
		}
	},
}

var growing = Pattern{
	Name: "growing",
	Doc:  "buffers replaced by slightly larger ones: tensors grown by concatenation",
	Params: []Param{
		{"buffers", "buffers that grow at the same time", 64, 1, 1 << 20},
		{"start_bytes", "size of a new buffer", 1 << 20, 1, 1 << 40},
		{"step_bytes", "growth at a time", 96 << 10, 1, 1 << 40},
		{"steps", "times that a buffer grows before it dies, on average", 100, 1, 1 << 20},
		{"realloc", "1 = grow by realloc instead of alloc and free", 0, 0, 1},
	},
	run: func(g *gen) {
		type buffer struct {
			h    trace.Handle
			size uint64
		}
		list := make([]buffer, g.p["buffers"])
		for !g.full() {
			buf := &list[g.r.below(uint64(len(list)))]
			switch {
			case buf.h == 0:
				buf.size = g.p["start_bytes"]
				buf.h = g.alloc(buf.size, trace.AllocArgs{})
			case g.r.below(g.p["steps"]+1) == 0:
				g.free(buf.h)
				buf.h = 0
			default:
				buf.size += g.p["step_bytes"]
				old := buf.h
				if g.p["realloc"] == 1 {
					g.next++
					buf.h = g.next
					g.do(func() error { return g.b.Realloc(buf.h, old, buf.size, trace.AllocArgs{}) })
					continue
				}
				buf.h = g.alloc(buf.size, trace.AllocArgs{})
				g.free(old)
			}
		}
	},
}

var adversary = Pattern{
	Name: "adversary",
	Doc:  "combs: fill with one size, free every second block, ask for twice the size and a little more",
	Params: []Param{
		{"block_bytes", "size of the teeth of the first comb", 4096, 1, 1 << 30},
		{"blocks", "teeth of the first comb", 5000, 2, 1 << 22},
		{"extra_bytes", "what a later request asks for beyond the gap of two teeth", 256, 0, 1 << 30},
		{"rounds", "combs before everything is freed", 3, 1, 16},
	},
	run: func(g *gen) {
		for round := uint64(0); !g.full(); round++ {
			g.mark("comb", round)
			size, n := g.p["block_bytes"], g.p["blocks"]
			var all, live []trace.Handle
			for range n {
				live = append(live, g.alloc(size, trace.AllocArgs{}))
			}
			for range g.p["rounds"] {
				if g.full() {
					break
				}
				freed := uint64(0)
				stays := int(g.r.below(2))
				for i, h := range live {
					if i%2 == stays {
						all = append(all, h) // a tooth stays
					} else {
						g.free(h)
						freed++
					}
				}
				// First what fits the gaps exactly, in half of them; then what does not fit any more.
				for range freed / 4 {
					all = append(all, g.alloc(size, trace.AllocArgs{}))
				}
				size = 2*size + g.p["extra_bytes"]
				live = live[:0]
				for range freed / 3 {
					live = append(live, g.alloc(size, trace.AllocArgs{}))
				}
			}
			all = append(all, live...)
			g.shuffle(all)
			for _, h := range all {
				g.free(h)
			}
		}
	},
}
