package plan

import (
	"github.com/gpubench/gpubench/trace"
)

// Mutate writes a program made from two of a corpus: a prefix of a, then what one to four changes make of the rest, which may be the end of
// b (a splice) with its handles moved out of the way. a is not changed; scratch is memory to use again.
func (g *Generator) Mutate(src Source, a, b []Op, scratch []Op) (t *trace.Trace, keep []Op) {
	list := append(scratch[:0], a...)
	for n := 1 + src.Draw(4); n > 0; n-- {
		list = g.change(src, list, b)
	}
	w := g.Begin()
	for i := range list {
		w.Add(&list[i])
	}
	return w.Trace(), list
}

// change makes one change.
func (g *Generator) change(src Source, list, b []Op) []Op {
	g.src = src
	if len(list) == 0 {
		return append(list, b...)
	}
	i := src.Draw(len(list))
	switch src.Draw(8) {
	case 0: // leave one out
		return append(list[:i], list[i+1:]...)
	case 1: // repeat one: an alloc gets a new name
		o := list[i]
		if o.Kind.TakesMemory() {
			o.Handle = Highest(list) + 1
			o.Kind, o.Old = trace.KindAlloc, 0
		}
		return insert(list, i, o)
	case 2: // another size
		if list[i].Kind.TakesMemory() {
			list[i].Size = g.size()
		}
	case 3: // a size a little beside
		if list[i].Kind.TakesMemory() {
			list[i].Size = besides(list[i].Size, beside[src.Draw(len(beside))])
		}
	case 4: // another stream
		list[i].Stream = g.stream()
	case 5: // swap two neighbours
		if i+1 < len(list) {
			list[i], list[i+1] = list[i+1], list[i]
		}
	case 6: // a free of what was allocated before
		if h := list[i].Handle; h != 0 {
			return insert(list, i+1+src.Draw(len(list)-i), Op{Kind: trace.KindFree, Handle: h})
		}
	case 7: // splice
		if len(b) == 0 || len(list)+len(b) > 4*g.limits.LengthMax {
			return list
		}
		shift := Highest(list)
		list = list[:i+1]
		for _, o := range b[src.Draw(len(b)):] {
			if o.Handle != 0 {
				o.Handle += shift
			}
			if o.Old != 0 {
				o.Old += shift
			}
			list = append(list, o)
		}
	}
	return list
}

func insert(list []Op, i int, o Op) []Op {
	list = append(list, Op{})
	copy(list[i+1:], list[i:])
	list[i] = o
	return list
}

// Highest returns the largest handle of a program.
func Highest(list []Op) trace.Handle {
	h := trace.Handle(0)
	for i := range list {
		h = max(h, list[i].Handle)
	}
	return h
}
