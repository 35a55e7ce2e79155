package limit

import (
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/trace"
	"pgregory.net/rapid"
)

const page = ideal.PageBytes

// TestLikeASmallerDevice: a large ideal device under a limit decides every call like an ideal device of that size.
func TestLikeASmallerDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 16
		large, err := ideal.New(ideal.Config{TotalBytes: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(large, pages*page)
		if err != nil {
			t.Fatal(err)
		}
		small, err := ideal.New(ideal.Config{TotalBytes: pages * page})
		if err != nil {
			t.Fatal(err)
		}
		equal := func(what string, a, b any) {
			if a != b {
				t.Fatalf("%s: limited device %v, small device %v", what, a, b)
			}
		}
		size := rapid.Uint64Range(1, 6*page)
		whole := rapid.Map(rapid.Uint64Range(1, 6), func(n uint64) uint64 { return n * page })
		addr := rapid.Map(rapid.Uint64Range(0, 24), func(n uint64) uint64 { return n * page })
		at := rapid.Map(rapid.Uint64Range(0, 24), func(n uint64) uint64 { return ideal.VirtualBase + n*page })
		id := rapid.Map(rapid.Uint64Range(1, 6), func(n uint64) uint64 { return n })
		if _, st := d.Reserve(24 * page); st != trace.CallOK {
			t.Fatal(st)
		}
		small.Reserve(24 * page)
		t.Repeat(map[string]func(*rapid.T){
			"malloc": func(t *rapid.T) {
				n := size.Draw(t, "size")
				a, st := d.Malloc(n)
				b, st2 := small.Malloc(n)
				equal("malloc", [2]uint64{a, uint64(st)}, [2]uint64{b, uint64(st2)})
			},
			"free": func(t *rapid.T) {
				a := addr.Draw(t, "addr")
				equal("free", d.Free(a), small.Free(a))
			},
			"create": func(t *rapid.T) {
				n := whole.Draw(t, "size")
				a, st := d.Create(n)
				b, st2 := small.Create(n)
				equal("create", [2]uint64{uint64(a), uint64(st)}, [2]uint64{uint64(b), uint64(st2)})
			},
			"release": func(t *rapid.T) {
				i := id.Draw(t, "id")
				equal("release", d.Release(backends.PhysID(i)), small.Release(backends.PhysID(i)))
			},
			"map": func(t *rapid.T) {
				a, n, i := at.Draw(t, "at"), whole.Draw(t, "size"), id.Draw(t, "id")
				equal("map", d.Map(a, n, backends.PhysID(i)), small.Map(a, n, backends.PhysID(i)))
			},
			"unmap": func(t *rapid.T) {
				a, n := at.Draw(t, "at"), whole.Draw(t, "size")
				equal("unmap", d.Unmap(a, n), small.Unmap(a, n))
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 30).Draw(t, "really") != 0 {
					return
				}
				d.Reset()
				small.Reset()
				d.Reserve(24 * page)
				small.Reserve(24 * page)
			},
			"": func(t *rapid.T) {
				a, total := d.MemInfo()
				b, total2 := small.MemInfo()
				equal("free bytes", [2]uint64{a, total}, [2]uint64{b, total2})
			},
		})
	})
}

func TestNoLimit(t *testing.T) {
	dev, err := ideal.New(ideal.Config{TotalBytes: page})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(dev, 0); err == nil {
		t.Error("a limit of 0 bytes was accepted")
	}
}
