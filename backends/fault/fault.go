// Package fault is a decorator that makes calls of a device fail on purpose: the k-th call from now (FailNext), the n-th
// call of a kind, or calls of a kind at a rate drawn from a seed. A failing call does not reach the device and changes
// nothing. Given the same rules, seed and calls it fails the same calls.
//
// The decorator implements VirtualMemory (where the device has it), FaultInjector and Resetter, and keeps every other optional
// interface of the device; find them with backends.As.
package fault

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// RateUnit is the denominator of Rule.RatePerMillion.
const RateUnit = 1_000_000

// Rule makes some calls of one kind fail.
type Rule struct {
	// Kind is one of CallMalloc, CallFree, CallReserve, CallUnreserve, CallCreate, CallRelease, CallMap, CallUnmap,
	// CallSetAccess; CallNone stands for all that can run out of memory: Malloc, Reserve, Create and Map.
	Kind trace.CallKind
	// Nth makes the n-th matching call since the device was opened or reset fail; 0 = none.
	Nth uint64
	// RatePerMillion makes each matching call fail with this probability in millionths.
	RatePerMillion uint32
	// Status is what the failing call answers; CallOK stands for CallInjected. After CallDeviceLost every call answers that.
	Status trace.CallStatus
}

// Device is the decorator. Make one with New.
type Device struct {
	backends.Device
	vm       backends.VirtualMemory // nil: none
	rules    []Rule
	seen     []uint64 // matching calls so far, by rule
	seed     uint64
	random   uint64
	failNext uint64
	lost     bool
	injected uint64
}

// New wraps dev.
func New(dev backends.Device, seed uint64, rules ...Rule) (*Device, error) {
	d := &Device{Device: dev, rules: rules, seen: make([]uint64, len(rules)), seed: seed}
	d.vm, _ = backends.As[backends.VirtualMemory](dev)
	for i := range rules {
		switch k := rules[i].Kind; k {
		case trace.CallNone, trace.CallMalloc, trace.CallFree, trace.CallReserve, trace.CallUnreserve, trace.CallCreate,
			trace.CallRelease, trace.CallMap, trace.CallUnmap, trace.CallSetAccess:
		default:
			return nil, fmt.Errorf("fault rule %d: calls of kind %d cannot be made to fail", i, k)
		}
		if rules[i].RatePerMillion > RateUnit {
			return nil, fmt.Errorf("fault rule %d: rate of %d millionths is more than %d", i, rules[i].RatePerMillion, RateUnit)
		}
		if rules[i].Status == trace.CallOK {
			rules[i].Status = trace.CallInjected
		}
	}
	d.rearm()
	return d, nil
}

func (d *Device) rearm() {
	clear(d.seen)
	d.random, d.failNext, d.lost, d.injected = d.seed, 0, false, 0
}

// Unwrap returns the device below.
func (d *Device) Unwrap() backends.Device { return d.Device }

// Injected returns how many calls have been made to fail.
func (d *Device) Injected() uint64 { return d.injected }

// FailNext makes the k-th call from now that can run out of memory answer CallInjected; 0 cancels.
func (d *Device) FailNext(k uint64) { d.failNext = k }

// Reset arms the rules anew and resets the device below, if it can be.
func (d *Device) Reset() {
	d.rearm()
	if r, ok := backends.As[backends.Resetter](d.Device); ok {
		r.Reset()
	}
}

// check returns what the call must answer, or CallOK when it may go on.
func (d *Device) check(kind trace.CallKind) trace.CallStatus {
	if d.lost {
		return trace.CallDeviceLost
	}
	takes := kind == trace.CallMalloc || kind == trace.CallReserve || kind == trace.CallCreate || kind == trace.CallMap
	answer := trace.CallOK
	if takes && d.failNext > 0 {
		if d.failNext--; d.failNext == 0 {
			answer = trace.CallInjected
		}
	}
	for i := range d.rules {
		r := &d.rules[i]
		if r.Kind != kind && !(r.Kind == trace.CallNone && takes) {
			continue
		}
		d.seen[i]++
		// Every rule draws for every matching call, so that one rule does not shift the draws of another.
		hit := r.RatePerMillion > 0 && d.draw()%RateUnit < uint64(r.RatePerMillion)
		if (hit || d.seen[i] == r.Nth) && answer == trace.CallOK {
			answer = r.Status
		}
	}
	if answer != trace.CallOK {
		d.injected++
		d.lost = answer == trace.CallDeviceLost
	}
	return answer
}

// draw is SplitMix64 (Steele, Lea, Flood 2014).
func (d *Device) draw() uint64 {
	d.random += 0x9E3779B97F4A7C15
	z := d.random
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Malloc fails on purpose or asks the device.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	if st := d.check(trace.CallMalloc); st != trace.CallOK {
		return 0, st
	}
	return d.Device.Malloc(size)
}

// Free fails on purpose or asks the device.
func (d *Device) Free(addr uint64) trace.CallStatus {
	if st := d.check(trace.CallFree); st != trace.CallOK {
		return st
	}
	return d.Device.Free(addr)
}

// Reserve fails on purpose or asks the device.
func (d *Device) Reserve(size uint64) (uint64, trace.CallStatus) {
	if st := d.check(trace.CallReserve); st != trace.CallOK {
		return 0, st
	}
	return d.vm.Reserve(size)
}

// Unreserve fails on purpose or asks the device.
func (d *Device) Unreserve(addr, size uint64) trace.CallStatus {
	if st := d.check(trace.CallUnreserve); st != trace.CallOK {
		return st
	}
	return d.vm.Unreserve(addr, size)
}

// Create fails on purpose or asks the device.
func (d *Device) Create(size uint64) (backends.PhysID, trace.CallStatus) {
	if st := d.check(trace.CallCreate); st != trace.CallOK {
		return 0, st
	}
	return d.vm.Create(size)
}

// Release fails on purpose or asks the device.
func (d *Device) Release(id backends.PhysID) trace.CallStatus {
	if st := d.check(trace.CallRelease); st != trace.CallOK {
		return st
	}
	return d.vm.Release(id)
}

// Map fails on purpose or asks the device.
func (d *Device) Map(addr, size uint64, id backends.PhysID) trace.CallStatus {
	if st := d.check(trace.CallMap); st != trace.CallOK {
		return st
	}
	return d.vm.Map(addr, size, id)
}

// Unmap fails on purpose or asks the device.
func (d *Device) Unmap(addr, size uint64) trace.CallStatus {
	if st := d.check(trace.CallUnmap); st != trace.CallOK {
		return st
	}
	return d.vm.Unmap(addr, size)
}

// SetAccess fails on purpose or asks the device.
func (d *Device) SetAccess(addr, size uint64) trace.CallStatus {
	if st := d.check(trace.CallSetAccess); st != trace.CallOK {
		return st
	}
	return d.vm.SetAccess(addr, size)
}
