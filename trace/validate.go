package trace

import (
	"errors"
	"fmt"
)

// MaxIssues bounds the list that Issues returns; a trace that is wrong throughout says so by its first few hundred.
const MaxIssues = 1000

// Validate returns nil when the trace keeps every rule of the language, and otherwise the first breach as an error that
// wraps *EventError or ErrFormat. Opening or parsing a trace has checked what memory safety needs; Validate adds the
// rules of handles: no free or use of a handle that is unknown or dead (only `free!`, and only in programs), no handle
// twice, slots that are held by one handle at a time, times that do not go back.
func Validate(t *Trace) error {
	issues := Issues(t, 1)
	if len(issues) > 0 {
		return issues[0]
	}
	return nil
}

// Issues returns the breaches of the rules in order, at most limit (0 = MaxIssues). An event in breach is left out of
// account for the events after it. When the records themselves are illegal that is the one issue.
func Issues(t *Trace, limit int) []error {
	if limit <= 0 || limit > MaxIssues {
		limit = MaxIssues
	}
	if err := t.checkRecords(); err != nil {
		return []error{err}
	}
	if err := t.Meta.check(); err != nil {
		return []error{err}
	}
	v := &validator{t: t, holder: make([]Handle, t.Slots), limit: limit}
	if t.Start != nil {
		v.start()
	}
	for i := range t.Events {
		if len(v.issues) >= limit {
			break
		}
		ev := &t.Events[i]
		if err := v.event(ev); err != nil {
			v.issues = append(v.issues, &EventError{Event: uint64(i), Kind: ev.Kind, Handle: ev.Handle, Err: err})
		}
	}
	return v.issues
}

// ErrSlot is the reason for which a slot number is refused: two live handles would share it, or it is not the handle's.
var ErrSlot = errors.New("wrong slot")

// validator follows the handles of a trace whose slots are given.
type validator struct {
	t      *Trace
	n      names
	holder []Handle // live handle of each slot; 0 = none
	issues []error
	limit  int
}

func (v *validator) start() {
	for i := range v.t.Start.Segments {
		seg := &v.t.Start.Segments[i]
		for j := range seg.Blocks {
			blk := &seg.Blocks[j]
			if blk.Handle == 0 {
				continue
			}
			var err error
			switch {
			case v.n.used.has(blk.Handle):
				err = ErrHandleReused
			case blk.Pending:
				v.n.used.add(blk.Handle)
			default:
				err = v.take(blk.Handle, blk.Slot, seg.Stream)
			}
			if err != nil {
				v.issues = append(v.issues, fmt.Errorf("%w: block 0x%x: h%d: %w", ErrState, blk.Addr, blk.Handle, err))
				if len(v.issues) >= v.limit {
					return
				}
			}
		}
	}
}

func (v *validator) take(h Handle, slot uint32, stream uint16) error {
	if v.n.used.has(h) {
		return ErrHandleReused
	}
	if other := v.holder[slot]; other != 0 {
		return fmt.Errorf("%w: slot %d still belongs to h%d", ErrSlot, slot, other)
	}
	v.n.used.add(h)
	v.n.live.put(liveEntry{handle: h, slot: slot, stream: stream})
	v.holder[slot] = h
	return nil
}

// liveAt returns the entry of a live handle whose slot is as given.
func (v *validator) liveAt(h Handle, slot uint32) (*liveEntry, error) {
	e := v.n.live.get(h)
	if e == nil {
		return nil, v.n.checkDead(h)
	}
	if e.slot != slot {
		return nil, fmt.Errorf("%w: slot %d, but h%d has slot %d", ErrSlot, slot, h, e.slot)
	}
	return e, nil
}

func (v *validator) event(ev *Event) error {
	switch ev.Kind {
	case KindAlloc:
		return v.take(ev.Handle, ev.Slot, ev.Stream)
	case KindFree:
		e, err := v.liveAt(ev.Handle, ev.Slot)
		if err != nil {
			return err
		}
		if ev.Flags&FlagStream == 0 && ev.Stream != e.stream {
			return fmt.Errorf("%w: it names stream %d without FlagStream; the block is of stream %d", ErrArgument,
				v.t.Streams[ev.Stream], v.t.Streams[e.stream])
		}
		v.holder[e.slot] = 0
		v.n.live.del(e)
	case KindFreeWrong:
		if !MayFreeWrong(v.t.Meta.Source) {
			return ErrNotAProgram
		}
		if v.n.live.get(ev.Handle) != nil {
			return ErrHandleLive
		}
	case KindRealloc:
		x := v.t.extra(ev)
		if _, err := v.liveAt(x.Handle2, x.Slot2); err != nil {
			return fmt.Errorf("old handle h%d: %w", x.Handle2, err)
		}
		if err := v.take(ev.Handle, ev.Slot, ev.Stream); err != nil {
			return err
		}
		v.holder[x.Slot2] = 0
		v.n.live.del(v.n.live.get(x.Handle2))
	case KindUse, KindTouch, KindPrefetch:
		_, err := v.liveAt(ev.Handle, ev.Slot)
		return err
	case KindReset:
		if err := v.n.spend(len(v.holder)); err != nil {
			return err
		}
		v.n.live = liveTable{}
		clear(v.holder)
	case KindCheckpoint:
		if err := v.n.spend(len(v.holder)); err != nil {
			return err
		}
		return v.n.save(v.t.Strings[ev.Aux])
	case KindRestore:
		return v.restore(v.t.Strings[ev.Aux])
	case KindSet:
		if key, _ := cutSetting(v.t.Strings[ev.Aux]); key == "" || key == v.t.Strings[ev.Aux] {
			return fmt.Errorf("%w: %q is not KEY=VALUE", ErrArgument, v.t.Strings[ev.Aux])
		}
	}
	return nil
}

func (v *validator) restore(name string) error {
	s, ok := v.n.saved[name]
	if !ok {
		return fmt.Errorf("%q: %w", name, ErrCheckpoint)
	}
	if err := v.n.spend(len(v.holder)); err != nil {
		return err
	}
	v.n.live = s.clone()
	clear(v.holder)
	v.n.live.each(func(e liveEntry) { v.holder[e.slot] = e.handle })
	return nil
}
