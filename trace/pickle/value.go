package pickle

// Value is one datum of a Heap. The zero Value is None.
type Value uint64

// Kind says what a Value is.
type Kind uint8

// The kinds of values.
const (
	KindNone   Kind = iota
	KindBool        // Heap.Bool
	KindInt         // Heap.Int, Heap.Uint
	KindFloat       // Heap.Float
	KindString      // Heap.Text, Heap.StringID
	KindDict        // Heap.Len, Heap.Pair, Heap.Lookup
	KindList        // Heap.Len, Heap.Item; Heap.Run for a streamed list
	KindTuple       // Heap.Len, Heap.Item
	KindToken       // Heap.Token: replaced by a sink

	kindWide // an integer outside 60 bits: index into Heap.wide
	kindSunk // on the stack only: an item of a streamed list that the sink has seen
)

var kindNames = [...]string{"None", "bool", "int", "float", "str", "dict", "list", "tuple", "consumed object", "int", "consumed entry"}

// String returns Python's name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "?"
}

// A returns the name with its article, for messages: "an int".
func (k Kind) A() string {
	switch k {
	case KindNone:
		return "None"
	case KindInt, kindWide:
		return "an int"
	}
	return "a " + k.String()
}

const (
	kindBits = 4
	kindMask = 1<<kindBits - 1
	// An integer is stored inline when it fits 60 bits with its sign.
	minInline = -1 << (63 - kindBits)
	maxInline = 1<<(63-kindBits) - 1
	// MaxToken is the largest token a sink may answer.
	MaxToken = 1<<(64-kindBits) - 1
)

func makeValue(k Kind, payload uint64) Value { return Value(payload<<kindBits | uint64(k)) }

func (v Value) kind() Kind      { return Kind(v & kindMask) }
func (v Value) payload() uint64 { return uint64(v >> kindBits) }

// isNode reports whether the value names a node of the heap.
func (v Value) isNode() bool { k := v.kind(); return k >= KindDict && k <= KindTuple }

func boolValue(b bool) Value {
	if b {
		return makeValue(KindBool, 1)
	}
	return makeValue(KindBool, 0)
}

// wideInt is an integer that does not fit inline: a sign and 64 bits of two's complement or magnitude.
type wideInt struct {
	bits     uint64
	unsigned bool // bits is a magnitude ≥ 2^63
}
