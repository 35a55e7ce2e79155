package trace

import "fmt"

// Alloc adds a request for size bytes (0 is legal) named h, a handle never used before.
func (b *Builder) Alloc(h Handle, size uint64, a AllocArgs) error {
	if err := b.ready(KindAlloc, h); err != nil {
		return err
	}
	align, err := b.allocArgs(a)
	if err != nil {
		return b.refuse(KindAlloc, h, err)
	}
	slot, err := b.names.take(h, a.Stream, a.Pool)
	if err != nil {
		return b.refuse(KindAlloc, h, err)
	}
	ev := Event{Kind: KindAlloc, Stream: a.Stream, Slot: slot, Handle: h, Size: size, Pool: a.Pool, AlignLog2: align}
	if a.Thread == 0 {
		ev.Aux = a.Tag
	} else if err := b.extra(&ev, Extra{Tag: a.Tag, Thread: a.Thread}, true); err != nil {
		return err
	}
	return b.put(&ev)
}

func (b *Builder) allocArgs(a AllocArgs) (alignLog2_ uint8, err error) {
	if int(a.Stream) >= len(b.streams.list) || int(a.Pool) >= len(b.pools.list) || int(a.Tag) >= len(b.strings.list) {
		return 0, fmt.Errorf("%w: stream %d of %d, pool %d of %d, tag %d of %d", ErrIndex,
			a.Stream, len(b.streams.list), a.Pool, len(b.pools.list), a.Tag, len(b.strings.list))
	}
	return alignLog2(a.Align)
}

// Free adds the free of a live handle.
func (b *Builder) Free(h Handle, a FreeArgs) error {
	if err := b.ready(KindFree, h); err != nil {
		return err
	}
	e := b.names.live.get(h)
	if e == nil {
		return b.refuse(KindFree, h, b.names.checkDead(h))
	}
	ev := Event{Kind: KindFree, Stream: e.stream, Slot: e.slot, Handle: h}
	if a.OnStream {
		ev.Stream = a.Stream
		ev.Flags = FlagStream
	}
	if err := b.indexes(ev.Stream, a.Tag); err != nil {
		return b.refuse(KindFree, h, err)
	}
	if err := b.extra(&ev, Extra{Tag: a.Tag, Thread: a.Thread}, false); err != nil {
		return err
	}
	b.names.drop(e)
	return b.put(&ev)
}

func (b *Builder) indexes(stream uint16, tag uint32) error {
	if int(stream) >= len(b.streams.list) || int(tag) >= len(b.strings.list) {
		return fmt.Errorf("%w: stream %d of %d, tag %d of %d", ErrIndex, stream, len(b.streams.list), tag, len(b.strings.list))
	}
	return nil
}

// FreeWrong adds `free!`: a free, wrong on purpose, of a handle that is dead or was never made. Only programs may hold one;
// Finish refuses it for recordings.
func (b *Builder) FreeWrong(h Handle) error {
	if err := b.ready(KindFreeWrong, h); err != nil {
		return err
	}
	slot, err := b.names.wrong(h)
	if err != nil {
		return b.refuse(KindFreeWrong, h, err)
	}
	b.wrong++
	return b.put(&Event{Kind: KindFreeWrong, Slot: slot, Handle: h})
}

// Realloc adds the resizing of the live handle old to size bytes; from here on the object is called h.
func (b *Builder) Realloc(h, old Handle, size uint64, a AllocArgs) error {
	if err := b.ready(KindRealloc, h); err != nil {
		return err
	}
	e := b.names.live.get(old)
	if e == nil {
		return b.refuse(KindRealloc, old, b.names.checkDead(old))
	}
	align, err := b.allocArgs(a)
	if err != nil {
		return b.refuse(KindRealloc, h, err)
	}
	slot2 := e.slot
	slot, err := b.names.take(h, a.Stream, a.Pool)
	if err != nil {
		return b.refuse(KindRealloc, h, err)
	}
	ev := Event{Kind: KindRealloc, Stream: a.Stream, Slot: slot, Handle: h, Size: size, Pool: a.Pool, AlignLog2: align}
	if err := b.extra(&ev, Extra{Tag: a.Tag, Thread: a.Thread, Handle2: old, Slot2: slot2}, true); err != nil {
		return err
	}
	b.names.drop(b.names.live.get(old))
	return b.put(&ev)
}

// Use adds the use of a live handle on a stream other than its own (PyTorch: record_stream).
func (b *Builder) Use(h Handle, stream uint16) error {
	return b.onHandle(Event{Kind: KindUse, Handle: h, Stream: stream}, Extra{})
}

// UseBy is Use with a thread (1 + its number; 0 = not given) and a tag.
func (b *Builder) UseBy(h Handle, stream uint16, thread, tag uint32) error {
	return b.onHandle(Event{Kind: KindUse, Handle: h, Stream: stream}, Extra{Thread: thread, Tag: tag})
}

// Touch adds an access to managed memory.
func (b *Builder) Touch(h Handle, a TouchArgs) error {
	ev := Event{Kind: KindTouch, Handle: h, Size: a.Length}
	if a.Write {
		ev.Flags = FlagWrite
	}
	return b.onHandle(ev, Extra{Tag: a.Tag, Thread: a.Thread, Arg: uint32(a.By), Offset: a.Offset})
}

// Prefetch adds the migration of managed memory to a place.
func (b *Builder) Prefetch(h Handle, to Place) error {
	return b.onHandle(Event{Kind: KindPrefetch, Handle: h, Aux: uint32(to)}, Extra{})
}

// onHandle adds an event on a live handle that does not end it.
func (b *Builder) onHandle(ev Event, x Extra) error {
	if err := b.ready(ev.Kind, ev.Handle); err != nil {
		return err
	}
	e := b.names.live.get(ev.Handle)
	if e == nil {
		return b.refuse(ev.Kind, ev.Handle, b.names.checkDead(ev.Handle))
	}
	ev.Slot = e.slot
	if err := b.indexes(ev.Stream, x.Tag); err != nil {
		return b.refuse(ev.Kind, ev.Handle, err)
	}
	if (ev.Kind == KindTouch && Place(x.Arg) > PlaceCPU) || (ev.Kind == KindPrefetch && Place(ev.Aux) > PlaceCPU) {
		return b.refuse(ev.Kind, ev.Handle, fmt.Errorf("%w: the place is gpu or cpu", ErrArgument))
	}
	if ev.Kind != KindPrefetch {
		if err := b.extra(&ev, x, ev.Kind == KindTouch); err != nil {
			return err
		}
	}
	return b.put(&ev)
}

// plain adds an event without a handle.
func (b *Builder) plain(ev Event) error {
	if err := b.ready(ev.Kind, 0); err != nil {
		return err
	}
	if int(ev.Stream) >= len(b.streams.list) || int(ev.Pool) >= len(b.pools.list) {
		return b.refuse(ev.Kind, 0, fmt.Errorf("%w: stream %d of %d, pool %d of %d", ErrIndex,
			ev.Stream, len(b.streams.list), ev.Pool, len(b.pools.list)))
	}
	return b.put(&ev)
}

// Wait adds: stream waits, on the device, for what stream on has issued so far.
func (b *Builder) Wait(stream, on uint16) error {
	if int(on) >= len(b.streams.list) {
		return b.refuse(KindWait, 0, fmt.Errorf("%w: stream %d of %d", ErrIndex, on, len(b.streams.list)))
	}
	return b.plain(Event{Kind: KindWait, Stream: stream, Aux: uint32(on)})
}

// Complete adds: the device has finished the work of the stream so far; the host did not wait.
func (b *Builder) Complete(stream uint16) error {
	return b.plain(Event{Kind: KindComplete, Stream: stream})
}

// CompleteAll adds Complete for every stream.
func (b *Builder) CompleteAll() error { return b.plain(Event{Kind: KindComplete, Flags: FlagAll}) }

// Sync adds: the host waits for the stream.
func (b *Builder) Sync(stream uint16) error { return b.plain(Event{Kind: KindSync, Stream: stream}) }

// SyncAll adds: the host waits for every stream.
func (b *Builder) SyncAll() error { return b.plain(Event{Kind: KindSync, Flags: FlagAll}) }

// Trim adds: give cached memory back to the device (PyTorch: empty_cache).
func (b *Builder) Trim() error { return b.plain(Event{Kind: KindTrim}) }

// Mark adds a mark, for example key "iteration", value 2. The key is not empty.
func (b *Builder) Mark(key string, value uint64) error {
	if key == "" {
		return b.refuse(KindMark, 0, fmt.Errorf("%w: the key of a mark is empty", ErrArgument))
	}
	return b.plain(Event{Kind: KindMark, Aux: b.String(key), Size: value})
}

// PoolBegin adds: from here on the allocations of all streams go to the pool.
func (b *Builder) PoolBegin(pool uint16) error {
	if err := b.plain(Event{Kind: KindPoolBegin, Pool: pool}); err != nil {
		return err
	}
	b.open = append(b.open, pool)
	return nil
}

// PoolEnd adds the end of the routing to the pool.
func (b *Builder) PoolEnd(pool uint16) error {
	if err := b.plain(Event{Kind: KindPoolEnd, Pool: pool}); err != nil {
		return err
	}
	for i := len(b.open) - 1; i >= 0; i-- {
		if b.open[i] == pool {
			b.open = append(b.open[:i], b.open[i+1:]...)
			break
		}
	}
	return nil
}

// PoolEndLast is PoolEnd for the pool begun last that has not ended.
func (b *Builder) PoolEndLast() error {
	if len(b.open) == 0 {
		return b.refuse(KindPoolEnd, 0, ErrPoolClosed)
	}
	return b.PoolEnd(b.open[len(b.open)-1])
}

// PoolRelease adds: the program holds the pool no longer.
func (b *Builder) PoolRelease(pool uint16) error {
	return b.plain(Event{Kind: KindPoolRelease, Pool: pool})
}

// Set adds the setting of a strategy's option in the midst of the trace. The key is not empty and holds no "=".
func (b *Builder) Set(key, value string) error {
	if !legalKey(key) {
		return b.refuse(KindSet, 0, fmt.Errorf("%w: option key %q is empty or holds '='", ErrArgument, key))
	}
	return b.plain(Event{Kind: KindSet, Aux: b.String(key + "=" + value)})
}

// Events adds: work completes at once (manual false, the initial state) or only at Complete, Sync or a wait (true).
func (b *Builder) Events(manual bool) error {
	ev := Event{Kind: KindEvents}
	if manual {
		ev.Size = 1
	}
	return b.plain(ev)
}

// StreamDestroy adds the destruction of a stream.
func (b *Builder) StreamDestroy(stream uint16) error {
	return b.plain(Event{Kind: KindStreamDestroy, Stream: stream})
}

// Reset adds: the strategy forgets everything; no handle is live afterwards.
func (b *Builder) Reset() error {
	if err := b.ready(KindReset, 0); err != nil {
		return err
	}
	if err := b.names.reset(); err != nil {
		return b.refuse(KindReset, 0, err)
	}
	return b.plain(Event{Kind: KindReset})
}

// Checkpoint adds: the layout is saved under a name, which is not empty.
func (b *Builder) Checkpoint(name string) error {
	if err := b.ready(KindCheckpoint, 0); err != nil {
		return err
	}
	if name == "" {
		return b.refuse(KindCheckpoint, 0, fmt.Errorf("%w: the name of a checkpoint is empty", ErrArgument))
	}
	if err := b.names.save(name); err != nil {
		return b.refuse(KindCheckpoint, 0, err)
	}
	return b.plain(Event{Kind: KindCheckpoint, Aux: b.String(name)})
}

// Restore adds: the layout of the checkpoint is back. The handles live then are live again, those made since are dead.
func (b *Builder) Restore(name string) error {
	if err := b.ready(KindRestore, 0); err != nil {
		return err
	}
	if err := b.names.restore(name); err != nil {
		return b.refuse(KindRestore, 0, err)
	}
	return b.plain(Event{Kind: KindRestore, Aux: b.String(name)})
}

// Defragment adds: the strategy may move blocks.
func (b *Builder) Defragment() error { return b.plain(Event{Kind: KindDefragment}) }

// FailNext adds: the k-th device call from here that can fail, fails; k is at least 1.
func (b *Builder) FailNext(k uint64) error {
	if k == 0 {
		return b.refuse(KindFailNext, 0, fmt.Errorf("%w: device= counts from 1", ErrArgument))
	}
	return b.plain(Event{Kind: KindFailNext, Size: k})
}
