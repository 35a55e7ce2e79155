package zoo

import (
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Close gives every segment back.
func (c *caching) Close() error {
	for i := range c.segs {
		if s := &c.segs[i]; s.bytes != 0 {
			c.dev.Free(s.addr)
		}
	}
	c.clear(c.bug)
	return nil
}

// Reset returns to the state after opening.
func (c *caching) Reset() trace.Status {
	if err := c.Close(); err != nil {
		return trace.StatusError
	}
	c.locked = false
	return trace.StatusOK
}

// Trim gives wholly free segments back.
func (c *caching) Trim() trace.Status {
	c.release()
	return trace.StatusOK
}

// FreeWrong refuses a free of what is not live.
func (c *caching) FreeWrong(b *sdk.Block, _ sdk.Stream) trace.Status {
	if c.bug == directFreeOfUnknown { // not in the cache: it must be the device's own
		c.dev.Free(b.Addr)
		return trace.StatusOK
	}
	return trace.StatusInvalid
}

// Checkpoint saves the layout. It holds until one of its segments goes back to the device.
func (c *caching) Checkpoint(name uint32) trace.Status {
	if c.saved == nil {
		c.saved = map[uint32]cacheState{}
	}
	c.saved[name] = c.cacheState.clone()
	return trace.StatusOK
}

// RestoreCheckpoint returns to a saved layout. Segments that are newer go back to the device.
func (c *caching) RestoreCheckpoint(name uint32) trace.Status {
	then, ok := c.saved[name]
	if !ok {
		return trace.StatusRefused
	}
	if c.bug != restoreKeepsNewer {
		c.dropNewer(&then)
	}
	c.cacheState = then.clone()
	return trace.StatusOK
}

func (c *caching) dropNewer(then *cacheState) {
	for i := range c.segs {
		s := c.segs[i]
		if s.bytes == 0 || slices.ContainsFunc(then.segs, func(o segment) bool { return o.birth == s.birth }) {
			continue
		}
		c.dev.Free(s.addr)
		for name, other := range c.saved {
			if slices.ContainsFunc(other.segs, func(o segment) bool { return o.birth == s.birth }) {
				delete(c.saved, name)
			}
		}
	}
}

// Inspect shows segments, bins and counters.
func (c *caching) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{"segments": 0, "live_blocks": 0}, MetaBytes: c.metaBytes()}
	for i := range c.segs {
		s := &c.segs[i]
		if s.bytes == 0 {
			continue
		}
		in.Segments = append(in.Segments, sdk.InspectedSegment{Addr: s.addr, Bytes: s.bytes, Blocks: c.picture(s.first)})
		in.Counters["segments"]++
		in.Counters["live_blocks"] += uint64(s.live)
	}
	for _, n := range c.asked {
		in.Counters["requests"] += n
	}
	for p, name := range []string{"small", "large"} {
		for _, b := range c.bins[p] {
			f := sdk.FreeList{Name: name, Len: uint64(len(b.list))}
			for _, i := range b.list {
				f.Bytes += c.nodes[i].size
			}
			in.FreeLists = append(in.FreeLists, f)
		}
	}
	return in
}
