package pickle

import "math"

// Heap holds the data of one file. It is not safe for concurrent use.
type Heap struct {
	limits Limits
	sink   Sink

	chunks [][]node
	nodes  uint32 // nodes ever made
	spare  [2][]uint32

	strs      []string
	interned  map[string]uint32
	textBytes int64
	wide      []wideInt
	floats    []float64

	held int  // values held by containers
	done bool // reading is over
	runs int  // streamed lists

	memo       [][]Value
	memoLen    uint64
	sparseMemo map[uint64]Value
}

// Sink sees the items of the streamed lists.
type Sink interface {
	// Item is called for each item of streamed list number run (from 0, in order of their first items), in order. The item
	// is a Value of any kind, possibly a token that the sink answered before. After the call the token, at most MaxToken,
	// stands for the item; what the item was made of is gone unless something else refers to it.
	Item(h *Heap, run int, item Value) (token uint64, err error)
}

const chunkNodes = 256

// node is a dictionary (keys and values in turns), a list or a tuple.
type node struct {
	items []Value
	token uint64 // when flagToken; for a streamed list its run
	count uint32 // items of a streamed list
	memo  uint32 // 1 + memo index when memoised once
	depth uint16 // 1 + the depth of the deepest container in it
	flags nodeFlags
}

type nodeFlags uint8

const (
	flagPinned   nodeFlags = 1 << iota // fetched from the memo, or memoised twice: somebody else may refer to it
	flagToken                          // replaced by a token
	flagDecided                        // list: whether it is streamed has been decided
	flagStreamed                       // list: its items went to the sink
)

func newHeap(limits Limits, sink Sink) *Heap {
	return &Heap{limits: limits.withDefaults(), sink: sink, interned: map[string]uint32{}}
}

func (h *Heap) node(v Value) *node {
	i := uint32(v.payload())
	return &h.chunks[i/chunkNodes][i%chunkNodes]
}

// make returns a fresh, empty container.
func (h *Heap) make(k Kind) Value {
	class := 0
	if k == KindDict {
		class = 1
	}
	if s := h.spare[class]; len(s) > 0 {
		i := s[len(s)-1]
		h.spare[class] = s[:len(s)-1]
		n := &h.chunks[i/chunkNodes][i%chunkNodes]
		*n = node{items: n.items[:0]}
		return makeValue(k, uint64(i))
	}
	i := h.nodes
	h.nodes++
	if int(i/chunkNodes) == len(h.chunks) {
		h.chunks = append(h.chunks, make([]node, chunkNodes))
	}
	return makeValue(k, uint64(i))
}

// add appends values to a container.
func (h *Heap) add(n *node, vs ...Value) error {
	for _, v := range vs {
		if v.isNode() {
			n.depth = max(n.depth, h.node(v).depth+1)
		}
	}
	if int(n.depth) > h.limits.Depth {
		return overLimit("nested containers", int64(h.limits.Depth))
	}
	h.held += len(vs)
	if h.held > h.limits.Values {
		return overLimit("values held at once", int64(h.limits.Values))
	}
	n.items = append(n.items, vs...)
	return nil
}

// maxSpareItems is the capacity up to which the storage of a recycled container is kept with it.
const maxSpareItems = 256

// drop forgets the items of a container and recycles what only it owned.
func (h *Heap) drop(n *node) {
	for _, v := range n.items {
		if v.isNode() {
			h.release(v)
		}
	}
	h.held -= len(n.items)
	n.items = n.items[:0]
	if cap(n.items) > maxSpareItems {
		n.items = nil
	}
}

// release is called when the only known owner of a container goes.
func (h *Heap) release(v Value) {
	n := h.node(v)
	switch {
	case n.flags&flagPinned != 0 || h.done:
		return // somebody else refers to it, or nothing will be made any more
	case n.memo != 0:
		if n.flags&flagToken == 0 {
			return // a GET may still come
		}
		h.memoSet(uint64(n.memo-1), makeValue(KindToken, n.token))
	default:
		h.drop(n)
	}
	class := 0
	if v.kind() == KindDict {
		class = 1
	}
	h.spare[class] = append(h.spare[class], uint32(v.payload()))
}

// Replace puts a token, at most MaxToken, in the place of a dictionary, list or tuple wherever it is referred to. What it
// was made of is gone unless something else refers to it. Anything but a container is left alone.
func (h *Heap) Replace(v Value, token uint64) {
	if !v.isNode() {
		return
	}
	n := h.node(v)
	if n.flags&flagToken != 0 {
		return
	}
	h.drop(n)
	n.flags |= flagToken
	n.token = token
}

// feed shows an item of a streamed list to the sink and recycles it.
func (h *Heap) feed(list *node, v Value) error {
	token, err := h.sink.Item(h, int(list.token), h.resolve(v))
	if err != nil {
		return err
	}
	list.count++
	if v.isNode() {
		h.Replace(v, token)
		h.release(v)
	}
	return nil
}

// append adds an item to a list, or shows it to the sink when the list is streamed.
func (h *Heap) append(list *node, v Value) error {
	if list.flags&flagStreamed != 0 {
		return h.feed(list, v)
	}
	return h.add(list, v)
}

// stream makes a list a streamed one.
func (h *Heap) stream(list *node) {
	list.flags |= flagStreamed
	list.token = uint64(h.runs)
	h.runs++
}

func (h *Heap) resolve(v Value) Value {
	if v.isNode() {
		if n := h.node(v); n.flags&flagToken != 0 {
			return makeValue(KindToken, n.token)
		}
	}
	return v
}

// intern returns the value of a string; b is copied when it is new.
func (h *Heap) intern(b []byte) (Value, error) {
	if id, ok := h.interned[string(b)]; ok {
		return makeValue(KindString, uint64(id)), nil
	}
	h.textBytes += int64(len(b))
	if h.textBytes > h.limits.TextBytes {
		return 0, overLimit("bytes of distinct strings", h.limits.TextBytes)
	}
	s := string(b)
	id := uint32(len(h.strs))
	h.strs = append(h.strs, s)
	h.interned[s] = id
	return makeValue(KindString, uint64(id)), nil
}

func (h *Heap) makeInt(x int64) Value {
	if x >= minInline && x <= maxInline {
		return makeValue(KindInt, uint64(x)&MaxToken)
	}
	h.wide = append(h.wide, wideInt{bits: uint64(x)})
	return makeValue(kindWide, uint64(len(h.wide)-1))
}

func (h *Heap) makeUint(x uint64) Value {
	if x <= math.MaxInt64 {
		return h.makeInt(int64(x))
	}
	h.wide = append(h.wide, wideInt{bits: x, unsigned: true})
	return makeValue(kindWide, uint64(len(h.wide)-1))
}

func (h *Heap) makeFloat(f float64) Value {
	h.floats = append(h.floats, f)
	return makeValue(KindFloat, uint64(len(h.floats)-1))
}
