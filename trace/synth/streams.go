package synth

import "github.com/gpubench/gpubench/trace"

var streams = Pattern{
	Name: "streams",
	Doc:  "blocks used and freed on other streams than their own, with waits and completions",
	Params: append([]Param{
		{"streams", "streams beside the default one", 8, 1, 1 << 12},
		{"live_blocks", "blocks live at a time once it is filled", 1000, 1, 1 << 24},
		{"use_percent", "share of blocks used on another stream", 30, 0, 100},
		{"cross_free_percent", "share of frees made on another stream", 15, 0, 100},
		{"wait_permille", "waits of one stream for another, per thousand events", 20, 0, 1000},
		{"complete_permille", "completions of a stream's work, per thousand events", 40, 0, 1000},
		{"sync_permille", "times the host waits for a stream or for all, per thousand events", 2, 0, 1000},
	}, sizeParams...),
	run: func(g *gen) {
		sizes := newOctaves(g.p["size_bytes_min"], g.p["size_bytes_max"], g.p["octave_ratio_permille"])
		list := []uint16{trace.DefaultStream}
		for i := range g.p["streams"] {
			list = append(list, g.b.Stream(i+1))
		}
		pick := func() uint16 { return list[g.r.below(uint64(len(list)))] }
		g.do(func() error { return g.b.Events(true) })
		want := int(g.p["live_blocks"])
		var live []trace.Handle
		wait, complete, sync := g.p["wait_permille"], g.p["complete_permille"], g.p["sync_permille"]
		for !g.full() {
			switch d := g.r.below(1000); {
			case d < wait:
				g.do(func() error { return g.b.Wait(pick(), pick()) })
			case d < wait+complete:
				g.do(func() error { return g.b.Complete(pick()) })
			case d < wait+complete+sync:
				if g.r.percent(20) {
					g.do(g.b.SyncAll)
				} else {
					g.do(func() error { return g.b.Sync(pick()) })
				}
			case len(live) == 0 || (len(live) < want && g.r.percent(60)):
				h := g.alloc(sizes.draw(g.r), trace.AllocArgs{Stream: pick()})
				live = append(live, h)
				if g.r.percent(g.p["use_percent"]) {
					g.do(func() error { return g.b.Use(h, pick()) })
				}
			default:
				i := g.r.below(uint64(len(live)))
				a := trace.FreeArgs{}
				if g.r.percent(g.p["cross_free_percent"]) {
					a = trace.FreeArgs{OnStream: true, Stream: pick()}
				}
				h := live[i]
				g.do(func() error { return g.b.Free(h, a) })
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
		}
	},
}

var pools = Pattern{
	Name: "pools",
	Doc:  "private pools that are begun, ended and released while blocks outlive them, as graph capture does",
	Params: append([]Param{
		{"pools", "private pools at a time", 6, 1, 1 << 10},
		{"capture_events", "requests while a pool is begun", 200, 1, 1 << 20},
		{"outlive_percent", "share of a capture's blocks that outlive it", 10, 0, 100},
		{"between_events", "requests and frees in the default pool between captures", 300, 0, 1 << 20},
		{"release_percent", "share of captures after which the oldest pool is released", 40, 0, 100},
	}, sizeParams...),
	run: runPools,
}

func runPools(g *gen) {
	sizes := newOctaves(g.p["size_bytes_min"], g.p["size_bytes_max"], g.p["octave_ratio_permille"])
	type pool struct {
		index uint16
		live  []trace.Handle
	}
	var open []pool
	var live []trace.Handle
	// Names are used again after a while: a trace can name only so many pools.
	names := 4 * g.p["pools"]
	for capture := uint64(0); !g.full(); capture++ {
		for range g.p["between_events"] {
			if len(live) == 0 || g.r.percent(51) {
				live = append(live, g.alloc(sizes.draw(g.r), trace.AllocArgs{}))
				continue
			}
			i := g.r.below(uint64(len(live)))
			g.free(live[i])
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		p := pool{index: g.b.Pool(poolName(1 + capture%names))}
		g.mark("capture", capture)
		g.do(func() error { return g.b.PoolBegin(p.index) })
		for range g.p["capture_events"] {
			h := g.alloc(sizes.draw(g.r), trace.AllocArgs{})
			if g.r.percent(g.p["outlive_percent"]) {
				p.live = append(p.live, h)
			} else {
				g.free(h)
			}
		}
		g.do(func() error { return g.b.PoolEnd(p.index) })
		open = append(open, p)
		if uint64(len(open)) > g.p["pools"] || g.r.percent(g.p["release_percent"]) {
			old := open[0]
			open = open[1:]
			g.do(func() error { return g.b.PoolRelease(old.index) })
			for _, h := range old.live {
				g.free(h)
			}
		}
	}
}
