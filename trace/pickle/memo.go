package pickle

const memoChunk = 1 << 12

// noMemo marks an entry that was never set; no real value has these bits.
const noMemo = Value(^uint64(0))

// memoize stores v at index i of the memo. MEMOIZE counts the entries, so the dense part ends at memoLen.
func (h *Heap) memoize(i uint64, v Value) error {
	if i >= uint64(h.limits.MemoEntries) {
		return overLimit("memo entries", int64(h.limits.MemoEntries))
	}
	if i > h.memoLen+memoGap {
		return h.memoizeSparse(i, v)
	}
	for i >= h.memoLen {
		if int(h.memoLen/memoChunk) == len(h.memo) {
			chunk := make([]Value, memoChunk)
			for j := range chunk {
				chunk[j] = noMemo
			}
			h.memo = append(h.memo, chunk)
		}
		h.memoLen++
	}
	if v.isNode() {
		n := h.node(v)
		if n.memo != 0 {
			n.flags |= flagPinned
		}
		n.memo = uint32(i) + 1
	}
	if old := h.memo[i/memoChunk][i%memoChunk]; old != noMemo && old.isNode() {
		h.node(old).flags |= flagPinned // it lost its memo entry: never recycle through it
	}
	h.memo[i/memoChunk][i%memoChunk] = v
	return nil
}

func (h *Heap) memoizeSparse(i uint64, v Value) error {
	if len(h.sparseMemo) >= maxSparseMemo {
		return overLimit("memo entries far beyond the others", maxSparseMemo)
	}
	if h.sparseMemo == nil {
		h.sparseMemo = map[uint64]Value{}
	}
	if v.isNode() {
		h.node(v).flags |= flagPinned
	}
	h.sparseMemo[i] = v
	return nil
}

func (h *Heap) memoGet(i uint64) (Value, bool) {
	if i < h.memoLen {
		if v := h.memo[i/memoChunk][i%memoChunk]; v != noMemo {
			return v, true
		}
	}
	v, ok := h.sparseMemo[i]
	return v, ok
}

func (h *Heap) memoSet(i uint64, v Value) { h.memo[i/memoChunk][i%memoChunk] = v }

// forget lets go of what only reading needs.
func (h *Heap) forget() {
	h.done = true
	h.memo, h.sparseMemo, h.memoLen = nil, nil, 0
	h.spare = [2][]uint32{}
}
