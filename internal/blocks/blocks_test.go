package blocks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkTree verifies the structure of an AddrTree: order, heap, parents, maxima; it returns its blocks in order.
func checkTree(t *rapid.T, tab *Table, at, parent uint32, bySize bool) []uint32 {
	if at == None {
		return nil
	}
	b := tab.B[at]
	if b.P != parent {
		t.Fatalf("block %d: parent %d, want %d", at, b.P, parent)
	}
	if parent != None && tab.B[parent].pri < b.pri {
		t.Fatalf("block %d: priority above its parent's", at)
	}
	l := checkTree(t, tab, b.L, at, bySize)
	r := checkTree(t, tab, b.R, at, bySize)
	if !bySize && b.Max != max(b.Size, tab.B[b.L].Max, tab.B[b.R].Max) {
		t.Fatalf("block %d: Max %d is stale", at, b.Max)
	}
	all := append(append(l, at), r...)
	for i := 1; i < len(all); i++ {
		x, y := tab.B[all[i-1]], tab.B[all[i]]
		ordered := x.Addr < y.Addr
		if bySize {
			ordered = before(x.Size, x.Addr, &y)
		}
		if !ordered {
			t.Fatalf("blocks %+v and %+v are out of order", x, y)
		}
	}
	return all
}

// arena is a range of 64 units whose free blocks are kept in both kinds of index, checked against scans of the units.
const units = 64

type model struct {
	owner [units]int // 0 = free
	next  int
}

// holes returns the free runs as (first, length).
func (m *model) holes() (runs [][2]uint64) {
	for i := 0; i < units; {
		j := i
		for j < units && m.owner[j] == 0 {
			j++
		}
		if j > i {
			runs = append(runs, [2]uint64{uint64(i), uint64(j - i)})
		}
		i = max(j, i+1)
	}
	return runs
}

// pick returns the run that better prefers among those of at least n units.
func pick(runs [][2]uint64, n uint64, better func(a, b [2]uint64) bool) ([2]uint64, bool) {
	var best [2]uint64
	for _, r := range runs {
		if r[1] >= n && (best[1] == 0 || better(r, best)) {
			best = r
		}
	}
	return best, best[1] != 0
}

func lower(a, b [2]uint64) bool   { return a[0] < b[0] }
func smaller(a, b [2]uint64) bool { return a[1] < b[1] || a[1] == b[1] && a[0] < b[0] }
func larger(a, b [2]uint64) bool  { return a[1] > b[1] || a[1] == b[1] && a[0] < b[0] }

func TestIndexesAgainstScan(t *testing.T) {
	const unit = 100 // some bins hold several sizes, others one
	rapid.Check(t, func(t *rapid.T) {
		tab := NewTable(4)
		var tree AddrTree
		var m model
		first := tab.New(0, units*unit)
		tab.B[first].Free = true
		tree.Insert(tab, first)
		live := map[int]uint32{}
		query := func(n, from uint64) {
			runs := m.holes()
			check := func(what string, got uint32, want [2]uint64, ok bool) {
				if (got != None) != ok || ok && (tab.B[got].Addr != want[0]*unit || tab.B[got].Size != want[1]*unit) {
					t.Fatalf("%s of %d units (from %d): block %d %+v, want %v %v", what, n, from, got, tab.B[got], want, ok)
				}
			}
			want, ok := pick(runs, n, lower)
			check("first fit", tree.FirstFit(tab, n*unit), want, ok)
			want, ok = pick(runs, n, larger)
			check("worst fit", tree.WorstFit(tab, n*unit), want, ok)
			above := slices.DeleteFunc(slices.Clone(runs), func(r [2]uint64) bool { return r[0] < from })
			want, ok = pick(above, n, lower)
			check("first fit from", tree.FirstFitFrom(tab, from*unit, n*unit), want, ok)
			// The size index holds the same blocks, in another table so that the links do not meet.
			sized, bySize := NewTable(4), SizeIndex{}
			for _, r := range runs {
				bySize.Insert(sized, sized.New(r[0]*unit, r[1]*unit))
			}
			want, ok = pick(runs, n, smaller)
			got := bySize.BestFit(sized, n*unit)
			if (got != None) != ok || ok && sized.B[got].Addr != want[0]*unit {
				t.Fatalf("best fit of %d units: %+v, want %v %v", n, sized.B[got], want, ok)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 12).Draw(t, "n")
				i := tree.FirstFit(tab, n*unit)
				if i == None {
					return
				}
				if tab.B[i].Size == n*unit {
					tree.Remove(tab, i)
					tab.B[i].Free = false
				} else {
					low := tab.SplitLow(i, n*unit)
					tree.Update(tab, i)
					i = low
				}
				m.next++
				live[m.next] = i
				for u := tab.B[i].Addr / unit; u < tab.B[i].Addr/unit+n; u++ {
					if m.owner[u] != 0 {
						t.Fatalf("unit %d given twice", u)
					}
					m.owner[u] = m.next
				}
			},
			"give": func(t *rapid.T) {
				if len(live) == 0 {
					return
				}
				ids := make([]int, 0, len(live))
				for id := range live {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "id")
				FreeIntoTree(tab, &tree, live[id])
				delete(live, id)
				for u := range m.owner {
					if m.owner[u] == id {
						m.owner[u] = 0
					}
				}
			},
			"": func(t *rapid.T) {
				if got, want := len(checkTree(t, tab, tree.root, None, false)), len(m.holes()); got != want {
					t.Fatalf("%d free blocks, want %d: neighbours were not joined", got, want)
				}
				query(rapid.Uint64Range(1, 20).Draw(t, "want"), rapid.Uint64Range(0, units).Draw(t, "from"))
			},
		})
	})
}

// TestSizeIndexChurn inserts and removes at random, with many equal sizes, and compares with a sorted list.
func TestSizeIndexChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, s := NewTable(4), SizeIndex{}
		var in []uint32
		addr := uint64(0)
		sizes := rapid.OneOf(rapid.Uint64Range(1, 9000), rapid.Uint64Range(256, 260), rapid.Uint64Range(1<<62, 1<<63+5))
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				addr++
				i := tab.New(addr, sizes.Draw(t, "size"))
				s.Insert(tab, i)
				in = append(in, i)
			},
			"remove": func(t *rapid.T) {
				if len(in) == 0 {
					return
				}
				k := rapid.IntRange(0, len(in)-1).Draw(t, "k")
				s.Remove(tab, in[k])
				tab.Release(in[k])
				in = slices.Delete(in, k, k+1)
			},
			"": func(t *rapid.T) {
				want := sizes.Draw(t, "want")
				best, largest := None, uint64(0)
				for _, i := range in {
					b := &tab.B[i]
					largest = max(largest, b.Size)
					if b.Size >= want && (best == None || before(b.Size, b.Addr, &tab.B[best])) {
						best = i
					}
				}
				if got := s.BestFit(tab, want); got != best {
					t.Fatalf("BestFit(%d) = %+v, want %+v", want, tab.B[got], tab.B[best])
				}
				if s.Len() != len(in) || s.Largest(tab) != largest {
					t.Fatalf("Len %d, Largest %d; want %d, %d", s.Len(), s.Largest(tab), len(in), largest)
				}
				for bin, root := range s.roots {
					if (root != None) != (s.words[bin/64]>>(bin%64)&1 == 1) {
						t.Fatalf("bit of bin %d is wrong", bin)
					}
					checkTree(t, tab, root, None, true)
				}
			},
		})
	})
}

func TestReferences(t *testing.T) {
	tab := NewTable(1)
	i := tab.New(0, 10)
	ref := tab.Ref(i)
	if got := tab.Deref(ref); got != i {
		t.Fatalf("Deref = %d, want %d", got, i)
	}
	tab.Release(i)
	if got := tab.Deref(ref); got != None {
		t.Fatalf("Deref of a released block = %d, want none", got)
	}
	if j := tab.New(5, 10); j != i || tab.Deref(ref) != None {
		t.Fatalf("entry %d was not recycled under a new generation", i)
	}
	for _, bad := range []uint64{0, 1 << 40, uint64(1)<<32 | 99} {
		if tab.Deref(bad) != None {
			t.Errorf("Deref(%#x) names a block", bad)
		}
	}
}

// TestSpaceTakeAt mixes first fit with ranges at given addresses, against a scan of the units.
func TestSpaceTakeAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const base = 1000
		s := NewSpace(base, base+units)
		var m model
		live := map[uint64]uint64{}
		mark := func(addr, n uint64, owner int) {
			for u := addr - base; u < addr-base+n; u++ {
				m.owner[u] = owner
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 10).Draw(t, "n")
				want, fits := pick(m.holes(), n, lower)
				addr, ok := s.Take(n)
				if ok != fits || ok && addr != base+want[0] {
					t.Fatalf("Take(%d) = %d, %v; want %d, %v", n, addr, ok, base+want[0], fits)
				}
				if ok {
					live[addr] = n
					mark(addr, n, 1)
				}
			},
			"take at": func(t *rapid.T) {
				addr, n := rapid.Uint64Range(base-5, base+units+5).Draw(t, "addr"), rapid.Uint64Range(1, 10).Draw(t, "n")
				free := addr >= base && addr+n <= base+units
				for u := addr; free && u < addr+n; u++ {
					free = m.owner[u-base] == 0
				}
				if got := s.TakeAt(addr, n); got != free {
					t.Fatalf("TakeAt(%d, %d) = %v, want %v", addr, n, got, free)
				}
				if free {
					live[addr] = n
					mark(addr, n, 1)
				}
			},
			"give": func(t *rapid.T) {
				addr := rapid.Uint64Range(base, base+units).Draw(t, "addr")
				size, _, ok := s.Give(addr)
				if want, is := live[addr]; ok != is || size != want {
					t.Fatalf("Give(%d) = %d, %v; want %d, %v", addr, size, ok, want, is)
				}
				if ok {
					mark(addr, size, 0)
					delete(live, addr)
				}
			},
			"": func(t *rapid.T) {
				want, _ := pick(m.holes(), 1, larger)
				if got := s.Largest(); got != want[1] {
					t.Fatalf("Largest = %d, want %d", got, want[1])
				}
			},
		})
	})
}

// TestResized changes sizes and addresses of blocks in the index and compares it with a sorted list. Sizes are drawn so that
// many a block stays in its bin, alone or beside others.
func TestResized(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, index := NewTable(4), SizeIndex{}
		var all []uint32
		size := rapid.OneOf(rapid.Uint64Range(1, 300), rapid.Uint64Range(4096, 4096+300), rapid.Uint64Range(1, 1<<30))
		for i := range rapid.IntRange(1, 40).Draw(t, "blocks") {
			b := tab.New(uint64(i)<<32, size.Draw(t, "size"))
			index.Insert(tab, b)
			all = append(all, b)
		}
		for range 40 {
			b := &tab.B[rapid.SampledFrom(all).Draw(t, "block")]
			old := b.Size
			b.Size = rapid.OneOf(size, rapid.Uint64Range(max(1, old-min(old, 9)), old+9)).Draw(t, "new size")
			b.Addr += rapid.Uint64Range(0, 3).Draw(t, "shift")
			index.Resized(tab, uint32(b.Addr>>32)+1, old)
			total := uint64(0)
			slices.SortFunc(all, func(x, y uint32) int {
				if before(tab.B[x].Size, tab.B[x].Addr, &tab.B[y]) {
					return -1
				}
				return 1
			})
			at := index.BestFit(tab, 0)
			for _, want := range all {
				if at != want {
					t.Fatalf("block %d %+v, want %d %+v", at, tab.B[at], want, tab.B[want])
				}
				total += tab.B[at].Size
				at = index.After(tab, at)
			}
			if at != None || index.Bytes() != total || index.Len() != len(all) {
				t.Fatalf("%d blocks of %d bytes, want %d of %d; then block %d", index.Len(), index.Bytes(), len(all), total, at)
			}
		}
	})
}
