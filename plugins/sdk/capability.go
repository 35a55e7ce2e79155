package sdk

import (
	"github.com/gpubench/gpubench/backends"
)

// Capability names an optional interface, of a device or of a strategy, in descriptions and on the wire.
type Capability string

// The capabilities of devices: the optional interfaces of package backends.
const (
	CapVirtualMemory   Capability = "virtual-memory"
	CapStreams         Capability = "streams"
	CapStreamControl   Capability = "stream-control"
	CapClocked         Capability = "clocked"
	CapFaultInjector   Capability = "fault-injector"
	CapDeviceReset     Capability = "device-reset"
	CapRecordedAnswers Capability = "recorded-answers"
	CapSegmentAdopter  Capability = "segment-adopter"
)

// deviceCapabilities lists them in the order of their bits in a slot.
var deviceCapabilities = []Capability{CapVirtualMemory, CapStreams, CapStreamControl, CapClocked, CapFaultInjector,
	CapDeviceReset, CapRecordedAnswers, CapSegmentAdopter}

// selective is implemented by devices whose type has methods that this very device cannot serve: remote ones.
type selective interface {
	Has(c Capability) bool
}

// capabilityOf returns d, or what it decorates, as the optional interface T; nil if it has it not.
func capabilityOf[T any](d backends.Device, c Capability) T {
	var none T
	if s, ok := d.(selective); ok && !s.Has(c) {
		return none
	}
	if t, ok := backends.As[T](d); ok {
		return t
	}
	return none
}

// DeviceCapabilities returns what d has.
func DeviceCapabilities(d backends.Device) []Capability {
	has := map[Capability]bool{
		CapVirtualMemory:   capabilityOf[backends.VirtualMemory](d, CapVirtualMemory) != nil,
		CapStreams:         capabilityOf[backends.Streams](d, CapStreams) != nil,
		CapStreamControl:   capabilityOf[backends.StreamControl](d, CapStreamControl) != nil,
		CapClocked:         capabilityOf[backends.Clocked](d, CapClocked) != nil,
		CapFaultInjector:   capabilityOf[backends.FaultInjector](d, CapFaultInjector) != nil,
		CapDeviceReset:     capabilityOf[backends.Resetter](d, CapDeviceReset) != nil,
		CapRecordedAnswers: capabilityOf[backends.RecordedAnswers](d, CapRecordedAnswers) != nil,
		CapSegmentAdopter:  capabilityOf[backends.SegmentAdopter](d, CapSegmentAdopter) != nil,
	}
	var list []Capability
	for _, c := range deviceCapabilities {
		if has[c] {
			list = append(list, c)
		}
	}
	return list
}

// The capabilities of strategies: the optional interfaces of this package.
const (
	CapUse           Capability = "use"
	CapWait          Capability = "wait"
	CapComplete      Capability = "complete"
	CapStreamDestroy Capability = "stream-destroy"
	CapTrim          Capability = "trim"
	CapPools         Capability = "pools"
	CapSet           Capability = "set"
	CapMark          Capability = "mark"
	CapRealloc       Capability = "realloc"
	CapFreeWrong     Capability = "free-wrong"
	CapReset         Capability = "reset"
	CapCheckpoint    Capability = "checkpoint"
	CapDefragment    Capability = "defragment"
	CapRestore       Capability = "restore"
	CapInspect       Capability = "inspect"
	CapFeature       Capability = "feature"
)

// Featurer gives a number that tells abstract states of the strategy apart, for the search of the fuzzer. It is asked
// after every event of a program and never in a timed loop.
type Featurer interface {
	Feature() uint32
}

// StrategyCapabilities returns the optional interfaces that s implements.
func StrategyCapabilities(s Strategy) []Capability {
	var list []Capability
	add := func(c Capability, ok bool) {
		if ok {
			list = append(list, c)
		}
	}
	add(CapUse, is[StreamUser](s))
	add(CapWait, is[StreamWaiter](s))
	add(CapComplete, is[Completer](s))
	add(CapStreamDestroy, is[StreamDestroyer](s))
	add(CapTrim, is[Trimmer](s))
	add(CapPools, is[PoolRouter](s))
	add(CapSet, is[Setter](s))
	add(CapMark, is[Marker](s))
	add(CapRealloc, is[Reallocer](s))
	add(CapFreeWrong, is[WrongFreer](s))
	add(CapReset, is[Resetter](s))
	add(CapCheckpoint, is[Checkpointer](s))
	add(CapDefragment, is[Defragmenter](s))
	add(CapRestore, is[LayoutRestorer](s))
	add(CapInspect, is[Inspector](s))
	add(CapFeature, is[Featurer](s))
	return list
}

func is[T any](s Strategy) bool {
	_, ok := s.(T)
	return ok
}
