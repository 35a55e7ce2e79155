package managed

// prefetch returns the pages beyond the faulted ones that the driver's prefetcher brings along (uvm_perf_prefetch.c). The
// block is the leaf level of a binary tree over 4 KiB pages. Faults first grow to their 64 KiB big pages, unless the page
// thrashes. Then for each faulted page the largest subtree counts of which more than the threshold is resident at the
// destination or about to be: all of it comes.
func (s *Space) prefetch(b *block, want, resident, thrashing pageSet) pageSet {
	p := s.opts.Prefetch
	if !p.Enable || want.count() < p.MinFaults {
		return pageSet{}
	}
	grown := want
	for i := want.next(0); i < BlockPages; i = want.next(i + 1) {
		if lo := i / bigPages * bigPages; !thrashing.has(i) && lo+bigPages <= b.pages {
			grown.addRange(lo, lo+bigPages)
		}
	}
	there := resident.or(grown)
	var out pageSet
	for i := want.next(0); i < BlockPages; i = want.next(i + 1) {
		if out.has(i) {
			continue // inside a subtree that comes already; none around it is larger
		}
		out.addRange(s.subtree(b, i, &there))
	}
	out = out.or(grown).without(resident).without(want).without(thrashing)
	return out
}

// subtree returns the bounds of the largest subtree around page i that passes the threshold.
func (s *Space) subtree(b *block, i int, there *pageSet) (lo, hi int) {
	lo, hi = i, i+1
	for size := 2; size <= BlockPages; size *= 2 {
		a := i / size * size
		e := min(a+size, b.pages) // the block's end cuts the rightmost subtrees
		if there.countRange(a, e)*100 > (e-a)*s.opts.Prefetch.ThresholdPercent {
			lo, hi = a, e
		}
	}
	return lo, hi
}
