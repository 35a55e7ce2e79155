package pmm

// Shared is the model for many goroutines: the same code, with the driver's locks taken in the driver's order.
//
// The manager's mutex is held by splits, merges and evictions and dropped while a VA block moves its pages, so that other
// operations run between the steps of an eviction. As in the driver it is the owner of a user chunk that keeps the chunk
// from being evicted under its hands: whoever frees, splits or merges an ALLOCATED user chunk must hold a lock of its block
// that the Evictor takes too, must know from its own books that the chunk has not been evicted, and must not ask for Evict
// while holding it.
//
// Check and Census look at everything and are exact only at rest.
type Shared struct {
	*Model
}

// NewShared returns a device for concurrent use.
func NewShared(cfg Config) (*Shared, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	m.lk = &locks{}
	return &Shared{m}, nil
}

// MutexDrops counts how often an eviction has dropped the mutex for a block.
func (s *Shared) MutexDrops() uint64 { return s.lk.drops.Load() }
