package managed_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/pmm/managed"
)

// TestRandom touches, prefetches, discards and frees ranges of odd sizes on a device that is too small, next to a client of
// the resource manager, under every policy: after every step each page is in one place and the manager is healthy, and with
// nothing else in the way a touch succeeds.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := pmm.DefaultConfig(uint64(rapid.IntRange(1, 5).Draw(t, "roots")) * pmm.RootBytes)
		cfg.BatchOrder = rapid.IntRange(0, 3).Draw(t, "batch")
		if rapid.Bool().Draw(t, "64K host pages") {
			cfg.UserSizes = pmm.UserSizes64K
		}
		cfg.Costs = pmm.DefaultCosts()
		m, err := pmm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m.Audit()
		o := managed.DefaultOptions()
		o.Policy = managed.Policy(rapid.IntRange(0, 3).Draw(t, "policy"))
		o.Prefetch.Enable = rapid.Bool().Draw(t, "prefetch")
		s, err := managed.New(m, o)
		if err != nil {
			t.Fatal(err)
		}
		var ranges []*managed.Range
		var pages []uint64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(ranges) == 0 || rapid.IntRange(0, 7).Draw(t, "step") == 0 {
				r, err := s.Alloc(uint64(rapid.IntRange(1, 5<<20).Draw(t, "bytes")))
				if err != nil {
					t.Fatal(err)
				}
				ranges = append(ranges, r)
			}
			i := rapid.IntRange(0, len(ranges)-1).Draw(t, "range")
			r := ranges[i]
			offset := rapid.Uint64Range(0, r.Bytes()-1).Draw(t, "offset")
			length := rapid.Uint64Range(1, r.Bytes()-offset).Draw(t, "length")
			by := managed.Processor(rapid.IntRange(0, 1).Draw(t, "by"))
			var err error
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				err = r.Prefetch(offset, length, by)
			case 7:
				err = r.AdviseAccessedBy(by == managed.Device)
			case 1:
				err = r.Discard(offset, length)
			case 2:
				err = r.Free()
				ranges = append(ranges[:i], ranges[i+1:]...)
			case 3:
				m.RMFree(pages, 64<<10)
				pages, _ = m.RMAlloc(nil, rapid.IntRange(0, 20).Draw(t, "pages"), 64<<10, true)
			default:
				err = r.Touch(offset, length, by)
			}
			if err != nil && (len(pages) == 0 || !errors.Is(err, pmm.NoMemory)) {
				t.Fatal(err)
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
