package pmm

import (
	"errors"
	"fmt"

	model "github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/pma"
)

// RMPages says of which pages the resource manager makes device memory.
type RMPages uint8

// The kinds of pages.
const (
	// Pages2MiB rounds every request up to pages of 2 MiB, as the CUDA driver asks for device memory.
	Pages2MiB RMPages = iota
	// PagesMixed takes pages of 2 MiB for what is whole and pages of 64 KiB for the rest of a Malloc: small requests leave
	// holes that a large one cannot use.
	PagesMixed
	// Pages64KiB takes pages of 64 KiB only: nothing fails while as many bytes are free.
	Pages64KiB
)

var rmPagesNames = [...]string{"2MiB", "mixed", "64KiB"}

// String returns the name in configuration.
func (p RMPages) String() string { return rmPagesNames[p] }

// ErrPages is the error of a kind of pages that does not exist.
var ErrPages = errors.New("pmm device: no such kind of pages")

// ParseRMPages is the inverse of String; "" is Pages2MiB.
func ParseRMPages(name string) (RMPages, error) {
	if name == "" {
		return Pages2MiB, nil
	}
	for i, n := range rmPagesNames {
		if n == name {
			return RMPages(i), nil
		}
	}
	return 0, fmt.Errorf("%w: rm_pages %q; there are %v", ErrPages, name, rmPagesNames)
}

// grain is the unit in which Malloc charges the device.
func (p RMPages) grain() uint64 {
	if p == Pages2MiB {
		return model.RootBytes
	}
	return pma.FrameBytes
}

// pages is ideal.Memory out of pinned pages of the resource manager, the frames of package pma. A token is the first of a
// list of pages.
type pages struct {
	cfg    model.Config
	kind   RMPages
	m      *model.Model
	list   []page // [0] unused
	spare  uint32 // list of unused entries
	buf    []uint64
	exact  uint64 // bytes that the call at hand really asked for; 0: what Take is told
	waited int64  // for the scrubber, by the call at hand
}

type page struct {
	addr  uint64
	next  uint32
	small bool // 64 KiB, not 2 MiB
}

// open makes the model anew.
func (p *pages) open() (err error) {
	p.m, err = model.New(p.cfg)
	p.list, p.spare = append(p.list[:0], page{}), 0
	return err
}

// Take takes the pages for bytes, all or none, and waits for the scrubber once if there are too few. What user memory holds
// is evicted for it.
func (p *pages) Take(bytes uint64) (uint32, bool) {
	if p.exact > 0 {
		bytes = p.exact
	}
	large, small := p.cut(bytes)
	if large > p.cfg.Roots || small > p.cfg.Roots*pma.FramesPerRoot {
		return 0, false
	}
	if !p.take(large, small) {
		wait := p.m.NextScrubNs() - p.m.NowNs()
		if wait <= 0 {
			return 0, false
		}
		p.m.AdvanceNs(wait)
		p.waited += wait
		if !p.take(large, small) {
			return 0, false
		}
	}
	first := uint32(0)
	for i := len(p.buf) - 1; i >= 0; i-- {
		n := p.spare
		if n != 0 {
			p.spare = p.list[n].next
		} else {
			n = uint32(len(p.list))
			p.list = append(p.list, page{})
		}
		p.list[n] = page{addr: p.buf[i], next: first, small: i >= large}
		first = n
	}
	return first, true
}

// cut divides a request into pages of 2 MiB and of 64 KiB.
func (p *pages) cut(bytes uint64) (large, small int) {
	switch p.kind {
	case Pages2MiB:
		return int((bytes + model.RootBytes - 1) / model.RootBytes), 0
	case PagesMixed:
		large, bytes = int(bytes/model.RootBytes), bytes%model.RootBytes
	}
	return large, int((bytes + pma.FrameBytes - 1) / pma.FrameBytes)
}

// take fills buf with pages, the large ones first, or with nothing.
func (p *pages) take(large, small int) bool {
	var st model.Status
	p.buf = p.buf[:0]
	if large > 0 {
		if p.buf, st = p.m.RMAlloc(p.buf, large, model.RootBytes, true); st != model.OK {
			return false
		}
	}
	if small > 0 {
		if p.buf, st = p.m.RMAlloc(p.buf, small, pma.FrameBytes, true); st != model.OK {
			p.free(p.buf, model.RootBytes)
			return false
		}
	}
	return true
}

// Give frees the pages of a token, one call for each size.
func (p *pages) Give(_ uint64, token uint32) {
	p.buf = p.buf[:0]
	size := uint64(model.RootBytes)
	for n := token; n != 0; {
		e := p.list[n]
		if e.small && size != pma.FrameBytes {
			p.free(p.buf, size)
			p.buf, size = p.buf[:0], pma.FrameBytes
		}
		p.buf = append(p.buf, e.addr)
		p.list[n] = page{next: p.spare}
		p.spare = n
		n = e.next
	}
	p.free(p.buf, size)
}

// free gives pages back that this device holds.
func (p *pages) free(addrs []uint64, size uint64) {
	if len(addrs) == 0 {
		return
	}
	if st := p.m.RMFree(addrs, size); st != model.OK {
		panic(fmt.Sprintf("pmm device: %d pages of %d bytes that the device holds cannot be freed: %v", len(addrs), size, st))
	}
}

// FreeBytes counts memory that is still being zeroed as free: a call that needs it waits for it. What user memory holds is
// not free, although a call can have it evicted.
func (p *pages) FreeBytes() uint64 {
	in := p.m.MemInfo()
	return in.FreeBytes + in.ScrubbingBytes
}

// Reset makes the model anew. The configuration was accepted before, so that it cannot be refused now.
func (p *pages) Reset() {
	if err := p.open(); err != nil {
		panic(err)
	}
}
