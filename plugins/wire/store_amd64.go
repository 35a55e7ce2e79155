//go:build amd64 && !race

package wire

// storeRelease stores v at p after all earlier stores. On amd64 every store has release semantics, so it is one MOV: the
// compiler cannot move other stores across a call of assembly. sync/atomic has no such store; its StoreUint64 is an XCHG,
// a full barrier of 5 to 8 ns, which at one an event would be most of the loop.
//
//go:noescape
func storeRelease(p *uint64, v uint64)
