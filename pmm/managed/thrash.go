package managed

// thrash is what the thrashing detector knows about a block.
type thrash struct {
	pages  [BlockPages]pageThrash
	lastNs int64 // last event of the block
	resets int
	any    bool // some page thrashes
}

// pageThrash is what it knows about a page.
type pageThrash struct {
	movedNs   int64
	by        Processor // to whom it moved last
	moved     bool
	events    uint8
	throttles uint8
	pinned    bool
	untilNs   int64 // end of the pin, 0 for ever
}

// pinned reports whether a page is held on the host now.
func (t *thrash) pinned(page int, nowNs int64) bool {
	if t == nil {
		return false
	}
	p := &t.pages[page]
	if p.pinned && p.untilNs != 0 && nowNs >= p.untilNs {
		*p = pageThrash{}
	}
	return p.pinned
}

// detect tells the detector that a processor wants pages that are elsewhere (uvm_perf_thrashing.c). A page that moves back
// within the lapse is an event; enough events in a row make it thrash. A thrashing page makes the toucher wait for a nap;
// after enough naps it is pinned on the host and mapped from there, and leaves want. The result is the thrashing pages.
func (s *Space) detect(b *block, want *pageSet, by Processor) pageSet {
	var thrashing pageSet
	o := &s.opts.Thrashing
	if !o.Enable {
		return thrashing
	}
	if b.thrash == nil {
		b.thrash = &thrash{}
	}
	t := b.thrash
	if t.resets >= o.MaxResets {
		return thrashing
	}
	now := s.m.NowNs()
	if t.any && now-t.lastNs > o.EpochLapses*o.LapseNs {
		resets := t.resets + 1
		*t = thrash{resets: resets}
	}
	nap := false
	for i := want.next(0); i < BlockPages; i = want.next(i + 1) {
		p := &t.pages[i]
		// Only a page that comes from the other processor moves; a first touch is no event.
		elsewhere := b.host.has(i)
		if by == Host {
			elsewhere = b.device.has(i)
		}
		if !elsewhere {
			continue
		}
		if p.moved && p.by != by && now-p.movedNs <= o.LapseNs {
			p.events = min(p.events+1, 7)
			t.lastNs = now
		} else if p.by != by || !p.moved {
			p.events, p.throttles = 0, 0
		}
		p.movedNs, p.by, p.moved = now, by, true
		if int(p.events) < o.Threshold {
			continue
		}
		t.any = true
		thrashing.add(i)
		if int(p.throttles) < o.PinThreshold {
			p.throttles++
			nap = true
			continue
		}
		s.pin(b, i, by, want)
	}
	if nap {
		s.stats.Throttles++
		s.m.AdvanceNs(o.NapLapses * o.LapseNs)
		// The nap does not count as quiet time of the pages that caused it.
		for i := thrashing.next(0); i < BlockPages; i = thrashing.next(i + 1) {
			t.pages[i].movedNs = s.m.NowNs()
		}
	}
	return thrashing
}

// pin holds a page on the host: the device maps it there instead of moving it.
func (s *Space) pin(b *block, page int, by Processor, want *pageSet) {
	o := &s.opts.Thrashing
	p := &b.thrash.pages[page]
	p.pinned, p.untilNs = true, 0
	if o.PinLapses > 0 {
		p.untilNs = s.m.NowNs() + o.PinLapses*o.LapseNs
	}
	s.stats.Pins++
	b.remote.add(page)
	if by == Device {
		want.drop(page)
		s.stats.RemoteAccesses++
		s.m.AdvanceNs(s.costs.MapPageNs.Value + s.costs.RemoteAccessNs.Value)
	}
}
