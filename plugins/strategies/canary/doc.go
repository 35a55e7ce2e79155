// Package canary is the strategy canary-overlap, wrong on purpose. It is first fit, except that from its after-th allocation
// on (option after, default 20) it now and then hands out an address inside another live block. A ledger that does not
// catch it checks nothing, so one belongs into every campaign; it is never ranked.
//
// It is wrong in the way that a lost update of a free list is: the block has the right size and alignment, statistics agree,
// and nothing crashes. Every period-th allocation (option period, default 7) takes the address of a live block at least as
// large as its own (the largest allocated since the last such block was freed); the memory that first fit had set aside for
// it stays set aside, so that its own books remain whole.
package canary
