package trace

import "fmt"

// names keeps the handles and slots of a trace while its events go by in order: who is live, who has ever been, which slot
// comes next. It is the one place that knows the rules of handles; the builder assigns with it and Validate checks with it.
type names struct {
	live  liveTable
	used  usedSet
	free  []uint32 // slots to use again, last in first out
	next  uint32   // first slot never handed out; the number of slots
	owner map[Handle]uint32
	fresh []Handle // owner of each slot below SlotsFresh
	saved map[string]liveTable
	kept  int    // table entries kept in saved
	work  uint64 // slots looked at by resets, checkpoints and restores
}

// spend counts a look at every slot.
func (n *names) spend(slots int) error {
	if n.work += uint64(slots + len(n.live.entries)); n.work > MaxLayoutWork {
		return limitError("MaxLayoutWork", MaxLayoutWork)
	}
	return nil
}

// checkDead explains why h is not live.
func (n *names) checkDead(h Handle) error {
	switch {
	case h == 0:
		return ErrHandleZero
	case n.used.has(h):
		return ErrFreedHandle
	}
	return ErrUnknownHandle
}

// take gives the new handle h a slot.
func (n *names) take(h Handle, stream, pool uint16) (uint32, error) {
	if h == 0 {
		return 0, ErrHandleZero
	}
	if n.used.has(h) {
		return 0, ErrHandleReused
	}
	slot, err := n.slot(h)
	if err != nil {
		return 0, err
	}
	n.used.add(h)
	n.live.put(liveEntry{handle: h, slot: slot, stream: stream, pool: pool})
	return slot, nil
}

func (n *names) slot(h Handle) (uint32, error) {
	if n.next >= SlotsFresh {
		if last := len(n.free) - 1; last >= 0 {
			s := n.free[last]
			n.free = n.free[:last]
			return s, nil
		}
		if n.next >= MaxSlots {
			return 0, limitError("MaxSlots", MaxSlots)
		}
		n.next++
		return n.next - 1, nil
	}
	s := n.next
	n.next++
	n.fresh = append(n.fresh, h)
	if n.owner != nil {
		n.owner[h] = s
	}
	return s, nil
}

// drop ends the tenancy of a live handle.
func (n *names) drop(e *liveEntry) {
	if e.slot >= SlotsFresh {
		n.free = append(n.free, e.slot)
	}
	n.live.del(e)
}

// wrong returns the slot for a `free!` of h: that of its last tenancy, or a slot of its own if it never had one.
func (n *names) wrong(h Handle) (uint32, error) {
	if h == 0 {
		return 0, ErrHandleZero
	}
	if n.live.get(h) != nil {
		return 0, ErrHandleLive
	}
	if n.owner == nil {
		n.owner = make(map[Handle]uint32, len(n.fresh))
		for s, o := range n.fresh {
			n.owner[o] = uint32(s)
		}
	}
	if s, ok := n.owner[h]; ok {
		return s, nil
	}
	if n.next >= SlotsFresh {
		return 0, fmt.Errorf("free! needs a program of fewer handles: %w", limitError("SlotsFresh", SlotsFresh))
	}
	return n.slot(h)
}

// reset forgets every live handle.
func (n *names) reset() error {
	if err := n.spend(int(n.next)); err != nil {
		return err
	}
	n.live = liveTable{}
	n.refill()
	return nil
}

// refill makes every slot that no live handle holds free, the lowest first in turn.
func (n *names) refill() {
	n.free = n.free[:0]
	if n.next <= SlotsFresh {
		return
	}
	held := make([]bool, n.next-SlotsFresh)
	n.live.each(func(e liveEntry) {
		if e.slot >= SlotsFresh {
			held[e.slot-SlotsFresh] = true
		}
	})
	for i := len(held) - 1; i >= 0; i-- {
		if !held[i] {
			n.free = append(n.free, SlotsFresh+uint32(i))
		}
	}
}

// save keeps the live set under a name; a name may be given again.
func (n *names) save(name string) error {
	if err := n.spend(int(n.next)); err != nil {
		return err
	}
	if n.saved == nil {
		n.saved = make(map[string]liveTable)
	}
	old, again := n.saved[name]
	if !again && len(n.saved) >= MaxCheckpoints {
		return limitError("MaxCheckpoints", MaxCheckpoints)
	}
	kept := n.kept - len(old.entries) + len(n.live.entries)
	if kept > MaxCheckpointEntries {
		return limitError("MaxCheckpointEntries", MaxCheckpointEntries)
	}
	n.kept = kept
	n.saved[name] = n.live.clone()
	return nil
}

// restore brings back the live set of a checkpoint, each handle with the slot it had. Handles made since then are dead.
func (n *names) restore(name string) error {
	s, ok := n.saved[name]
	if !ok {
		return fmt.Errorf("%q: %w", name, ErrCheckpoint)
	}
	if err := n.spend(int(n.next)); err != nil {
		return err
	}
	n.live = s.clone()
	n.refill()
	return nil
}
