package addrmap

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstMap drives the table and a Go map with the same calls. Few distinct keys, some of them with equal high bits,
// make collisions and shifting removals common.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map
		want := map[uint64]uint32{}
		key := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Map(rapid.Uint64Range(0, 40), func(k uint64) uint64 { return k << 21 }))
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.Uint32Range(1, 1000).Draw(t, "val")
				m.Put(k, v)
				want[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if got := m.Delete(k); got != want[k] {
					t.Fatalf("Delete(%d) = %d, want %d", k, got, want[k])
				}
				delete(want, k)
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 20).Draw(t, "really") == 0 {
					m.Reset()
					clear(want)
				}
			},
			"": func(t *rapid.T) {
				if m.Len() != len(want) {
					t.Fatalf("Len = %d, want %d", m.Len(), len(want))
				}
				for k := uint64(0); k <= 40; k++ {
					for _, k := range []uint64{k, k << 21} {
						if got := m.Get(k); got != want[k] {
							t.Fatalf("Get(%d) = %d, want %d", k, got, want[k])
						}
					}
				}
			},
		})
	})
}

func TestChurnAllocatesNothing(t *testing.T) {
	var m Map
	for k := uint64(0); k < 1000; k++ {
		m.Put(k<<21, 1)
	}
	next := uint64(1000)
	if n := testing.AllocsPerRun(100, func() {
		for i := 0; i < 1000; i++ {
			m.Delete((next - 1000) << 21)
			m.Put(next<<21, 1)
			next++
		}
	}); n != 0 {
		t.Fatalf("%v allocations per 1000 replacements, want 0", n)
	}
}

func BenchmarkReplace(b *testing.B) {
	var m Map
	for k := uint64(0); k < 4096; k++ {
		m.Put(k<<21, 1)
	}
	b.ReportAllocs()
	for i := uint64(4096); b.Loop(); i++ {
		m.Delete((i - 4096) << 21)
		m.Put(i<<21, 1)
	}
}
