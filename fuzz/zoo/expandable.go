package zoo

import (
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	expandUnitBytes = 512
	// expandSpread is how many times the device's memory is reserved in addresses: with it the end of the range always has room, and
	// no request fails for lack of addresses.
	expandSpread = 16
)

// page is a page of the range.
type page struct {
	phys   backends.PhysID
	mapped bool
	fresh  bool // mapped for the block that is being placed
}

// expandable keeps blocks in one reserved range of addresses, first fit, and maps physical pages below them when they are
// needed.
type expandable struct {
	chain
	dev    backends.Device
	vm     backends.VirtualMemory
	unit   uint64 // bytes of a page
	base   uint64
	bytes  uint64
	first  int32
	pages  []page // up to the last one that was ever mapped
	serial uint64
}

func openExpandable(env *sdk.Env, b bug) (sdk.Strategy, error) {
	info := env.Device.Info()
	e := &expandable{chain: newChain(b), dev: env.Device, unit: max(info.PageBytes, expandUnitBytes)}
	var ok bool
	if e.vm, ok = backends.As[backends.VirtualMemory](env.Device); !ok {
		return nil, fmt.Errorf("expandable: the device %s has no virtual memory", info.Name)
	}
	n := info.TotalBytes / e.unit * expandSpread
	if n == 0 || n > 1<<24 {
		return nil, fmt.Errorf("expandable: a device of %d bytes; from %d bytes to %d pages are possible", info.TotalBytes, e.unit, 1<<24/expandSpread)
	}
	e.bytes = n * e.unit
	var st trace.CallStatus
	if e.base, st = e.vm.Reserve(e.bytes); st != trace.CallOK {
		return nil, fmt.Errorf("expandable: reserving %d bytes of addresses: %w", e.bytes, st.Err())
	}
	e.first = e.add(e.base, e.bytes, 0)
	return e, nil
}

// Alloc takes the first hole that fits and can be mapped; failing that it unmaps what nobody uses, and tries again.
func (e *expandable) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	if r.Size == 0 {
		*b = sdk.Block{}
		return trace.StatusOK
	}
	size := up(r.Size, expandUnitBytes)
	if r.Size > e.bytes {
		return trace.StatusRefused
	}
	if e.place(r, size, b) {
		return trace.StatusOK
	}
	if e.unmapFree() > 0 && e.place(r, size, b) {
		return trace.StatusRecovered
	}
	return trace.StatusFailed
}

// place takes the first place that is mapped already, else the first hole that can be mapped from its beginning.
func (e *expandable) place(r *sdk.Request, size uint64, b *sdk.Block) bool {
	if i, at := e.mapped(size, max(r.Align, 1)); i != 0 {
		e.hand(i, at, size, r)
		e.show(at, size, b)
		return true
	}
	for i := e.first; i != 0; i = e.nodes[i].next {
		if n := &e.nodes[i]; n.state != free || !fits(n, size, r.Align) {
			continue
		}
		at := up(e.nodes[i].addr, max(r.Align, 1))
		if !e.populate(at, size) {
			if e.bug == noRollBackOfMap {
				e.hand(i, at, size, r)
				return false
			}
			continue
		}
		e.hand(i, at, size, r)
		e.show(at, size, b)
		return true
	}
	return false
}

// show tells the program of its block.
func (e *expandable) show(at, size uint64, b *sdk.Block) {
	*b = sdk.Block{Addr: at, Size: size, Ref: e.serial}
	if e.bug == relativeAddress {
		b.Addr -= e.base
	}
}

// mapped returns the first place in a free block whose pages are all mapped.
func (e *expandable) mapped(size, align uint64) (int32, uint64) {
	for i := e.first; i != 0; i = e.nodes[i].next {
		n := &e.nodes[i]
		if n.state != free || n.size < size {
			continue
		}
	next:
		for at := up(n.addr, align); at-n.addr <= n.size-size; {
			for p := (at - e.base) / e.unit; p <= (at-e.base+size-1)/e.unit; p++ {
				if p >= uint64(len(e.pages)) {
					break next
				}
				if !e.pages[p].mapped {
					at = up(e.base+(p+1)*e.unit, align)
					continue next
				}
			}
			return i, at
		}
	}
	return 0, 0
}

// hand cuts [at, at+size) out of free block i and makes it live.
func (e *expandable) hand(i int32, at, size uint64, r *sdk.Request) {
	if front := at - e.nodes[i].addr; front > 0 {
		i = e.split(i, front)
	}
	if e.nodes[i].size > size {
		e.split(i, size)
	}
	e.serial++
	n := &e.nodes[i]
	n.state, n.asked, n.serial = live, r.Size, e.serial
}

// populate maps the pages below [at, at+size). When one cannot be had, those that it mapped go back.
func (e *expandable) populate(at, size uint64) bool {
	from, to := int((at-e.base)/e.unit), int((at-e.base+size-1)/e.unit)
	e.pages = append(e.pages, make([]page, max(0, to+1-len(e.pages)))...)
	for p := from; p <= to; p++ {
		if e.pages[p].mapped {
			continue
		}
		if e.mapPage(p) {
			e.pages[p].fresh = true
			continue
		}
		if e.bug == mappedBeforeMap {
			e.pages[p].mapped = true
		}
		for q := from; q < p; q++ {
			if e.pages[q].fresh && e.bug != noRollBackOfMap {
				e.unmapPage(q)
			}
		}
		return false
	}
	for p := from; p <= to; p++ {
		e.pages[p].fresh = false
	}
	return true
}

func (e *expandable) mapPage(p int) bool {
	phys, st := e.vm.Create(e.unit)
	if st != trace.CallOK {
		return false
	}
	at := e.base + uint64(p)*e.unit
	if e.vm.Map(at, e.unit, phys) != trace.CallOK {
		e.vm.Release(phys)
		return false
	}
	if e.vm.SetAccess(at, e.unit) != trace.CallOK {
		e.vm.Unmap(at, e.unit)
		e.vm.Release(phys)
		return false
	}
	e.pages[p] = page{phys: phys, mapped: true}
	return true
}

func (e *expandable) unmapPage(p int) {
	if !e.pages[p].mapped {
		return
	}
	e.vm.Unmap(e.base+uint64(p)*e.unit, e.unit)
	if e.bug != unmapWithoutRelease {
		e.vm.Release(e.pages[p].phys)
	}
	e.pages[p] = page{}
}

// unmapFree unmaps the mapped pages that lie wholly in free blocks and returns how many.
func (e *expandable) unmapFree() int {
	count := 0
	for i := e.first; i != 0; i = e.nodes[i].next {
		n := &e.nodes[i]
		if n.state != free {
			continue
		}
		from, to := (n.addr-e.base+e.unit-1)/e.unit, (n.addr-e.base+n.size)/e.unit
		if e.bug == unmapInUse { // rounded outwards
			from, to = (n.addr-e.base)/e.unit, (n.addr-e.base+n.size+e.unit-1)/e.unit
		}
		for p := int(from); p < int(to) && p < len(e.pages); p++ {
			switch {
			case !e.pages[p].mapped:
			case e.bug == ordinaryRelease: // as of a segment that came from malloc
				e.dev.Free(e.base + uint64(p)*e.unit)
			default:
				e.unmapPage(p)
				count++
			}
		}
	}
	return count
}

// Free merges the block with its free neighbours; its pages stay mapped.
func (e *expandable) Free(b *sdk.Block, _ sdk.Stream) trace.Status {
	if b.Ref == 0 {
		return trace.StatusOK
	}
	i := e.known(b)
	if i == 0 {
		return trace.StatusInvalid
	}
	e.nodes[i].state = free
	if next := e.nodes[i].next; next != 0 && e.nodes[next].state == free {
		e.join(i)
	}
	if prev := e.nodes[i].prev; prev != 0 && e.nodes[prev].state == free {
		e.join(prev)
	}
	return trace.StatusOK
}

func (e *expandable) known(b *sdk.Block) int32 {
	for i := e.first; i != 0; i = e.nodes[i].next {
		if n := &e.nodes[i]; n.state == live && n.serial == b.Ref {
			return i
		}
	}
	return 0
}

// FreeWrong refuses a free of what is not live.
func (e *expandable) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusInvalid }

// Trim unmaps what nobody uses.
func (e *expandable) Trim() trace.Status {
	e.unmapFree()
	return trace.StatusOK
}

// Reset frees and unmaps everything.
func (e *expandable) Reset() trace.Status {
	e.chain = newChain(e.bug)
	e.first = e.add(e.base, e.bytes, 0)
	for p := range e.pages {
		e.unmapPage(p)
	}
	return trace.StatusOK
}

// Close unmaps everything and gives the addresses back.
func (e *expandable) Close() error {
	e.Reset()
	if st := e.vm.Unreserve(e.base, e.bytes); st != trace.CallOK {
		return fmt.Errorf("expandable: giving the addresses back: %w", st.Err())
	}
	return nil
}

// Inspect shows the blocks up to the last page that was mapped, and those pages' number.
func (e *expandable) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{}, MetaBytes: e.metaBytes()}
	for p := range e.pages {
		if e.pages[p].mapped {
			in.Counters["mapped_pages"]++
		}
	}
	in.Segments = []sdk.InspectedSegment{{Addr: e.base, Bytes: e.bytes, Blocks: e.picture(e.first)}}
	return in
}
