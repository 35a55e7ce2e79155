package fuzz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

const (
	// diagramColumns is the width of the map of a diagram.
	diagramColumns = 64
	// diagramEvents bounds the events of a diagram: beyond it, it shows the last ones.
	diagramEvents = 100
)

// Diagram draws the addresses over time: a line an event, with what it was, what came of it, and who has which bytes after it. Addresses between the lowest
// and the highest block are drawn to scale; where nobody ever was, they are left out.
func Diagram(t *trace.Trace, outcomes []trace.Outcome) string {
	if t == nil || len(outcomes) != len(t.Events) {
		return ""
	}
	d := newDiagram(t, outcomes)
	var b strings.Builder
	fmt.Fprintf(&b, "each column is about %s; columns where no block ever was are left out\n", trace.FormatSize(d.columnBytes))
	first := max(0, len(t.Events)-diagramEvents)
	for i := range t.Events {
		d.event(i)
		if i < first {
			continue
		}
		o := &outcomes[i]
		text := string(t.AppendEvent(nil, uint64(i)))
		came := o.Status.String()
		if o.Status.Placed() && t.Events[i].Kind.TakesMemory() {
			came = fmt.Sprintf("0x%x +%s", o.Addr, trace.FormatSize(o.Granted))
		}
		fmt.Fprintf(&b, "%4d  %-40s %-28s |%s|\n", i, text, came, d.row())
	}
	return b.String()
}

// diagram is one under way.
type diagram struct {
	t           *trace.Trace
	outcomes    []trace.Outcome
	cuts        []span // what is drawn, in address order
	columnBytes uint64
	total       uint64
	shadow      shadow
}

func newDiagram(t *trace.Trace, outcomes []trace.Outcome) *diagram {
	d := &diagram{t: t, outcomes: outcomes}
	var all []span
	for i := range outcomes {
		if o := &outcomes[i]; t.Events[i].Kind.TakesMemory() && o.Status.Placed() && o.Granted > 0 && o.Addr+o.Granted > o.Addr {
			all = append(all, span{o.Addr, o.Granted})
		}
	}
	slices.SortFunc(all, func(a, b span) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	for _, s := range all {
		if n := len(d.cuts); n > 0 && s.addr <= d.cuts[n-1].addr+d.cuts[n-1].size {
			d.cuts[n-1].size = max(d.cuts[n-1].size, s.addr+s.size-d.cuts[n-1].addr)
			continue
		}
		d.cuts = append(d.cuts, s)
	}
	for _, c := range d.cuts {
		d.total += c.size
	}
	d.columnBytes = max(1, d.total/diagramColumns)
	return d
}

// event brings the live blocks up to date.
func (d *diagram) event(i int) {
	d.shadow.event(d.t, i, &d.outcomes[i])
}

// row draws who has what: a letter a handle, '#' where two have the same bytes.
func (d *diagram) row() string {
	row := []byte(strings.Repeat(".", diagramColumns))
	for slot := range d.shadow.live {
		b := &d.shadow.live[slot]
		if b.handle == 0 || b.size == 0 {
			continue
		}
		from, to := d.column(b.addr), d.column(b.addr+b.size-1)
		for c := from; c <= to && c < len(row); c++ {
			mark := byte('a' + (uint64(b.handle)-1)%26)
			if row[c] != '.' && row[c] != mark && d.overlaps(slot) {
				mark = '#'
			}
			row[c] = mark
		}
	}
	return string(row)
}

// overlaps reports whether the block of a slot shares bytes with another.
func (d *diagram) overlaps(slot int) bool {
	a := &d.shadow.live[slot]
	for k := range d.shadow.live {
		b := &d.shadow.live[k]
		if k != slot && b.handle != 0 && b.size != 0 && a.addr < b.addr+b.size && b.addr < a.addr+a.size {
			return true
		}
	}
	return false
}

// column is where an address is drawn.
func (d *diagram) column(addr uint64) int {
	before := uint64(0)
	for _, c := range d.cuts {
		if addr < c.addr+c.size {
			if addr > c.addr {
				before += addr - c.addr
			}
			break
		}
		before += c.size
	}
	return min(diagramColumns-1, int(float64(before)/float64(max(d.total, 1))*diagramColumns))
}
