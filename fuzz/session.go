package fuzz

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Config is everything that governs what a program does, beside the program.
type Config struct {
	Backend     string          `json:"backend"`
	DeviceBytes uint64          `json:"device_bytes"`
	ArenaBytes  uint64          `json:"arena_bytes"`
	Options     json.RawMessage `json:"options,omitempty"`
	Seed        uint64          `json:"seed"`
}

// Result is what came of a program.
type Result struct {
	Outcomes []trace.Outcome
	Calls    []trace.Call
	Crash    *Crash // the strategy panicked, or its process died; the outcomes are empty then
}

// Crash says how a target ended.
type Crash struct {
	Kind   string // "crash" or "hang"
	Site   string // where: function of the panic, or signal; for triage
	Detail string // one line
	Stack  string
}

// Session is a target that is open: in this process, or in another one.
type Session interface {
	// Execute runs a program from the state after opening or, with keep, from what the last one left. The result is valid until
	// the next call. An error means that the session cannot go on for reasons that are no finding.
	Execute(t *trace.Trace, keep bool) (Result, error)
	// Inspect returns the picture of the target after the last program; false when it has none.
	Inspect() (sdk.Inspection, bool)
	// LeakedBytes is what the target held when it was last closed; false when that is not known.
	LeakedBytes() (uint64, bool)
	// Close ends it.
	Close() error
}

// ErrConfig says that a strategy refuses a configuration: too small an arena, an option. No finding.
var ErrConfig = errors.New("the strategy refuses the configuration")

// local is a session in this process.
type local struct {
	desc   *sdk.Description
	cfg    Config
	runner *sdk.Runner
	exec   *sdk.Executor
	probe  *probe
	dead   bool // it panicked; nothing of it is used again
}

// OpenLocal opens a strategy in this process. tables is any program with the tables of those to come.
func OpenLocal(desc *sdk.Description, cfg Config, tables *trace.Trace) (Session, error) {
	l := &local{desc: desc, cfg: cfg}
	if err := l.open(tables); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *local) open(tables *trace.Trace) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: opening it panics: %v", ErrConfig, p)
		}
	}()
	empty := *tables
	empty.Events, empty.Extras, empty.TimesNs, empty.Slots = nil, nil, nil, 0
	l.runner, err = sdk.NewRunner(sdk.RunnerConfig{
		Strategy: l.desc, Options: l.cfg.Options, Trace: &empty, Capacity: l.cfg.ArenaBytes, Seed: l.cfg.Seed, Timing: sdk.TimingBatch, CloseFully: true,
		OpenDevice: func() (backends.Device, error) {
			if l.cfg.Backend == BackendHost {
				return openHost(l.cfg.DeviceBytes)
			}
			p, err := openProbe(l.cfg.Backend, l.cfg.DeviceBytes)
			l.probe = p
			return p, err
		},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	l.exec = sdk.NewExecutor(l.runner)
	l.dead = false
	return nil
}

// Execute runs a program and catches what the strategy throws.
func (l *local) Execute(t *trace.Trace, keep bool) (run Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.dead = true
			run, err = Result{Crash: crashOf(p, debug.Stack())}, nil
		}
	}()
	if l.dead {
		if err := l.open(t); err != nil {
			return Result{}, err
		}
	}
	if l.probe != nil {
		l.probe.calls, l.probe.most = 0, callsBase+callsPerEvent*len(t.Events)
	}
	res, err := l.exec.Execute(t, keep)
	if err != nil {
		l.dead = true
		return Result{}, err
	}
	return Result{Outcomes: res.Outcomes, Calls: res.Calls}, nil
}

// Inspect asks the strategy; a panic there counts as having no picture, the next program will meet the same state.
func (l *local) Inspect() (in sdk.Inspection, ok bool) {
	if l.dead {
		return in, false
	}
	in, err := l.runner.Inspect()
	return in, err == nil
}

// LeakedBytes is what the device saw at the last close.
func (l *local) LeakedBytes() (uint64, bool) {
	if l.probe == nil {
		return 0, false
	}
	return l.probe.leaked, true
}

// Close closes the strategy, unless it is beyond that.
func (l *local) Close() (err error) {
	if l.dead || l.runner == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			l.dead = true
			err = fmt.Errorf("closing %s panics: %v", l.desc.Name, p)
		}
	}()
	return l.runner.Close()
}

// crashOf makes the crash of a panic. Its site is the first function on the stack that belongs to neither the Go runtime nor
// this program's own machinery.
func crashOf(p any, stack []byte) *Crash {
	c := &Crash{Kind: "crash", Detail: strings.Join(strings.Fields(fmt.Sprint(p)), " "), Stack: string(stack)}
	if err, ok := p.(error); ok && errors.Is(err, errEndless) {
		c.Kind = "hang"
	}
	c.Site = siteOf(c.Stack)
	return c
}

// machinery are the prefixes of functions that a panic passes through without being its place.
var machinery = []string{"runtime.", "runtime/debug.", "panic(", "github.com/gpubench/gpubench/fuzz.", "github.com/gpubench/gpubench/plugins/sdk."}

func siteOf(stack string) string {
next:
	for _, line := range strings.Split(stack, "\n") {
		if line == "" || line[0] == '\t' || strings.HasPrefix(line, "goroutine ") {
			continue
		}
		for _, m := range machinery {
			if strings.HasPrefix(line, m) {
				continue next
			}
		}
		if i := strings.LastIndexByte(line, '('); i > 0 {
			line = line[:i]
		}
		return line[strings.LastIndexByte(line, '/')+1:]
	}
	return ""
}

// cancelFaults disarms a failure that the last program asked for and did not meet.
func (l *local) cancelFaults() {
	if l.probe != nil && !l.dead {
		l.probe.FailNext(0)
	}
}
