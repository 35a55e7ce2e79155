package pmm_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/pmm"
)

// smallModel is a device of three roots with an eviction in every second step.
func smallModel(t rapid.TB) *pmm.Model {
	cfg := pmm.DefaultConfig(3 * pmm.RootBytes)
	cfg.BatchOrder = 1
	cfg.UserSizes, cfg.KernelSizes = 64<<10|512<<10, 1<<20
	m, err := pmm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomOp runs one operation, chosen by draw, on a model. owner translates the names of the three owners.
func randomOp(m *pmm.Model, draw func(n int) int, owner [3]pmm.Block) {
	var leaves []pmm.Chunk
	for r := range 3 {
		m.EachLeaf(m.RootChunk(r), func(c pmm.Chunk, in pmm.Info) bool {
			if (in.State == pmm.Allocated || in.State == pmm.TempPinned) && !in.Lazy {
				leaves = append(leaves, c)
			}
			return true
		})
	}
	var c pmm.Chunk
	if len(leaves) > 0 {
		c = leaves[draw(len(leaves))]
	}
	var out [1]pmm.Chunk
	switch draw(10) {
	case 0, 1:
		m.Alloc(pmm.User, []uint64{64 << 10, 512 << 10, 2 << 20}[draw(3)], pmm.Flags(draw(4)), out[:], nil)
	case 2:
		m.Alloc(pmm.Kernel, []uint64{1 << 20, 2 << 20}[draw(2)], pmm.Flags(draw(2)), out[:], nil)
	case 3, 4:
		m.Unpin(c, owner[draw(3)], 0)
	case 5:
		m.Free(c, m.Issue(draw(2)))
	case 6:
		m.Split(c, []uint64{64 << 10, 512 << 10, 1 << 20}[draw(3)], nil)
	case 7:
		m.MarkRoot(c, pmm.Mark(draw(3)))
	case 8:
		m.TestEvict(draw(4) - 1)
	case 9:
		if draw(3) == 0 {
			m.LazyFree(c)
		} else {
			m.Flush()
		}
	}
}

// TestStateRoundTrip: a model loaded from an encoding has the same encoding, holds every invariant, and goes on to do the
// same as the original.
func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		steps := rapid.SliceOfN(rapid.IntRange(0, 1<<30), 1, 200).Draw(t, "steps")
		draws := func() func(int) int {
			i := 0
			return func(n int) int { i++; return steps[i%len(steps)] / (i + 1) % n }
		}
		d := draws()
		same := [3]pmm.Block{0, 1, 2}
		for range 60 {
			randomOp(m, d, same)
		}
		var rename []pmm.Block
		enc := m.AppendState(nil, &rename)
		// What was owner rename[i] is owner i now; those that own nothing take the names that are left.
		renamed, left := [3]pmm.Block{-1, -1, -1}, pmm.Block(len(rename))
		for i, old := range rename {
			renamed[old] = pmm.Block(i)
		}
		for i := range renamed {
			if renamed[i] < 0 {
				renamed[i] = left
				left++
			}
		}
		other := smallModel(t)
		rest, err := other.LoadState(enc)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%v, %d bytes left", err, len(rest))
		}
		if v := other.Check(); len(v) > 0 {
			t.Fatal(v[0])
		}
		a, b := draws(), draws()
		for i := range 40 {
			if x, y := m.AppendState(nil, nil), other.AppendState(nil, nil); !bytes.Equal(x, y) {
				t.Fatalf("after %d steps\n%x\n%x", i, x, y)
			}
			randomOp(m, a, same)
			randomOp(other, b, renamed)
		}
	})
}

// FuzzLoadState: bytes that are no state are an error, never a panic.
func FuzzLoadState(f *testing.F) {
	m := smallModel(f)
	f.Add(m.AppendState(nil, nil))
	c, _ := m.AllocUser(64<<10, pmm.None, 1)
	m.AllocKernel(1 << 20)
	f.Add(m.AppendState(nil, nil))
	m.LazyFree(c)
	f.Add(m.AppendState(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := smallModel(t)
		if _, err := m.LoadState(b); err != nil && !errors.Is(err, pmm.ErrState) {
			t.Fatal(err)
		}
		m.Check()
	})
}

// TestStateLongLists: lists of more than 255 chunks and more than 64 owners survive.
func TestStateLongLists(t *testing.T) {
	m := newModel(t, 4)
	cs := make([]pmm.Chunk, 700)
	if s := m.Alloc(pmm.User, 4<<10, pmm.None, cs, nil); s != pmm.OK {
		t.Fatal(s)
	}
	for i, c := range cs {
		if i%16 != 0 {
			m.FreeChunk(c)
		} else {
			m.Unpin(c, pmm.Block(10_000-i), 0)
		}
	}
	for i := range 100 {
		if _, s := m.AllocUser(4<<10, pmm.None, pmm.Block(20_000+i)); s != pmm.OK {
			t.Fatal(s)
		}
	}
	if n := m.FreeListLen(pmm.User, 4<<10, false); n < 256 {
		t.Fatalf("only %d chunks on the list", n)
	}
	other := newModel(t, 4)
	if _, err := other.LoadState(m.AppendState(nil, nil)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.AppendState(nil, nil), other.AppendState(nil, nil)) {
		t.Error("the loaded model has another state")
	}
	if v := other.Check(); len(v) > 0 {
		t.Error(v[0])
	}
}
