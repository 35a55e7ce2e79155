package ledger

import (
	"cmp"
	"math/bits"
	"slices"
)

// MaxPictureRects bounds the rectangles of a picture.
const MaxPictureRects = 20_000

// pictureBuilder keeps the largest rectangles in a heap with the smallest on top.
type pictureBuilder struct {
	limit   int
	heap    []PictureRect
	dropped uint64
}

func (p *pictureBuilder) ready(cfg *Config) *pictureBuilder {
	if cfg.PictureRects <= 0 {
		return nil
	}
	if p == nil {
		p = &pictureBuilder{}
	}
	p.limit, p.heap, p.dropped = min(cfg.PictureRects, MaxPictureRects), p.heap[:0], 0
	return p
}

// block and segment take a rectangle that ends at event now.
func (p *pictureBuilder) block(it *item, born uint64, b *block, now uint64) {
	p.add(PictureRect{Addr: it.addr, Bytes: it.size, First: born, Last: now, Handle: uint64(b.handle), Tag: b.tag})
}

func (p *pictureBuilder) segment(addr, size, born, now uint64) {
	p.add(PictureRect{Addr: addr, Bytes: size, First: born, Last: now})
}

// smaller orders by area (bytes × events, 128 bits), then by place, so that equal runs keep equal rectangles.
func smaller(a, b *PictureRect) int {
	ah, al := bits.Mul64(a.Bytes, a.Last-a.First)
	bh, bl := bits.Mul64(b.Bytes, b.Last-b.First)
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.First, b.First), cmp.Compare(a.Handle, b.Handle))
}

func (p *pictureBuilder) add(r PictureRect) {
	if len(p.heap) < p.limit {
		p.heap = append(p.heap, r)
		for i := len(p.heap) - 1; i > 0; {
			up := (i - 1) / 2
			if smaller(&p.heap[i], &p.heap[up]) >= 0 {
				return
			}
			p.heap[i], p.heap[up] = p.heap[up], p.heap[i]
			i = up
		}
		return
	}
	p.dropped++
	if smaller(&r, &p.heap[0]) <= 0 {
		return
	}
	p.heap[0] = r
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(p.heap) && smaller(&p.heap[c], &p.heap[least]) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		p.heap[i], p.heap[least] = p.heap[least], p.heap[i]
		i = least
	}
}

// report adds what still lives and puts segments first, then by address and event.
func (p *pictureBuilder) report(l *Ledger) *Picture {
	for i := range l.dev.items {
		it, m := &l.dev.items[i], &l.dev.meta[i]
		switch m.kind {
		case itemHead:
			p.segment(it.addr, m.bytes, m.born, l.n)
		case itemBlock:
			p.block(it, m.born, &l.blocks[it.slot], l.n)
		}
	}
	rects := append([]PictureRect(nil), p.heap...)
	slices.SortFunc(rects, func(a, b PictureRect) int {
		return cmp.Or(cmp.Compare(min(a.Handle, 1), min(b.Handle, 1)), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.First, b.First), cmp.Compare(a.Handle, b.Handle))
	})
	return &Picture{Events: l.n, Rects: rects, Dropped: p.dropped}
}
