package blocks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLists compares with a slice of slices.
func TestLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := NewTable(4)
		var s Lists
		var want [ListsMax][]uint32 // top last
		list := rapid.OneOf(rapid.Uint32Range(0, ListsMax-1), rapid.SampledFrom([]uint32{0, 31, 32, 33, 2047}))
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				l := list.Draw(t, "list")
				i := tab.New(0, 7)
				s.Push(tab, l, i)
				want[l] = append(want[l], i)
			},
			"remove": func(t *rapid.T) {
				l := s.AtOrAbove(list.Draw(t, "list"))
				if l == NoList {
					return
				}
				k := rapid.IntRange(0, len(want[l])-1).Draw(t, "which")
				s.Remove(tab, l, want[l][k])
				tab.Release(want[l][k])
				want[l] = slices.Delete(want[l], k, k+1)
			},
			"move": func(t *rapid.T) {
				l := s.AtOrAbove(list.Draw(t, "list"))
				if l == NoList {
					return
				}
				k := rapid.IntRange(0, len(want[l])-1).Draw(t, "which")
				to := rapid.SampledFrom([]uint32{l, list.Draw(t, "to")}).Draw(t, "same or other")
				i := want[l][k]
				s.bytes += 5 // as if the block had had 12 bytes until now
				s.Move(tab, l, to, i, 12)
				want[l] = slices.Delete(want[l], k, k+1)
				want[to] = append(want[to], i)
			},
			"": func(t *rapid.T) {
				from, n := list.Draw(t, "from"), 0
				first := uint32(NoList)
				for l := range want {
					n += len(want[l])
					if first == NoList && l >= int(from) && len(want[l]) > 0 {
						first = uint32(l)
					}
					i := s.Head(uint32(l))
					for k := len(want[l]) - 1; k >= 0; k-- {
						if i != want[l][k] {
							t.Fatalf("list %d: block %d, want %d", l, i, want[l][k])
						}
						i = tab.B[i].L
					}
					if i != None {
						t.Fatalf("list %d goes on with %d", l, i)
					}
				}
				if got := s.AtOrAbove(from); got != first {
					t.Fatalf("AtOrAbove(%d) = %d, want %d", from, got, first)
				}
				if s.Len() != n || s.Bytes() != uint64(7*n) {
					t.Fatalf("Len %d, Bytes %d, want %d blocks of 7", s.Len(), s.Bytes(), n)
				}
			},
		})
		if s.AtOrAbove(NoList) != NoList {
			t.Fatal("there is a list above the last")
		}
	})
}
