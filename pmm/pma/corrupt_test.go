package pma

import (
	"strings"
	"testing"
)

// TestCheckNotices: every kind of damage is found and named.
func TestCheckNotices(t *testing.T) {
	for want, damage := range map[string]func(f *Frames){
		"two states":             func(f *Frames) { f.unpinned[0] = 1 },
		"counts":                 func(f *Frames) { f.n.Free-- },
		"set of free roots":      func(f *Frames) { f.full.remove(1) },
		"set of roots with free": func(f *Frames) { f.any.remove(1) },
	} {
		f, err := New(Config{Roots: 3})
		if err != nil {
			t.Fatal(err)
		}
		damage(f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestBitTree: members are found over all levels, also the first and the last.
func TestBitTree(t *testing.T) {
	for _, n := range []int{1, 64, 65, 4096, 4097, RootsMax} {
		s := newBitTree(n)
		for _, i := range []int{0, n / 2, n - 1} {
			s.add(i)
		}
		if got := s.next(0); got != 0 {
			t.Errorf("%d: first %d", n, got)
		}
		if got := s.next(n/2 + 1); n > 2 && got != n-1 {
			t.Errorf("%d: last %d", n, got)
		}
		s.remove(n - 1)
		if got := s.next(n/2 + 1); got != -1 {
			t.Errorf("%d: after the last %d", n, got)
		}
	}
}
