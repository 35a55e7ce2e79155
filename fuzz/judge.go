package fuzz

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Judge runs a program on a target that was just opened, and makes every check that applies, up to a stage. It is thorough, not fast:
// campaigns use it for one program in some, for what the quick checks suspect, and for shrinking and replaying.
type Judge struct {
	target  *Target
	cfg     Config
	until   Stage
	sess    Session
	led     *ledger.Ledger
	shadow  shadow
	epi     trace.Trace // the epilogue
	first   []trace.Outcome
	opened  uint64 // bytes held after opening
	meta    uint64 // bytes of bookkeeping after opening
	broken  bool   // the strategy said that it broke after a failed device call; nothing is judged from there on
	writer  *plan.Writer
	variant []plan.Op
	twin    Session // in this process, of a target that is not
}

// NewJudge returns a judge of programs for a target in a configuration.
func NewJudge(t *Target, cfg Config) *Judge {
	return &Judge{target: t, cfg: cfg, until: StageVariants, led: ledger.New(ledger.Config{}), writer: plan.NewWriter(nil)}
}

// Until makes the judge stop after a stage.
func (j *Judge) Until(s Stage) { j.until = s }

// Close closes what is open.
func (j *Judge) Close() {
	for _, s := range []Session{j.sess, j.twin} {
		if s != nil {
			_ = s.Close() // what is wrong with closing is a breach of a program that was judged
		}
	}
	j.sess, j.twin = nil, nil
}

// Judge returns the first breach of a program, nil if there is none. The error says that the program could not be run at all.
func (j *Judge) Judge(t *trace.Trace) (*Breach, error) {
	run, err := j.fresh(t)
	if err != nil {
		return nil, err
	}
	if run.Crash != nil {
		return crashed(run.Crash, StageRun), nil
	}
	if b := j.books(t, &run); b != nil {
		return b, nil
	}
	j.first = append(j.first[:0], run.Outcomes...)
	if j.broken {
		return nil, nil
	}
	if j.until >= StageInspect && !j.target.BlackBox {
		if in, ok := j.sess.Inspect(); ok {
			if b := j.inspect(&in, len(t.Events)); b != nil {
				return b, nil
			}
		}
	}
	if j.until >= StageEpilogue {
		if b, err := j.epilogue(t); b != nil || err != nil {
			return b, err
		}
	}
	if j.until >= StageRepeat {
		if b, err := j.repeat(t); b != nil || err != nil {
			return b, err
		}
	}
	if j.until >= StageVariants {
		return j.variants(t)
	}
	return nil, nil
}

// fresh runs a program on a target that was just opened.
func (j *Judge) fresh(t *trace.Trace) (Result, error) {
	if j.sess == nil {
		s, err := j.target.open(j.cfg, t)
		if err != nil {
			return Result{}, err
		}
		if r, ok := s.(*remoteSession); ok {
			r.look = !j.target.BlackBox
		}
		j.sess = s
		empty := *t
		empty.Events, empty.Extras = nil, nil
		if _, err := s.Execute(&empty, false); err != nil {
			return Result{}, err
		}
		if in, ok := s.Inspect(); ok {
			j.meta = in.MetaBytes
		}
	}
	run, err := j.sess.Execute(t, false)
	if err != nil {
		_ = j.sess.Close() // it failed already
		j.sess = nil
	}
	return run, err
}

// codeHang is the code of a program that does not end at all.
const codeHang = "hang"

func crashed(c *Crash, s Stage) *Breach {
	b := &Breach{Check: CheckCrash, Code: "crash", Expected: "no crash", Observed: c.Detail, Site: c.Site, Stack: c.Stack, Stage: s}
	if c.Kind == "hang" {
		b.Check, b.Code, b.Expected = CheckHang, "endless-calls", "an end"
		if c.Detail != errEndless.Error() {
			b.Code = codeHang
		}
	}
	return b
}

// ledgerConfig is what the ledger may assume of the target.
func ledgerConfig(t *Target, cfg *Config, tr *trace.Trace) ledger.Config {
	c := ledger.Config{
		Extras: tr.Extras, Strings: tr.Strings, DeviceTotalBytes: cfg.DeviceBytes, DevicePageBytes: devicePageBytes(cfg.Backend),
		AlignmentBytes: t.Desc.Alignment, MemInfoExact: cfg.Backend != BackendHost, IgnoreStreams: !t.promises(sdk.PromiseStreamSafe),
	}
	if t.Desc.Arena {
		c.LimitBytes = cfg.ArenaBytes
	}
	return c
}

// devicePageBytes is the unit in which a device charges.
func devicePageBytes(backend string) uint64 {
	if backend == BackendHost {
		return 4 << 10
	}
	return 2 << 20
}

// books feeds the ledger event by event, and makes the checks that need the state at the event.
func (j *Judge) books(t *trace.Trace, run *Result) *Breach {
	j.led.Reset(ledgerConfig(j.target, &j.cfg, t))
	j.shadow.reset()
	j.broken = false
	at := 0
	for at < len(run.Calls) && run.Calls[at].Event >= trace.EventRestore {
		at++
	}
	j.shadow.calls(run.Calls[:at])
	j.opened = j.shadow.held
	if err := j.led.Feed(0, nil, nil, nil, run.Calls[:at]); err != nil {
		return malformed(err, -1)
	}
	return j.feed(t, run.Outcomes, run.Calls[at:], 0)
}

// feed feeds the events of t with their outcomes; base is the index of the first.
func (j *Judge) feed(t *trace.Trace, outcomes []trace.Outcome, calls []trace.Call, base int) *Breach {
	stage := StageRun
	if base > 0 {
		stage = StageEpilogue
	}
	for i := range outcomes {
		n := 0
		for n < len(calls) && calls[n].Event == uint64(i) {
			calls[n].Event += uint64(base)
			n++
		}
		if gaveUp(&t.Events[i], &outcomes[i], calls[:n]) {
			j.broken = true
			return nil
		}
		before := j.led.SpuriousFailures()
		if err := j.led.Feed(uint64(base+i), t.Events[i:i+1], nil, outcomes[i:i+1], calls[:n]); err != nil {
			return malformed(err, base+i)
		}
		j.shadow.fault = false
		j.shadow.calls(calls[:n])
		b := ledgerBreach(j.led)
		if b == nil {
			b = j.afterEvent(t, i, &outcomes[i], before)
		}
		if b != nil {
			b.Event, b.Kind, b.Stage = base+i, t.Events[i].Kind.String(), stage
			return b
		}
		j.shadow.event(t, i, &outcomes[i])
		calls = calls[n:]
	}
	if len(calls) > 0 {
		return malformed(fmt.Errorf("call log: a record of event %d after the last", calls[0].Event), base+len(outcomes))
	}
	return nil
}

// gaveUp reports whether a strategy says of a reset or restore that it broke, after a device call that failed on purpose. It has
// dropped its blocks by then and could not take memory anew: an honest answer, after which nothing can be expected of it.
func gaveUp(ev *trace.Event, o *trace.Outcome, calls []trace.Call) bool {
	if o.Status != trace.StatusError || ev.Kind != trace.KindReset && ev.Kind != trace.KindRestore {
		return false
	}
	for i := range calls {
		if calls[i].Status != trace.CallOK {
			return true
		}
	}
	return false
}

func malformed(err error, event int) *Breach {
	return &Breach{Check: CheckConservation, Code: "malformed-records", Event: event, Expected: "records as docs/PLUGINS.md has them", Observed: err.Error()}
}

// ledgerBreach makes a breach of the first violation.
func ledgerBreach(l *ledger.Ledger) *Breach {
	v := l.Violations()
	if len(v) == 0 {
		return nil
	}
	return &Breach{Check: string(v[0].Check), Code: string(v[0].Code), Handle: v[0].Handle, Expected: v[0].Expected, Observed: v[0].Observed, Map: v[0].Map}
}

// afterEvent makes the checks of promises at one event, before the shadow has entered it.
func (j *Judge) afterEvent(t *trace.Trace, i int, o *trace.Outcome, before ledger.Spurious) *Breach {
	ev := &t.Events[i]
	if o.Status == trace.StatusError && !j.shadow.fault {
		return &Breach{Check: CheckCrash, Code: "error-status", Handle: uint64(ev.Handle), Expected: "a status that says what happened", Observed: "error, though the device did what it was asked"}
	}
	if !ev.Kind.TakesMemory() {
		return nil
	}
	if o.Status.Placed() {
		return wasted(j.target, ev, o)
	}
	if o.Status == trace.StatusFailed && j.target.promises(sdk.PromiseNoSpuriousFailure) {
		return j.spurious(ev, before)
	}
	return nil
}

// wasted checks the bounded-waste promise (O17): granted at most the factor times what was asked, rounded up to the alignment.
func wasted(t *Target, ev *trace.Event, o *trace.Outcome) *Breach {
	if t.Desc.WasteFactor < 1 || !t.promises(sdk.PromiseBoundedWaste) {
		return nil
	}
	asked := roundUp(ev.Size, max(t.Desc.Alignment, 1))
	if asked < ev.Size || float64(o.Granted) <= t.Desc.WasteFactor*float64(asked) {
		return nil
	}
	return &Breach{Check: CheckCost, Code: "waste", Handle: uint64(ev.Handle), Observed: trace.FormatSize(o.Granted) + " granted",
		Expected: fmt.Sprintf("at most %g times the %s requested", t.Desc.WasteFactor, trace.FormatSize(asked))}
}

// spurious checks the no-spurious-failure promise (O6): the ledger says that bytes were there, the reference allocator that
// they lay so that the request fits at its alignment.
func (j *Judge) spurious(ev *trace.Event, before ledger.Spurious) *Breach {
	now := j.led.SpuriousFailures()
	size := roundUp(ev.Size, max(j.target.Desc.Alignment, 1))
	if size < ev.Size || ev.Size == 0 || j.shadow.exotic {
		return nil
	}
	if now.DropCaches > before.DropCaches {
		return &Breach{Check: CheckSpurious, Code: "spurious-failure", Handle: uint64(ev.Handle), Observed: "out of memory for " + trace.FormatSize(ev.Size),
			Expected: "success: dropping wholly free segments gives the device enough"}
	}
	if now.NoneNeeded == before.NoneNeeded {
		return nil
	}
	align := max(j.target.Desc.Alignment, 1)
	if ev.AlignLog2 > 0 {
		align = max(align, 1<<ev.AlignLog2)
	}
	where := "the device has enough"
	if addr, ok := j.shadow.fits(size, align); ok {
		where = fmt.Sprintf("%s are free at 0x%x", trace.FormatSize(size), addr)
	} else if j.target.Desc.Arena || !j.deviceHas(ev.Size) {
		return nil // inside its segments no place is aligned, and the device is not its to ask or has no more
	}
	return &Breach{Check: CheckSpurious, Code: "spurious-failure", Handle: uint64(ev.Handle), Observed: "out of memory for " + trace.FormatSize(ev.Size),
		Expected: "success: " + where}
}

// deviceHas reports whether the device has a segment of size bytes left: every one is charged in whole pages.
func (j *Judge) deviceHas(size uint64) bool {
	page := devicePageBytes(j.cfg.Backend)
	charged := uint64(0)
	for _, s := range j.shadow.segs {
		charged += roundUp(s.size, page)
	}
	need := roundUp(size, page)
	return need >= size && charged <= j.cfg.DeviceBytes && need <= j.cfg.DeviceBytes-charged
}

func roundUp(n, unit uint64) uint64 {
	if unit&(unit-1) == 0 {
		return (n + unit - 1) &^ (unit - 1)
	}
	q, r := bits.Div64(0, n, unit)
	if r > 0 {
		q++
	}
	return q * unit
}

// epilogue frees everything that is live, lets every stream complete and drops caches; then nothing may be left.
func (j *Judge) epilogue(t *trace.Trace) (*Breach, error) {
	j.writeEpilogue(t)
	run, err := j.sess.Execute(&j.epi, true)
	if err != nil {
		return nil, err
	}
	if run.Crash != nil {
		b := crashed(run.Crash, StageEpilogue)
		b.Event = len(t.Events)
		return b, nil
	}
	// After a crash the session is opened anew; there is nothing to compare then.
	if b := j.feed(&j.epi, run.Outcomes, run.Calls, len(t.Events)); b != nil {
		return b, nil
	}
	end := len(t.Events) + len(j.epi.Events)
	if j.shadow.exotic || j.shadow.fault {
		return nil, nil
	}
	trimmed := run.Outcomes[len(run.Outcomes)-1].Status == trace.StatusOK || run.Outcomes[len(run.Outcomes)-1].Status == trace.StatusRecovered
	if b := j.reclaimed(trimmed); b != nil {
		b.Event = end
		return b, nil
	}
	if j.target.BlackBox {
		return nil, nil
	}
	if in, ok := j.sess.Inspect(); ok {
		return j.inspectEmpty(&in, end), nil
	}
	return nil, nil
}

// writeEpilogue writes: work completes at once, all streams complete, the host waits, free every live block, trim.
func (j *Judge) writeEpilogue(t *trace.Trace) {
	e := &j.epi
	*e = trace.Trace{Meta: t.Meta, Strings: t.Strings, Streams: t.Streams, Pools: t.Pools, Slots: t.Slots, Events: e.Events[:0]}
	e.Events = append(e.Events, trace.Event{Kind: trace.KindEvents}, trace.Event{Kind: trace.KindComplete, Flags: trace.FlagAll},
		trace.Event{Kind: trace.KindSync, Flags: trace.FlagAll})
	for i := range j.shadow.live {
		if b := &j.shadow.live[i]; b.handle != 0 {
			e.Events = append(e.Events, trace.Event{Kind: trace.KindFree, Handle: b.handle, Slot: uint32(i), Stream: b.stream})
		}
	}
	if j.target.can(sdk.CapPools) { // private pools keep their memory until they are released
		begun := make([]int, len(t.Pools)) // each begin is one holder more
		for i := range t.Events {
			if t.Events[i].Kind == trace.KindPoolBegin {
				begun[t.Events[i].Pool]++
			}
		}
		for p := 1; p < len(t.Pools); p++ {
			for range begun[p] + 1 { // an alloc that names a pool holds it, too
				e.Events = append(e.Events, trace.Event{Kind: trace.KindPoolEnd, Pool: uint16(p)}, trace.Event{Kind: trace.KindPoolRelease, Pool: uint16(p)})
			}
		}
	}
	e.Events = append(e.Events, trace.Event{Kind: trace.KindSync, Flags: trace.FlagAll}, trace.Event{Kind: trace.KindTrim})
}

// reclaimed checks what the device has after everything was freed (O13).
func (j *Judge) reclaimed(trimmed bool) *Breach {
	back := j.target.promises(sdk.PromiseReturnsOnFree) || trimmed && j.target.promises(sdk.PromiseReclaims)
	if !back || j.shadow.held <= j.opened {
		return nil
	}
	return &Breach{Check: CheckReclaim, Code: "not-reclaimed", Stage: StageEpilogue,
		Expected: fmt.Sprintf("%s held, as after opening", trace.FormatSize(j.opened)),
		Observed: fmt.Sprintf("%s held with everything freed and trimmed", trace.FormatSize(j.shadow.held))}
}

// repeat opens the target anew, which shows what it held when it was closed, and compares the outcomes.
func (j *Judge) repeat(t *trace.Trace) (*Breach, error) {
	run, err := j.fresh(t)
	if err != nil {
		if errors.Is(err, ErrConfig) || errors.Is(err, ErrSession) {
			return nil, err
		}
		return &Breach{Check: CheckReclaim, Code: "close-fails", Event: len(t.Events), Stage: StageRepeat, Expected: "close and open to succeed", Observed: err.Error()}, nil
	}
	if run.Crash != nil {
		b := crashed(run.Crash, StageRepeat)
		b.Event = len(t.Events)
		return b, nil
	}
	again := append([]trace.Outcome(nil), run.Outcomes...)
	if b := j.leak(len(t.Events)); b != nil { // closed with everything freed
		return b, nil
	}
	empty := *t
	empty.Events, empty.Extras = nil, nil
	if _, err := j.fresh(&empty); err != nil {
		return nil, err
	}
	if b := j.leak(len(t.Events)); b != nil { // closed as the program left it
		return b, nil
	}
	if !j.target.promises(sdk.PromiseDeterministic) {
		return nil, nil
	}
	b := differ(t, j.first, again, true, "the same program again")
	if b != nil {
		b.Stage = StageRepeat
	}
	return b, nil
}

// leak is what the target held when it was closed last (O13).
func (j *Judge) leak(event int) *Breach {
	leaked, ok := j.sess.LeakedBytes()
	if !ok || leaked == 0 {
		return nil
	}
	return &Breach{Check: CheckReclaim, Code: "leak", Event: event, Stage: StageRepeat, Expected: "nothing held after close",
		Observed: trace.FormatSize(leaked) + " of device memory"}
}

// differ compares the outcomes of two runs; addresses only where they must agree.
func differ(t *trace.Trace, want, got []trace.Outcome, addresses bool, what string) *Breach {
	for i := range want {
		a, b := &want[i], &got[i]
		if a.Status == b.Status && a.Granted == b.Granted && (!addresses || a.Addr == b.Addr) {
			continue
		}
		return &Breach{Check: CheckMetamorphic, Code: "outcome-differs", Event: i, Kind: t.Events[i].Kind.String(), Handle: uint64(t.Events[i].Handle),
			Stage: StageVariants, Expected: outcomeText(a), Observed: what + ": " + outcomeText(b)}
	}
	return nil
}

func outcomeText(o *trace.Outcome) string {
	if o.Addr == 0 && o.Granted == 0 {
		return o.Status.String()
	}
	return fmt.Sprintf("%v with %s at 0x%x", o.Status, trace.FormatSize(o.Granted), o.Addr)
}
