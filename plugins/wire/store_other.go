//go:build !amd64 || race

package wire

import "sync/atomic"

// storeRelease stores v at p after all earlier stores: STLR on arm64.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
