package fuzz

import (
	"fmt"
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// What a strategy's bookkeeping may take (O14): so much for each block that is or was live or free at a time, and so much in any
// case. The figures are generous on purpose: what they are to find is growth without end, not a fat structure.
const (
	metaBytesPerBlock = 1 << 10
	metaBytesFree     = 1 << 20
)

// inspect checks the picture that the strategy gives of itself against the shadow: it is never taken for the truth.
func (j *Judge) inspect(in *sdk.Inspection, event int) *Breach {
	if j.shadow.exotic {
		return nil
	}
	b := j.tiles(in)
	if b == nil {
		b = j.conserved(in)
	}
	if b == nil && j.target.promises(sdk.PromiseCoalesces) {
		b = uncoalesced(in)
	}
	if b == nil {
		b = j.metadata(in)
	}
	if b != nil {
		b.Event, b.Stage = event, StageInspect
	}
	return b
}

// tiles checks that the blocks of every segment lie side by side from its first byte to its last, and that the segments are
// memory that is held (O2).
func (j *Judge) tiles(in *sdk.Inspection) *Breach {
	for i := range in.Segments {
		s := &in.Segments[i]
		if len(s.Blocks) == 0 {
			continue
		}
		at := s.Addr
		for k := range s.Blocks {
			b := &s.Blocks[k]
			if b.Addr != at {
				return &Breach{Check: CheckConservation, Code: "picture-gap", Expected: fmt.Sprintf("a block at 0x%x, where the one before it ends", at),
					Observed: fmt.Sprintf("%s block of %s at 0x%x", b.State, trace.FormatSize(b.Bytes), b.Addr)}
			}
			at += b.Bytes
		}
		if at != s.Addr+s.Bytes {
			return &Breach{Check: CheckConservation, Code: "picture-gap", Expected: fmt.Sprintf("blocks up to 0x%x, the end of the segment", s.Addr+s.Bytes),
				Observed: fmt.Sprintf("blocks up to 0x%x", at)}
		}
	}
	return nil
}

// conserved checks that exactly the live blocks are shown as live (O2, O11): a block that an event failed to make and that
// is live inside is one too many, a live block that is shown as free will be handed out again.
func (j *Judge) conserved(in *sdk.Inspection) *Breach {
	var shown []span
	segmentsShown := false
	for i := range in.Segments {
		for _, b := range in.Segments[i].Blocks {
			segmentsShown = true
			if b.State == "live" {
				shown = append(shown, span{b.Addr, b.Bytes})
			}
		}
	}
	if !segmentsShown {
		return nil // only counters are shown
	}
	slices.SortFunc(shown, func(a, b span) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	want := j.shadow.ranges()
	// A strategy may show a live block with its header or padding, in pages, or several as one run: what counts is that the live
	// bytes are shown as live, and that nothing is shown as live that holds none of them.
	k := 0
	for _, w := range want {
		for k < len(shown) && shown[k].addr+shown[k].size <= w.addr {
			k++
		}
		at := w.addr
		for i := k; i < len(shown) && at < w.addr+w.size && shown[i].addr <= at; i++ {
			at = shown[i].addr + shown[i].size
		}
		if at < w.addr+w.size {
			return &Breach{Check: CheckConservation, Code: "live-block-not-shown", Expected: fmt.Sprintf("the live block of %s at 0x%x shown as live", trace.FormatSize(w.size), w.addr),
				Observed: fmt.Sprintf("from 0x%x on it is shown as something else, or not at all", at)}
		}
	}
	k = 0
	for _, b := range shown {
		for k < len(want) && want[k].addr+want[k].size <= b.addr {
			k++
		}
		if k == len(want) || want[k].addr >= b.addr+b.size {
			return &Breach{Check: CheckConservation, Code: "phantom-block", Expected: "only blocks that the program holds shown as live",
				Observed: fmt.Sprintf("%s at 0x%x shown as live", trace.FormatSize(b.size), b.addr)}
		}
	}
	return nil
}

// uncoalesced checks that no two free blocks lie side by side in a segment (O4).
func uncoalesced(in *sdk.Inspection) *Breach {
	for i := range in.Segments {
		blocks := in.Segments[i].Blocks
		for k := 1; k < len(blocks); k++ {
			if a, b := &blocks[k-1], &blocks[k]; a.State == "free" && b.State == "free" {
				return &Breach{Check: CheckCoalescing, Code: "not-coalesced", Expected: "no two free blocks side by side",
					Observed: fmt.Sprintf("%s at 0x%x and %s at 0x%x", trace.FormatSize(a.Bytes), a.Addr, trace.FormatSize(b.Bytes), b.Addr)}
			}
		}
	}
	return nil
}

// metadata checks the size of the bookkeeping (O14).
func (j *Judge) metadata(in *sdk.Inspection) *Breach {
	if in.MetaBytes == 0 || !j.target.promises(sdk.PromiseBoundedMetadata) {
		return nil
	}
	blocks := uint64(len(j.shadow.live))
	for i := range in.Segments {
		blocks += uint64(len(in.Segments[i].Blocks))
	}
	bound := 2*j.meta + metaBytesFree + metaBytesPerBlock*blocks
	if in.MetaBytes <= bound {
		return nil
	}
	return &Breach{Check: CheckMetadata, Code: "metadata-grows", Observed: trace.FormatSize(in.MetaBytes) + " of bookkeeping",
		Expected: fmt.Sprintf("at most %s for %d blocks", trace.FormatSize(bound), blocks)}
}

// inspectEmpty checks the picture when everything was freed: nothing is live, and whole regions are free (O4).
func (j *Judge) inspectEmpty(in *sdk.Inspection, event int) *Breach {
	b := j.tiles(in)
	if b == nil {
		b = j.conserved(in)
	}
	if b == nil && j.target.promises(sdk.PromiseCoalesces) {
		b = uncoalesced(in)
	}
	if b == nil {
		b = j.metadata(in)
	}
	if b != nil {
		b.Event, b.Stage = event, StageEpilogue
	}
	return b
}
