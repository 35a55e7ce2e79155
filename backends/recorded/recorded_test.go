package recorded

import (
	"errors"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

const mib = 1 << 20

// seen is a recording of 5 events: a segment of 2 MiB is taken at event 0; at event 2 the device refuses, the segment is
// given back and one of 20 MiB taken; event 3 fails; at event 4 a range is mapped and half of it unmapped again.
func seen() *trace.Trace {
	return &trace.Trace{
		Meta:   trace.Meta{CapacityBytes: 100 * mib},
		Events: make([]trace.Event, 5),
		Recorded: []trace.Recorded{{Seen: 1, Addr: 0x7000_0000}, {}, {Seen: 1, Addr: 0x7f00_0000},
			{Seen: 1, Status: trace.StatusFailed}, {}},
		SegmentEvents: []trace.SegmentEvent{
			{Event: 0, Kind: trace.SegmentAlloc, Addr: 0x7000_0000, Bytes: 2 * mib},
			{Event: 2, Kind: trace.SegmentFree, Addr: 0x7000_0000, Bytes: 2 * mib},
			{Event: 2, Kind: trace.SegmentAlloc, Addr: 0x7f00_0000, Bytes: 20 * mib},
			{Event: 4, Kind: trace.SegmentMap, Addr: 0x10_0000_0000, Bytes: 4 * mib},
			{Event: 4, Kind: trace.SegmentUnmap, Addr: 0x10_0020_0000, Bytes: 2 * mib},
		},
	}
}

func open(t *testing.T, tr *trace.Trace) *Device {
	t.Helper()
	d, err := New(tr, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnswersAsRecorded(t *testing.T) {
	d := open(t, seen())
	malloc := func(size, addr uint64, want trace.CallStatus) {
		t.Helper()
		if got, st := d.Malloc(size); st != want || got != addr {
			t.Fatalf("malloc of %d: %#x, status %d; want %#x, status %d", size, got, st, addr, want)
		}
	}
	status := func(what string, got, want trace.CallStatus) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: status %d, want %d", what, got, want)
		}
	}
	d.BeginEvent(0)
	malloc(2*mib, 0x7000_0000, trace.CallOK)
	d.BeginEvent(1)
	d.BeginEvent(2)
	malloc(20*mib, 0, trace.CallOutOfMemory) // the recording gives memory back first
	status("free", d.Free(0x7000_0000), trace.CallOK)
	malloc(20*mib, 0x7f00_0000, trace.CallOK)
	d.BeginEvent(3)
	malloc(20*mib, 0, trace.CallOutOfMemory) // recorded as failed
	d.BeginEvent(4)
	base, st := d.Reserve(50 * mib)
	status("reserve", st, trace.CallOK)
	if base != 0x10_0000_0000 {
		t.Fatalf("reserved at %#x", base)
	}
	var ids [2]backends.PhysID
	for i := range ids {
		ids[i], st = d.Create(2 * mib)
		status("create", st, trace.CallOK)
	}
	for i, id := range ids {
		status("map", d.Map(base+uint64(i)*2*mib, 2*mib, id), trace.CallOK)
	}
	if _, st = d.Create(2 * mib); st != trace.CallOutOfMemory {
		t.Fatalf("create where the recording unmaps next: status %d", st)
	}
	status("unmap", d.Unmap(base+2*mib, 2*mib), trace.CallOK)
	status("release", d.Release(ids[1]), trace.CallOK)
	if free, total := d.MemInfo(); free != 78*mib || total != 100*mib {
		t.Fatalf("%d MiB of %d MiB free, want 78 of 100", free/mib, total/mib)
	}
	status("free at the end", d.Free(0x7f00_0000), trace.CallOK)
	if first, n := d.Mismatches(); n != 0 {
		t.Fatalf("%d mismatches, first: %v", n, first[0])
	}
}

func TestMismatches(t *testing.T) {
	d := open(t, seen())
	d.BeginEvent(0)
	if _, st := d.Malloc(4 * mib); st != trace.CallInvalidValue {
		t.Fatalf("another size: status %d", st)
	}
	d.Malloc(2 * mib)
	d.BeginEvent(1)
	if _, st := d.Malloc(2 * mib); st != trace.CallInvalidValue {
		t.Fatalf("malloc where there is none: status %d", st)
	}
	if st := d.Free(0x7000_0000); st != trace.CallOK {
		t.Fatalf("early free: status %d", st)
	}
	if st := d.Free(0x7000_0000); st != trace.CallInvalidValue {
		t.Fatalf("second free: status %d", st)
	}
	want := []string{
		"event 0: the strategy asked for malloc of 4194304 bytes, the recording has alloc of 2097152 bytes at 0x70000000",
		"event 1: the strategy asked for malloc of 2097152 bytes, the recording has no further device call",
		"event 1: the strategy asked for free of 2097152 bytes at 0x70000000, the recording has no further device call",
	}
	got, n := d.Mismatches()
	if int(n) != len(want) || len(got) != len(want) {
		t.Fatalf("%d mismatches: %v", n, got)
	}
	for i := range want {
		if got[i].String() != want[i] {
			t.Errorf("mismatch %d: %s\nwant: %s", i, got[i], want[i])
		}
	}
	d.Reset()
	d.BeginEvent(0)
	if addr, st := d.Malloc(2 * mib); st != trace.CallOK || addr != 0x7000_0000 {
		t.Fatalf("after reset: %#x, status %d", addr, st)
	}
}

// TestWithoutSegmentEvents: the addresses of the events themselves serve a strategy that calls the device each time.
func TestWithoutSegmentEvents(t *testing.T) {
	tr := seen()
	tr.SegmentEvents = nil
	d := open(t, tr)
	d.BeginEvent(0)
	if addr, st := d.Malloc(100); st != trace.CallOK || addr != 0x7000_0000 {
		t.Fatalf("%#x, status %d", addr, st)
	}
	d.BeginEvent(1)
	if st := d.Free(0x7000_0000); st != trace.CallOK {
		t.Fatal(st)
	}
	if _, st := d.Malloc(100); st != trace.CallInvalidValue {
		t.Fatalf("an event without an address: status %d", st)
	}
	d.BeginEvent(3)
	if _, st := d.Malloc(100); st != trace.CallOutOfMemory {
		t.Fatalf("a recorded failure: status %d", st)
	}
	if _, n := d.Mismatches(); n != 1 {
		t.Fatalf("%d mismatches, want 1", n)
	}
}

func TestStartState(t *testing.T) {
	d := open(t, seen())
	if st := d.Adopt(0x7000_0000, 2*mib); st != trace.CallOK {
		t.Fatal(st)
	}
	if st := d.Adopt(0x7000_0000, 2*mib); st != trace.CallInvalidValue {
		t.Fatalf("adopted twice: status %d", st)
	}
	d.BeginEvent(2)
	if st := d.Free(0x7000_0000); st != trace.CallOK {
		t.Fatal(st)
	}
	if _, n := d.Mismatches(); n != 0 {
		t.Fatalf("%d mismatches, want none", n)
	}
}

func TestNothingRecorded(t *testing.T) {
	if _, err := New(&trace.Trace{}, 0); !errors.Is(err, ErrNothingRecorded) {
		t.Fatalf("err = %v", err)
	}
}

// TestReservationsOfAGuessedSize: two reservations 90 GiB apart, as on a device of 80 GiB, of a strategy that takes the
// device for larger.
func TestReservationsOfAGuessedSize(t *testing.T) {
	const first, second = 0x10_0000_0000, 0x10_0000_0000 + 90<<30
	tr := &trace.Trace{Events: make([]trace.Event, 2), SegmentEvents: []trace.SegmentEvent{
		{Event: 0, Addr: first, Bytes: 2 * mib, Kind: trace.SegmentMap},
		{Event: 1, Addr: second, Bytes: 2 * mib, Kind: trace.SegmentMap},
	}}
	for _, c := range []struct {
		total uint64
		want  trace.CallStatus
	}{{0, trace.CallOK}, {80 << 30, trace.CallOK}, {200 << 30, trace.CallInvalidValue}} {
		d, err := New(tr, c.total)
		if err != nil {
			t.Fatal(err)
		}
		size := d.Info().TotalBytes / 8 * 9
		if addr, st := d.Reserve(size); addr != first || st != trace.CallOK {
			t.Fatalf("total %d: first at %#x, status %d", c.total, addr, st)
		}
		d.BeginEvent(1)
		if addr, st := d.Reserve(size); st != c.want || st == trace.CallOK && addr != second {
			t.Fatalf("total %d: second at %#x, status %d, want %d", c.total, addr, st, c.want)
		}
	}
}

// TestMallocOfEventAsksForTheBlock: without segment events Malloc serves the block of the event, and nothing else: not an arena, and
// not memory beside the segments that a recording began with.
func TestMallocOfEventAsksForTheBlock(t *testing.T) {
	tr := &trace.Trace{
		Events:   []trace.Event{{Kind: trace.KindAlloc, Handle: 1, Size: mib}, {Kind: trace.KindAlloc, Handle: 2, Slot: 1, Size: mib}},
		Recorded: []trace.Recorded{{Seen: 1, Addr: 0x7000_0000}, {Seen: 1, Addr: 0x7010_0000}},
	}
	for _, c := range []struct {
		name      string
		begunWith uint64 // bytes of a segment at 0x7000_0000
		size      uint64
		want      trace.CallStatus
	}{
		{"the block", 0, mib, trace.CallOK},
		{"rounded up", 0, 2 * mib, trace.CallOK},
		{"an arena", 0, 80 << 30, trace.CallInvalidValue},
		{"less than the block", 0, mib - 1, trace.CallInvalidValue},
		{"a segment beside those of the start", 4 * mib, mib, trace.CallInvalidValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, tr)
			if c.begunWith != 0 {
				if st := d.Adopt(0x7000_0000, c.begunWith); st != trace.CallOK {
					t.Fatalf("adopt: status %d", st)
				}
			}
			d.BeginEvent(1)
			addr, st := d.Malloc(c.size)
			if st != c.want || (st == trace.CallOK) != (addr == 0x7010_0000) {
				t.Fatalf("malloc of %d: %#x, status %d, want status %d", c.size, addr, st, c.want)
			}
			if _, n := d.Mismatches(); (n == 1) != (c.want != trace.CallOK) {
				t.Fatalf("%d mismatches", n)
			}
		})
	}
}
