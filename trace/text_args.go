package trace

import "bytes"

// argument is a set of attributes of an event.
type argument uint16

const (
	argStream argument = 1 << iota
	argPool
	argAlign
	argThread
	argTag
	argOn
	argBy
	argTo
	argOffset
	argLength
	argWrite
	argDevice
	argTime
)

// argumentNames are the words of the attributes in the order of the bits; time is written @… instead.
var argumentNames = []string{"stream", "pool", "align", "thread", "tag", "on", "by", "to", "offset", "length", "write", "device"}

// arguments are the attributes of one line. The byte slices point into the line.
type arguments struct {
	have           argument
	stream, on     uint64
	pool, tag      []byte
	align          uint64
	thread         uint32 // 1 + the number
	by, to         Place
	offset, length uint64
	device         uint64
	ns             int64
	rec            Recorded
}

// maxThread leaves room for the 1 that is added.
const maxThread = 1<<32 - 2

// arguments reads the attributes up to the end of the line, and the answer after "->".
func (p *parser) arguments(k Kind, allowed argument) error {
	a := &p.a
	*a = arguments{}
	for {
		t, ok, err := p.lex.next()
		if err != nil {
			return lexError(err)
		}
		if !ok {
			return nil
		}
		if !t.eq && !t.quoted && string(t.key) == "->" {
			return p.answer()
		}
		if err := a.one(t, k, allowed|argTime); err != nil {
			return err
		}
	}
}

// one reads one attribute.
func (a *arguments) one(t token, k Kind, allowed argument) (err error) {
	bit := argument(0)
	switch {
	case t.quoted:
		return syntaxf("stray string %q after %s", t.key, k)
	case !t.eq && len(t.key) > 1 && t.key[0] == '@':
		bit = argTime
	default:
		for i, name := range argumentNames {
			if string(t.key) == name {
				bit = 1 << i
			}
		}
	}
	if bit&allowed == 0 {
		return unknownArgument(t, k, allowed)
	}
	if bit&a.have != 0 {
		return syntaxf("%s is given twice", t.key)
	}
	a.have |= bit
	if bit != argTime && bit != argWrite && (!t.eq || len(t.val) == 0 && bit != argTag) {
		return syntaxf("%s needs a value: %s=…", t.key, t.key)
	}
	if bit == argWrite && t.eq {
		return syntaxf("write takes no value")
	}
	switch bit {
	case argStream:
		a.stream, err = number(t.val, "stream")
	case argOn:
		a.on, err = number(t.val, "stream")
	case argPool:
		a.pool = t.val
	case argAlign:
		a.align, err = sizeArgument(t)
		if err == nil && (a.align == 0 || a.align&(a.align-1) != 0) {
			err = syntaxf("align=%s is not a power of two", t.val)
		}
	case argThread:
		var n uint64
		if n, err = number(t.val, "thread"); err == nil && n > maxThread {
			err = syntaxf("thread %d is above %d", n, uint64(maxThread))
		}
		a.thread = uint32(n + 1)
	case argTag:
		a.tag = t.val
	case argBy:
		a.by, err = place(t)
	case argTo:
		a.to, err = place(t)
	case argOffset:
		a.offset, err = sizeArgument(t)
	case argLength:
		a.length, err = sizeArgument(t)
	case argDevice:
		a.device, err = number(t.val, "device")
	case argTime:
		if a.ns, err = parseTime(t.key[1:]); err != nil {
			err = syntaxf("%v", err)
		}
	}
	return err
}

func sizeArgument(t token) (uint64, error) {
	n, err := parseSize(t.val)
	if err != nil {
		return 0, syntaxf("%s: %v", t.key, err)
	}
	return n, nil
}

func place(t token) (Place, error) {
	switch string(t.val) {
	case "gpu":
		return PlaceGPU, nil
	case "cpu":
		return PlaceCPU, nil
	}
	return 0, syntaxf("%s=%s: the place is gpu or cpu", t.key, t.val)
}

func unknownArgument(t token, k Kind, allowed argument) error {
	var known []string
	var list []byte
	for i, name := range argumentNames {
		if allowed&(1<<i) != 0 {
			known = append(known, name)
			list = append(append(list, name...), "=, "...)
		}
	}
	list = append(bytes.Replace(list, []byte("write="), []byte("write"), 1), "@TIME or ->"...)
	if near := nearest(string(t.key), known); near != "" {
		return syntaxf("%s takes no %q: did you mean %s?", k, t.key, near)
	}
	return syntaxf("%s takes no %q: after it may stand %s", k, t.key, list)
}

// answer reads what stands after "->".
func (p *parser) answer() error {
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	r := &p.a.rec
	r.Seen = 1
	switch {
	case !ok:
		return syntaxf("nothing after ->: write addr=0x… or failed")
	case !t.eq && string(t.key) == "failed":
		r.Status = StatusFailed
	case t.eq && string(t.key) == "addr":
		if r.Addr, err = number(t.val, "addr"); err != nil {
			return err
		}
	default:
		return syntaxf("found %q after ->: write addr=0x… [granted=SIZE] or failed", t.key)
	}
	if t, ok, err = p.lex.next(); err != nil || !ok {
		return lexError(err)
	}
	if r.Status != StatusOK || string(t.key) != "granted" || !t.eq {
		return syntaxf("stray %q at the end: an answer is addr=0x… [granted=SIZE] or failed", t.key)
	}
	if r.Granted, err = sizeArgument(t); err != nil {
		return err
	}
	return p.end()
}

// end holds that the line ends here.
func (p *parser) end() error {
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	if ok {
		return syntaxf("stray %q at the end", t.key)
	}
	return nil
}
