package ideal

import (
	"sort"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/trace"
)

func (v *virtual) init() {
	v.space = blocks.NewSpace(VirtualBase, virtualLimit)
	v.mappings = make([]mapping, 1, 64)
}

func (v *virtual) reset() {
	v.space.Reset()
	for i := range v.ranges {
		v.keep(v.ranges[i].pages)
	}
	v.ranges = v.ranges[:0]
	v.phys, v.freePhys = v.phys[:0], v.freePhys[:0]
	v.mapped.Reset()
	v.adopted.Reset()
	v.mappings, v.freeMaps = v.mappings[:1], v.freeMaps[:0]
}

// Reserve takes a virtual range of size bytes, rounded up to pages; it costs no memory.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	if d.injected() {
		return 0, trace.CallInjected
	}
	if size == 0 || size > maxRequestBytes {
		return 0, invalidOrTooLarge(size)
	}
	size = roundUp(size, PageBytes)
	addr, ok := d.space.Take(size)
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	i := sort.Search(len(d.ranges), func(i int) bool { return d.ranges[i].addr > addr })
	d.ranges = append(d.ranges, reservation{})
	copy(d.ranges[i+1:], d.ranges[i:])
	d.ranges[i] = reservation{addr: addr, size: size, pages: d.bitmap(size / PageBytes)}
	return addr, trace.CallOK
}

// maxSpareBitmaps bounds the bitmaps that are kept for reuse.
const maxSpareBitmaps = 64

// keep keeps a bitmap for reuse.
func (v *virtual) keep(pages []uint64) {
	if len(v.spare) < maxSpareBitmaps {
		v.spare = append(v.spare, pages)
	}
}

// bitmap returns a cleared bitmap of n bits, a used one if one is large enough.
func (v *virtual) bitmap(n uint64) []uint64 {
	words := int((n + 63) / 64)
	for i := len(v.spare) - 1; i >= 0; i-- {
		if m := v.spare[i]; cap(m) >= words {
			v.spare[i] = v.spare[len(v.spare)-1]
			v.spare = v.spare[:len(v.spare)-1]
			m = m[:words]
			clear(m)
			return m
		}
	}
	return make([]uint64, words)
}

// Unreserve gives back a whole range in which nothing is mapped.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	r := d.reservationOf(addr)
	if r == nil || r.addr != addr || r.size != roundUp(min(size, maxRequestBytes), PageBytes) || r.mapped != 0 {
		return trace.CallInvalidValue
	}
	d.space.Give(addr)
	d.keep(r.pages)
	i := sort.Search(len(d.ranges), func(i int) bool { return d.ranges[i].addr >= addr })
	d.ranges = append(d.ranges[:i], d.ranges[i+1:]...)
	return trace.CallOK
}

// reservationOf returns the reservation that holds addr, or nil.
func (v *virtual) reservationOf(addr uint64) *reservation {
	i := sort.Search(len(v.ranges), func(i int) bool { return v.ranges[i].addr > addr })
	if i == 0 || addr-v.ranges[i-1].addr >= v.ranges[i-1].size {
		return nil
	}
	return &v.ranges[i-1]
}

// Create makes physical memory of size bytes, a multiple of PageBytes.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	if d.injected() {
		return 0, trace.CallInjected
	}
	if size == 0 || size%PageBytes != 0 {
		return 0, trace.CallInvalidValue
	}
	token, ok := d.memory.Take(size)
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	var i uint32
	if n := len(d.freePhys); n > 0 {
		i = d.freePhys[n-1]
		d.freePhys = d.freePhys[:n-1]
	} else {
		i = uint32(len(d.phys))
		d.phys = append(d.phys, physical{})
	}
	p := &d.phys[i]
	*p = physical{size: size, token: token, gen: p.gen}
	return backends.PhysID(uint64(p.gen)<<32 | uint64(i+1)), trace.CallOK
}

// physOf returns the index of a physical memory that has not been released.
func (v *virtual) physOf(id backends.PhysID) (uint32, bool) {
	i := uint32(id) - 1
	if uint64(i) >= uint64(len(v.phys)) {
		return 0, false
	}
	p := &v.phys[i]
	return i, p.size != 0 && !p.released && p.gen == uint32(id>>32)
}

// Release gives up physical memory; its bytes come back when its last mapping is gone.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	i, ok := d.physOf(id)
	if !ok {
		return trace.CallInvalidValue
	}
	d.phys[i].released = true
	d.collect(i)
	return trace.CallOK
}

func (d *Device) collect(i uint32) {
	p := &d.phys[i]
	if !p.released || p.mappings != 0 {
		return
	}
	d.memory.Give(p.size, p.token)
	*p = physical{gen: p.gen + 1}
	d.freePhys = append(d.freePhys, i)
}

// Map maps the whole of a physical memory at addr.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	if d.injected() {
		return trace.CallInjected
	}
	i, ok := d.physOf(id)
	if !ok || d.phys[i].size != size || addr%PageBytes != 0 {
		return trace.CallInvalidValue
	}
	r := d.reservationOf(addr)
	if r == nil || size > r.size-(addr-r.addr) {
		return trace.CallInvalidValue
	}
	first, n := (addr-r.addr)/PageBytes, size/PageBytes
	if !r.allClear(first, n) {
		return trace.CallInvalidValue
	}
	r.set(first, n, true)
	var m uint32
	if k := len(d.freeMaps); k > 0 {
		m = d.freeMaps[k-1]
		d.freeMaps = d.freeMaps[:k-1]
	} else {
		m = uint32(len(d.mappings))
		d.mappings = append(d.mappings, mapping{})
	}
	d.mappings[m] = mapping{size, i}
	d.mapped.Put(addr, m)
	d.phys[i].mappings++
	return trace.CallOK
}

// Unmap removes all mappings in [addr, addr+size), which must be whole and adjacent.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	if d.reservationOf(addr) == nil {
		return d.unmapAdopted(addr, size)
	}
	if !d.wholeMappings(addr, size) {
		return trace.CallInvalidValue
	}
	r := d.reservationOf(addr)
	r.set((addr-r.addr)/PageBytes, size/PageBytes, false)
	for size > 0 {
		m := d.mapped.Delete(addr)
		mm := d.mappings[m]
		d.freeMaps = append(d.freeMaps, m)
		d.phys[mm.phys].mappings--
		d.collect(mm.phys)
		addr += mm.size
		size -= mm.size
	}
	return trace.CallOK
}

// unmapAdopted gives back adopted ranges that fill [addr, addr+size) exactly.
func (d *Device) unmapAdopted(addr, size uint64) trace.CallStatus {
	if size == 0 {
		return trace.CallInvalidValue
	}
	space := d.mallocs
	if addr >= VirtualBase {
		space = d.space
	}
	for at, left := addr, size; left > 0; {
		n, ok := space.Size(at)
		if !ok || n > left || d.adopted.Get(at) == 0 {
			return trace.CallInvalidValue
		}
		at, left = at+n, left-n
	}
	for at, left := addr, size; left > 0; {
		n, _ := space.Size(at)
		d.Free(at)
		at, left = at+n, left-n
	}
	return trace.CallOK
}

// SetAccess makes whole, adjacent mappings accessible.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus {
	if !d.wholeMappings(addr, size) {
		return trace.CallInvalidValue
	}
	return trace.CallOK
}

// wholeMappings reports whether [addr, addr+size) lies in one reservation and is covered exactly by mappings.
func (d *Device) wholeMappings(addr, size uint64) bool {
	r := d.reservationOf(addr)
	if r == nil || size == 0 || size > r.size-(addr-r.addr) {
		return false
	}
	for size > 0 {
		m := d.mapped.Get(addr)
		if m == 0 || d.mappings[m].size > size {
			return false
		}
		addr += d.mappings[m].size
		size -= d.mappings[m].size
	}
	return true
}

// allClear reports whether none of n pages from first is mapped.
func (r *reservation) allClear(first, n uint64) bool {
	for n > 0 {
		mask, took := wordMask(first, n)
		if r.pages[first/64]&mask != 0 {
			return false
		}
		first += took
		n -= took
	}
	return true
}

// set marks n pages from first, all of which have the other state.
func (r *reservation) set(first, n uint64, mapped bool) {
	if mapped {
		r.mapped += n
	} else {
		r.mapped -= n
	}
	for n > 0 {
		mask, took := wordMask(first, n)
		r.pages[first/64] ^= mask
		first += took
		n -= took
	}
}

// wordMask returns the mask of the bits of the word of first that lie in [first, first+n), and how many those are.
func wordMask(first, n uint64) (mask, took uint64) {
	low := first % 64
	took = min(n, 64-low)
	return (^uint64(0) >> (64 - took)) << low, took
}
