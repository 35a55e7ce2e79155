package ledger

import (
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// numCallKinds bounds the kinds that are counted apart; a record of a higher kind is counted under the last.
const numCallKinds = 128

type callStat struct {
	count, failed, size, deviceNs, wallTicks uint64
}

var callNames = map[trace.CallKind]string{
	trace.CallMalloc: "malloc", trace.CallFree: "free", trace.CallReserve: "reserve", trace.CallUnreserve: "unreserve",
	trace.CallCreate: "create", trace.CallRelease: "release", trace.CallMap: "map", trace.CallUnmap: "unmap",
	trace.CallSetAccess: "set-access", trace.CallEventRecord: "event-record", trace.CallEventQuery: "event-query",
	trace.CallEventWait: "event-wait", trace.CallStreamWait: "stream-wait", trace.CallStreamSync: "stream-sync",
	trace.CallDeviceSync: "device-sync", trace.CallMemInfo: "mem-info", trace.CallHostMalloc: "host-malloc",
	trace.CallHostFree: "host-free", trace.CallCopy: "copy", trace.CallManaged: "managed", trace.CallTouch: "touch",
	trace.CallPrefetch: "prefetch", trace.CallMove: "move", trace.CallExtent: "extent", trace.CallShare: "share",
	trace.CallSpill: "spill", trace.CallUnspill: "unspill", trace.CallCheckpoint: "checkpoint", trace.CallDropped: "dropped",
}

func callName(k trace.CallKind) string {
	if n, ok := callNames[k]; ok {
		return n
	}
	return fmt.Sprintf("call-%d", k)
}

// callText gives a call in one line.
func callText(c *trace.Call) string {
	s := fmt.Sprintf("%s of %s at 0x%x", callName(c.Kind), bytesText(c.Size), c.Addr)
	switch c.Kind {
	case trace.CallCreate, trace.CallRelease, trace.CallMap:
		s += fmt.Sprintf(" physical %d", c.Aux)
	case trace.CallMove, trace.CallSpill, trace.CallUnspill, trace.CallCopy, trace.CallShare:
		s += fmt.Sprintf(" from 0x%x", c.Aux)
	}
	if c.Status != trace.CallOK {
		s += fmt.Sprintf(" (%v)", c.Status.Err())
	}
	return s
}

// call enters one record of the call log.
func (l *Ledger) call(c *trace.Call) {
	st := &l.calls[min(int(c.Kind), numCallKinds-1)]
	st.count++
	st.deviceNs += uint64(c.DeviceNs)
	st.wallTicks += uint64(c.WallTicks)
	switch {
	case c.Status == trace.CallOK:
		st.size += c.Size
	case c.Status != trace.CallNotReady:
		st.failed++
		if c.Status == trace.CallInjected || c.Status >= trace.CallDeviceLost {
			l.excused = true
		}
	}
	if c.Kind >= trace.CallMove {
		l.statement(c)
		return
	}
	if c.Kind == trace.CallFree || c.Kind == trace.CallHostFree {
		l.free(c, c.Kind == trace.CallHostFree)
		return
	}
	if c.Status == trace.CallOK {
		l.deviceCall(c)
		return
	}
	if c.Status == trace.CallInvalidValue && (c.Kind == trace.CallUnmap || c.Kind == trace.CallUnreserve || c.Kind == trace.CallRelease) {
		l.breach(CheckConservation, CodeUnknownFree, 0, "something that is held", callText(c))
	}
}

// deviceCall enters a device call that succeeded.
func (l *Ledger) deviceCall(c *trace.Call) {
	switch c.Kind {
	case trace.CallMalloc:
		l.malloc(c, regionMalloc)
	case trace.CallManaged:
		l.malloc(c, regionManaged)
	case trace.CallHostMalloc:
		l.malloc(c, regionHost)
	case trace.CallReserve:
		l.reserve(c)
	case trace.CallUnreserve:
		l.unreserve(c)
	case trace.CallCreate:
		l.create(c)
	case trace.CallRelease:
		l.release(c)
	case trace.CallMap:
		l.mapRange(c)
	case trace.CallUnmap:
		l.unmapRange(c)
	case trace.CallMemInfo:
		l.memInfo(c)
	case trace.CallCopy:
		l.copied(c)
	default:
		if l.shadow.manual {
			l.streamCall(c)
		}
	}
}

// streamCall enters what a call says about the progress of streams.
func (l *Ledger) streamCall(c *trace.Call) {
	now := l.n + 1
	switch c.Kind {
	case trace.CallEventRecord:
		l.shadow.record(c.Aux, uint16(c.Stream), now)
	case trace.CallEventQuery, trace.CallEventWait:
		l.shadow.hostSaw(c.Aux, now)
	case trace.CallStreamWait:
		l.shadow.streamWaits(uint16(c.Stream), c.Aux)
	case trace.CallStreamSync:
		l.shadow.complete(uint16(c.Stream), now)
	case trace.CallDeviceSync:
		l.shadow.completeAll(now)
	}
}

// memInfo checks the device's free and total bytes.
func (l *Ledger) memInfo(c *trace.Call) {
	free, total := c.Addr, c.Size
	if l.obj.total == 0 {
		l.obj.total = total
	}
	want := l.obj.total
	if free > total || total != want {
		l.breach(CheckStatistics, CodeMemInfo, 0, "free ≤ total, and total "+bytesText(want),
			fmt.Sprintf("free %s, total %s", bytesText(free), bytesText(total)))
		return
	}
	if l.cfg.MemInfoExact && total-free < l.obj.charged {
		l.breach(CheckStatistics, CodeMemInfo, 0, "used of at least the "+bytesText(l.obj.charged)+" held",
			fmt.Sprintf("free %s, total %s", bytesText(free), bytesText(total)))
	}
}

// copied checks that a copy stays inside memory that is held.
func (l *Ledger) copied(c *trace.Call) {
	if c.Size == 0 {
		return
	}
	for _, addr := range [2]uint64{c.Addr, c.Aux} {
		if !l.within(&l.dev, addr, c.Size) && !l.within(&l.host, addr, c.Size) {
			l.breachAt(CheckConservation, CodeCopyUnheld, 0, addr, c.Size, "a copy between ranges that are held", callText(c))
			return
		}
	}
}

// within reports whether a range lies wholly in one region.
func (l *Ledger) within(sp *space, addr, size uint64) bool {
	id := sp.region(addr)
	return id != noItem && size <= sp.meta[id].bytes-(addr-sp.items[id].addr)
}

// statement enters what the strategy says about its blocks. Extents and shares wait for the outcome of their event.
func (l *Ledger) statement(c *trace.Call) {
	switch c.Kind {
	case trace.CallExtent:
		l.extents = append(l.extents, span{c.Addr, c.Size})
	case trace.CallShare:
		l.shareCalls = append(l.shareCalls, *c)
	case trace.CallMove:
		l.move(c, &l.dev, false)
	case trace.CallSpill:
		l.move(c, &l.dev, true)
	case trace.CallUnspill:
		l.move(c, &l.host, false)
	case trace.CallDropped:
		l.dropped(c)
	}
}

// move gives the live block at Aux a new address, in device or host memory. A move names one range: of a block of several
// extents it moves the extent that starts at Aux.
func (l *Ledger) move(c *trace.Call, from *space, toHost bool) {
	id := from.at(c.Aux)
	if id == noItem {
		if !l.resetting {
			l.unknownBlock(c, "move")
		}
		return
	}
	it := from.items[id]
	b := &l.blocks[it.slot]
	if c.Size != 0 && c.Size != it.size && !(toHost || from == &l.host) {
		l.breachAt(CheckConservation, CodeUnknownBlock, b.handle, c.Aux, it.size, "a move of the whole "+bytesText(it.size), callText(c))
	}
	if wraps(c.Addr, it.size) {
		l.breachAt(CheckPlacement, CodeOutOfRange, b.handle, c.Aux, it.size, "an address inside held memory", callText(c))
		return
	}
	l.moveExtent(c, from, toHost, id)
}

// moveExtent does what move found to be possible. A spill takes all extents of the block into one host range.
func (l *Ledger) moveExtent(c *trace.Call, from *space, toHost bool, id uint32) {
	it := from.items[id]
	b := &l.blocks[it.slot]
	l.count(b, -1)
	crosses := toHost || from == &l.host
	size := it.size
	if crosses {
		size = b.granted
		for b.item != noItem {
			l.pictureEnd(from, b.item, b)
			l.evictQuiet(from, b.item)
		}
		b.flags &^= blockHost
		if toHost {
			b.flags |= blockHost
		}
	} else {
		l.pictureEnd(from, id, b)
		l.evictQuiet(from, id)
		l.dropShadows(b)
		for i := range l.shares {
			if s := &l.shares[i]; s.owner == it.slot && s.addr-it.addr < it.size {
				s.addr = c.Addr + (s.addr - it.addr)
			}
		}
	}
	if b.addr == c.Aux {
		b.addr = c.Addr
	}
	l.own(it.slot, b, span{c.Addr, size})
	l.count(b, 1)
}

func (l *Ledger) pictureEnd(sp *space, id uint32, b *block) {
	if l.picture != nil && sp == &l.dev && sp.meta[id].kind == itemBlock {
		l.picture.block(&sp.items[id], sp.meta[id].born, b, l.n)
	}
}

// evictQuiet takes an item out of the books without calling its block astray.
func (l *Ledger) evictQuiet(sp *space, id uint32) {
	b := &l.blocks[sp.items[id].slot]
	astray := b.flags & blockAstray
	l.evict(sp, id)
	b.flags = b.flags&^blockAstray | astray
}

// dropShadows takes the shadows of a block out and casts those of its remaining extents anew.
func (l *Ledger) dropShadows(b *block) {
	for id := b.item; id != noItem; {
		next := l.dev.meta[id].next
		if l.dev.meta[id].kind == itemShadow {
			l.evictQuiet(&l.dev, id)
		}
		id = next
	}
	if l.aliased == 0 {
		return
	}
	slot := noItem
	l.cut = l.cut[:0]
	for id := b.item; id != noItem; id = l.dev.meta[id].next {
		slot = l.dev.items[id].slot
		l.cut = append(l.cut, span{l.dev.items[id].addr, l.dev.items[id].size})
	}
	for _, s := range l.cut {
		l.castShadows(slot, b, s)
	}
}

// dropped ends a live block at a reset or restore.
func (l *Ledger) dropped(c *trace.Call) {
	id := l.dev.at(c.Addr)
	if !l.resetting {
		h := trace.Handle(0)
		if id != noItem {
			h = l.blocks[l.dev.items[id].slot].handle
		}
		l.breachAt(CheckConservation, CodeDroppedOutside, h, c.Addr, 1, "blocks dropped by reset and restore only", callText(c))
	}
	if id != noItem {
		slot := l.dev.items[id].slot
		l.leave(slot, l.blocks[slot].stream, false)
	}
}
