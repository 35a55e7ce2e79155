package importers

import "fmt"

// Inconsistency is one way in which a file contradicts itself: its events, its segments and its final state cannot all be
// true. A file with one is imported all the same, but what it says of layouts is not proven.
type Inconsistency struct {
	What  string // the kind of contradiction
	Count int    // how often it was found
	First string // the first one: where, and what
}

// String returns one line.
func (i Inconsistency) String() string {
	if i.Count == 1 {
		return fmt.Sprintf("%s: %s", i.What, i.First)
	}
	return fmt.Sprintf("%s (%d times): first %s", i.What, i.Count, i.First)
}

// The kinds of contradictions.
const (
	lostFree       = "an address is allocated while its block is live"
	lostAlloc      = "a block is freed that is not live"
	freedTwice     = "a block is freed twice"
	noRequest      = "a block is completed whose free was never requested"
	endMissing     = "a block that the events leave live is not live in the final state"
	endExtra       = "a block is live in the final state although the events freed it"
	endSize        = "a block has another size in the final state than in the events"
	endState       = "a block is pending in the final state and not in the events, or the other way round"
	segmentHistory = "the segment events do not lead to the final segments"
	outside        = "a block live at the start lies in no segment or overlaps another"
	layoutBroken   = "the blocks cannot lie where the recording saw them"
	layoutEnd      = "replaying the events does not end in the final state"
)

// findings collects contradictions by kind.
type findings struct{ list []Inconsistency }

func (f *findings) add(what, format string, args ...any) { f.addN(1, what, format, args...) }

func (f *findings) addN(n int, what, format string, args ...any) {
	for i := range f.list {
		if f.list[i].What == what {
			f.list[i].Count += n
			return
		}
	}
	f.list = append(f.list, Inconsistency{What: what, Count: n, First: fmt.Sprintf(format, args...)})
}

// verdict says why nothing is proven. Where only the places of blocks are wrong, the file may be whole and its settings may
// have changed while it was recorded, which a snapshot does not show.
func (f *findings) verdict() string {
	for _, i := range f.list {
		if i.What != layoutBroken && i.What != layoutEnd {
			return "the file contradicts itself"
		}
	}
	return "the blocks do not lie where the recorded settings put them: the settings changed during the recording, or entries are missing"
}
