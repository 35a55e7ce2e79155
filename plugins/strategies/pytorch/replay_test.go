package pytorch_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/backends/recorded"
	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
)

// recordingsDir holds real recordings in our text form.
const recordingsDir = "../../../trace/recordings"

// TestRecordings replays recordings of real programs over the addresses that their driver gave them. Every allocation must
// come out at its recorded address, and the layout at the end must be the recorded one. The default is our own text form of
// them, which the importers' tests hold equal to the originals; -recordings DIR checks originals of any form.
func TestRecordings(t *testing.T) {
	paths := testflags.RecordingFiles(t, recordingsDir, func(name string) bool {
		return strings.HasSuffix(name, ".trace.gz") || strings.HasSuffix(name, ".pickle")
	})
	if testflags.RecordingsDir() == "" && len(paths) == 0 {
		t.Fatal("no recordings in " + recordingsDir)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			res, err := importers.ImportFile(path, importers.Options{})
			if err != nil && testflags.RecordingsDir() != "" {
				t.Skipf("not a recording that can be imported: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			defer res.Close()
			for i := range res.Devices {
				d := &res.Devices[i]
				if d.Trace.Meta.Source != "pytorch-snapshot" {
					t.Skipf("a %s has no recorded decisions of this allocator", d.Trace.Meta.Source)
				}
				if !d.Facts.Consistent() {
					t.Skipf("the recording contradicts itself: %v", d.Facts.Inconsistent[0])
				}
				replayRecording(t, d)
			}
		})
	}
}

func replayRecording(t *testing.T, d *importers.Imported) {
	t.Helper()
	tr := d.Trace
	r := &recordingRun{t: tr, slots: make([]sdk.Block, tr.Slots), live: make([]bool, tr.Slots)}
	var dev device
	if len(tr.Events) > 0 {
		rec, err := recorded.New(tr, 0)
		if err != nil {
			t.Fatal(err)
		}
		dev, r.dev = rec, rec
	} else { // a state without history: nothing to answer with
		dev = newIdeal(t, 1<<40)
	}
	opts, err := json.Marshal(map[string]string{"conf": pytorch.ConfOf(tr.Meta.Settings)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := pytorch.Description().New(&sdk.Env{Device: dev, Options: opts, Streams: tr.Streams, Pools: tr.Pools, Strings: tr.Strings})
	if err != nil {
		t.Fatal(err)
	}
	a := s.(*pytorch.Allocator)
	r.a = a
	if tr.Start != nil {
		for _, seg := range tr.Start.Segments {
			piece := seg.Bytes
			if seg.Expandable {
				piece = dev.Info().PageBytes
			}
			for at := uint64(0); at < seg.Bytes; at += piece {
				if st := dev.Adopt(seg.Addr+at, piece); st != trace.CallOK {
					t.Fatalf("segment %#x: %v", seg.Addr, st.Err())
				}
			}
		}
		if err := a.RestoreLayout(tr.Start, func(slot uint32, b sdk.Block) { r.slots[slot], r.live[slot] = b, true }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range tr.Events {
		r.dev.BeginEvent(uint64(i))
		if err := r.event(i); err != nil {
			t.Fatalf("event %d of %d: %v", i, len(tr.Events), err)
		}
	}
	if err := r.final(); err != nil {
		t.Fatal(err)
	}
	if f := &d.Facts; f.Blocks != 0 { // what the snapshot itself says of its final state
		got := [3]uint64{uint64(r.blocks), a.Stats()["reserved_bytes.all.current"], a.Stats()["allocated_bytes.all.current"]}
		if want := [3]uint64{uint64(f.Blocks), f.ReservedBytes, f.AllocatedBytes}; got != want {
			t.Fatalf("final blocks, reserved and allocated bytes %v, recorded %v", got, want)
		}
	}
	t.Logf("%d events, %d allocations at their addresses, %d blocks of the final state", len(tr.Events), r.placed, r.blocks)
}

// recordingRun drives the strategy with the events of a recording.
type recordingRun struct {
	t      *trace.Trace
	a      *pytorch.Allocator
	dev    *recorded.Device // nil without events
	slots  []sdk.Block
	live   []bool
	placed int
	blocks int
}

func (r *recordingRun) event(i int) error {
	ev := &r.t.Events[i]
	st := trace.StatusOK
	switch ev.Kind {
	case trace.KindAlloc:
		return r.alloc(i, ev)
	case trace.KindFree:
		if r.live[ev.Slot] {
			st = r.a.Free(&r.slots[ev.Slot], ev.Stream)
			r.live[ev.Slot] = false
		}
	case trace.KindUse:
		if r.live[ev.Slot] {
			st = r.a.Use(&r.slots[ev.Slot], ev.Stream)
		}
	case trace.KindTrim:
		st = r.a.Trim()
	case trace.KindEvents:
		r.dev.SetManualEvents(ev.Size != 0)
	case trace.KindComplete:
		if ev.Flags&trace.FlagAll != 0 {
			r.dev.CompleteAll()
		} else {
			r.dev.Complete(ev.Stream)
		}
	case trace.KindMark:
	default:
		return fmt.Errorf("unexpected kind %d", ev.Kind)
	}
	if st != trace.StatusOK {
		return fmt.Errorf("kind %d: %v: %v", ev.Kind, st, r.a.LastError())
	}
	return r.mismatch()
}

func (r *recordingRun) alloc(i int, ev *trace.Event) error {
	var b sdk.Block
	st := r.a.Alloc(&sdk.Request{Size: ev.Size, Stream: ev.Stream, Pool: ev.Pool}, &b)
	if st == trace.StatusError {
		return fmt.Errorf("alloc %d: %v", ev.Size, r.a.LastError())
	}
	want := &r.t.Recorded[i]
	if failed := want.Status == trace.StatusFailed; want.Seen == 0 || st.Placed() == failed {
		return fmt.Errorf("alloc %d: %v, recorded %+v", ev.Size, st, *want)
	}
	if st.Placed() {
		if b.Addr != want.Addr || want.Granted != 0 && b.Size != want.Granted {
			return fmt.Errorf("alloc %d at %#x with %d bytes, recorded %#x with %d", ev.Size, b.Addr, b.Size, want.Addr, want.Granted)
		}
		r.slots[ev.Slot], r.live[ev.Slot] = b, true
		r.placed++
	}
	return r.mismatch()
}

// final compares the mapped ranges and the blocks at the end with what the start state and the recorded segment events add
// up to.
func (r *recordingRun) final() error {
	want := finalRanges(r.t)
	var got [][2]uint64
	for _, s := range r.a.Inspect().Segments {
		open := false
		for _, b := range s.Blocks {
			switch {
			case b.State == "unmapped":
				open = false
				continue
			case !open:
				got = append(got, [2]uint64{b.Addr, b.Addr})
				open = true
			}
			got[len(got)-1][1] = b.Addr + b.Bytes
			r.blocks++
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("final segments %v, recorded %v", got, want)
	}
	return nil
}

// finalRanges plays the segment events of a recording on its start state.
func finalRanges(tr *trace.Trace) [][2]uint64 {
	ends := map[uint64]uint64{} // start of a range -> end; ranges of expandable segments are cut into events' pieces
	var out [][2]uint64
	if tr.Start != nil {
		for _, s := range tr.Start.Segments {
			ends[s.Addr] = s.Addr + s.Bytes
		}
	}
	join := map[uint64]bool{} // pieces that belong to what lies before them
	for _, e := range tr.SegmentEvents {
		switch e.Kind {
		case trace.SegmentAlloc:
			ends[e.Addr] = e.Addr + e.Bytes
		case trace.SegmentMap:
			ends[e.Addr] = e.Addr + e.Bytes
			join[e.Addr] = true
		case trace.SegmentFree:
			delete(ends, e.Addr)
		case trace.SegmentUnmap:
			for a, end := range ends { // cut the hole out
				if a < e.Addr+e.Bytes && end > e.Addr {
					delete(ends, a)
					if a < e.Addr {
						ends[a] = e.Addr
					}
					if end > e.Addr+e.Bytes {
						ends[e.Addr+e.Bytes] = end
						join[e.Addr+e.Bytes] = true
					}
				}
			}
		}
	}
	var starts []uint64
	for a := range ends {
		starts = append(starts, a)
	}
	slices.Sort(starts)
	for _, a := range starts {
		if n := len(out); n > 0 && out[n-1][1] == a && join[a] {
			out[n-1][1] = ends[a]
			continue
		}
		out = append(out, [2]uint64{a, ends[a]})
	}
	return out
}

// mismatch returns the first device call that the recording does not have.
func (r *recordingRun) mismatch() error {
	if first, n := r.dev.Mismatches(); n > 0 {
		return fmt.Errorf("%v (%d in all)", first[0], n)
	}
	return nil
}

// device is what a start state needs of a device.
type device interface {
	backends.Device
	backends.SegmentAdopter
}

func newIdeal(t *testing.T, totalBytes uint64) *ideal.Device {
	t.Helper()
	d, err := ideal.New(ideal.Config{TotalBytes: totalBytes})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
