package pickle

import "math"

// Kind returns what a value is.
func (h *Heap) Kind(v Value) Kind {
	switch k := h.resolve(v).kind(); k {
	case kindWide:
		return KindInt
	default:
		return k
	}
}

// Int returns an integer (or a boolean as 0 or 1); false for anything else and for integers outside int64.
func (h *Heap) Int(v Value) (int64, bool) {
	switch v.kind() {
	case KindInt:
		return int64(v) >> kindBits, true
	case KindBool:
		return int64(v.payload()), true
	case kindWide:
		w := h.wide[v.payload()]
		return int64(w.bits), !w.unsigned
	}
	return 0, false
}

// Uint returns an integer that is not negative; false for anything else.
func (h *Heap) Uint(v Value) (uint64, bool) {
	if v.kind() == kindWide {
		if w := h.wide[v.payload()]; w.unsigned {
			return w.bits, true
		}
	}
	x, ok := h.Int(v)
	if !ok || x < 0 {
		return 0, false
	}
	return uint64(x), true
}

// Bool returns a boolean, or an integer as "not 0".
func (h *Heap) Bool(v Value) (value, ok bool) {
	x, ok := h.Int(v)
	return x != 0, ok
}

// Float returns a float or an integer; NaN and false for anything else.
func (h *Heap) Float(v Value) (float64, bool) {
	if v.kind() == KindFloat {
		return h.floats[v.payload()], true
	}
	if x, ok := h.Int(v); ok {
		return float64(x), true
	}
	if x, ok := h.Uint(v); ok {
		return float64(x), true
	}
	return math.NaN(), false
}

// Text returns a string; false for anything else.
func (h *Heap) Text(v Value) (string, bool) {
	if v.kind() != KindString {
		return "", false
	}
	return h.strs[v.payload()], true
}

// StringID returns the number of a string: equal strings have equal numbers, counted from 0 in order of appearance, so that
// a caller can keep a table by it. False for anything else.
func (h *Heap) StringID(v Value) (uint32, bool) {
	return uint32(v.payload()), v.kind() == KindString
}

// Token returns the token of something that was replaced; false for anything else.
func (h *Heap) Token(v Value) (uint64, bool) {
	v = h.resolve(v)
	return v.payload(), v.kind() == KindToken
}

// Len returns the number of items of a list or tuple, or of pairs of a dictionary; 0 for anything else.
func (h *Heap) Len(v Value) int {
	v = h.resolve(v)
	if !v.isNode() {
		return 0
	}
	n := h.node(v)
	switch {
	case n.flags&flagStreamed != 0:
		return int(n.count)
	case v.kind() == KindDict:
		return len(n.items) / 2
	}
	return len(n.items)
}

// Item returns item i of a list or tuple that was not streamed.
func (h *Heap) Item(v Value, i int) Value { return h.resolve(h.node(v).items[i]) }

// Pair returns pair i of a dictionary, in order of writing. A key that was set twice occurs twice; the later one counts.
func (h *Heap) Pair(v Value, i int) (key, value Value) {
	items := h.node(v).items
	return h.resolve(items[2*i]), h.resolve(items[2*i+1])
}

// Lookup returns the value at a string key of a dictionary.
func (h *Heap) Lookup(v Value, key string) (Value, bool) {
	id, known := h.interned[key]
	if h.Kind(v) != KindDict || !known {
		return 0, false
	}
	want := makeValue(KindString, uint64(id))
	items := h.node(v).items
	for i := len(items) - 2; i >= 0; i -= 2 {
		if items[i] == want {
			return h.resolve(items[i+1]), true
		}
	}
	return 0, false
}

// Run returns the number of a streamed list, as it was given to the sink; false for a list that was not streamed.
func (h *Heap) Run(v Value) (int, bool) {
	if v.kind() != KindList {
		return 0, false
	}
	n := h.node(v)
	return int(n.token), n.flags&flagStreamed != 0
}

// TextOf returns the string with number n−1 (see StringID), "" for n = 0 and for a number that was never given.
func (h *Heap) TextOf(n uint32) string {
	if n == 0 || int(n) > len(h.strs) {
		return ""
	}
	return h.strs[n-1]
}

// Runs returns how many lists were streamed.
func (h *Heap) Runs() int { return h.runs }
