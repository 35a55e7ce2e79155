package backends

// Unwrapper is implemented by decorators: devices that change some calls of another device and pass on the rest.
type Unwrapper interface {
	// Unwrap returns the device below.
	Unwrap() Device
}

// As finds the first device in the chain of decorators from d downwards that implements the optional interface T. So a
// decorator implements only the interfaces whose calls it changes, and keeps all others of what it wraps. VirtualMemory and
// Streams count only where Info says that the device has them.
func As[T any](d Device) (T, bool) {
	for d != nil {
		if t, ok := d.(T); ok && serves[T](d) {
			return t, true
		}
		u, ok := d.(Unwrapper)
		if !ok {
			break
		}
		d = u.Unwrap()
	}
	var none T
	return none, false
}

// serves reports whether the device has T according to its Info: decorators have the methods whatever they wrap.
func serves[T any](d Device) bool {
	var t *T
	switch any(t).(type) {
	case *VirtualMemory:
		return d.Info().VirtualMemory
	case *Streams:
		return d.Info().StreamEvents
	case *HostMemory:
		h, ok := d.(HostMemory)
		return ok && h.HasHostMemory()
	}
	return true
}
