//go:build cgo && linux

package nvml

import (
	"strconv"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// State says why a reading has no value. The zero State is a reading that has one.
type State string

// The states.
const (
	OK           State = ""
	NotSupported State = "not_supported"
	Absent       State = "absent"
	Hung         State = "hung"
	Implausible  State = "implausible"
	Lost         State = "lost"
	Failed       State = "error"
)

// notAvailable is what the library writes where it has no value (NVML_VALUE_NOT_AVAILABLE, as unsigned).
const notAvailable = ^uint64(0)

// maxPlausibleBytes bounds sizes: 1 PiB is more than any device has.
const maxPlausibleBytes = 1 << 50

func stateOf(r nvml.Return) State {
	switch r {
	case nvml.SUCCESS:
		return OK
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION:
		return NotSupported
	case nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return Absent
	case nvml.ERROR_TIMEOUT:
		return Hung
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return Lost
	}
	return Failed
}

// asker makes calls of the library under a deadline.
type asker struct {
	deadline time.Duration
	lookup   func(symbol string) error // nil: every function is there
	missing  map[string]bool           // by symbol: what lookup said
	stuck    chan struct{}             // closed when the call that hangs comes back; nil when none does
}

// free reports whether the library answers: no call hangs.
func (a *asker) free() bool {
	if a.stuck == nil {
		return true
	}
	select {
	case <-a.stuck:
		a.stuck = nil
		return true
	default:
		return false
	}
}

// absent reports whether the library lacks the function; it looks once.
func (a *asker) absent(symbol string) bool {
	if a.lookup == nil {
		return false
	}
	missing, known := a.missing[symbol]
	if !known {
		missing = a.lookup(symbol) != nil
		a.missing[symbol] = missing
	}
	return missing
}

// ask calls f, which calls the function of that symbol.
func ask[T any](a *asker, symbol string, f func() (T, nvml.Return)) (T, State) {
	var none T
	if !a.free() {
		return none, Hung
	}
	if a.absent(symbol) {
		return none, Absent
	}
	type answer struct {
		value T
		ret   nvml.Return
	}
	done, back := make(chan answer, 1), make(chan struct{})
	go func() {
		v, r := f()
		done <- answer{v, r}
		close(back)
	}()
	timer := time.NewTimer(a.deadline)
	defer timer.Stop()
	select {
	case x := <-done:
		return x.value, stateOf(x.ret)
	case <-timer.C:
		a.stuck = back
		return none, Hung
	}
}

// values collects the readings of a sample.
type values map[string]float64

func (v values) put(name string, value float64, s State) {
	if s == OK {
		v[name] = value
		return
	}
	v[name+"."+string(s)] = 1
}

// putCount puts an unsigned reading, for which all ones is no value.
func (v values) putCount(name string, n uint64, s State) {
	if s == OK && n == notAvailable {
		s = Implausible
	}
	v.put(name, float64(n), s)
}

// facts collects the readings of a fingerprint.
type facts map[string]string

func (f facts) put(name, value string, s State) {
	if s != OK {
		value = string(s)
	}
	f[name] = value
}

func (f facts) putInt(name string, n uint64, s State) { f.put(name, strconv.FormatUint(n, 10), s) }
