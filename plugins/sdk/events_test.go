package sdk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// full implements every optional interface, on top of direct, and writes down what it is told.
type full struct {
	direct
	told    []string
	moves   []trace.Call // notes to make at the next Defragment
	status  trace.Status // of the next free
	feature uint32
}

func (f *full) tell(format string, args ...any) trace.Status {
	f.told = append(f.told, fmt.Sprintf(format, args...))
	return trace.StatusOK
}

func (f *full) Free(b *Block, s Stream) trace.Status {
	if st := f.status; st != trace.StatusOK {
		f.status = trace.StatusOK
		return st
	}
	f.tell("free %#x", b.Addr)
	return f.direct.Free(b, s)
}
func (f *full) Use(b *Block, s Stream) trace.Status     { return f.tell("use %#x %d", b.Addr, s) }
func (f *full) StreamWait(s, on Stream) trace.Status    { return f.tell("wait %d on %d", s, on) }
func (f *full) StreamDestroyed(s Stream) trace.Status   { return f.tell("destroyed %d", s) }
func (f *full) Trim() trace.Status                      { return f.tell("trim") }
func (f *full) PoolBegin(p Pool) trace.Status           { return f.tell("begin %d", p) }
func (f *full) PoolEnd(p Pool) trace.Status             { return f.tell("end %d", p) }
func (f *full) PoolRelease(p Pool) trace.Status         { return f.tell("release %d", p) }
func (f *full) Set(k, v string) trace.Status            { return f.tell("set %s to %s", k, v) }
func (f *full) Mark(k string, v uint64)                 { f.tell("mark %s %d", k, v) }
func (f *full) Reset() trace.Status                     { return f.tell("reset") }
func (f *full) Checkpoint(n uint32) trace.Status        { return f.tell("checkpoint %d", n) }
func (f *full) RestoreCheckpoint(n uint32) trace.Status { return f.tell("restore %d", n) }
func (f *full) FreeWrong(b *Block, _ Stream) trace.Status {
	f.tell("free! %#x", b.Addr)
	return trace.StatusInvalid
}
func (f *full) Feature() uint32 { f.feature++; return f.feature }
func (f *full) Completed(s Stream, all, host bool) trace.Status {
	return f.tell("completed %d all=%v host=%v", s, all, host)
}
func (f *full) Defragment() trace.Status {
	for _, m := range f.moves {
		f.env.Log.Note(m)
	}
	return trace.StatusOK
}

func openFull(t *testing.T, text string, d backends.Device) (*Runner, *full) {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader("# gpubench trace 1\n"+text), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	f := &full{}
	r := open(t, RunnerConfig{Trace: tr, Strategy: &Description{Name: "full", New: func(env *Env) (Strategy, error) {
		*f = full{direct: direct{env: env}}
		return f, nil
	}}}, d)
	return r, f
}

func statusWords(outcomes []trace.Outcome) string {
	var w []string
	for _, o := range outcomes {
		w = append(w, o.Status.String())
	}
	return strings.Join(w, " ")
}

func TestEveryKindReachesItsInterface(t *testing.T) {
	d := newArenaDevice(1 << 20)
	r, f := openFull(t, `h1 = alloc 256
use h1 stream=7
wait stream=0 on=7
complete stream=7
complete
sync
sync stream=7
trim
mark iteration=2
pool-begin 0:1
pool-end
pool-release 0:1
set limit=5
events manual
stream-destroy 7
touch h1 by=cpu offset=0 length=1
free h1
free! h1
defragment
`, d)
	outcomes, calls, _ := replayAll(t, r, window(t, 100, 100))
	want := []string{"use 0x200000 1", "wait 0 on 1", "completed 1 all=false host=false", "completed 0 all=true host=false",
		"completed 0 all=true host=true", "completed 1 all=false host=true", "trim", "mark iteration 2", "begin 1", "end 1", "release 1",
		"set limit to 5", "destroyed 1", "free 0x200000", "free! 0x200000"}
	if !slices.Equal(f.told, want) {
		t.Errorf("told\n%q, want\n%q", f.told, want)
	}
	if got := statusWords(outcomes); got != strings.Repeat("ok ", 15)+"unsupported ok invalid ok" {
		t.Errorf("statuses %s", got)
	}
	if !d.manual || len(calls) != 2 {
		t.Errorf("manual events %v, %d calls: the program's own stream calls must not be recorded", d.manual, len(calls))
	}
	for i, o := range outcomes {
		if o.Feature != uint32(i+1) {
			t.Errorf("outcome %d has feature %d", i, o.Feature)
		}
	}
}

// The device is told of completed work before the strategy, which therefore sees its event complete.
func TestDeviceHearsOfCompletionFirst(t *testing.T) {
	d := newArenaDevice(1 << 20)
	e := d.Record(1)
	d.SetManualEvents(true)
	e = d.Record(1)
	r, f := openFull(t, "events manual\nh1 = alloc 8 stream=7\ncomplete stream=7\n", d)
	seen := false
	inner := r.uses.completer
	r.uses.completer = completerFunc(func(s Stream, all, host bool) trace.Status {
		seen = d.Query(e)
		return inner.Completed(s, all, host)
	})
	if d.Query(e) {
		t.Fatal("the event is complete too early")
	}
	replayAll(t, r, window(t, 10, 10))
	if !seen || len(f.told) != 1 {
		t.Errorf("event complete when the strategy heard of it: %v; told %q", seen, f.told)
	}
}

type completerFunc func(s Stream, all, host bool) trace.Status

func (c completerFunc) Completed(s Stream, all, host bool) trace.Status { return c(s, all, host) }

func TestMissingInterfaces(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(`# gpubench trace 1
h1 = alloc 256
use h1 stream=7
wait stream=0 on=7
complete
sync
trim
mark iteration=2
pool-begin 0:1
pool-end
pool-release 0:1
set limit=5
stream-destroy 7
prefetch h1 to=gpu
touch h1 by=gpu offset=0 length=4
checkpoint c1
restore c1
defragment
free h1
free! h1
reset
`), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: tr}, newArenaDevice(1<<20))
	outcomes, _, _ := replayAll(t, r, window(t, 100, 100))
	want := "ok unsupported ok ok ok unsupported ok unsupported unsupported unsupported unsupported ok unsupported unsupported unsupported unsupported unsupported ok unsupported unsupported"
	if got := statusWords(outcomes); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// h1 moves to the address that h2 has left; what comes after names the new addresses.
func TestMovesAreFollowed(t *testing.T) {
	d := newArenaDevice(1 << 20)
	r, f := openFull(t, "h1 = alloc 256\nh2 = alloc 256\ndefragment\nuse h1 stream=7\nuse h2 stream=7\n", d)
	const a1, a2, other = 2 << 20, 2<<20 + 256, 0x900000
	f.moves = []trace.Call{
		{Kind: trace.CallMove, Aux: a2, Addr: other, Size: 256}, // h2 makes room
		{Kind: trace.CallMove, Aux: a1, Addr: a2, Size: 256},    // h1 takes its place
		{Kind: trace.CallMalloc, Addr: 1},                       // claimed device calls are not taken
	}
	_, calls, _ := replayAll(t, r, window(t, 10, 1)) // the records of the event come in several windows
	if want := []string{fmt.Sprintf("use %#x 1", a2), fmt.Sprintf("use %#x 1", other)}; !slices.Equal(f.told, want) {
		t.Errorf("told %q, want %q", f.told, want)
	}
	if len(calls) != 4 || calls[2].Kind != trace.CallMove || calls[3].Event != 2 {
		t.Errorf("calls %v", calls)
	}
}

func TestReallocFallback(t *testing.T) {
	d := newArenaDevice(1000)
	r, f := openFull(t, `h1 = alloc 300
h2 = realloc h1 400
h3 = realloc h2 700
free h3
h4 = alloc 100
h5 = realloc h4 200
free h5
`, d)
	// h3: 400 of 1000 are held, 700 more fail, so the block of h2 stays, without a name. h5: the strategy refuses to free h4, so
	// the new block goes back and that of h4 stays.
	w := window(t, 5, 100)
	if _, err := r.Replay(w, 0, 5, false); err != nil {
		t.Fatal(err)
	}
	outcomes := slices.Clone(w.Outcomes())
	f.status = trace.StatusInvalid
	if _, err := r.Replay(w, 5, 2, false); err != nil {
		t.Fatal(err)
	}
	outcomes = append(outcomes, w.Outcomes()[:2]...)
	if got := statusWords(outcomes); got != "ok ok failed skipped ok invalid skipped" {
		t.Errorf("statuses %s", got)
	}
	if outcomes[1].Calls != 2 || outcomes[1].Granted != 400 || outcomes[5].Addr != 0 || outcomes[5].Calls != 2 {
		t.Errorf("realloc %+v, refused realloc %+v", outcomes[1], outcomes[5])
	}
	if d.used != 400+100 {
		t.Errorf("%d bytes are held", d.used)
	}
}

func TestResetAndCheckpointDropBlocks(t *testing.T) {
	d := newArenaDevice(1 << 20)
	r, f := openFull(t, `h1 = alloc 256
h2 = alloc 256
checkpoint c1
free h1
h3 = alloc 256
restore c1
use h1 stream=7
use h2 stream=7
reset
`, d)
	outcomes, calls, _ := replayAll(t, r, window(t, 100, 100))
	if got := statusWords(outcomes); got != strings.TrimSpace(strings.Repeat("ok ", 9)) {
		t.Errorf("statuses %s", got)
	}
	var notes []string
	for _, c := range calls {
		if c.Kind >= trace.CallMove {
			notes = append(notes, fmt.Sprintf("%d: %d at %#x aux %d", c.Event, c.Kind, c.Addr, c.Aux))
		}
	}
	name := uint32(0)
	for i, s := range r.config.Trace.Strings {
		if s == "c1" {
			name = uint32(i)
		}
	}
	const base = 2 << 20
	want := []string{
		fmt.Sprintf("2: %d at 0x0 aux %d", trace.CallCheckpoint, name),
		fmt.Sprintf("5: %d at %#x aux 0", trace.CallDropped, base+512), // h3; h1 and h2 are live again
		fmt.Sprintf("8: %d at %#x aux 0", trace.CallDropped, base),
		fmt.Sprintf("8: %d at %#x aux 0", trace.CallDropped, base+256),
	}
	if !slices.Equal(notes, want) {
		t.Errorf("notes\n%q, want\n%q", notes, want)
	}
	if !slices.Contains(f.told, fmt.Sprintf("use %#x 1", base)) {
		t.Errorf("h1 is not live after the restore: %q", f.told)
	}
}

func TestFailNextWithoutInjector(t *testing.T) {
	tr := parse(trace.Event{Kind: trace.KindFailNext, Size: 2}, alloc(1, 8), alloc(2, 8), alloc(3, 8))
	r := open(t, RunnerConfig{Strategy: describeDirect(1), Trace: tr}, newArenaDevice(1000))
	outcomes, calls, _ := replayAll(t, r, window(t, 10, 10))
	if got := statusWords(outcomes); got != "ok ok failed ok" {
		t.Errorf("statuses %s", got)
	}
	if c := calls[3]; c.Kind != trace.CallMalloc || c.Status != trace.CallInjected || c.Event != 2 {
		t.Errorf("the second call that can fail: %+v", c)
	}
}

// restorer takes over a layout.
type restorer struct {
	direct
	skip bool
}

func (s *restorer) RestoreLayout(st *trace.State, place func(uint32, Block)) error {
	for _, seg := range st.Segments {
		for _, b := range seg.Blocks {
			if b.Handle != 0 && !s.skip {
				place(b.Slot, Block{Addr: b.Addr, Size: b.Bytes})
			}
		}
	}
	return nil
}

func TestRestoreTellsTheDeviceAndFillsTheSlots(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(`# gpubench trace 1
state
segment 0x200000 2MiB
block h1 1MiB
block free 1MiB
end
free h1
h2 = alloc 512
`), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	open := func(s *restorer) (*Runner, *arenaDevice) {
		d := newArenaDevice(4 << 20)
		return open(t, RunnerConfig{Trace: tr, Strategy: &Description{Name: "restorer", New: func(env *Env) (Strategy, error) {
			s.env = env
			return s, nil
		}}}, d), d
	}
	r, d := open(&restorer{})
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	if d.used != 2<<20 {
		t.Errorf("the device holds %d bytes", d.used)
	}
	outcomes, calls, _ := replayAll(t, r, window(t, 10, 10))
	if got := statusWords(outcomes); got != "ok ok" {
		t.Errorf("statuses %s", got)
	}
	if c := calls[0]; c.Event != trace.EventRestore || c.Kind != trace.CallMalloc || c.Addr != 2<<20 || c.Size != 2<<20 {
		t.Errorf("first record %+v", c)
	}
	if err := r.Restore(); !errors.Is(err, ErrWrongEvent) {
		t.Errorf("Restore after the first event: %v", err)
	}
	if err := r.Reset(); err != nil || !r.restored {
		t.Errorf("Reset: %v, restored %v", err, r.restored)
	}
	r, _ = open(&restorer{skip: true})
	if err := r.Restore(); !errors.Is(err, ErrBrokenBlock) {
		t.Errorf("a strategy that places nothing: %v", err)
	}
}
