package pmm

import (
	"fmt"
	"sync"
)

// Trigger is why a chunk changed its state: one row of the table of legal transitions.
type Trigger uint8

// The triggers, named after what the driver does there.
const (
	// RootFromPMA: the first root of a PMA allocation (init_root_chunk).
	RootFromPMA Trigger = iota
	// RootPrefetched: the other roots of a batch.
	RootPrefetched
	// Claimed: an allocation took it from a free list (claim_free_chunk).
	Claimed
	// PinnedForEviction: a free leaf of a root in eviction (pin_free_chunks_func).
	PinnedForEviction
	// PinnedForHandBack: guards a free root on its way to PMA (free_next_available_root_chunk).
	PinnedForHandBack
	// PinnedForMerge: the family of the last child freed (free_or_prepare_for_merge).
	PinnedForMerge
	// Unpinned: the user's unpin, or the end of a kernel allocation.
	Unpinned
	// Freed: chunk_free_locked.
	Freed
	// FreedInEviction: freed while its root is in eviction; the evictor takes it.
	FreedInEviction
	// BlockEvicted: uvm_pmm_gpu_mark_chunk_evicted.
	BlockEvicted
	// LazyFreed: released by an HMM page (devmem_page_free).
	LazyFreed
	// SplitUp: split_gpu_chunk.
	SplitUp
	// Merged: merge_gpu_chunk.
	Merged
	// ReturnedToPMA: free_root_chunk.
	ReturnedToPMA
	triggers
)

// TriggersCount is the number of triggers.
const TriggersCount = int(triggers)

var triggerNames = [...]string{
	"root from PMA", "root prefetched", "claimed", "pinned for eviction", "pinned for hand-back", "pinned for merge",
	"unpinned", "freed", "freed in eviction", "block evicted", "lazily freed", "split", "merged", "returned to PMA",
}

// String returns the trigger in words.
func (t Trigger) String() string { return triggerNames[t] }

// Transition is one legal change of state.
type Transition struct {
	From, To State
	Why      Trigger
}

// Transitions are all legal changes of state. There is no way from FREE to PMA_OWNED, ALLOCATED or IS_SPLIT, none from
// PMA_OWNED to ALLOCATED, and none from IS_SPLIT to FREE: a merge first makes a pinned parent, which is then freed.
var Transitions = []Transition{
	{PMAOwned, TempPinned, RootFromPMA}, {PMAOwned, Free, RootPrefetched}, {Free, TempPinned, Claimed},
	{Free, TempPinned, PinnedForEviction}, {Free, TempPinned, PinnedForHandBack}, {Free, TempPinned, PinnedForMerge},
	{TempPinned, Allocated, Unpinned}, {TempPinned, Free, Freed}, {Allocated, Free, Freed},
	{TempPinned, TempPinned, FreedInEviction}, {Allocated, TempPinned, FreedInEviction},
	{Allocated, TempPinned, BlockEvicted}, {Allocated, TempPinned, LazyFreed}, {TempPinned, TempPinned, LazyFreed},
	{TempPinned, Split, SplitUp}, {Allocated, Split, SplitUp}, {Split, TempPinned, Merged}, {Split, Allocated, Merged},
	{TempPinned, PMAOwned, ReturnedToPMA},
}

// Coverage counts transitions by trigger, old and new state.
type Coverage [triggers][states][states]uint64

// Add joins the counts of another run.
func (c *Coverage) Add(o *Coverage) {
	for w := range c {
		for f := range c[w] {
			for t := range c[w][f] {
				c[w][f][t] += o[w][f][t]
			}
		}
	}
}

// audit records what happens inside calls, where Check cannot look.
type audit struct {
	mu       sync.Mutex // callers hold different locks, or none
	coverage Coverage
	breaches []Violation
	legal    [triggers][states][states]bool
	seen     [RulesCount + 1]uint64 // how often each rule met something that it is about
}

// breachesMax bounds what an audit keeps; the first is what matters.
const breachesMax = 16

// Audit turns on the recording of transitions and of the invariants that concern the inside of calls: Check then reports
// those too. Every call is slower for it.
func (m *Model) Audit() {
	a := &audit{}
	for _, t := range Transitions {
		a.legal[t.Why][t.From][t.To] = true
	}
	m.audit = a
}

// Coverage returns the transitions counted since Audit; nil without it.
func (m *Model) Coverage() *Coverage {
	if m.audit == nil {
		return nil
	}
	m.audit.mu.Lock()
	defer m.audit.mu.Unlock()
	c := m.audit.coverage
	return &c
}

// setState is the only place that changes the state of a living chunk.
func (m *Model) setState(n int32, to State, why Trigger) {
	c := &m.nodes[n]
	if m.audit != nil {
		m.audit.note(c, to, why)
	}
	c.state = to
}

func (a *audit) note(c *node, to State, why Trigger) {
	a.mu.Lock()
	a.coverage[why][c.state][to]++
	a.mu.Unlock()
	if !a.legal[why][c.state][to] {
		a.breach(RuleTransition, "chunk 0x%x went from %s to %s (%s)", c.addr, c.state, to, why)
	}
}

// saw counts that a rule met a subject. A nil audit counts nothing.
func (a *audit) saw(rule int) {
	if a != nil {
		a.mu.Lock()
		a.seen[rule]++
		a.mu.Unlock()
	}
}

// Exercised returns the numbers of the invariants that met something they are about since Audit, in calls and in checks: a
// rule about kernel roots is exercised only by a program that has one.
func (m *Model) Exercised() []int {
	var rules []int
	if m.audit != nil {
		for r, n := range m.audit.seen {
			if r > 0 && n > 0 {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// breach records a broken rule of a call. A nil audit records nothing.
func (a *audit) breach(rule int, format string, args ...any) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.breaches) < breachesMax {
		a.breaches = append(a.breaches, Violation{rule, fmt.Sprintf(format, args...)})
	}
}

// auditAlloc verifies invariant 22, and that nothing is left of invariant 19's opposite: every chunk named.
func (m *Model) auditAlloc(t Type, size uint64, out []Chunk) {
	m.lk.lockList()
	defer m.lk.unlockList()
	want := TempPinned
	if t == Kernel {
		want = Allocated
	}
	for _, c := range out {
		m.audit.saw(22)
		n := &m.nodes[c]
		root := &m.nodes[rootOf(n.addr)]
		if c == NoChunk || bytesOf(n.log2) != size || n.addr%size != 0 || n.typ != t || n.state != want || n.child != 0 ||
			root.flags&flagInEviction != 0 {
			m.audit.breach(22, "%s chunk of %d bytes came as 0x%x: %d bytes, %s, %s", t, size, n.addr, bytesOf(n.log2), n.typ, n.state)
		}
	}
}

// auditMerge verifies invariant 16 for a family about to merge.
func (m *Model) auditMerge(p *node, count int) {
	kid := &m.nodes[p.child]
	m.audit.saw(16)
	if int(p.allocated) != count || (kid.state != TempPinned && kid.state != Allocated) {
		m.audit.breach(16, "chunk 0x%x merges with %d of %d children in use, the first %s", p.addr, p.allocated, count, kid.state)
	}
	for i := range int32(count) {
		if k := &m.nodes[p.child+i]; k.state != kid.state || (k.state == Allocated && k.block != kid.block) {
			m.audit.breach(16, "chunk 0x%x merges children %s and %s", p.addr, kid.state, k.state)
		}
	}
}

// auditFree verifies invariants 16 and 28 for a chunk about to become FREE, its parent's count already lowered.
func (m *Model) auditFree(c *node) {
	m.audit.saw(16)
	if m.lk != nil && c.parent != 0 && m.nodes[c.parent].allocated == 0 {
		m.audit.saw(28)
	}
	if c.state != Allocated && c.state != TempPinned {
		m.audit.breach(16, "chunk 0x%x is freed while %s", c.addr, c.state)
	}
	if c.parent != 0 && m.nodes[c.parent].allocated == 0 && m.lk.mutexFree() {
		m.audit.breach(28, "the last child 0x%x is freed without the mutex", c.addr)
	}
}

// Breaches returns the rules found broken inside calls since Audit: what Check reports before it looks at the state.
func (m *Model) Breaches() []Violation {
	if m.audit == nil {
		return nil
	}
	m.audit.mu.Lock()
	defer m.audit.mu.Unlock()
	return m.audit.breaches
}
