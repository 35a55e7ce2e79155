// Package limit is a decorator that bounds how much memory of a device may be in use: Malloc and Create beyond the budget
// are out of memory without asking the device, and MemInfo shows the budget. Charges are in the device's pages; physical
// memory is charged until it is released and no longer mapped.
//
// The decorator implements VirtualMemory (where the device has it), Resetter and SegmentAdopter, and keeps every other optional
// interface of the device; find them with backends.As.
package limit

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/addrmap"
	"github.com/gpubench/gpubench/trace"
)

// Device is the decorator. Make one with New.
type Device struct {
	backends.Device
	vm      backends.VirtualMemory // nil: none
	info    backends.Info
	limit   uint64
	charged uint64
	mallocs table // by address
	phys    table // by PhysID
	maps    table // by address: size of the mapping, and the entry of its physical memory
}

// New wraps dev with a budget of limitBytes.
func New(dev backends.Device, limitBytes uint64) (*Device, error) {
	if limitBytes == 0 {
		return nil, fmt.Errorf("limit on device %s: 0 bytes; give the number of bytes that may be used", dev.Info().Name)
	}
	d := &Device{Device: dev, info: dev.Info(), limit: min(limitBytes, dev.Info().TotalBytes)}
	d.vm, _ = backends.As[backends.VirtualMemory](dev)
	d.info.TotalBytes = d.limit
	if d.info.PageBytes == 0 {
		d.info.PageBytes = 1
	}
	return d, nil
}

// Unwrap returns the device below.
func (d *Device) Unwrap() backends.Device { return d.Device }

// Info is the device's, with the limit as its total.
func (d *Device) Info() backends.Info { return d.info }

// MemInfo returns what is left of the budget, or of the device if that is less, and the budget.
func (d *Device) MemInfo() (freeBytes, totalBytes uint64) {
	free, _ := d.Device.MemInfo()
	return min(free, d.limit-d.charged), d.limit
}

// fits returns the charge of size bytes, and whether the budget has it.
func (d *Device) fits(size uint64) (charge uint64, ok bool) {
	charge = (size + d.info.PageBytes - 1) / d.info.PageBytes * d.info.PageBytes
	return charge, charge >= size && charge <= d.limit-d.charged
}

// Malloc asks the device if the budget allows it.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	charge, ok := d.fits(size)
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	addr, st := d.Device.Malloc(size)
	if st == trace.CallOK {
		d.charged += charge
		d.mallocs.put(addr, entry{bytes: charge})
	}
	return addr, st
}

// Free gives the memory and its charge back.
func (d *Device) Free(addr uint64) trace.CallStatus {
	st := d.Device.Free(addr)
	if st == trace.CallOK {
		d.charged -= d.mallocs.remove(addr).bytes
	}
	return st
}

// Adopt charges memory that a start state holds.
func (d *Device) Adopt(addr, size uint64) trace.CallStatus {
	a, ok := backends.As[backends.SegmentAdopter](d.Device)
	if !ok {
		return trace.CallNotSupported
	}
	charge, ok := d.fits(size)
	if !ok {
		return trace.CallOutOfMemory
	}
	st := a.Adopt(addr, size)
	if st == trace.CallOK {
		d.charged += charge
		d.mallocs.put(addr, entry{bytes: charge})
	}
	return st
}

// Reset forgets all charges and resets the device below, if it can be.
func (d *Device) Reset() {
	d.charged = 0
	d.mallocs.reset()
	d.phys.reset()
	d.maps.reset()
	if r, ok := backends.As[backends.Resetter](d.Device); ok {
		r.Reset()
	}
}

// Reserve costs nothing.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) { return d.vm.Reserve(size) }

// Unreserve costs nothing.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus { return d.vm.Unreserve(addr, size) }

// SetAccess costs nothing.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus { return d.vm.SetAccess(addr, size) }

// Create makes physical memory if the budget allows it.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	charge, ok := d.fits(size)
	if !ok {
		return 0, trace.CallOutOfMemory
	}
	id, st := d.vm.Create(size)
	if st == trace.CallOK {
		d.charged += charge
		d.phys.put(uint64(id), entry{bytes: charge})
	}
	return id, st
}

// Release gives up physical memory; its charge ends with its last mapping.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	st := d.vm.Release(id)
	if st == trace.CallOK {
		d.phys.get(uint64(id)).released = true
		d.collect(uint64(id))
	}
	return st
}

func (d *Device) collect(id uint64) {
	if p := d.phys.get(id); p != nil && p.released && p.mappings == 0 {
		d.charged -= d.phys.remove(id).bytes
	}
}

// Map notes the mapping.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	st := d.vm.Map(addr, size, id)
	if st == trace.CallOK {
		d.maps.put(addr, entry{bytes: size, phys: uint64(id)})
		d.phys.get(uint64(id)).mappings++
	}
	return st
}

// Unmap ends the mappings in [addr, addr+size) and the charges of memory that was released before.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	st := d.vm.Unmap(addr, size)
	for st == trace.CallOK && size > 0 {
		m := d.maps.remove(addr)
		adopted := m.bytes == 0
		if adopted { // a page of a start state
			m = d.mallocs.remove(addr)
		}
		if m.bytes == 0 || m.bytes > size {
			return trace.CallBroken // the device unmapped what it had not mapped
		}
		if adopted {
			d.charged -= m.bytes
		} else {
			d.phys.get(m.phys).mappings--
			d.collect(m.phys)
		}
		addr += m.bytes
		size -= m.bytes
	}
	return st
}

// entry is what the decorator knows of one object of the device.
type entry struct {
	bytes    uint64
	phys     uint64 // of a mapping
	mappings uint32 // of physical memory
	released bool
}

// table holds entries by a number. It allocates nothing once it has grown to the number of live objects.
type table struct {
	index   addrmap.Map
	entries []entry // [0] unused
	spare   []uint32
}

func (t *table) put(key uint64, e entry) {
	if len(t.entries) == 0 {
		t.entries = make([]entry, 1, 64)
	}
	var i uint32
	if n := len(t.spare); n > 0 {
		i = t.spare[n-1]
		t.spare = t.spare[:n-1]
		t.entries[i] = e
	} else {
		i = uint32(len(t.entries))
		t.entries = append(t.entries, e)
	}
	t.index.Put(key, i)
}

func (t *table) get(key uint64) *entry {
	if i := t.index.Get(key); i != 0 {
		return &t.entries[i]
	}
	return nil
}

func (t *table) remove(key uint64) entry {
	i := t.index.Delete(key)
	if i == 0 {
		return entry{}
	}
	t.spare = append(t.spare, i)
	return t.entries[i]
}

func (t *table) reset() {
	t.index.Reset()
	t.entries, t.spare = t.entries[:min(1, len(t.entries))], t.spare[:0]
}
