package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

const programText = `# gpubench trace 1
# source program
h1 = alloc 2MiB tag="model.layer.0"
h2 = alloc 640KiB stream=7 pool=1 align=512 thread=3
@10us use h1 stream=7
h3 = realloc h2 4MiB
set limit=3
free h1
free! h1
`

func parse(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader(text), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestProgramRoundTrip(t *testing.T) {
	tr := parse(t, strings.Replace(strings.Replace(programText, "@10us use h1 stream=7", "use h1 stream=7 @10us", 1), "pool=1", "pool=0:1", 1))
	b, err := AppendProgram(nil, tr)
	if err != nil {
		t.Fatal(err)
	}
	var got trace.Trace
	for range 2 { // the second time into used slices
		if err := DecodeProgram(b, &got); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string][2]any{"events": {got.Events, tr.Events}, "extras": {got.Extras, tr.Extras}, "times": {got.TimesNs, tr.TimesNs},
			"strings": {got.Strings, tr.Strings}, "streams": {got.Streams, tr.Streams}, "pools": {got.Pools, tr.Pools}, "slots": {got.Slots, tr.Slots}} {
			if !reflect.DeepEqual(c[0], c[1]) {
				t.Errorf("%s: %v, want %v", name, c[0], c[1])
			}
		}
	}
	// The header, byte by byte.
	le := binary.LittleEndian
	if string(b[:8]) != "GPROGRAM" || le.Uint32(b[8:]) != 1 || le.Uint32(b[12:]) != 1 || int(le.Uint32(b[16:])) != len(tr.Events) ||
		int(le.Uint32(b[20:])) != len(tr.Extras) || le.Uint32(b[24:]) != tr.Slots || int(le.Uint32(b[28:])) != len(tr.Streams) ||
		int(le.Uint32(b[32:])) != len(tr.Pools) || int(le.Uint32(b[36:])) != len(tr.Strings) {
		t.Errorf("header % x", b[:64])
	}
	for n := range b {
		if err := DecodeProgram(b[:n], &got); !errors.Is(err, ErrProgram) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestProgramLimits(t *testing.T) {
	tr := parse(t, "# gpubench trace 1\nh1 = alloc 1\n")
	for name, spoil := range map[string]func(tr *trace.Trace){
		"start":  func(tr *trace.Trace) { tr.Start = &trace.State{} },
		"slots":  func(tr *trace.Trace) { tr.Slots = MaxProgramSlots + 1 },
		"events": func(tr *trace.Trace) { tr.Events = make([]trace.Event, MaxProgramEvents+1) },
		"tables": func(tr *trace.Trace) { tr.Streams = nil },
		"text":   func(tr *trace.Trace) { tr.Strings = []string{strings.Repeat("x", MaxProgramText+1)} },
		"times":  func(tr *trace.Trace) { tr.TimesNs = []int64{1, 2} },
	} {
		c := *tr
		spoil(&c)
		if _, err := AppendProgram(nil, &c); !errors.Is(err, ErrProgram) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeProgram(f *testing.F) {
	b, err := AppendProgram(nil, parse(f, "# gpubench trace 1\nh1 = alloc 2MiB tag=\"x\"\nfree h1 @3us\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:64])
	f.Fuzz(func(t *testing.T, b []byte) {
		var tr trace.Trace
		if err := DecodeProgram(b, &tr); err != nil {
			if !errors.Is(err, ErrProgram) {
				t.Error(err)
			}
			return
		}
		again, err := AppendProgram(nil, &tr)
		if err != nil {
			t.Fatal(err)
		}
		copy(again[44:64], b[44:64]) // reserved bytes are not kept
		if !bytes.Equal(again, b) {
			t.Errorf("decoded and encoded again: % x, want % x", again, b)
		}
	})
}

func TestResultRoundTrip(t *testing.T) {
	want := Result{Outcomes: []trace.Outcome{{Addr: 1, Granted: 2, Feature: 3}, {Status: trace.StatusFailed}}, Calls: []trace.Call{{Event: 1, Kind: trace.CallMap, Aux: 9}},
		FrequencyHz: 5, ReadCostMilliticks: 6}
	b := AppendResult(nil, &want)
	if len(b) != ResultBytes(&want) || len(b) != 64+2*32+48 {
		t.Errorf("%d bytes", len(b))
	}
	var got Result
	if err := DecodeResult(b, 2, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := DecodeResult(b, 3, &got); !errors.Is(err, ErrResult) {
		t.Errorf("another number of events: %v", err)
	}
	for n := range b {
		if err := DecodeResult(b[:n], 2, &got); !errors.Is(err, ErrResult) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add(AppendResult(nil, &Result{Outcomes: make([]trace.Outcome, 2), Calls: make([]trace.Call, 1)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		if err := DecodeResult(b, 2, &r); err == nil && len(r.Outcomes) != 2 {
			t.Errorf("%d outcomes", len(r.Outcomes))
		}
	})
}
