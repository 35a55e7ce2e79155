package ledger

// ranges is a set of disjoint address ranges with a value each, in address order.
type ranges[T any] struct {
	idx   index
	recs  []rangeRec[T]
	spare []uint32
}

type rangeRec[T any] struct {
	addr, size uint64
	val        T
}

func (r *ranges[T]) reset() {
	r.idx.reset()
	r.recs, r.spare = r.recs[:0], r.spare[:0]
}

func (r *ranges[T]) len() int { return r.idx.n }

func (r *ranges[T]) add(addr, size uint64, val T) uint32 {
	rec := rangeRec[T]{addr, size, val}
	var id uint32
	if k := len(r.spare); k > 0 {
		id = r.spare[k-1]
		r.spare = r.spare[:k-1]
		r.recs[id] = rec
	} else {
		id = uint32(len(r.recs))
		r.recs = append(r.recs, rec)
	}
	r.idx.insertAfter(r.idx.floor(addr), addr, id)
	return id
}

func (r *ranges[T]) remove(id uint32) {
	r.idx.remove(r.idx.find(r.recs[id].addr, id))
	r.spare = append(r.spare, id)
}

// holding returns the range that holds addr, or noItem.
func (r *ranges[T]) holding(addr uint64) uint32 {
	c := r.idx.floor(addr)
	if c.dir < 0 {
		return noItem
	}
	id := r.idx.id(c)
	if rec := &r.recs[id]; addr-rec.addr >= rec.size {
		return noItem
	}
	return id
}

// first returns the lowest range with bytes in [addr, addr+size), or noItem.
func (r *ranges[T]) first(addr, size uint64) uint32 {
	if id := r.holding(addr); id != noItem {
		return id
	}
	c := r.idx.next(r.idx.floor(addr))
	if c.dir < 0 {
		return noItem
	}
	id := r.idx.id(c)
	if r.recs[id].addr-addr >= size {
		return noItem
	}
	return id
}
