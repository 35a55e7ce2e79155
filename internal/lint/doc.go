// Package lint holds, as ordinary tests, the properties of the source tree that no compiler checks: which package may import
// which (docs/ARCHITECTURE.md), how long files are, that everything exported is explained, that only internal/clock measures
// time, and that nothing is left unfinished. A rule that is broken names the file, the line and what to do.
package lint
