// Package ledger keeps our own books of who owns which bytes.
package ledger
