package pmm_test

import (
	"testing"

	"github.com/gpubench/gpubench/pmm"
	"pgregory.net/rapid"
)

// TestFailedCallsLeaveNoTrace: an allocation or a split that fails, for want of memory or of metadata, returns nothing, and
// what is allocated or pinned is what was before. (What is free may differ: a batch may have been fetched, a root handed
// back, a free chunk cut up.)
func TestFailedCallsLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := pmm.DefaultConfig(rapid.Uint64Range(1, 4).Draw(t, "roots") * pmm.RootBytes)
		cfg.BatchOrder = rapid.IntRange(0, 3).Draw(t, "batch")
		m, err := pmm.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m.Audit()
		sizes := map[pmm.Type][]uint64{pmm.User: {4 << 10, 64 << 10, pmm.RootBytes}, pmm.Kernel: {256, 4 << 10, 64 << 10, pmm.RootBytes}}
		var live []pmm.Chunk
		var before, after pmm.Census
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			if rapid.IntRange(0, 2).Draw(t, "inject") == 0 {
				m.InjectMetadata(rapid.IntRange(0, 50).Draw(t, "after"))
			}
			m.Census(&before)
			var s pmm.Status
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what == 0 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "chunk")
				m.FreeChunk(live[i])
				live = append(live[:i], live[i+1:]...)
			case what == 1 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "chunk")
				in, _ := m.Info(live[i])
				if in.Size <= 4<<10 {
					continue
				}
				out := make([]pmm.Chunk, in.Size/(4<<10))
				if _, s = m.Split(live[i], 4<<10, out); s == pmm.OK {
					live = append(append(live[:i], live[i+1:]...), out...)
				} else if now, ok := m.Info(live[i]); !ok || now.State != in.State || now.Size != in.Size || now.Addr != in.Addr {
					t.Fatalf("a failed split turned %+v into %+v", in, now)
				}
			default:
				typ := rapid.SampledFrom([]pmm.Type{pmm.User, pmm.Kernel}).Draw(t, "type")
				out := make([]pmm.Chunk, rapid.IntRange(1, 20).Draw(t, "n"))
				if s = m.Alloc(typ, rapid.SampledFrom(sizes[typ]).Draw(t, "size"), pmm.None, out, nil); s == pmm.OK {
					live = append(live, out...)
					break
				}
				for _, c := range out {
					if c != pmm.NoChunk {
						t.Fatalf("a failed allocation returned chunk %d", c)
					}
				}
			}
			m.Census(&after)
			if s != pmm.OK {
				for _, st := range []pmm.State{pmm.TempPinned, pmm.Allocated} {
					if before.Bytes[st] != after.Bytes[st] || before.Chunks[st] != after.Chunks[st] {
						t.Fatalf("%v, and %s went from %d chunks of %d bytes to %d of %d", s, st, before.Chunks[st], before.Bytes[st],
							after.Chunks[st], after.Bytes[st])
					}
				}
			}
			if v := m.Check(); len(v) > 0 {
				t.Fatal(v[0])
			}
		}
	})
}
