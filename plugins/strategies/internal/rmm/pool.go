package rmm

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/pool"
	"github.com/gpubench/gpubench/trace"
)

// Pool is pool_memory_resource (cpp/include/rmm/mr/device/pool_memory_resource.hpp). Make one with NewPool.
type Pool struct {
	base
	dev     backends.Device
	p       *pool.Pool
	initial uint64
	maximum uint64 // 0: none
	limit   uint64 // what all segments may have together: beyond it the device counts as refusing
}

// NewPool opens a pool: initialBytes at once, on the default stream, and at most maximumBytes (0: no maximum), both multiples
// of UnitBytes.
func NewPool(env *sdk.Env, initialBytes, maximumBytes uint64) (*Pool, error) {
	m := &Pool{dev: env.Device, p: pool.New(), initial: initialBytes, maximum: maximumBytes, limit: env.CapacityBytes}
	m.base.dev = streamsOf(env.Device)
	if initialBytes%UnitBytes != 0 || maximumBytes%UnitBytes != 0 {
		return nil, fmt.Errorf("initial and maximum pool size, %d and %d bytes, must be multiples of %d", initialBytes, maximumBytes, UnitBytes)
	}
	if maximumBytes != 0 && initialBytes > maximumBytes {
		return nil, fmt.Errorf("initial pool size of %d bytes is more than the maximum of %d", initialBytes, maximumBytes)
	}
	if err := m.open(); err != nil {
		return nil, err
	}
	return m, nil
}

func streamsOf(dev backends.Device) backends.Streams {
	s, _ := backends.As[backends.Streams](dev)
	return s
}

func (m *Pool) open() error {
	if m.initial == 0 {
		return nil
	}
	addr, st := m.dev.Malloc(m.initial)
	if st != trace.CallOK {
		return fmt.Errorf("initial pool of %d bytes: %w", m.initial, st.Err())
	}
	m.see(0).exists = true
	m.p.Insert(m.p.AddSegment(addr, m.initial), 0)
	return nil
}

// Bytes returns what the pool holds from the device.
func (m *Pool) Bytes() uint64 { return m.p.Bytes() }

// Alloc places size > 0 bytes for a stream.
func (m *Pool) Alloc(size, align uint64, s backends.Stream, b *sdk.Block) bool {
	if size > MaxRequestBytes {
		return false
	}
	n := RoundUp(size)
	if align > UnitBytes { // the original ignores it; here the block is larger by it
		n += align - UnitBytes
	}
	i, ok := m.acquire(m, s, n)
	if !ok {
		return false
	}
	k := &m.p.T.B[i]
	gap := pool.Gap(k.Addr, align)
	b.Addr, b.Size, b.Ref = k.Addr+gap, k.Size-gap, m.p.T.Ref(i)
	return true
}

// Free frees a block on a stream; false when it is no live block.
func (m *Pool) Free(b *sdk.Block, s backends.Stream) bool {
	i := m.live(b)
	if i == blocks.None {
		return false
	}
	m.released(s)
	m.p.Give(i, uint32(s))
	return true
}

// Live reports whether b is a live block.
func (m *Pool) Live(b *sdk.Block) bool { return m.live(b) != blocks.None }

func (m *Pool) live(b *sdk.Block) uint32 {
	i := m.p.T.Deref(b.Ref)
	if k := &m.p.T.B[i]; k.Free || k.Addr+k.Size != b.Addr+b.Size {
		return blocks.None
	}
	return i
}

func (m *Pool) take(list backends.Stream, size uint64) (uint32, bool) {
	i := m.p.Best(uint32(list), size)
	if i == blocks.None {
		return 0, false
	}
	return m.p.Cut(i, 0, size), true
}

func (m *Pool) merge(from, to backends.Stream) { m.p.MergeList(uint32(from), uint32(to)) }

// expand is expand_pool with size_to_grow and try_to_expand: half of what the maximum leaves, or a doubling, halved while the
// device refuses, down to the request.
func (m *Pool) expand(list backends.Stream, size uint64) bool {
	try := max(size, m.p.Bytes())
	if m.maximum != 0 {
		remaining := RoundUp(m.maximum - m.p.Bytes())
		if RoundUp(size) > remaining {
			return false
		}
		try = max(size, remaining/2)
	}
	for {
		if try <= m.limit-m.p.Bytes() {
			if addr, st := m.dev.Malloc(try); st == trace.CallOK {
				m.p.Insert(m.p.AddSegment(addr, try), uint32(list))
				return true
			}
		}
		if try == size {
			return false
		}
		try = max(size, try/2)
	}
}

// Reset gives everything back and opens the pool anew.
func (m *Pool) Reset() error {
	if err := m.Close(); err != nil {
		return err
	}
	return m.open()
}

// Close gives all segments back.
func (m *Pool) Close() (err error) {
	m.base.reset()
	for _, s := range m.p.Segments {
		if st := m.dev.Free(s.Addr); st != trace.CallOK && err == nil {
			err = fmt.Errorf("give back segment of %d bytes at %#x: %w", s.Bytes, s.Addr, st.Err())
		}
	}
	m.p.Reset()
	return err
}

// Inspect appends the segments and the free lists.
func (m *Pool) Inspect(in *sdk.Inspection) {
	m.p.Inspect(in, func(list int) string { return fmt.Sprintf("stream %d", list) })
}
