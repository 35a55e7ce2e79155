package pickle

import (
	"encoding/binary"
	"io"
	"math"
)

// Options of Read and ReadJSON.
type Options struct {
	StreamKey string // lists directly inside the list at this dictionary key go to the sink; "" = none
	Sink      Sink   // may be nil when StreamKey is ""
	Limits    Limits
}

// Read reads one pickle, up to its STOP, and returns its object. Errors are *Error.
func Read(r io.Reader, o Options) (*Heap, Value, error) {
	h := newHeap(o.Limits, o.Sink)
	m := &machine{Heap: h, in: newInput(r, h.limits.Bytes), streamKey: o.StreamKey}
	v, err := m.run()
	if err != nil {
		return nil, 0, &Error{Offset: m.opAt, Op: m.op, Err: err}
	}
	h.forget()
	return h, h.resolve(v), nil
}

// machine is the stack machine of a pickle.
type machine struct {
	*Heap
	in        *input
	streamKey string
	stack     []Value
	marks     []mark
	op        byte
	opAt      int64
}

// mark is the place of a MARK: what lies at or above start belongs to it.
type mark struct {
	start  int
	stream bool // the list below the mark is a streamed one
}

func (m *machine) run() (Value, error) {
	for {
		if m.in.pos == m.in.end {
			m.opAt = m.in.offset()
			if err := m.in.fill(1); err != nil {
				return 0, err
			}
		}
		m.opAt = m.in.offset()
		m.op = m.in.buf[m.in.pos]
		m.in.pos++
		if m.op == opStop {
			return m.result()
		}
		if err := m.step(m.op); err != nil {
			return 0, err
		}
	}
}

func (m *machine) result() (Value, error) {
	if len(m.stack) != 1 || len(m.marks) != 0 {
		return 0, malformed("STOP with %d objects and %d marks on the stack", len(m.stack), len(m.marks))
	}
	return m.stack[0], nil
}

func (m *machine) push(v Value) error {
	if len(m.stack) >= m.limits.Values {
		return overLimit("values on the stack", int64(m.limits.Values))
	}
	m.stack = append(m.stack, v)
	return nil
}

// step executes one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case opBinGet, opLongBinGet, opGet:
		return m.get(op)
	case opShortUnicode, opBinUnicode, opBinUnicode8, opString, opUnicode:
		return m.text(op)
	case opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opInt, opLong, opFloat, opBinFloat:
		return m.number(op)
	case opMemoize, opBinPut, opLongBinPut, opPut:
		return m.put(op)
	case opMark:
		return m.mark()
	case opEmptyDict:
		if err := m.feedTop(); err != nil {
			return err
		}
		return m.push(m.make(KindDict))
	case opEmptyList:
		return m.push(m.make(KindList))
	case opEmptyTuple:
		return m.push(m.make(KindTuple))
	case opSetItem, opSetItems:
		return m.setItems(op)
	case opAppend, opAppends:
		return m.appends(op)
	case opNewTrue, opNewFalse:
		return m.push(boolValue(op == opNewTrue))
	case opNone:
		return m.push(makeValue(KindNone, 0))
	case opTuple1, opTuple2, opTuple3:
		return m.collect(KindTuple, len(m.stack)-int(op-opTuple1)-1)
	case opTuple, opList, opDict:
		return m.collectMarked(op)
	case opPop, opPopMark:
		return m.pop(op)
	case opProto, opFrame:
		return m.header(op)
	}
	return refusal(op)
}

// header takes the opcodes that carry no data.
func (m *machine) header(op byte) error {
	if op == opProto {
		b, err := m.in.take(1)
		if err != nil {
			return err
		}
		if b[0] > highestProtocol {
			return malformed("protocol %d; 0 to %d are known", b[0], highestProtocol)
		}
		return nil
	}
	b, err := m.in.take(8)
	if err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(b); n > uint64(m.limits.Bytes) {
		return overLimit("bytes in a frame", m.limits.Bytes)
	}
	return nil
}

func (m *machine) number(op byte) error {
	switch op {
	case opBinInt1:
		b, err := m.in.take(1)
		if err != nil {
			return err
		}
		return m.push(m.makeInt(int64(b[0])))
	case opBinInt2:
		b, err := m.in.take(2)
		if err != nil {
			return err
		}
		return m.push(m.makeInt(int64(binary.LittleEndian.Uint16(b))))
	case opBinInt:
		b, err := m.in.take(4)
		if err != nil {
			return err
		}
		return m.push(m.makeInt(int64(int32(binary.LittleEndian.Uint32(b)))))
	case opBinFloat:
		b, err := m.in.take(8)
		if err != nil {
			return err
		}
		return m.push(m.makeFloat(math.Float64frombits(binary.BigEndian.Uint64(b))))
	case opLong1, opLong4:
		return m.long(op)
	}
	return m.decimal(op)
}

// long reads a little-endian two's complement integer.
func (m *machine) long(op byte) error {
	width := 1
	if op == opLong4 {
		width = 4
	}
	b, err := m.in.take(width)
	if err != nil {
		return err
	}
	n := int64(b[0])
	if op == opLong4 {
		n = int64(int32(binary.LittleEndian.Uint32(b)))
	}
	if n < 0 || n > maxIntegerBytes {
		return overLimit("bytes in an integer", maxIntegerBytes)
	}
	if b, err = m.in.take(int(n)); err != nil {
		return err
	}
	var x uint64
	for i, c := range b[:min(len(b), 8)] {
		x |= uint64(c) << (8 * i)
	}
	switch {
	case n == 9 && b[8] == 0:
		return m.push(m.makeUint(x))
	case n == 9 && (b[8] != 0xff || int64(x) >= 0):
		return malformed("an integer outside 64 bits")
	case n > 0 && n < 8 && b[n-1] >= 0x80:
		x |= ^uint64(0) << (8 * n)
	}
	return m.push(m.makeInt(int64(x)))
}

func (m *machine) text(op byte) error {
	var n uint64
	switch op {
	case opShortUnicode:
		b, err := m.in.take(1)
		if err != nil {
			return err
		}
		n = uint64(b[0])
	case opBinUnicode:
		b, err := m.in.take(4)
		if err != nil {
			return err
		}
		n = uint64(binary.LittleEndian.Uint32(b))
	case opBinUnicode8:
		b, err := m.in.take(8)
		if err != nil {
			return err
		}
		n = binary.LittleEndian.Uint64(b)
	default:
		return m.textLine(op)
	}
	if n > uint64(m.limits.StringBytes) {
		return overLimit("bytes in one string", int64(m.limits.StringBytes))
	}
	b, err := m.in.takeLong(int(n))
	if err != nil {
		return err
	}
	v, err := m.intern(b)
	if err != nil {
		return err
	}
	return m.push(v)
}
