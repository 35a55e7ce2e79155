package trace

import "fmt"

// assign gives the live blocks of the state their slots, in order, and marks the handles of pending blocks as used.
func (s *State) assign(n *names) error {
	for i := range s.Segments {
		seg := &s.Segments[i]
		for j := range seg.Blocks {
			blk := &seg.Blocks[j]
			if blk.Handle == 0 {
				blk.Slot = 0
				continue
			}
			if blk.Pending {
				if n.used.has(blk.Handle) {
					return fmt.Errorf("%w: block 0x%x: h%d: %w", ErrState, blk.Addr, blk.Handle, ErrHandleReused)
				}
				n.used.add(blk.Handle)
				blk.Slot = 0
				continue
			}
			slot, err := n.take(blk.Handle, seg.Stream, seg.Pool)
			if err != nil {
				return fmt.Errorf("%w: block 0x%x: h%d: %w", ErrState, blk.Addr, blk.Handle, err)
			}
			blk.Slot = slot
		}
	}
	return nil
}

// check holds the shape of a state: blocks in address order without a gap, requested sizes within their blocks, no overflow,
// segments in address order that do not overlap, indexes within their tables.
func (s *State) check(streams, pools int) error {
	if len(s.Segments) > MaxSegments {
		return fmt.Errorf("%w: %w", ErrState, limitError("MaxSegments", MaxSegments))
	}
	blocks, end := 0, uint64(0)
	for i := range s.Segments {
		seg := &s.Segments[i]
		if err := seg.check(streams, pools); err != nil {
			return err
		}
		if blocks += len(seg.Blocks); blocks > MaxBlocks {
			return fmt.Errorf("%w: %w", ErrState, limitError("MaxBlocks", MaxBlocks))
		}
		if i > 0 && seg.Addr < end {
			return fmt.Errorf("%w: segment 0x%x begins before 0x%x, where the segment before it ends: list segments in address order",
				ErrState, seg.Addr, end)
		}
		end = seg.Addr + seg.Bytes
	}
	return nil
}

func (seg *StateSegment) check(streams, pools int) error {
	if int(seg.Stream) >= streams || int(seg.Pool) >= pools {
		return fmt.Errorf("%w: segment 0x%x: %w: stream %d of %d, pool %d of %d", ErrState, seg.Addr, ErrIndex,
			seg.Stream, streams, seg.Pool, pools)
	}
	if seg.Addr+seg.Bytes < seg.Addr {
		return fmt.Errorf("%w: segment 0x%x of %d bytes passes the end of the address space", ErrState, seg.Addr, seg.Bytes)
	}
	at := seg.Addr
	for j := range seg.Blocks {
		blk := &seg.Blocks[j]
		if blk.Addr != at {
			return fmt.Errorf("%w: segment 0x%x: block 0x%x does not begin at 0x%x, where the one before it ends", ErrState, seg.Addr, blk.Addr, at)
		}
		if blk.Bytes > seg.Addr+seg.Bytes-at {
			return fmt.Errorf("%w: segment 0x%x: block 0x%x passes the end of the segment", ErrState, seg.Addr, blk.Addr)
		}
		if blk.RequestedBytes > blk.Bytes && (blk.Handle != 0 || blk.Pending) {
			return fmt.Errorf("%w: segment 0x%x: block 0x%x holds %d bytes but %d were requested", ErrState, seg.Addr, blk.Addr, blk.Bytes, blk.RequestedBytes)
		}
		at += blk.Bytes
	}
	if at != seg.Addr+seg.Bytes {
		return fmt.Errorf("%w: segment 0x%x: its blocks end at 0x%x, it ends at 0x%x", ErrState, seg.Addr, at, seg.Addr+seg.Bytes)
	}
	return nil
}

// blocks returns the number of blocks; s may be nil.
func (s *State) blocks() uint64 {
	n := uint64(0)
	if s != nil {
		for i := range s.Segments {
			n += uint64(len(s.Segments[i].Blocks))
		}
	}
	return n
}
