package pmm

import "fmt"

// Costs are the prices of the manager's steps on the model's clock, in nanoseconds.
type Costs struct {
	// SyncNs is one wait for pending work.
	SyncNs int64
	// AllocNs and FreeNs are one look at the free lists, UnpinNs one unpin.
	AllocNs, FreeNs, UnpinNs int64
	// SplitNs and MergeNs are one node split or merged, SplitChildNs and MergeChildNs are added for each child.
	SplitNs, SplitChildNs, MergeNs, MergeChildNs int64
	// PMACallNs is one call to PMA, PMARootNs is added for each root it returns.
	PMACallNs, PMARootNs int64
	// EvictRootNs is one root chosen for eviction, EvictBlockNs one block asked to move out, without the copies.
	EvictRootNs, EvictBlockNs int64
}

// Validate refuses negative prices: the clock never runs backwards.
func (c Costs) Validate() error {
	for _, v := range [...]int64{c.SyncNs, c.AllocNs, c.FreeNs, c.UnpinNs, c.SplitNs, c.SplitChildNs, c.MergeNs, c.MergeChildNs,
		c.PMACallNs, c.PMARootNs, c.EvictRootNs, c.EvictBlockNs} {
		if v < 0 {
			return fmt.Errorf("pmm: a cost of %d ns is negative", v)
		}
	}
	return nil
}
