package sdk

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// forgetful puts a device that is about to be reset behind the recorder: what a closing strategy gives back is taken and not passed on,
// since the reset returns everything at once. An arena of 80 GiB is 40,960 chunks of a model, whose return one by one would be
// most of what a repetition of a short trace costs.
func (r *recorder) forgetful() {
	r.inner = forgetfulDevice{r.inner}
	if r.vm != nil {
		r.vm = forgetfulVM{r.vm}
	}
}

type forgetfulDevice struct{ backends.Device }

func (forgetfulDevice) Free(uint64) trace.CallStatus { return trace.CallOK }

type forgetfulVM struct{ backends.VirtualMemory }

func (forgetfulVM) Unreserve(_, _ uint64) trace.CallStatus   { return trace.CallOK }
func (forgetfulVM) Release(backends.PhysID) trace.CallStatus { return trace.CallOK }
func (forgetfulVM) Unmap(_, _ uint64) trace.CallStatus       { return trace.CallOK }
