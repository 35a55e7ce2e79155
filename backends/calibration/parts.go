package calibration

import (
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// mallocSizes are the blocks whose allocation is timed: what allocators take for small requests, one page, and up by 8.
var mallocSizes = []uint64{4 << 10, 1 << 20, 2 << 20, 16 << 20, 128 << 20, 1 << 30}

// modelSize is the block of the cost model's figures: one page of 2 MiB.
const modelSize = 2 << 20

// malloc measures Malloc, Free and the query of free memory. Between a free and the next allocation nothing else happens, which
// is the case that a driver may cache: that is how a strategy without a cache behaves.
func (m *meter) malloc(largest uint64) error {
	for _, size := range mallocSizes {
		if size > largest {
			m.warn("blocks of %d bytes are not measured: more than a quarter of what is free", size)
			continue
		}
		alloc, free := Figure{Name: "malloc_ns", SizeBytes: size}, Figure{Name: "malloc_free_ns", SizeBytes: size}
		if size == modelSize {
			alloc.Cost, free.Cost = "malloc_ns", "malloc_free_ns"
		}
		for range m.samples {
			var addr uint64
			if err := m.time(alloc, func() (st trace.CallStatus) { addr, st = m.d.Malloc(size); return st }); err != nil {
				return err
			}
			if err := m.time(free, func() trace.CallStatus { return m.d.Free(addr) }); err != nil {
				return err
			}
		}
	}
	for range m.samples {
		err := m.time(Figure{Name: "mem_info_ns", Cost: "mem_info_ns"}, func() trace.CallStatus { m.d.MemInfo(); return trace.CallOK })
		if err != nil {
			return err
		}
	}
	return nil
}

// virtual measures the calls of virtual memory, on one page and on sixteen.
func (m *meter) virtual(largest uint64) error {
	v, ok := backends.As[backends.VirtualMemory](m.d)
	if !ok {
		m.warn("no virtual memory management: its calls are not measured")
		return nil
	}
	for _, size := range []uint64{m.info.PageBytes, 16 * m.info.PageBytes} {
		if size > largest {
			continue
		}
		for range m.samples {
			if err := m.mapOnce(v, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapOnce is the life of one mapping; what was done is undone when a step fails.
func (m *meter) mapOnce(v backends.VirtualMemory, size uint64) (err error) {
	var addr uint64
	var id backends.PhysID
	named := func(name string) Figure {
		f := Figure{Name: name, SizeBytes: size}
		if size == m.info.PageBytes && m.info.PageBytes == modelSize {
			f.Cost = name
		}
		return f
	}
	undo := []func(){}
	step := func(name string, call func() trace.CallStatus, back func()) bool {
		if err != nil {
			return false
		}
		if err = m.time(named(name), call); err == nil && back != nil {
			undo = append(undo, back)
		}
		return err == nil
	}
	step("reserve_ns", func() (st trace.CallStatus) { addr, st = v.Reserve(size); return st }, func() { v.Unreserve(addr, size) })
	step("create_ns", func() (st trace.CallStatus) { id, st = v.Create(size); return st }, func() { v.Release(id) })
	step("map_ns", func() trace.CallStatus { return v.Map(addr, size, id) }, func() { v.Unmap(addr, size) })
	step("set_access_ns", func() trace.CallStatus { return v.SetAccess(addr, size) }, nil)
	if err != nil {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		return err
	}
	step("unmap_ns", func() trace.CallStatus { return v.Unmap(addr, size) }, nil)
	step("release_ns", func() trace.CallStatus { return v.Release(id) }, nil)
	step("address_free_ns", func() trace.CallStatus { return v.Unreserve(addr, size) }, nil)
	return err
}

// streams measures events and waits, with nothing pending: the floor of a synchronisation.
func (m *meter) streams(uint64) error {
	s, ok := backends.As[backends.Streams](m.d)
	if !ok {
		m.warn("no streams: events and waits are not measured")
		return nil
	}
	done := func(f func()) func() trace.CallStatus {
		return func() trace.CallStatus { f(); return trace.CallOK }
	}
	for range m.samples {
		var e backends.EventID
		for _, step := range []struct {
			f    Figure
			call func() trace.CallStatus
		}{
			{Figure{Name: "event_record_ns"}, done(func() { e = s.Record(1) })},
			{Figure{Name: "event_query_ns"}, done(func() { s.Query(e) })},
			{Figure{Name: "event_wait_ns"}, done(func() { s.Wait(e) })},
			{Figure{Name: "stream_sync_ns"}, done(func() { s.SyncStream(1) })},
			{Figure{Name: "sync_ns", Cost: "sync_ns"}, done(s.SyncDevice)},
		} {
			if err := m.time(step.f, step.call); err != nil {
				return err
			}
		}
		s.Drop(e)
	}
	return nil
}

const (
	// touchSamples bounds how often large blocks are written.
	touchSamples = 11
	// largeTimeMax bounds the time for each kind of large block, once there are samples enough for an interval: a GPU takes
	// milliseconds, a machine that makes its pages only when they are touched may take minutes.
	largeTimeMax = 5 * time.Second
)

// enough reports whether the time for large blocks is used up after i samples.
func enough(i int, began time.Duration) bool {
	return i >= samplesMin && clock.Monotonic()-began > largeTimeMax
}

// touch measures first touch and memset of a large block: the first write after the allocation, and a later one.
func (m *meter) touch(largest uint64) error {
	t, ok := backends.As[Toucher](m.d)
	if !ok {
		m.warn("this device has no memset: first touch and memset are not measured")
		return nil
	}
	began := clock.Monotonic()
	for i := 0; i < min(m.samples, touchSamples) && !enough(i, began); i++ {
		addr, st := m.d.Malloc(largest)
		if st != trace.CallOK {
			m.warn("a block of %d bytes for memset was refused (%v)", largest, st.Err())
			return nil
		}
		err := m.rate(Figure{Name: "first_touch_bytes_per_sec", SizeBytes: largest}, func() trace.CallStatus { return t.Touch(addr, largest, 1) })
		if err == nil {
			err = m.rate(Figure{Name: "memset_bytes_per_sec", Cost: "memset_bytes_per_sec", SizeBytes: largest}, func() trace.CallStatus { return t.Touch(addr, largest, 2) })
		}
		m.d.Free(addr)
		if err != nil {
			return err
		}
	}
	return nil
}

// copyBytesMax bounds the pinned memory that copies take.
const copyBytesMax = 256 << 20

// copies measures pinned memory and the bandwidth of copies.
func (m *meter) copies(largest uint64) error {
	c, ok := backends.As[Copier](m.d)
	if !ok {
		m.warn("this device has no copies: their bandwidth is not measured")
		return nil
	}
	size := min(largest/2, copyBytesMax)
	began := clock.Monotonic()
	for i := 0; i < min(m.samples, touchSamples) && !enough(i, began); i++ {
		if err := m.copyOnce(c, size); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) copyOnce(c Copier, size uint64) error {
	a, st := m.d.Malloc(size)
	if st != trace.CallOK {
		m.warn("a block of %d bytes for copies was refused (%v)", size, st.Err())
		return nil
	}
	defer m.d.Free(a)
	b, st := m.d.Malloc(size)
	if st != trace.CallOK {
		m.warn("a second block of %d bytes for copies was refused (%v)", size, st.Err())
		return nil
	}
	defer m.d.Free(b)
	var pinned uint64
	named := func(name, cost string) Figure { return Figure{Name: name, Cost: cost, SizeBytes: size} }
	err := m.rate(named("host_alloc_bytes_per_sec", "host_alloc_bytes_per_sec"), func() (st trace.CallStatus) { pinned, st = c.HostMalloc(size); return st })
	if err != nil {
		return err
	}
	defer c.HostFree(pinned)
	for _, step := range []struct {
		name string
		call func() trace.CallStatus
	}{
		{"copy_to_device_bytes_per_sec", func() trace.CallStatus { return c.CopyIn(a, pinned, size) }},
		{"copy_to_host_bytes_per_sec", func() trace.CallStatus { return c.CopyOut(pinned, a, size) }},
		{"copy_on_device_bytes_per_sec", func() trace.CallStatus { return c.Copy(b, a, size) }},
	} {
		if err := m.rate(named(step.name, ""), step.call); err != nil {
			return err
		}
	}
	return nil
}
