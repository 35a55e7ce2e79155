package zoo

import (
	"fmt"
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Realloc shrinks a chunk where it lies, by giving its upper halves back; anything else moves.
func (c *chunks) Realloc(old *sdk.Block, r *sdk.Request, b *sdk.Block) trace.Status {
	k := c.known(old)
	if id, ok := c.owners[r.Stream]; ok && k != nil && r.Size != 0 && len(k.users) == 0 && id == c.roots[k.root].owner {
		if level := levelOf(max(r.Size, r.Align)); level <= k.level && k.addr&(max(r.Align, 1)-1) == 0 {
			lists := &c.free[c.roots[k.root].owner]
			for k.level > level {
				k.level--
				lists[k.level] = append(lists[k.level], freeChunk{k.addr + chunkUnitBytes<<k.level, k.root})
			}
			c.serial++
			k.serial = c.serial
			*b = sdk.Block{Addr: k.addr, Size: chunkUnitBytes << k.level, Ref: k.serial}
			return trace.StatusOK
		}
	}
	st := c.Alloc(r, b)
	if !st.Placed() {
		return st
	}
	if freed := c.Free(old, r.Stream); freed != trace.StatusOK {
		return freed
	}
	return st
}

// Completed hears that the work of a stream, or all work, is done.
func (c *chunks) Completed(s sdk.Stream, all, _ bool) trace.Status {
	c.pending = slices.DeleteFunc(c.pending, func(k *chunk) bool {
		k.users = slices.DeleteFunc(k.users, func(u sdk.Stream) bool { return all || u == s })
		if len(k.users) > 0 {
			return false
		}
		owner := c.roots[k.root].owner
		if c.bug == flushToWrongOwner { // it goes to whoever completed
			owner = c.ownerOf(s)
		}
		c.release(k, owner)
		return true
	})
	return trace.StatusOK
}

// StreamDestroyed hears that a stream is gone: its work is done, its roots stay its own.
func (c *chunks) StreamDestroyed(s sdk.Stream) trace.Status {
	c.Completed(s, false, true)
	if id, ok := c.owners[s]; ok && s != 0 {
		delete(c.owners, s)
		c.lastGone = id
	}
	return trace.StatusOK
}

// FreeWrong refuses a free of what is not live.
func (c *chunks) FreeWrong(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusInvalid }

// Trim gives wholly free roots back.
func (c *chunks) Trim() trace.Status {
	for i := range c.roots {
		r := &c.roots[i]
		if r.addr == noRoot || r.live > 0 || !c.unlist(int32(i)) {
			continue
		}
		c.settle()
		c.dev.Free(r.addr)
		c.held -= rootBytes
		r.addr = noRoot
	}
	return trace.StatusOK
}

// Reset returns to the state after opening.
func (c *chunks) Reset() trace.Status {
	if c.Close() != nil {
		return trace.StatusError
	}
	return trace.StatusOK
}

// Close gives every root back.
func (c *chunks) Close() error {
	var err error
	for i := range c.roots {
		if r := &c.roots[i]; r.addr != noRoot {
			if st := c.dev.Free(r.addr); st != trace.CallOK && err == nil {
				err = fmt.Errorf("chunks: giving a root back: %w", st.Err())
			}
		}
	}
	c.clear()
	return err
}

// Inspect shows the roots and their chunks.
func (c *chunks) Inspect() sdk.Inspection {
	in := sdk.Inspection{Counters: map[string]uint64{"held_bytes": c.held, "pending": uint64(len(c.pending))}}
	blocks := make([][]sdk.InspectedBlock, len(c.roots))
	show := func(i int32, at uint64, level int, state string) {
		blocks[i] = append(blocks[i], sdk.InspectedBlock{Addr: at, Bytes: chunkUnitBytes << level, State: state})
	}
	for _, k := range c.live {
		show(k.root, k.addr, k.level, "live")
	}
	for _, k := range c.pending {
		show(k.root, k.addr, k.level, "pending")
	}
	for owner := range c.free {
		for level, list := range c.free[owner] {
			for _, f := range list {
				show(f.root, f.addr, level, "free")
			}
		}
	}
	for i := range c.roots {
		if c.roots[i].addr == noRoot {
			continue
		}
		slices.SortFunc(blocks[i], func(x, y sdk.InspectedBlock) int {
			if x.Addr < y.Addr {
				return -1
			}
			return 1
		})
		in.Segments = append(in.Segments, sdk.InspectedSegment{Addr: c.roots[i].addr, Bytes: rootBytes, Blocks: blocks[i]})
		in.MetaBytes += uint64(len(blocks[i])) * 64
	}
	return in
}
