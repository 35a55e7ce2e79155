package importers_test

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

// model is an allocator that obeys PyTorch's rules of layout (where blocks begin, when they are split and merged, what may
// be given back) and chooses everything else at random. It writes the entries that PyTorch would have written, so a window
// of them can be compared with what really was the case when the window began.
type model struct {
	segs    []*modelSegment
	next    int64
	entries []any
	us      int64
	rnd     *rand.Rand
	classes []int64 // largest sizes of the classes of requests
}

type modelSegment struct {
	addr, bytes int64
	small       bool
	blocks      []*modelBlock
}

type modelBlock struct {
	addr, bytes, requested int64
	state                  string // "", "active_allocated", "active_pending_free"
}

func (m *model) log(action string, addr, size int64) {
	m.us += 7
	m.entries = append(m.entries, d("action", action, "addr", addr, "size", size, "stream", 0, "time_us", m.us))
}

func (m *model) alloc(requested int64) {
	rounded := (requested + 511) &^ 511
	small := rounded <= 1<<20
	var fits []*modelBlock
	var homes []*modelSegment
	for _, s := range m.segs {
		for _, b := range s.blocks {
			if s.small == small && b.state == "" && b.bytes >= rounded {
				fits, homes = append(fits, b), append(homes, s)
			}
		}
	}
	i := len(fits)
	if len(fits) > 0 && m.rnd.Intn(16) > 0 {
		i = m.rnd.Intn(len(fits))
	}
	if i == len(fits) {
		fits, homes = append(fits, nil), append(homes, m.grow(rounded, small))
		fits[i] = homes[i].blocks[0]
	}
	b, s := fits[i], homes[i]
	if rest := b.bytes - rounded; small && rest >= 512 || !small && rest > 1<<20 {
		at := 0
		for s.blocks[at] != b {
			at++
		}
		s.blocks = append(s.blocks, nil)
		copy(s.blocks[at+2:], s.blocks[at+1:])
		s.blocks[at+1] = &modelBlock{addr: b.addr + rounded, bytes: rest}
		b.bytes = rounded
	}
	b.state, b.requested = "active_allocated", requested
	m.log("alloc", b.addr, requested)
}

func (m *model) grow(rounded int64, small bool) *modelSegment {
	bytes := int64(20 << 20)
	switch {
	case small:
		bytes = 2 << 20
	case rounded >= 10<<20:
		bytes = (rounded + 2<<20 - 1) &^ (2<<20 - 1)
	}
	s := &modelSegment{addr: m.next, bytes: bytes, small: small, blocks: []*modelBlock{{addr: m.next, bytes: bytes}}}
	m.next += bytes
	m.segs = append(m.segs, s)
	m.log("segment_alloc", s.addr, s.bytes)
	return s
}

// pick draws one block in a state, nil when there is none.
func (m *model) pick(state string) *modelBlock {
	var list []*modelBlock
	for _, s := range m.segs {
		for _, b := range s.blocks {
			if b.state == state {
				list = append(list, b)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[m.rnd.Intn(len(list))]
}

func (m *model) complete(b *modelBlock) {
	m.log("free_completed", b.addr, b.requested)
	b.state = ""
	for _, s := range m.segs {
		var kept []*modelBlock
		for _, x := range s.blocks {
			if n := len(kept); n > 0 && x.state == "" && kept[n-1].state == "" {
				kept[n-1].bytes += x.bytes
				continue
			}
			kept = append(kept, x)
		}
		s.blocks = kept
	}
}

func (m *model) release() {
	var kept []*modelSegment
	for _, s := range m.segs {
		if len(s.blocks) == 1 && s.blocks[0].state == "" {
			m.log("segment_free", s.addr, s.bytes)
			continue
		}
		kept = append(kept, s)
	}
	m.segs = kept
}

func (m *model) step() {
	switch m.rnd.Intn(12) {
	case 0, 1, 2, 3, 4:
		top := m.classes[m.rnd.Intn(len(m.classes))]
		m.alloc(1 + m.rnd.Int63n(top))
	case 5, 6, 7:
		if b := m.pick("active_allocated"); b != nil {
			m.log("free_requested", b.addr, b.requested)
			b.state = "active_pending_free"
			if m.rnd.Intn(5) > 0 {
				m.complete(b)
			}
		}
	case 8:
		if b := m.pick("active_pending_free"); b != nil {
			m.complete(b)
		}
	case 9:
		m.release()
	case 10, 11: // nearly a whole free block: what is left over stays with it as slack
		if b := m.pick(""); b != nil && b.bytes > 2<<20 {
			m.alloc(b.bytes - m.rnd.Int63n(1<<20+1))
		}
	}
}

// held lists what is held: segments, and in them the blocks that are not free.
func (m *model) held() []string {
	var list []string
	for _, s := range m.segs {
		list = append(list, fmt.Sprintf("segment %x %d", s.addr, s.bytes))
		for _, b := range s.blocks {
			if b.state != "" {
				list = append(list, fmt.Sprintf("block %x %d", b.addr, b.requested))
			}
		}
	}
	sort.Strings(list)
	return list
}

func (m *model) final() *pickletest.List {
	out := pickletest.L()
	for _, s := range m.segs {
		list := pickletest.L()
		for _, b := range s.blocks {
			state := b.state
			if state == "" {
				state = "inactive"
			}
			list.Items = append(list.Items, d("address", b.addr, "size", b.bytes, "requested_size", b.requested, "state", state))
		}
		kind := map[bool]string{true: "small", false: "large"}[s.small]
		out.Items = append(out.Items, d("device", 0, "address", s.addr, "total_size", s.bytes, "stream", 0, "segment_type", kind, "blocks", list))
	}
	return out
}

// TestRewinding cuts random windows out of random histories. The rebuilt start must be what was the case, and proven.
func TestRewinding(t *testing.T) {
	slack, pending := 0, 0
	mixes := [][]int64{{4 << 20}, {9 << 20}, {2000, 1 << 20, 4 << 20, 30 << 20}}
	for seed := range int64(600) {
		m := &model{next: 1 << 46, us: 1 << 50, rnd: rand.New(rand.NewSource(seed)), classes: mixes[seed%3]}
		for range m.rnd.Intn(150) {
			m.step()
		}
		cut, start := len(m.entries), m.held()
		for range 1 + m.rnd.Intn(150) {
			m.step()
		}
		window := &pickletest.List{Items: m.entries[cut:]}
		if len(window.Items) < 2 {
			continue // too little to be a history
		}
		in := pickled(t, d("device_traces", l(window), "segments", m.final()))
		res, err := importers.Import(strings.NewReader(in), importers.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		tr, f := res.Devices[0].Trace, res.Devices[0].Facts
		if !f.Proven && len(m.segs)+len(start) > 0 {
			t.Fatalf("seed %d: not proven: %s %v", seed, f.Unproven, f.Inconsistent)
		}
		if err := trace.Validate(tr); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := heldByStart(tr.Start); strings.Join(got, "\n") != strings.Join(start, "\n") {
			t.Fatalf("seed %d: the start is\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(start, "\n"))
		}
		for _, w := range tr.Meta.Warnings {
			if strings.Contains(w, "larger than their requests") {
				slack++
			}
			if strings.Contains(w, "another stream used them") {
				pending++
			}
		}
	}
	// The walk must reach the hard cases, else the test shows nothing.
	if slack < 10 || pending < 100 {
		t.Errorf("hidden slack in %d windows, late frees in %d: too few to mean something", slack, pending)
	}
}

func heldByStart(st *trace.State) []string {
	var list []string
	if st == nil {
		return nil
	}
	for _, s := range st.Segments {
		list = append(list, fmt.Sprintf("segment %x %d", s.Addr, s.Bytes))
		for _, b := range s.Blocks {
			if b.Handle != 0 {
				list = append(list, fmt.Sprintf("block %x %d", b.Addr, b.RequestedBytes))
			}
		}
	}
	sort.Strings(list)
	return list
}
