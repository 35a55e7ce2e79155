package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/canary"
	"github.com/gpubench/gpubench/plugins/strategies/firstfit"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// serveSDK serves real strategies and broken ones, each under its name.
func serveSDK(args []string) {
	os.Args = os.Args[:1] // Serve looks at them
	e := sdk.Executable{Name: "gpubench-strategy-test", Version: "1", Backends: []sdk.Backend{{
		Name: "ideal", Version: "1",
		Open: func(_ json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			return ideal.New(ideal.Config{TotalBytes: total})
		},
	}}}
	all := map[string]sdk.Description{"firstfit": firstfit.Description(), "pytorch": pytorch.Description(), "canary": canary.Description()}
	for _, flaw := range []string{"small", "crooked", "forgets", "random", "failing-free", "crash", "flood", "schema"} {
		all[flaw] = flawedDescription(flaw)
	}
	for _, a := range args {
		if a == "no-backend" {
			e.Backends = nil
			continue
		}
		if d, ok := all[a]; ok {
			e.Strategies = append(e.Strategies, d)
		}
	}
	sdk.Serve(e)
}

// flawedDescription is first fit with one flaw.
func flawedDescription(flaw string) sdk.Description {
	d := firstfit.Description()
	inner := d.New
	d.Name = flaw
	d.New = func(env *sdk.Env) (sdk.Strategy, error) {
		s, err := inner(env)
		return &flawed{Strategy: s, flaw: flaw}, err
	}
	if flaw == "schema" {
		d.Options = json.RawMessage(`{"type":"object","required":["must"],"properties":{"must":{"type":"integer"}}}`)
	}
	return d
}

type flawed struct {
	sdk.Strategy
	flaw   string
	allocs int
}

func (f *flawed) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	f.allocs++
	st := f.Strategy.Alloc(r, b)
	if f.allocs != 10 || !st.Placed() {
		return st
	}
	switch f.flaw {
	case "small":
		b.Size = r.Size - 1
	case "crooked":
		b.Addr++
	case "random":
		b.Addr += uint64(os.Getpid()) << 40
	case "crash":
		panic("tenth allocation")
	case "flood":
		line := bytes.Repeat([]byte("flood "), 1<<16)
		for left := 1 << 30; left > 0; left -= len(line) {
			_, _ = os.Stderr.Write(line)
		}
	}
	return st
}

func (f *flawed) Free(b *sdk.Block, s sdk.Stream) trace.Status {
	if f.flaw == "crooked" && b.Addr%2 == 1 {
		b.Addr--
	}
	if f.flaw == "random" {
		b.Addr &= 1<<40 - 1
	}
	st := f.Strategy.Free(b, s)
	if f.flaw == "failing-free" {
		return trace.StatusInvalid
	}
	return st
}

// overlaps are the simplest books: no two live blocks share a byte.
type overlaps struct {
	t    *trace.Trace
	live map[uint32][2]uint64
}

func newOverlaps(t *trace.Trace, _ *StrategyDescription) Checker {
	return &overlaps{t, map[uint32][2]uint64{}}
}

func (o *overlaps) Records(outcomes []trace.Outcome, _ []trace.Call) error {
	for i, out := range outcomes {
		e := &o.t.Events[i]
		if e.Kind == trace.KindFree || e.Kind == trace.KindRealloc && out.Status.Placed() {
			slot := e.Slot
			if e.Kind == trace.KindRealloc {
				slot = o.t.Extras[e.Aux].Slot2
			}
			delete(o.live, slot)
		}
		if !e.Kind.TakesMemory() || !out.Status.Placed() {
			continue
		}
		for _, b := range o.live {
			if out.Addr < b[0]+b[1] && b[0] < out.Addr+out.Granted {
				return fmt.Errorf("event %d: [%#x, +%d) overlaps [%#x, +%d)", i, out.Addr, out.Granted, b[0], b[1])
			}
		}
		o.live[e.Slot] = [2]uint64{out.Addr, out.Granted}
	}
	return nil
}

func (o *overlaps) End() error {
	if len(o.live) > 0 {
		return fmt.Errorf("%d blocks are live at the end", len(o.live))
	}
	return nil
}

func checkOptions(args ...string) (string, CheckOptions) {
	self, _ := os.Executable()
	return self, CheckOptions{Args: append([]string{"plugin"}, args...), NewChecker: newOverlaps, Env: []string{"GORACE=atexit_sleep_ms=0"}}
}

func check(t *testing.T, path string, o CheckOptions) (Report, string) {
	t.Helper()
	r, err := Check(bg, path, o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return r, text.String()
}

func TestConformanceTracesCoverTheLanguage(t *testing.T) {
	all, err := conformanceTraces()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[trace.Kind]bool{}
	for _, c := range all {
		if err := trace.Validate(c.trace); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if uint64(len(c.trace.Events)) > largeWindow.OutcomeCapacity {
			t.Errorf("%s: %d events do not fit into the large window", c.name, len(c.trace.Events))
		}
		for _, e := range c.trace.Events {
			kinds[e.Kind] = true
		}
	}
	if !slices.ContainsFunc(all, func(c conformanceTrace) bool { return c.name == recordingTrace && len(c.trace.Recorded) > 0 }) {
		t.Error("no trace has recorded addresses")
	}
	for _, k := range []trace.Kind{trace.KindAlloc, trace.KindFree, trace.KindRealloc, trace.KindUse, trace.KindWait, trace.KindComplete,
		trace.KindSync, trace.KindTrim, trace.KindMark, trace.KindPoolBegin, trace.KindPoolEnd, trace.KindPoolRelease, trace.KindEvents,
		trace.KindStreamDestroy, trace.KindDefragment, trace.KindTouch, trace.KindPrefetch} {
		if !kinds[k] {
			t.Errorf("kind %d is in no conformance trace", k)
		}
	}
}

func TestCheckOfGoodPlugins(t *testing.T) {
	path, o := checkOptions("sdk", "firstfit", "pytorch", "canary")
	r, text := check(t, path, o)
	if !r.OK() || strings.Contains(text, string(Failed)) {
		t.Errorf("not OK:\n%s", text)
	}
	for _, want := range []string{
		"✓ starts and shakes hands\n",
		"✓ describes itself: gpubench-strategy-test 1: 3 strategies, 1 backends, 0 telemetry\n",
		"✓ refuses to open an unknown strategy\n",
		"✓ backend ideal: opens and closes a device: ideal, 268435456 bytes\n",
		"✓ strategy first-fit: replays pressure, every answer checked: ",
		"✓ strategy pytorch: replays churn again after a reset\n",
		"✓ strategy pytorch: replays streams alike in another process, in tiny windows\n",
		"✓ strategy canary-overlap: is caught\n",
		"✓ strategy pytorch: shows its inside\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

func TestCheckOfOneStrategy(t *testing.T) {
	path, o := checkOptions("sdk", "firstfit", "schema")
	o.Strategy = "first-fit"
	r, text := check(t, path, o)
	if !r.OK() || strings.Contains(text, "strategy schema") || strings.Contains(text, "backend ideal") || !strings.Contains(text, "first-fit: replays recording") {
		t.Errorf("got\n%s", text)
	}
	o.Strategy = "none"
	if r, text := check(t, path, o); r.OK() || !strings.Contains(text, `✗ describes itself: it has no strategy "none"`) {
		t.Errorf("got\n%s", text)
	}
}

func TestCheckOverAnotherBackend(t *testing.T) {
	path, o := checkOptions("sdk", "firstfit", "no-backend")
	_, text := check(t, path, o)
	if !strings.Contains(text, "✗ strategy first-fit: starts: the executable has no backend") {
		t.Errorf("got\n%s", text)
	}
	o.Backend = Spec{Path: path, Args: []string{"plugin", "sdk"}}
	o.BackendName = "ideal"
	r, text := check(t, path, o)
	if !r.OK() || !strings.Contains(text, "✓ strategy first-fit: replays churn, every answer checked") {
		t.Errorf("got\n%s", text)
	}
}

func TestCheckFindsFlaws(t *testing.T) {
	for flaw, want := range map[string]string{
		"small":        "bytes granted of",
		"crooked":      "is no multiple of",
		"failing-free": `"invalid" in a trace without a wrong event`,
		"random":       "it promises to be deterministic, but differs at event",
		"crash":        "crashed at event",
		"schema":       "it refuses {}, so the plugin does not work without options",
	} {
		t.Run(flaw, func(t *testing.T) {
			path, o := checkOptions("sdk", flaw)
			r, text := check(t, path, o)
			if r.OK() || !strings.Contains(text, string(Failed)) || !strings.Contains(text, want) {
				t.Errorf("want %q in\n%s", want, text)
			}
		})
	}
}

// A plugin made with the SDK that writes 1 GiB to os.Stderr in the middle of a replay neither stops it nor reaches the harness.
func TestFloodOfAnSDKPlugin(t *testing.T) {
	all, err := conformanceTraces()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "t")
	if err := trace.WriteFile(file, all[0].trace); err != nil {
		t.Fatal(err)
	}
	s := spec("sdk", "flood")
	s.ProgressDeadline = time.Minute
	p := start(t, s)
	if _, err := p.Open(bg, OpenRequest{Strategy: "flood", Fused: &FusedDevice{Backend: "ideal", TotalBytes: 1 << 30}, TracePath: file}); err != nil {
		t.Fatal(err)
	}
	var r records
	if _, err := p.Replay(bg, ReplayRequest{}, r.add); err != nil || len(r.outcomes) != len(all[0].trace.Events) {
		t.Errorf("%d outcomes, %v", len(r.outcomes), err)
	}
	waiting, err := p.Close(bg)
	if err != nil || waiting == 0 {
		t.Errorf("Close: %d records wait, %v", waiting, err)
	}
	var frees int
	err = p.DrainCalls(bg, uint64(len(r.outcomes)), func(calls []trace.Call) error {
		for _, c := range calls {
			if c.Event == trace.EventClose && c.Kind == trace.CallFree {
				frees++
			}
		}
		return nil
	})
	if err != nil || frees != 1 { // first fit has one segment
		t.Errorf("%d frees were delivered, %v", frees, err)
	}
	if err := p.Stop(bg); err != nil {
		t.Error(err)
	}
	if st, _ := p.Ended(); st.StderrBytes != (1<<30+6<<16-1)/(6<<16)*(6<<16) {
		t.Errorf("the guard read %d bytes", st.StderrBytes)
	}
	if p.said.Total() != 0 {
		t.Errorf("%d bytes went through the stream", p.said.Total())
	}
}

func TestCheckWithoutBooksAndOfCanaryNotCaught(t *testing.T) {
	path, o := checkOptions("sdk", "canary")
	o.NewChecker = nil
	if r, text := check(t, path, o); !r.OK() || !strings.Contains(text, "who owns which bytes was not checked") {
		t.Errorf("got\n%s", text)
	}
	o.NewChecker = func(*trace.Trace, *StrategyDescription) Checker { return blind{} }
	if r, text := check(t, path, o); r.OK() || !strings.Contains(text, "✗ strategy canary-overlap: is caught: it is a canary") {
		t.Errorf("got\n%s", text)
	}
}

// blind are books that find nothing.
type blind struct{}

func (blind) Records([]trace.Outcome, []trace.Call) error { return nil }
func (blind) End() error                                  { return nil }

func TestCheckOfThingsThatAreNoPlugin(t *testing.T) {
	for mode, want := range map[string]string{
		"garbage":          "✗ starts and shakes hands: plugin host.test broke the protocol",
		"exit":             "✗ starts and shakes hands: plugin host.test did not start",
		"describe-version": "✗ starts and shakes hands: plugin host.test broke the protocol during Describe",
	} {
		path, o := checkOptions(mode)
		if r, text := check(t, path, o); r.OK() || !strings.Contains(text, want) {
			t.Errorf("%s: want %q in\n%s", mode, want, text)
		}
	}
	path, o := checkOptions("family")
	if r, text := check(t, path, o); r.OK() || !strings.Contains(text, "processes behind, which were killed") {
		t.Errorf("got\n%s", text)
	}
}

func TestRecordChecks(t *testing.T) {
	text := "h1 = alloc 100\nfree h1\nh2 = alloc 1TiB\nfree h2\n"
	tr, err := trace.Parse(strings.NewReader(text), "t")
	if err != nil {
		t.Fatal(err)
	}
	good := func() records {
		return records{
			outcomes: []trace.Outcome{{Status: trace.StatusOK, Addr: 512, Granted: 512, Calls: 1}, {Status: trace.StatusOK}, {Status: trace.StatusFailed}, {Status: trace.StatusSkipped}},
			calls:    []trace.Call{{Event: trace.EventOpen, Kind: trace.CallMemInfo}, {Event: 0, Kind: trace.CallMalloc}},
		}
	}
	r := good()
	if err := r.check(tr, 512); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*records)
		says   string
	}{
		"few":       {func(r *records) { r.outcomes = r.outcomes[:3] }, "3 outcomes of 4 events"},
		"status":    {func(r *records) { r.outcomes[1].Status = 99 }, "event 1: status 99 does not exist"},
		"error":     {func(r *records) { r.outcomes[0].Status = trace.StatusError }, `event 0: "error"`},
		"granted":   {func(r *records) { r.outcomes[0].Granted = 99 }, "99 bytes granted of 100"},
		"alignment": {func(r *records) { r.outcomes[0].Addr = 256 }, "0x100 is no multiple of 512"},
		"wraps":     {func(r *records) { r.outcomes[0].Granted = ^uint64(0) }, "beyond the last address"},
		"failed at": {func(r *records) { r.outcomes[2].Addr = 512 }, `"failed" with address 0x200`},
		"skipped":   {func(r *records) { r.outcomes[1].Status = trace.StatusSkipped }, "its handle has a block: true"},
		"freed":     {func(r *records) { r.outcomes[3].Status = trace.StatusOK }, "its handle has a block: false"},
		"free":      {func(r *records) { r.outcomes[1].Status = trace.StatusUnsupported }, `free of a live block is "unsupported"`},
		"calls":     {func(r *records) { r.outcomes[0].Calls = 2 }, "event 0 says 2 call records, there are 1"},
		"order":     {func(r *records) { r.calls = append(r.calls, trace.Call{Event: 3}, trace.Call{Event: 2}) }, "belongs to event 2, the one before it to 3"},
		"beyond":    {func(r *records) { r.calls[1].Event = 4 }, "belongs to event 4 of 4"},
	} {
		r := good()
		c.change(&r)
		if err := r.check(tr, 512); !errors.Is(err, errContract) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
		g := good()
		if err := g.differ(&r); name != "few" && err == nil {
			t.Errorf("%s: no difference was seen", name)
		}
	}
}

func TestSchemaStandsAlone(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "",
		`{"type":"object"}`:             "",
		`{"type":"array"}`:              "it refuses {}",
		`{`:                             "EOF",
		`{"type":"no-such-type"}`:       "valid",
		`{"$ref":"file:///etc/passwd"}`: "must stand alone",
	} {
		err := checkSchema(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestDiscovery(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write := func(dir, name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := write(a, "gpubench-strategy-mine", "", 0o755)
	hidden := write(b, "gpubench-strategy-mine", "", 0o755)
	write(a, "gpubench-strategy-flat", "", 0o644)
	flat := write(b, "gpubench-strategy-flat", "", 0o755)
	write(b, "gpubench-telemetry-nvml", "", 0o755)
	write(b, "gpubench-strategy-", "", 0o755)
	write(b, "gpubench-strategy-mine.sha256", "", 0o755)
	write(b, "gpubench", "", 0o755)
	sum := strings.Repeat("ab", 32)
	write(a, SumsFile, "# pinned\n"+sum+"  gpubench-strategy-mine\n"+sum+" *other\n", 0o644)
	places := []Place{{"first", a}, {"missing", filepath.Join(a, "nowhere")}, {"second", b}}

	found, problems := List(places)
	if len(problems) != 0 {
		t.Errorf("problems %v", problems)
	}
	var got []string
	for _, f := range found {
		line := fmt.Sprintf("%s %s %s %v", f.Kind, f.Name, f.Where, f.SHA256 != "")
		if f.Problem != nil {
			line += ": " + f.Problem.Error()
		}
		got = append(got, strings.ReplaceAll(strings.ReplaceAll(line, a, "A"), b, "B"))
	}
	want := []string{
		"strategy mine first true",
		"strategy flat second false",
		"telemetry nvml second false",
		"strategy flat first false: A/gpubench-strategy-flat is not executable; chmod +x it",
		"strategy mine second false: hidden by A/gpubench-strategy-mine",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if f, err := Find(KindStrategy, "mine", places); err != nil || f.Path != first || f.SHA256 != sum {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err := Find(KindStrategy, "flat", places); err != nil || f.Path != flat {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err := Find(KindStrategy, hidden, places); err != nil || f.Path != hidden || f.Name != "mine" || f.SHA256 != "" {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err := Find(KindBackend, "mine", places); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), a) {
		t.Errorf("got %v", err)
	}
	if _, err := Find(KindBackend, filepath.Join(a, "nothing"), places); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}

	write(a, SumsFile, "nonsense\n", 0o644)
	found, problems = List(places)
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "SHA256SUMS:1: want a SHA-256 sum") || found[0].Path != flat {
		t.Errorf("got %+v, %v", found[0], problems)
	}
}

func TestPlaces(t *testing.T) {
	t.Setenv(PathEnv, "/one:/two")
	t.Setenv("XDG_DATA_HOME", "/data")
	ps := Places()
	if len(ps) != 4 || ps[0].Dir != "/one" || ps[1].Dir != "/two" || ps[2].Name != "beside the executable" || ps[3].Dir != "/data/gpubench/plugins" {
		t.Errorf("got %+v", ps)
	}
}
