package pickle

import "encoding/binary"

// mark pushes a MARK and notes whether what follows are items of a streamed list.
func (m *machine) mark() error {
	if len(m.marks) >= m.limits.Depth {
		return overLimit("nested containers", int64(m.limits.Depth))
	}
	mk := mark{start: len(m.stack)}
	if n := len(m.stack); n > 0 && m.stack[n-1].kind() == KindList {
		mk.stream = m.decide(n - 1)
	}
	m.marks = append(m.marks, mk)
	return nil
}

// decide says whether the list at stack position p is streamed, the first time from where it stands: directly inside the
// list at the stream key, either behind that list's MARK with nothing but lists before it, or as the next to be appended.
func (m *machine) decide(p int) bool {
	list := m.node(m.stack[p])
	if list.flags&flagDecided != 0 {
		return list.flags&flagStreamed != 0
	}
	list.flags |= flagDecided
	outer := p - 1
	if k := len(m.marks); k > 0 && m.marks[k-1].start <= p && m.marks[k-1].start > 0 {
		start := m.marks[k-1].start
		sibling := true
		for _, v := range m.stack[start:p] {
			sibling = sibling && v.kind() == KindList
		}
		if sibling && m.stack[start-1].kind() == KindList {
			outer = start - 1
		}
	}
	if outer < 1 || m.streamKey == "" || m.stack[outer].kind() != KindList {
		return false
	}
	key, ok := m.Text(m.stack[outer-1])
	if !ok || key != m.streamKey || list.flags&flagToken != 0 {
		return false
	}
	m.stream(list)
	return true
}

// feedTop shows a completed item of a streamed list to the sink when the next item begins, so that a million items behind
// one MARK need not wait for their APPENDS.
func (m *machine) feedTop() error {
	k, top := len(m.marks), len(m.stack)-1
	if k == 0 || !m.marks[k-1].stream {
		return nil
	}
	start := m.marks[k-1].start
	if top < start || top > start && m.stack[top-1].kind() != kindSunk || m.stack[top].kind() != KindDict {
		return nil
	}
	if err := m.feed(m.node(m.stack[start-1]), m.stack[top]); err != nil {
		return err
	}
	m.stack[top] = makeValue(kindSunk, 0)
	return nil
}

// popMark removes the topmost mark.
func (m *machine) popMark() (mark, error) {
	if len(m.marks) == 0 {
		return mark{}, malformed("no MARK on the stack")
	}
	mk := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	return mk, nil
}

// floor is the lowest stack position that an opcode without a mark may touch.
func (m *machine) floor() int {
	if k := len(m.marks); k > 0 {
		return m.marks[k-1].start
	}
	return 0
}

func (m *machine) need(n int) error {
	if have := len(m.stack) - m.floor(); have < n {
		return malformed("%d objects needed, %d on the stack", n, have)
	}
	return nil
}

// container returns the container at stack position p for changing it.
func (m *machine) container(p int, k Kind) (*node, error) {
	if p < m.floor() {
		return nil, malformed("no %s on the stack", k)
	}
	v := m.stack[p]
	if v.kind() == KindToken || v.kind() == kindSunk || v.isNode() && m.node(v).flags&flagToken != 0 {
		return nil, ErrChanged
	}
	if v.kind() != k {
		return nil, malformed("%s where %s belongs", v.kind().A(), k.A())
	}
	return m.node(v), nil
}

func (m *machine) setItems(op byte) error {
	from := len(m.stack) - 2
	if op == opSetItems {
		mk, err := m.popMark()
		if err != nil {
			return err
		}
		from = mk.start
	} else if err := m.need(3); err != nil {
		return err
	}
	dict, err := m.container(from-1, KindDict)
	if err != nil {
		return err
	}
	if err := m.addPairs(dict, m.stack[from:]); err != nil {
		return err
	}
	m.stack = m.stack[:from]
	return nil
}

func (m *machine) addPairs(dict *node, pairs []Value) error {
	if len(pairs)%2 != 0 {
		return malformed("a key without a value")
	}
	for i, v := range pairs {
		k := v.kind()
		if k == kindSunk {
			return ErrChanged
		}
		if i%2 == 0 && (k == KindDict || k == KindList || k == KindToken) {
			return malformed("%s as a key", k.A())
		}
	}
	return m.add(dict, pairs...)
}

func (m *machine) appends(op byte) error {
	from := len(m.stack) - 1
	if op == opAppends {
		mk, err := m.popMark()
		if err != nil {
			return err
		}
		from = mk.start
	} else if err := m.need(2); err != nil {
		return err
	}
	list, err := m.container(from-1, KindList)
	if err != nil {
		return err
	}
	streamed := m.decide(from - 1)
	for _, v := range m.stack[from:] {
		switch {
		case v.kind() == kindSunk && !streamed:
			return ErrChanged
		case v.kind() == kindSunk:
		default:
			if err := m.append(list, v); err != nil {
				return err
			}
		}
	}
	m.stack = m.stack[:from]
	return nil
}

// collect replaces what lies at or above stack position from by a container of it.
func (m *machine) collect(k Kind, from int) error {
	if from < m.floor() {
		return malformed("%d objects needed, %d on the stack", len(m.stack)-from, len(m.stack)-m.floor())
	}
	v := m.make(k)
	n := m.node(v)
	var err error
	if k == KindDict {
		err = m.addPairs(n, m.stack[from:])
	} else {
		for _, item := range m.stack[from:] {
			if item.kind() == kindSunk {
				return ErrChanged
			}
		}
		err = m.add(n, m.stack[from:]...)
		if k == KindList && len(n.items) > 0 {
			n.flags |= flagDecided
		}
	}
	if err != nil {
		return err
	}
	m.stack = m.stack[:from]
	return m.push(v)
}

func (m *machine) collectMarked(op byte) error {
	mk, err := m.popMark()
	if err != nil {
		return err
	}
	k := map[byte]Kind{opTuple: KindTuple, opList: KindList, opDict: KindDict}[op]
	return m.collect(k, mk.start)
}

func (m *machine) pop(op byte) error {
	from := len(m.stack) - 1
	if op == opPopMark || len(m.marks) > 0 && m.floor() == len(m.stack) {
		mk, err := m.popMark() // POP right behind a MARK removes the mark
		if err != nil {
			return err
		}
		from = mk.start
	} else if err := m.need(1); err != nil {
		return err
	}
	for _, v := range m.stack[from:] {
		if v.kind() == kindSunk {
			return ErrChanged
		}
	}
	m.stack = m.stack[:from]
	return nil
}

// index reads the argument of a PUT or GET.
func (m *machine) index(op byte) (uint64, error) {
	switch op {
	case opBinPut, opBinGet:
		b, err := m.in.take(1)
		if err != nil {
			return 0, err
		}
		return uint64(b[0]), nil
	case opLongBinPut, opLongBinGet:
		b, err := m.in.take(4)
		if err != nil {
			return 0, err
		}
		return uint64(binary.LittleEndian.Uint32(b)), nil
	}
	return m.indexLine()
}

func (m *machine) put(op byte) error {
	i := m.memoLen
	if op != opMemoize {
		var err error
		if i, err = m.index(op); err != nil {
			return err
		}
	}
	if err := m.need(1); err != nil {
		return err
	}
	v := m.stack[len(m.stack)-1]
	if v.kind() == kindSunk {
		return ErrChanged
	}
	return m.memoize(i, v)
}

func (m *machine) get(op byte) error {
	i, err := m.index(op)
	if err != nil {
		return err
	}
	v, ok := m.memoGet(i)
	if !ok {
		return malformed("memo entry %d was never set", i)
	}
	if v.isNode() {
		m.node(v).flags |= flagPinned
	}
	return m.push(v)
}
