package ledger

import "github.com/gpubench/gpubench/trace"

// Violations returns the violations found so far, the first MaxStoredViolations whole, without making a report. The slice is the
// ledger's own: it is valid until the next Feed, Closed or Reset.
func (l *Ledger) Violations() []Violation { return l.violations }

// SpuriousFailures counts the failures so far at which the bytes were there, by cure.
func (l *Ledger) SpuriousFailures() Spurious { return l.spurious }

// HeldBytes is the device memory that the strategy holds now, by the call log.
func (l *Ledger) HeldBytes() uint64 { return l.dev.held }

// Continue says that the events to come belong to another trace that goes on from the present state, with these tables.
func (l *Ledger) Continue(extras []trace.Extra, strings []string) {
	l.cfg.Extras, l.cfg.Strings = extras, strings
}
