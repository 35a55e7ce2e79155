// Package pickletest writes pickles for tests and benchmarks: every protocol from 0 to 5, as CPython's pickler and as the
// C++ pickler of PyTorch write them, byte for byte alike in the opcodes they choose. It is the counterpart of package
// pickle and imported by tests only.
package pickletest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Style says whose habits the writer has.
type Style uint8

// The styles.
const (
	CPython  Style = iota // batches of 1000 items, MEMOIZE from protocol 4 on, BINPUT before
	TorchCPP              // torch/csrc/jit/serialization/pickler.cpp: protocol 2, one MARK a list, BINPUT, no frame
)

// List and Dict are containers with identity: the same pointer written twice is fetched from the memo the second time.
type List struct{ Items []any }

// Dict keeps its pairs in order.
type Dict struct{ Keys, Values []any }

// Tuple is a tuple; it has no identity.
type Tuple []any

// Seq is a list whose items are made one by one, so that a test can write millions of them. Its items are not remembered:
// they occur once.
type Seq iter.Seq[any]

// D makes a Dict of keys and values in turns.
func D(pairs ...any) *Dict {
	d := &Dict{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Keys = append(d.Keys, pairs[i])
		d.Values = append(d.Values, pairs[i+1])
	}
	return d
}

// L makes a List.
func L(items ...any) *List { return &List{Items: items} }

// pair is one item of a dictionary on its way through batches.
type pair struct{ key, value any }

// batchItems is how many items CPython puts behind one MARK.
const batchItems = 1000

// Writer writes one pickle.
type Writer struct {
	w        *bufio.Writer
	protocol int
	style    Style
	memo     map[any]uint32
	next     uint32
	fleeting bool // the next value is an item of a Seq: it counts in the memo, but is not remembered
	err      error
}

// Write writes v as one pickle. Values are nil, bool, int, int64, uint64, float64, string, *List, *Dict, Tuple and Seq.
func Write(w io.Writer, v any, protocol int, style Style) error {
	p := &Writer{w: bufio.NewWriterSize(w, 1<<16), protocol: protocol, style: style, memo: map[any]uint32{}}
	if style == TorchCPP {
		p.protocol = 2
	}
	if p.protocol >= 2 {
		p.raw(0x80, byte(p.protocol))
	}
	if p.protocol >= 4 {
		p.raw(0x95) // one frame; readers may ignore its length
		p.fixed(8, 0)
	}
	p.value(v)
	p.raw('.')
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

func (p *Writer) raw(b ...byte) { p.w.Write(b) }

func (p *Writer) fixed(n int, x uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	p.w.Write(b[:n])
}

func (p *Writer) value(v any) {
	fleeting := p.fleeting
	p.fleeting = false
	switch v := v.(type) {
	case nil:
		p.raw('N')
	case pair:
		p.value(v.key)
		p.value(v.value)
	case bool:
		p.boolean(v)
	case int:
		p.integer(int64(v))
	case int64:
		p.integer(v)
	case uint64:
		p.unsigned(v)
	case float64:
		p.float(v)
	case string:
		p.text(v)
	case Tuple:
		p.tuple(v)
	case *List:
		if !p.known(v) {
			p.list(v, func(yield func(any) bool) {
				for _, item := range v.Items {
					if !yield(item) {
						return
					}
				}
			})
		}
	case Seq:
		p.list(nil, iter.Seq[any](v))
	case *Dict:
		if !p.known(v) {
			p.dict(v, fleeting)
		}
	default:
		p.err = fmt.Errorf("pickletest: cannot write a %T", v)
	}
}

func (p *Writer) boolean(v bool) {
	switch {
	case p.protocol >= 2 && v:
		p.raw(0x88)
	case p.protocol >= 2:
		p.raw(0x89)
	case v:
		p.w.WriteString("I01\n")
	default:
		p.w.WriteString("I00\n")
	}
}

func (p *Writer) integer(v int64) {
	switch {
	case p.protocol == 0 && (v < math.MinInt32 || v > math.MaxInt32):
		fmt.Fprintf(p.w, "L%dL\n", v)
	case p.protocol == 0:
		fmt.Fprintf(p.w, "I%d\n", v)
	case v >= 0 && v < 1<<8:
		p.raw('K', byte(v))
	case v >= 0 && v < 1<<16:
		p.raw('M')
		p.fixed(2, uint64(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		p.raw('J')
		p.fixed(4, uint64(v))
	case p.protocol == 1:
		fmt.Fprintf(p.w, "L%dL\n", v)
	default:
		p.long(uint64(v), v < 0)
	}
}

func (p *Writer) unsigned(v uint64) {
	switch {
	case v <= math.MaxInt64:
		p.integer(int64(v))
	case p.protocol < 2:
		fmt.Fprintf(p.w, "L%dL\n", v)
	default:
		p.raw(0x8a, 9)
		p.fixed(8, v)
		p.raw(0)
	}
}

// long writes LONG1 with the fewest bytes that keep the sign.
func (p *Writer) long(bits uint64, negative bool) {
	n := 8
	for n > 1 {
		top, next := byte(bits>>(8*(n-1))), byte(bits>>(8*(n-2)))
		if !negative && top == 0 && next < 0x80 || negative && top == 0xff && next >= 0x80 {
			n--
			continue
		}
		break
	}
	p.raw(0x8a, byte(n))
	p.fixed(n, bits)
}

func (p *Writer) float(v float64) {
	if p.protocol == 0 {
		p.w.WriteString("F" + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
		return
	}
	p.raw('G')
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], math.Float64bits(v))
	p.w.Write(b[:])
}

func (p *Writer) text(v string) {
	if p.known(v) {
		return
	}
	switch {
	case p.protocol == 0:
		p.w.WriteString("V" + rawUnicode(v) + "\n")
	case p.protocol >= 4 && len(v) < 256:
		p.raw(0x8c, byte(len(v)))
		p.w.WriteString(v)
	default:
		p.raw('X')
		p.fixed(4, uint64(len(v)))
		p.w.WriteString(v)
	}
	p.memoize(v)
}

// rawUnicode is Python's raw-unicode-escape, with the characters escaped that a line cannot hold.
func rawUnicode(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\' || r == '\n' || r == '\r' || r == 0 || r == 0x1a:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r < 0x100:
			b.WriteByte(byte(r))
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// known fetches v from the memo when it was written before.
func (p *Writer) known(v any) bool {
	i, ok := p.memo[v]
	switch {
	case !ok:
		return false
	case p.protocol == 0:
		fmt.Fprintf(p.w, "g%d\n", i)
	case i < 256:
		p.raw('h', byte(i))
	default:
		p.raw('j')
		p.fixed(4, uint64(i))
	}
	return true
}

// memoize puts the top of the stack into the memo; v is nil for what is never fetched.
func (p *Writer) memoize(v any) {
	i := p.next
	p.next++
	if v != nil {
		p.memo[v] = i
	}
	switch {
	case p.protocol == 0:
		fmt.Fprintf(p.w, "p%d\n", i)
	case p.protocol >= 4:
		p.raw(0x94)
	case i < 256:
		p.raw('q', byte(i))
	default:
		p.raw('r')
		p.fixed(4, uint64(i))
	}
}

func (p *Writer) tuple(v Tuple) {
	small := p.protocol >= 2 && len(v) <= 3
	switch {
	case len(v) == 0 && p.protocol > 0:
		p.raw(')')
		return
	case !small:
		p.raw('(')
	}
	for _, item := range v {
		p.value(item)
	}
	if small {
		p.raw(0x84 + byte(len(v)))
	} else {
		p.raw('t')
	}
	p.memoize(nil)
}

func (p *Writer) list(id *List, items iter.Seq[any]) {
	if p.protocol == 0 {
		p.w.WriteString("(l")
	} else {
		p.raw(']')
	}
	if id != nil {
		p.memoize(id)
	} else {
		p.memoize(nil)
	}
	p.batches(items, 'a', 'e', id == nil)
}

// batches writes items as the style groups them: one by itself, else behind a MARK.
func (p *Writer) batches(items iter.Seq[any], one, many byte, fleeting bool) {
	value := func(v any) {
		p.fleeting = fleeting
		p.value(v)
	}
	next, stop := iter.Pull(items)
	defer stop()
	first, ok := next()
	for ok {
		second, more := next()
		switch {
		case p.protocol == 0:
			value(first)
			p.raw(one)
			first, ok = second, more
			continue
		case !more && p.style == CPython:
			value(first)
			p.raw(one)
			return
		}
		p.raw('(')
		value(first)
		n := 1
		for more && (n < batchItems || p.style == TorchCPP) {
			value(second)
			second, more = next()
			n++
		}
		p.raw(many)
		first, ok = second, more
	}
}

func (p *Writer) dict(d *Dict, fleeting bool) {
	if p.protocol == 0 {
		p.w.WriteString("(d")
	} else {
		p.raw('}')
	}
	if fleeting {
		p.memoize(nil)
	} else {
		p.memoize(d)
	}
	p.batches(func(yield func(any) bool) {
		for i := range d.Keys {
			if !yield(pair{d.Keys[i], d.Values[i]}) {
				return
			}
		}
	}, 's', 'u', false)
}
