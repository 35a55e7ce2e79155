package ledger

import (
	"cmp"
	"slices"
)

const (
	// MaxHostages is the number of segments listed.
	MaxHostages = 16
	// hostageStep: at the peak the walk is repeated when live bytes have grown by 1/hostageStep since the last one, so
	// that a growing trace costs some hundred walks and the picture is at most 1/64 below the peak.
	hostageStep = 64
)

// findHostages walks all segments in address order and keeps those whose blocks hold the most free bytes back.
func (l *Ledger) findHostages(when string) {
	h := &l.hostages
	h.When, h.Event, h.LiveBytes = when, int64(l.n), l.liveBytes
	l.hostagesAtLiveBytes = l.liveBytes
	h.Segments = h.Segments[:0]
	var cur Hostage
	for c := l.dev.idx.next(noCursor); c.dir >= 0; c = l.dev.idx.next(c) {
		id := l.dev.idx.id(c)
		it := &l.dev.items[id]
		switch it.size {
		case 0:
			h.keep(cur)
			cur = Hostage{SegmentAddr: it.addr, SegmentBytes: l.dev.meta[id].bytes}
		default:
			cur.LiveBlocks++
			cur.LiveBytes += it.size
			if cur.LiveBlocks == 1 || it.size < cur.BlockBytes {
				b := &l.blocks[it.slot]
				cur.Handle, cur.BlockBytes, cur.Tag = uint64(b.handle), it.size, l.text(b.tag)
			}
		}
	}
	h.keep(cur)
	slices.SortFunc(h.Segments, hostageOrder)
}

// hostageOrder puts the segment with the most free bytes first, then the lower address.
func hostageOrder(a, b Hostage) int {
	return cmp.Or(cmp.Compare(b.SegmentBytes-b.LiveBytes, a.SegmentBytes-a.LiveBytes), cmp.Compare(a.SegmentAddr, b.SegmentAddr))
}

// keep adds a segment with live blocks and free bytes if it is among the first MaxHostages.
func (h *Hostages) keep(s Hostage) {
	if s.LiveBlocks == 0 || s.LiveBytes >= s.SegmentBytes {
		return
	}
	if len(h.Segments) < MaxHostages {
		h.Segments = append(h.Segments, s)
		return
	}
	worst := 0
	for i := range h.Segments {
		if hostageOrder(h.Segments[i], h.Segments[worst]) > 0 {
			worst = i
		}
	}
	if hostageOrder(s, h.Segments[worst]) < 0 {
		h.Segments[worst] = s
	}
}
