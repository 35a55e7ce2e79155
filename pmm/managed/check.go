package managed

import (
	"fmt"

	"github.com/gpubench/gpubench/pmm"
)

// Check verifies the invariants of the space and of the manager below, and returns the first that is broken:
//
//   - a page is in one place at most, and inside its block;
//   - a page on the device is backed by an ALLOCATED chunk of its block that has the size of its slot;
//   - a page mapped remotely lives on the host;
//   - every ALLOCATED user chunk of the manager belongs to a block that knows it.
func (s *Space) Check() error {
	owned := map[pmm.Chunk]pmm.Block{}
	for id := range s.blocks {
		if err := s.checkBlock(pmm.Block(id), owned); err != nil {
			return err
		}
	}
	for r := range s.m.Config().Roots {
		var stray error
		s.m.EachLeaf(s.m.RootChunk(r), func(c pmm.Chunk, in pmm.Info) bool {
			if b, ok := owned[c]; in.State == pmm.Allocated && in.Type == pmm.User && (!ok || b != in.Block) {
				stray = fmt.Errorf("managed: chunk 0x%x belongs to block %d, which does not know it", in.Addr, in.Block)
			}
			return stray == nil
		})
		if stray != nil {
			return stray
		}
	}
	if v := s.m.Check(); len(v) > 0 {
		return v[0]
	}
	return nil
}

func (s *Space) checkBlock(id pmm.Block, owned map[pmm.Chunk]pmm.Block) error {
	b := &s.blocks[id]
	both := b.device.and(b.host)
	if !both.empty() {
		return fmt.Errorf("managed: block %d: page %d is in two places", id, both.next(0))
	}
	if n := b.device.countRange(b.pages, BlockPages) + b.host.countRange(b.pages, BlockPages); n > 0 {
		return fmt.Errorf("managed: block %d of %d pages has %d beyond its end", id, b.pages, n)
	}
	if stray := b.remote.without(b.host); !stray.empty() {
		return fmt.Errorf("managed: block %d: page %d is mapped remotely but not on the host", id, stray.next(0))
	}
	for k, sl := range b.slots {
		c := b.chunks[k]
		if c == pmm.NoChunk {
			if n := b.device.countRange(sl.first, sl.first+sl.pages); n > 0 {
				return fmt.Errorf("managed: block %d: %d pages of slot %d are on the device without a chunk", id, n, k)
			}
			continue
		}
		in, ok := s.m.Info(c)
		if !ok || in.State != pmm.Allocated || in.Block != id || in.Size != s.chunkBytes(sl) {
			return fmt.Errorf("managed: block %d: slot %d has chunk %+v", id, k, in)
		}
		owned[c] = id
	}
	return nil
}
