package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/trace"
)

// Checker keeps books over the records of one replay: the ledger, behind the caller's adapter.
type Checker interface {
	// Records gets all outcomes and call records of the replay, in order.
	Records(outcomes []trace.Outcome, calls []trace.Call) error
	// End is called once at the end.
	End() error
}

// CheckOptions says how to check a plugin.
type CheckOptions struct {
	// Args are arguments of the executable; third-party plugins have none.
	Args []string
	// Strategy checks only the strategy of that name; "" checks all that the executable serves.
	Strategy string
	// Backend starts a process that serves the backend named BackendName, for strategies whose own executable does not.
	Backend     Spec
	BackendName string
	// NewChecker makes the books for one replay; nil checks records one by one only, and the report says so.
	NewChecker func(t *trace.Trace, s *StrategyDescription) Checker
	// Guard, Env and MemoryLimitBytes are as in Spec.
	Guard            []string
	Env              []string
	MemoryLimitBytes uint64
}

// Mark is the result of one check.
type Mark string

// The marks.
const (
	Passed Mark = "✓"
	Failed Mark = "✗"
)

// Line is one check of a report.
type Line struct {
	Mark   Mark   `json:"mark"`
	Check  string `json:"check"`
	Detail string `json:"detail,omitempty"` // the reason where it failed, else what was seen
}

// Report is what Check found.
type Report struct {
	Path        string       `json:"path"`
	Description *Description `json:"-"`
	Lines       []Line       `json:"lines"`
}

// OK reports whether nothing failed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Mark == Failed })
}

// WriteText writes one line a check.
func (r *Report) WriteText(w io.Writer) error {
	for _, l := range r.Lines {
		text := string(l.Mark) + " " + l.Check
		if l.Detail != "" {
			text += ": " + l.Detail
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) add(check string, err error, seen string) bool {
	l := Line{Mark: Passed, Check: check, Detail: seen}
	if err != nil {
		l.Mark, l.Detail = Failed, oneLine(err.Error())
	}
	r.Lines = append(r.Lines, l)
	return err == nil
}

// checkDeviceBytes is the device of the conformance traces.
const checkDeviceBytes = 256 << 20

// checking is one Check.
type checking struct {
	CheckOptions
	path   string
	dir    string // binary traces
	traces []conformanceTrace
	report Report
}

// Check checks a plugin executable against the contract: it starts it, has it describe itself, looks at its options
// schemas, sends it requests that it must refuse, replays the conformance traces through every strategy with every record
// checked, again after a reset and again in another process through tiny windows, and ends it. What is wrong with the plugin
// is in the report; the error is for what is wrong here, or with ctx.
func Check(ctx context.Context, path string, o CheckOptions) (Report, error) {
	c := &checking{CheckOptions: o, path: path, report: Report{Path: path}}
	var err error
	if c.traces, err = conformanceTraces(); err != nil {
		return c.report, err
	}
	if c.dir, err = os.MkdirTemp("", "gpubench-check-"); err != nil {
		return c.report, err
	}
	defer os.RemoveAll(c.dir)
	for _, t := range c.traces {
		if err := trace.WriteFile(c.file(t), t.trace); err != nil {
			return c.report, err
		}
	}
	p, err := Start(ctx, c.spec(Spec{}))
	if !c.report.add("starts and shakes hands", err, "") {
		return c.report, ctx.Err()
	}
	c.report.Description = p.Describe()
	c.describe()
	c.refusals(ctx, p)
	c.devices(ctx, p)
	c.ends(ctx, p, "ends when asked, with all its processes")
	for _, s := range c.report.Description.Strategies {
		if c.Strategy == "" || c.Strategy == s.Name {
			c.strategy(ctx, s)
		}
	}
	return c.report, ctx.Err()
}

func (c *checking) file(t conformanceTrace) string { return filepath.Join(c.dir, t.name+".gbt") }

func (c *checking) spec(s Spec) Spec {
	s.Path, s.Args, s.Guard, s.Env, s.MemoryLimitBytes = c.path, c.Args, c.Guard, c.Env, c.MemoryLimitBytes
	return s
}

// describe checks what the plugin says of itself.
func (c *checking) describe() {
	d := c.report.Description
	seen := map[string]bool{}
	var wrong []error
	name := func(kind, n string) {
		if n == "" || seen[kind+n] {
			wrong = append(wrong, fmt.Errorf("two of %s %q, or no name", kind, n))
		}
		seen[kind+n] = true
	}
	for _, s := range d.Strategies {
		name("strategy", s.Name)
		if a := s.AlignmentBytes; a&(a-1) != 0 {
			wrong = append(wrong, fmt.Errorf("strategy %s: an alignment of %d is no power of two", s.Name, a))
		}
	}
	for _, b := range d.Backends {
		name("backend", b.Name)
	}
	for _, t := range d.Telemetry {
		name("telemetry", t.Name)
	}
	if len(seen) == 0 {
		wrong = append(wrong, errors.New("it serves nothing"))
	}
	if d.Name == "" || d.Version == "" {
		wrong = append(wrong, errors.New("name or version of the executable is missing"))
	}
	if c.Strategy != "" && !seen["strategy"+c.Strategy] {
		wrong = append(wrong, fmt.Errorf("it has no strategy %q", c.Strategy))
	}
	c.report.add("describes itself", errors.Join(wrong...),
		fmt.Sprintf("%s %s: %d strategies, %d backends, %d telemetry", d.Name, d.Version, len(d.Strategies), len(d.Backends), len(d.Telemetry)))
	for _, s := range d.Strategies {
		if c.Strategy != "" && c.Strategy != s.Name {
			continue
		}
		c.report.add("strategy "+s.Name+": options schema is valid", checkSchema(s.OptionsSchema), "")
	}
	for _, b := range c.backends() {
		c.report.add("backend "+b.Name+": options schema is valid", checkSchema(b.OptionsSchema), "")
	}
}

// checkSchema compiles a JSON Schema and checks that it takes {}: a plugin must work without options. An empty one is fine.
func checkSchema(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothingElse{})
	if err := compiler.AddResource("options.json", doc); err != nil {
		return err
	}
	schema, err := compiler.Compile("options.json")
	if err != nil {
		return err
	}
	if err := schema.Validate(map[string]any{}); err != nil {
		return fmt.Errorf("it refuses {}, so the plugin does not work without options: %w", err)
	}
	return nil
}

// nothingElse refuses references to other documents: a schema stands alone, and checking it reads no file and no network.
type nothingElse struct{}

func (nothingElse) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s; a schema must stand alone", url)
}

// refusals sends requests that make no sense.
func (c *checking) refusals(ctx context.Context, p *Plugin) {
	refused := func(check string, err error) {
		switch {
		case err == nil:
			err = errors.New("it was not refused")
		case errors.Is(err, ErrRequest):
			err = nil
		}
		c.report.add(check, err, "")
	}
	if len(c.report.Description.Strategies) > 0 {
		_, err := p.Open(ctx, OpenRequest{Strategy: "no-such-strategy", Fused: &FusedDevice{Backend: "ideal", TotalBytes: checkDeviceBytes}})
		refused("refuses to open an unknown strategy", err)
		refused("refuses Reset when nothing is open", p.Reset(ctx))
		_, err = p.Close(ctx)
		c.report.add("takes Close when nothing is open", err, "")
	}
}

// backends are those to check: none when only one strategy is.
func (c *checking) backends() []*BackendDescription {
	if c.Strategy != "" {
		return nil
	}
	return c.report.Description.Backends
}

// devices opens and closes every backend, and looks at telemetry.
func (c *checking) devices(ctx context.Context, p *Plugin) {
	for _, b := range c.backends() {
		info, err := p.OpenDevice(ctx, FusedDevice{Backend: b.Name, TotalBytes: checkDeviceBytes}, c.file(conformanceTrace{name: recordingTrace}), -1)
		if err == nil {
			_, err = p.CloseDevice(ctx)
		}
		c.report.add("backend "+b.Name+": opens and closes a device", err, fmt.Sprintf("%s, %d bytes", info.GetName(), info.GetTotalBytes()))
	}
	if len(c.report.Description.Telemetry) > 0 && c.Strategy == "" {
		f, err := p.Fingerprint(ctx)
		c.report.add("telemetry: fingerprint", err, fmt.Sprintf("%d devices", len(f.GetDevices())))
	}
}

// ends stops the plugin and checks that it went by itself and left nothing.
func (c *checking) ends(ctx context.Context, p *Plugin, check string) {
	begin := time.Now()
	if f := p.Fault(); f != nil {
		_ = p.Stop(ctx)
		return // reported where it happened
	}
	err := p.Stop(ctx)
	st, _ := p.Ended()
	switch {
	case err != nil:
	case st.Reason != guard.ReasonExited || st.ExitCode != 0:
		err = fmt.Errorf("its process %s", st)
	case st.Orphans > 0:
		err = fmt.Errorf("it left %d processes behind, which were killed; end them before the plugin ends", st.Orphans)
	}
	c.report.add(check, err, fmt.Sprintf("in %d ms", time.Since(begin).Milliseconds()))
}

// promises reports whether a strategy promises p.
func promises(s *StrategyDescription, p string) bool { return slices.Contains(s.Promises, p) }

// validJSON checks an inspection.
func validJSON(text string) error {
	if !json.Valid([]byte(text)) {
		return errors.New("its picture is not JSON")
	}
	return nil
}
