package rmm

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/blocks"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// Upstream is where a Fixed gets its chunks from.
type Upstream func(bytes uint64, s backends.Stream) (addr uint64, ok bool)

// Fixed is fixed_size_memory_resource (cpp/include/rmm/mr/device/fixed_size_memory_resource.hpp): blocks of one size in first-in
// first-out lists, never merged, in chunks of a fixed number of blocks. Make one with NewFixed.
type Fixed struct {
	base
	BlockBytes uint64
	perChunk   uint64
	upstream   Upstream
	t          *blocks.Table
	chunks     []uint64 // addresses
	lists      []fifo   // by stream
}

// fifo links blocks by L, the oldest first.
type fifo struct {
	head, tail uint32
	n          uint64
}

// NewFixed takes the first chunk at once, on the default stream.
func NewFixed(dev backends.Device, blockBytes, blocksPerChunk uint64, upstream Upstream) (*Fixed, error) {
	if blockBytes == 0 || blocksPerChunk == 0 {
		return nil, fmt.Errorf("blocks of %d bytes, %d in a chunk: both must be at least 1", blockBytes, blocksPerChunk)
	}
	f := &Fixed{BlockBytes: RoundUp(blockBytes), perChunk: blocksPerChunk, upstream: upstream, t: blocks.NewTable(int(min(blocksPerChunk, 1<<16)))}
	f.base.dev = streamsOf(dev)
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Fixed) open() error {
	f.see(0).exists = true
	if !f.expand(0, f.BlockBytes) {
		return fmt.Errorf("first chunk of %d blocks of %d bytes: out of memory", f.perChunk, f.BlockBytes)
	}
	return nil
}

// Alloc hands out the oldest free block. Larger requests fail, as do alignments that the blocks do not have by themselves.
func (f *Fixed) Alloc(size, align uint64, s backends.Stream, b *sdk.Block) bool {
	if size > f.BlockBytes {
		return false
	}
	i, ok := f.acquire(f, s, f.BlockBytes)
	if !ok {
		return false
	}
	k := &f.t.B[i]
	if k.Addr&(max(align, 1)-1) != 0 {
		f.putBack(s, i)
		return false
	}
	k.Free = false
	b.Addr, b.Size, b.Ref = k.Addr, k.Size, f.t.Ref(i)
	return true
}

// Free puts the block at the end of the stream's list; false when it is no live block.
func (f *Fixed) Free(b *sdk.Block, s backends.Stream) bool {
	if !f.Live(b) {
		return false
	}
	f.released(s)
	f.push(s, uint32(b.Ref))
	return true
}

// Live reports whether b is a live block. The next tenant of the same block cannot be told apart.
func (f *Fixed) Live(b *sdk.Block) bool {
	i := f.t.Deref(b.Ref)
	k := &f.t.B[i]
	return i != blocks.None && !k.Free && k.Addr == b.Addr
}

func (f *Fixed) list(s backends.Stream) *fifo {
	for int(s) >= len(f.lists) {
		f.lists = append(f.lists, fifo{})
	}
	return &f.lists[s]
}

func (f *Fixed) push(s backends.Stream, i uint32) {
	l := f.list(s)
	f.t.B[i].L, f.t.B[i].Free = blocks.None, true
	if l.tail != blocks.None {
		f.t.B[l.tail].L = i
	} else {
		l.head = i
	}
	l.tail = i
	l.n++
}

// putBack makes block i the oldest of the list again.
func (f *Fixed) putBack(s backends.Stream, i uint32) {
	l := f.list(s)
	f.t.B[i].L = l.head
	if l.head = i; l.tail == blocks.None {
		l.tail = i
	}
	l.n++
}

func (f *Fixed) take(s backends.Stream, _ uint64) (uint32, bool) {
	l := f.list(s)
	i := l.head
	if i == blocks.None {
		return 0, false
	}
	if l.head = f.t.B[i].L; l.head == blocks.None {
		l.tail = blocks.None
	}
	l.n--
	return i, true
}

func (f *Fixed) merge(from, to backends.Stream) {
	f.list(max(from, to)) // so that the pointers below stay
	a, b := f.list(from), f.list(to)
	if a.head == blocks.None {
		return
	}
	if b.tail != blocks.None {
		f.t.B[b.tail].L = a.head
	} else {
		b.head = a.head
	}
	b.tail = a.tail
	b.n += a.n
	*a = fifo{}
}

func (f *Fixed) expand(s backends.Stream, _ uint64) bool {
	addr, ok := f.upstream(f.BlockBytes*f.perChunk, s)
	if !ok {
		return false
	}
	f.chunks = append(f.chunks, addr)
	for k := uint64(0); k < f.perChunk; k++ {
		f.push(s, f.t.New(addr+k*f.BlockBytes, f.BlockBytes))
	}
	return true
}

// Chunks calls give for every chunk and forgets them with all blocks.
func (f *Fixed) Chunks(give func(addr, bytes uint64)) {
	for _, addr := range f.chunks {
		give(addr, f.BlockBytes*f.perChunk)
	}
	f.base.reset()
	f.chunks = f.chunks[:0]
	f.lists = f.lists[:0]
	f.t.Reset()
}

// Reopen takes the first chunk again, after Chunks.
func (f *Fixed) Reopen() error { return f.open() }

// Inspect appends the chunks as segments and the free lists. withSegments is false when the chunks lie in another resource's.
func (f *Fixed) Inspect(in *sdk.Inspection, withSegments bool) {
	if withSegments {
		for c, addr := range f.chunks {
			seg := sdk.InspectedSegment{Addr: addr, Bytes: f.BlockBytes * f.perChunk}
			for k := uint64(0); k < f.perChunk; k++ {
				b := &f.t.B[uint64(c)*f.perChunk+k+1] // blocks are made chunk by chunk and never released
				state := "live"
				if b.Free {
					state = "free"
				}
				seg.Blocks = append(seg.Blocks, sdk.InspectedBlock{Addr: b.Addr, Bytes: b.Size, State: state})
			}
			in.Segments = append(in.Segments, seg)
		}
	}
	for s, l := range f.lists {
		if l.n > 0 {
			in.FreeLists = append(in.FreeLists, sdk.FreeList{
				Name: fmt.Sprintf("blocks of %d bytes, stream %d", f.BlockBytes, s), Len: l.n, Bytes: l.n * f.BlockBytes,
			})
		}
	}
	in.MetaBytes += f.t.MetaBytes()
}
