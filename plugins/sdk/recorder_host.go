package sdk

import "github.com/gpubench/gpubench/trace"

// HasHostMemory reports whether the device has host memory; backends.As asks it.
func (r *recorder) HasHostMemory() bool { return r.host != nil }

// HostMalloc records a call for host memory.
func (r *recorder) HostMalloc(size uint64) (uint64, trace.CallStatus) {
	if r.host == nil {
		return 0, trace.CallNotSupported
	}
	s := r.start()
	addr, st := r.host.HostMalloc(size)
	r.record(s, &trace.Call{Kind: trace.CallHostMalloc, Status: st, Addr: addr, Size: size})
	return addr, st
}

// HostFree records a free of host memory.
func (r *recorder) HostFree(addr uint64) trace.CallStatus {
	if r.host == nil {
		return trace.CallNotSupported
	}
	s := r.start()
	st := r.host.HostFree(addr)
	r.record(s, &trace.Call{Kind: trace.CallHostFree, Status: st, Addr: addr})
	return st
}

// Copy records a copy.
func (r *recorder) Copy(dst, src, size uint64) trace.CallStatus {
	if r.host == nil {
		return trace.CallNotSupported
	}
	s := r.start()
	st := r.host.Copy(dst, src, size)
	r.record(s, &trace.Call{Kind: trace.CallCopy, Status: st, Addr: dst, Size: size, Aux: src})
	return st
}
