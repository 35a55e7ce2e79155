package host

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/trace"
)

// virtual keeps reservations, physical memory and mappings.
type virtual struct {
	file   int           // the memory file, -1 when closed
	space  *blocks.Space // offsets in it
	ranges map[uint64]uint64
	phys   map[backends.PhysID]*physical
	maps   map[uint64]mapping // by address
	nextID backends.PhysID
}

type physical struct {
	offset, bytes uint64
	mappings      int
	released      bool
}

type mapping struct {
	bytes      uint64
	phys       backends.PhysID
	accessible bool // SetAccess was called
}

func (v *virtual) open(total uint64) (err error) {
	if v.file, err = unix.MemfdCreate("gpubench-host-device", unix.MFD_CLOEXEC); err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	// Twice the size, so that a hole of any size is left for what the budget allows in most layouts; pages come with Create.
	if err := unix.Ftruncate(v.file, int64(2*total)); err != nil {
		unix.Close(v.file)
		return fmt.Errorf("memory file of %d bytes: %w", 2*total, err)
	}
	v.space = blocks.NewSpace(0, 2*total)
	v.ranges, v.phys, v.maps = map[uint64]uint64{}, map[backends.PhysID]*physical{}, map[uint64]mapping{}
	return nil
}

func (v *virtual) reset() {
	for addr, n := range v.ranges {
		munmap(addr, n) // with all mappings in it
	}
	for _, p := range v.phys {
		v.punch(p)
	}
	clear(v.ranges)
	clear(v.phys)
	clear(v.maps)
	v.space.Reset()
}

func (v *virtual) close() error {
	if v.file < 0 {
		return nil
	}
	file := v.file
	v.file = -1
	return unix.Close(file)
}

func (v *virtual) punch(p *physical) error {
	return unix.Fallocate(v.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(p.offset), int64(p.bytes))
}

// Reserve maps an inaccessible range.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	if size == 0 {
		return 0, trace.CallInvalidValue
	}
	if size > maxRequestBytes {
		return 0, trace.CallOutOfMemory
	}
	n := (size + d.page - 1) / d.page * d.page
	addr, err := mmap(0, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, -1, 0)
	if err != nil {
		return 0, callStatus(err)
	}
	d.ranges[addr] = n
	return addr, trace.CallOK
}

// Unreserve gives back a whole range in which nothing is mapped.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	n, ok := d.ranges[addr]
	if !ok || n != (min(size, maxRequestBytes)+d.page-1)/d.page*d.page || d.anyMapped(addr, n) {
		return trace.CallInvalidValue
	}
	if err := munmap(addr, n); err != nil {
		return callStatus(err)
	}
	delete(d.ranges, addr)
	return trace.CallOK
}

// anyMapped reports whether a mapping touches [addr, addr+n). It looks at all of them: a system call follows.
func (d *Device) anyMapped(addr, n uint64) bool {
	for at, m := range d.maps {
		if at < addr+n && addr < at+m.bytes {
			return true
		}
	}
	return false
}

// Create allocates pages of the memory file.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	if size%d.page != 0 {
		return 0, trace.CallInvalidValue
	}
	n, st := d.charge(size)
	if st != trace.CallOK {
		return 0, st
	}
	offset, ok := d.space.Take(n)
	if !ok {
		d.charged -= n
		return 0, trace.CallOutOfMemory
	}
	if !d.lazy {
		if err := unix.Fallocate(d.file, unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(n)); err != nil {
			d.space.Give(offset)
			d.charged -= n
			return 0, callStatus(err)
		}
	}
	d.nextID++
	d.phys[d.nextID] = &physical{offset: offset, bytes: n}
	return d.nextID, trace.CallOK
}

// Release gives up physical memory; its pages go back when its last mapping is gone.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	p := d.phys[id]
	if p == nil || p.released {
		return trace.CallInvalidValue
	}
	p.released = true
	return d.collect(id, p)
}

func (d *Device) collect(id backends.PhysID, p *physical) trace.CallStatus {
	if !p.released || p.mappings > 0 {
		return trace.CallOK
	}
	if err := d.punch(p); err != nil {
		return callStatus(err)
	}
	d.space.Give(p.offset)
	d.charged -= p.bytes
	delete(d.phys, id)
	return trace.CallOK
}

// Map maps the whole of a physical memory into a reservation; it becomes accessible with SetAccess.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	p := d.phys[id]
	if p == nil || p.released || p.bytes != size || addr%d.page != 0 || !d.reserved(addr, size) || d.anyMapped(addr, size) {
		return trace.CallInvalidValue
	}
	if _, err := mmap(addr, size, unix.PROT_NONE, unix.MAP_SHARED|unix.MAP_FIXED, d.file, p.offset); err != nil {
		return callStatus(err)
	}
	d.maps[addr] = mapping{bytes: size, phys: id}
	p.mappings++
	return trace.CallOK
}

func (d *Device) reserved(addr, size uint64) bool {
	for at, n := range d.ranges {
		if addr >= at && addr-at < n && size <= n-(addr-at) {
			return true
		}
	}
	return false
}

// whole reports whether [addr, addr+size) is covered exactly by adjacent mappings.
func (d *Device) whole(addr, size uint64) bool {
	for left := size; left > 0; {
		m, ok := d.maps[addr]
		if !ok || m.bytes > left {
			return false
		}
		addr += m.bytes
		left -= m.bytes
	}
	return size > 0
}

// Unmap makes whole mappings inaccessible address space again.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	if !d.whole(addr, size) {
		return trace.CallInvalidValue
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED
	if _, err := mmap(addr, size, unix.PROT_NONE, flags, -1, 0); err != nil {
		return callStatus(err)
	}
	status := trace.CallOK
	for size > 0 {
		m := d.maps[addr]
		delete(d.maps, addr)
		p := d.phys[m.phys]
		p.mappings--
		if st := d.collect(m.phys, p); st != trace.CallOK {
			status = st
		}
		addr += m.bytes
		size -= m.bytes
	}
	return status
}

// SetAccess makes whole mappings readable and writable.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus {
	if !d.whole(addr, size) {
		return trace.CallInvalidValue
	}
	for size > 0 { // adjacent mappings of one file at unlike offsets are several areas; mprotect takes them one by one
		n := d.maps[addr].bytes
		if err := mprotect(addr, n, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return callStatus(err)
		}
		m := d.maps[addr]
		m.accessible = true
		d.maps[addr] = m
		addr += n
		size -= n
	}
	return trace.CallOK
}
