package sdk

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

func TestDecodeOptions(t *testing.T) {
	type options struct {
		Bins  int    `json:"bins"`
		Grow  bool   `json:"grow"`
		Order string `json:"order"`
	}
	o := options{Bins: 7, Order: "address"}
	if err := DecodeOptions(json.RawMessage(`{"grow":true}`), &o); err != nil || o != (options{7, true, "address"}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, none := range []string{"", " \n", "{}"} {
		if err := DecodeOptions(json.RawMessage(none), &o); err != nil {
			t.Errorf("%q: %v", none, err)
		}
	}
	for text, want := range map[string]string{
		`{"bin":1}`:        `unknown field "bin"`,
		`{"bins":"seven"}`: "bins must be int, not string",
		`{"bins":1} {}`:    "more after the object",
		`{"bins":`:         "unexpected EOF",
	} {
		if err := DecodeOptions(json.RawMessage(text), &o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestCheckOptions(t *testing.T) {
	schema := `{"type":"object","additionalProperties":false,"properties":{
		"bins":{"type":"integer","minimum":1,"maximum":64},
		"order":{"enum":["address","size"]},
		"nested":{"type":"object","additionalProperties":false,"properties":{"deep":{"type":"boolean"}}}}}`
	for text, want := range map[string]string{
		``:                                "",
		`{"bins":64,"order":"size"}`:      "",
		`{"bins":65}`:                     "bins: maximum: got 65, want 64",
		`{"order":"random"}`:              "order: value must be one of 'address', 'size'",
		`{"bans":1}`:                      "no option bans (there are bins, nested, order)",
		`{"nested":{"deeper":1}}`:         "no option deeper in nested",
		`{"nested":{"deep":1}}`:           "nested.deep: got number, want boolean",
		`{"bins":0,"order":1}`:            "; ",
		`[1]`:                             "must be a JSON object",
		`{`:                               "not JSON",
		strings.Repeat(" ", 1<<20) + `{}`: "at most 1048576",
	} {
		err := CheckOptions(json.RawMessage(schema), json.RawMessage(text))
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
	if err := CheckOptions(nil, json.RawMessage(`{"a":1}`)); !errors.Is(err, ErrOptions) {
		t.Errorf("no schema allows no option: %v", err)
	}
	for _, bad := range []string{`{`, `{"type":"nonsense"}`} {
		if err := CheckOptions(json.RawMessage(bad), nil); !errors.Is(err, ErrSchema) {
			t.Errorf("schema %s: %v", bad, err)
		}
	}
}

func TestExecutableIsChecked(t *testing.T) {
	good := describeDirect(0)
	for want, e := range map[string]Executable{
		"without a name":  {Strategies: []Description{{New: good.New}}},
		"two of strategy": {Strategies: []Description{*good, *good}},
		"no function":     {Backends: []Backend{{Name: "b"}}},
		"schema":          {Strategies: []Description{{Name: "s", New: good.New, Options: json.RawMessage("{")}}},
		"telemetry":       {Telemetry: []Telemetry{{Name: "t"}}},
	} {
		if err := e.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	e := Executable{Strategies: []Description{*good}}
	if err := e.check(); err != nil {
		t.Error(err)
	}
}

// The loop allocates nothing, whatever the strategy is told.
func TestReplayAllocatesNothing(t *testing.T) {
	tr := benchTrace()
	r := open(t, RunnerConfig{Strategy: describePool, Trace: tr}, nullDevice{})
	w := window(t, 4096, 4096)
	replay := func() {
		if _, err := r.Replay(w, r.Next(), 4096, false); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		replay()
	}
	if n := testing.AllocsPerRun(100, replay); n >= 1 {
		t.Errorf("%v allocations in a window of 4096 events", n)
	}
}

func BenchmarkExecute(b *testing.B) {
	var events []trace.Event
	for h := trace.Handle(1); len(events) < 50; h++ { // two allocs, one free
		events = append(events, alloc(h, 64))
		if h%2 == 0 {
			events = append(events, free(h-1))
		}
	}
	program := parse(events[:50]...)
	x := NewExecutor(open(b, RunnerConfig{Strategy: describePool}, &resettable{}))
	var result []byte
	bytes, err := wire.AppendProgram(nil, program)
	if err != nil {
		b.Fatal(err)
	}
	var decoded trace.Trace
	b.ReportAllocs()
	for b.Loop() {
		if err := wire.DecodeProgram(bytes, &decoded); err != nil {
			b.Fatal(err)
		}
		r, err := x.Execute(&decoded, false)
		if err != nil {
			b.Fatal(err)
		}
		result = wire.AppendResult(result[:0], r)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "programs/s")
}

// resettable is a device that needs not be opened again.
type resettable struct{ nullDevice }

func (*resettable) Reset() {}
