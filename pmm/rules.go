package pmm

import "fmt"

// RuleTransition stands for the table of legal transitions, beside the 30 numbered invariants.
const RuleTransition = 0

// RulesCount is the number of invariants.
const RulesCount = 30

// Where says when an invariant can be checked.
type Where uint8

const (
	// AtRest holds whenever no call is inside the manager.
	AtRest Where = iota
	// InCall concerns a moment inside a call; an audit checks it there.
	InCall
	// AtEnd holds when everything has been given back: CheckEmpty.
	AtEnd
)

// Rule is one invariant.
type Rule struct {
	// Number is 1 to RulesCount.
	Number int
	Where  Where
	Text   string
}

// InvariantRules are the invariants of the manager, in our words.
var InvariantRules = [RulesCount]Rule{
	{1, AtRest, "root i lies at i*2 MiB, is 2 MiB large and has no parent, for ever"},
	{2, AtRest, "sizes are in the type's mask, addresses aligned to them; a child has the next smaller size; without parent means 2 MiB; the smallest is never split"},
	{3, AtRest, "the k-th child lies at k times its size inside its parent and has its type"},
	{4, AtRest, "a chunk has children exactly when it is IS_SPLIT, and as many as the sizes say"},
	{5, AtRest, "leaves are FREE, ALLOCATED or TEMP_PINNED (roots also PMA_OWNED); IS_SPLIT chunks have no owner"},
	{6, AtRest, "allocated counts the children that are not FREE, and is 1 to all of them"},
	{7, AtRest, "no IS_SPLIT chunk has only FREE children"},
	{8, AtRest, "the counters of pinned leaves, pinned roots and roots in eviction are right; none is in eviction"},
	{9, AtRest, "the leaves of a root cover its 2 MiB exactly"},
	{10, AtRest, "a FREE chunk is on the one free list of its type, size and zero mark, unless its root is in eviction; nothing else is on one"},
	{11, AtRest, "zero lists of sizes below 2 MiB are empty"},
	{12, AtRest, "a user root is on one eviction list exactly when it is ALLOCATED or IS_SPLIT, not pinned, not in eviction; pinned chunks are on no list but the lazy-free queue"},
	{13, AtRest, "a root with PMA is on no list and has no children and no owner"},
	{14, AtRest, "an ALLOCATED user chunk has an owner; kernel chunks have none and are not held; what is held is user memory"},
	{15, InCall, "unpin meets a TEMP_PINNED user chunk that is on no list, and leaves it with the owner named"},
	{16, InCall, "free and split meet ALLOCATED or TEMP_PINNED chunks, merge uniform children, all counted as allocated"},
	{17, AtRest, "only user roots are in eviction; a chunk marked evicted was ALLOCATED, owned and below a root in eviction"},
	{18, InCall, "an eviction starts on a root that is not with PMA, not pinned, not in eviction, and on a list"},
	{19, InCall, "a failed allocation returns no chunk"},
	{20, InCall, "a failed split leaves the chunk in its state and size, without children"},
	{21, AtRest, "no byte is both in a chunk and free in PMA; PMA holds kernel roots pinned and user roots unpinned"},
	{22, InCall, "an allocated chunk has the size, type and alignment asked for, no children, and a root not in eviction"},
	{23, AtRest, "a root with PMA has no pending work"},
	{24, InCall, "a root goes to PMA from TEMP_PINNED and off every list"},
	{25, AtEnd, "in the end all lists are empty, all roots with PMA, and no family is in use"},
	{26, InCall, "evict-range meets user roots only, and a range inside the device"},
	{27, InCall, "PMA answers with 1 to as many roots as asked, each of which was PMA_OWNED"},
	{28, InCall, "locks are taken in the driver's order, and the mutex is held when the last child is freed"},
	{29, AtRest, "a type has at most SizesMax sizes and the largest is 2 MiB"},
	{30, AtRest, "no kernel root is FREE"},
}

// Violation is a broken invariant.
type Violation struct {
	// Rule is the number of the invariant, or RuleTransition.
	Rule int
	// What says which object breaks it, and how.
	What string
}

// Error makes a Violation usable as an error.
func (v Violation) Error() string {
	if v.Rule == RuleTransition {
		return "illegal transition: " + v.What
	}
	return fmt.Sprintf("invariant %d broken (%s): %s", v.Rule, InvariantRules[v.Rule-1].Text, v.What)
}
