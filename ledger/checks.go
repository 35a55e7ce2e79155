package ledger

import (
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

// breach notes a violation that concerns no address.
func (l *Ledger) breach(check Check, code Code, h trace.Handle, expected, observed string) {
	l.breachAt(check, code, h, 0, 0, expected, observed)
}

// breachAt notes a violation; size > 0 asks for a map of the addresses around.
func (l *Ledger) breachAt(check Check, code Code, h trace.Handle, addr, size uint64, expected, observed string) {
	l.violationsTotal++
	l.countCode(check, code)
	if len(l.violations) >= MaxStoredViolations {
		return
	}
	v := Violation{Event: int64(l.n), Handle: uint64(h), Check: check, Code: code, Expected: expected, Observed: observed}
	if l.outsideEvent != 0 {
		v.Event = l.outsideEvent
	}
	if size > 0 && !wraps(addr, size) {
		v.Map = l.addressMap(addr, size)
	}
	l.violations = append(l.violations, v)
}

func (l *Ledger) countCode(check Check, code Code) {
	for i := range l.violationCounts {
		if c := &l.violationCounts[i]; c.Code == code && c.Check == check {
			c.Count++
			return
		}
	}
	l.violationCounts = append(l.violationCounts, ViolationCount{check, code, 1})
}

// full reports whether further violations are only counted: then no text need be made for them.
func (l *Ledger) full() bool { return len(l.violations) >= MaxStoredViolations }

// misplaced reports a range of a block that is not wholly free: it lies over another block, or outside held memory. The
// block stays counted, but the bytes stay in the name of whoever had them first.
func (l *Ledger) misplaced(b *block, slot uint32, r span) {
	b.flags |= blockAstray
	sp := l.spaceOf(b)
	for at := sp.firstIn(r.addr, r.size); at.dir >= 0; at = sp.idx.next(at) {
		it := &sp.items[sp.idx.id(at)]
		if it.addr >= r.addr+r.size {
			break
		}
		if it.size == 0 {
			continue
		}
		text := ""
		if !l.full() {
			text = l.overlapText(sp, b, r, sp.idx.id(at))
		}
		l.breachAt(CheckOverlap, CodeOverlap, b.handle, r.addr, r.size, "bytes that no live block has", text)
		return
	}
	l.breachAt(CheckPlacement, CodeOutOfRange, b.handle, r.addr, r.size, "a block inside memory the strategy holds",
		fmt.Sprintf("%s at 0x%x, not wholly inside a segment", bytesText(r.size), r.addr))
}

func (l *Ledger) overlapText(sp *space, b *block, r span, id uint32) string {
	it := &sp.items[id]
	o := &l.blocks[it.slot]
	lo, hi := max(r.addr, it.addr), min(r.addr+r.size, it.end())
	s := fmt.Sprintf("%s at 0x%x share %s with h%d (%s at 0x%x)", bytesText(r.size), r.addr, bytesText(hi-lo), o.handle, bytesText(it.size), it.addr)
	if sp.meta[id].kind == itemShadow {
		s += fmt.Sprintf(", whose physical memory is mapped at both; its own address is 0x%x", o.addr)
	}
	return s
}

func (l *Ledger) streamHazard(b *block, r span, g *rangeRec[ghost]) {
	if l.full() {
		l.breach(CheckStreams, CodeStreamHazard, b.handle, "", "")
		return
	}
	lo, hi := max(r.addr, g.addr), min(r.addr+r.size, g.addr+g.size)
	l.breachAt(CheckStreams, CodeStreamHazard, b.handle, r.addr, r.size,
		fmt.Sprintf("memory that stream index %d may touch", b.stream),
		fmt.Sprintf("%s at 0x%x: %s is not complete and not ordered before it", bytesText(hi-lo), lo, l.shadow.describe(b.stream, &g.val)))
}

func (l *Ledger) unknownBlock(c *trace.Call, what string) {
	l.breach(CheckConservation, CodeUnknownBlock, 0, "a "+what+" of a live block", callText(c))
}

func (l *Ledger) segmentInUse(it *item, c *trace.Call) {
	b := &l.blocks[it.slot]
	l.breachAt(CheckConservation, CodeSegmentInUse, b.handle, it.addr, it.size, "memory given back only without live blocks",
		fmt.Sprintf("%s under h%d (%s at 0x%x)", callText(c), b.handle, bytesText(it.size), it.addr))
}

func (l *Ledger) deviceOverlap(c *trace.Call, sp *space, other uint32) {
	l.breachAt(CheckConservation, CodeDeviceOverlap, 0, c.Addr, c.Size, "memory that is not held already",
		fmt.Sprintf("%s over a segment of %s at 0x%x", callText(c), bytesText(sp.meta[other].bytes), sp.items[other].addr))
}

// mapColumns is the width of the bar of an address map.
const mapColumns = 64

// mapLine is one line of an address map.
type mapLine struct {
	addr, size uint64
	text       string
	mark       byte
}

// addressMap draws the items around [addr, addr+size): one line each in address order with the range in question marked,
// and a bar on which every item has its share of the addresses shown.
func (l *Ledger) addressMap(addr, size uint64) string {
	sp := &l.dev
	if sp.region(addr) == noItem && l.host.region(addr) != noItem {
		sp = &l.host
	}
	c := sp.idx.floor(addr)
	for range mapNeighbours {
		if c.dir >= 0 {
			if p := sp.idx.prev(c); p.dir >= 0 {
				c = p
			}
		}
	}
	if c.dir < 0 {
		c = sp.idx.next(noCursor)
	}
	lines := make([]mapLine, 0, 16)
	after := 0
	for ; c.dir >= 0 && after <= mapNeighbours && len(lines) < 16; c = sp.idx.next(c) {
		it := &sp.items[sp.idx.id(c)]
		if it.addr >= addr+size {
			after++
		}
		lines = append(lines, l.itemLine(sp, sp.idx.id(c)))
		if it.gap > 0 {
			lines = append(lines, mapLine{it.end(), it.gap, "free", '.'})
		}
	}
	return drawMap(lines, mapLine{addr, size, "<- here", '#'})
}

func (l *Ledger) itemLine(sp *space, id uint32) mapLine {
	it, m := &sp.items[id], &sp.meta[id]
	if m.kind == itemHead {
		kind := [...]string{"segment", "managed segment", "mapped range", "host segment"}[m.rkind]
		return mapLine{it.addr, m.bytes, kind, '['}
	}
	h := l.blocks[it.slot].handle
	text := fmt.Sprintf("h%d", h)
	if m.kind == itemShadow {
		text += " (other address of its physical memory)"
	}
	return mapLine{it.addr, it.size, text, "abcdefghijklmnopqrstuvwxyz"[h%26]}
}

// drawMap writes the bar and the lines.
func drawMap(lines []mapLine, here mapLine) string {
	lo, hi := here.addr, here.addr+here.size
	for _, m := range lines {
		if m.mark != '[' {
			lo, hi = min(lo, m.addr), max(hi, m.addr+m.size)
		}
	}
	var bar, under [mapColumns]byte
	for i := range bar {
		bar[i], under[i] = ' ', ' '
	}
	width := float64(hi - lo)
	fill := func(dst []byte, m mapLine) {
		from := int(float64(m.addr-lo) / width * mapColumns)
		to := int(float64(m.addr+m.size-lo) / width * mapColumns)
		for i := from; i < max(to, from+1) && i < mapColumns; i++ {
			dst[i] = m.mark
		}
	}
	var s strings.Builder
	for _, m := range lines {
		if m.mark != '[' {
			fill(bar[:], m)
		}
	}
	fill(under[:], here)
	fmt.Fprintf(&s, "|%s|\n|%s|\n", bar[:], under[:])
	for _, m := range append(lines, here) {
		fmt.Fprintf(&s, "%c 0x%-14x %10s  %s\n", m.mark, m.addr, bytesText(m.size), m.text)
	}
	return s.String()
}
