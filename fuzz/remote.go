package fuzz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const (
	// remoteDeadline is how long a plugin may take for one program.
	remoteDeadline = 3 * time.Second
	// remoteMemoryMax bounds the memory of a plugin that is fuzzed.
	remoteMemoryMax = 2 << 30
)

// RemoteSpec says which plugin to fuzz.
type RemoteSpec struct {
	Path     string
	Args     []string
	Strategy string // "" is the only one that it serves
	Backend  string // the device; "" is BackendIdeal
	// BackendPath serves the device where the plugin itself does not: calls then go from process to process.
	BackendPath string
	BackendArgs []string
	// InProcess is the same strategy in this process, to compare with; nil for none.
	InProcess *sdk.Description
}

// Remote is a plugin that is fuzzed. A program that kills it costs that program: the next one starts it anew.
type Remote struct {
	ctx    context.Context
	spec   RemoteSpec
	target Target
	fused  bool // it serves the device itself
	mu     sync.Mutex
	open   map[*remoteSession]bool
	idle   []processes // whose strategy was closed: the next session opens another there
}

// OpenRemote starts the plugin once, to have it describe itself.
func OpenRemote(ctx context.Context, s RemoteSpec) (*Remote, error) {
	if s.Backend == "" {
		s.Backend = BackendIdeal
	}
	r := &Remote{ctx: ctx, spec: s, open: map[*remoteSession]bool{}}
	p, err := host.Start(ctx, r.process())
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Stop(ctx) }()
	d := p.Describe()
	var found *host.StrategyDescription
	var names []string
	for _, x := range d.Strategies {
		names = append(names, x.Name)
		if x.Name == s.Strategy || s.Strategy == "" && len(d.Strategies) == 1 {
			found = x
		}
	}
	if found == nil {
		return nil, fmt.Errorf("plugin %s serves %v, not one strategy to be fuzzed", s.Path, names)
	}
	r.fused = slices.ContainsFunc(d.Backends, func(b *host.BackendDescription) bool { return b.Name == s.Backend })
	if !r.fused && s.BackendPath == "" {
		return nil, fmt.Errorf("plugin %s does not serve the backend %s, and no other was given", s.Path, s.Backend)
	}
	r.spec.Strategy = found.Name
	r.target = Target{Name: found.Name, Backend: s.Backend, InProcess: s.InProcess, Open: r.session, Desc: sdk.Description{
		Name: found.Name, Version: found.Version, Summary: found.Summary, Arena: found.Arena, WasteFactor: found.WasteFactor,
		Alignment: found.AlignmentBytes, Canary: found.Canary, Capabilities: found.Capabilities,
	}}
	if s.InProcess == nil {
		r.target.Name = s.Path
	}
	for _, p := range found.Promises {
		r.target.Desc.Promises = append(r.target.Desc.Promises, sdk.Promise(p))
	}
	return r, nil
}

// Target is what to fuzz.
func (r *Remote) Target() *Target { return &r.target }

// processes are those of a session.
type processes struct{ plugin, device *host.Plugin }

// stop ends them, whatever state they are in; what Stop has to say is about a session that is over.
func (p *processes) stop(ctx context.Context) {
	for _, x := range []*host.Plugin{p.plugin, p.device} {
		if x != nil {
			_ = x.Stop(context.WithoutCancel(ctx))
		}
	}
	*p = processes{}
}

// get returns processes that run, or starts them.
func (r *Remote) get() (p processes, err error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		p, r.idle = r.idle[n-1], r.idle[:n-1]
		r.mu.Unlock()
		return p, nil
	}
	r.mu.Unlock()
	if p.plugin, err = host.Start(r.ctx, r.process()); err != nil {
		return p, err
	}
	if !r.fused {
		if p.device, err = host.Start(r.ctx, host.Spec{Path: r.spec.BackendPath, Args: r.spec.BackendArgs}); err != nil {
			p.stop(r.ctx)
		}
	}
	return p, err
}

// Close ends all processes.
func (r *Remote) Close() error {
	r.mu.Lock()
	for i := range r.idle {
		r.idle[i].stop(r.ctx)
	}
	r.idle = nil
	list := make([]*remoteSession, 0, len(r.open))
	for s := range r.open {
		list = append(list, s)
	}
	clear(r.open)
	r.mu.Unlock()
	var err error
	for _, s := range list {
		err = errors.Join(err, s.Close())
	}
	return err
}

func (r *Remote) process() host.Spec {
	return host.Spec{Path: r.spec.Path, Args: r.spec.Args, MemoryLimitBytes: remoteMemoryMax, ProgressDeadline: remoteDeadline}
}

// remoteSession is a strategy that is open in another process.
type remoteSession struct {
	remote *Remote
	cfg    Config
	processes
	program *host.Program
	look    bool // ask for the picture after every program
	picture string
}

// session opens the plugin's strategy.
func (r *Remote) session(cfg Config, _ *trace.Trace) (Session, error) {
	s := &remoteSession{remote: r, cfg: cfg}
	if err := s.start(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.open[s] = true
	r.mu.Unlock()
	return s, nil
}

// start starts the process, or processes, and opens the strategy. A plugin that refuses the configuration is told from one that fails.
func (s *remoteSession) start() (err error) {
	ctx := s.remote.ctx
	if s.processes, err = s.remote.get(); err != nil {
		return fmt.Errorf("%w: %w", ErrSession, err)
	}
	req := host.OpenRequest{Strategy: s.remote.spec.Strategy, OptionsJSON: string(s.cfg.Options), CapacityBytes: s.cfg.ArenaBytes, Seed: s.cfg.Seed, Batch: true}
	dev := host.FusedDevice{Backend: s.cfg.Backend, TotalBytes: s.cfg.DeviceBytes}
	if s.remote.fused {
		req.Fused = &dev
	} else {
		info, err := s.device.OpenDevice(ctx, dev, "", -1)
		if err != nil {
			s.stop(ctx)
			return fmt.Errorf("%w: %w", ErrSession, err)
		}
		req.Remote = &host.RemoteDevice{SlotFile: -1, Target: s.device.Target(), Info: info}
	}
	if _, err := s.plugin.Open(ctx, req); err != nil {
		var fault *host.Fault
		kind := ErrConfig
		if errors.As(err, &fault) || ctx.Err() != nil {
			kind = ErrSession
		}
		s.stop(ctx)
		return fmt.Errorf("%w: %w", kind, err)
	}
	s.program = host.NewProgram(s.plugin)
	return nil
}

// Execute runs a program; the picture comes with the result.
func (s *remoteSession) Execute(t *trace.Trace, keep bool) (Result, error) {
	if s.plugin == nil {
		if err := s.start(); err != nil {
			return Result{}, err
		}
		keep = false
	}
	look := s.look && slices.Contains(s.remote.target.Desc.Capabilities, string(sdk.CapInspect))
	outcomes, calls, picture, err := s.program.Run(s.remote.ctx, t, keep, look)
	if err == nil {
		s.picture = picture
		return Result{Outcomes: outcomes, Calls: calls}, nil
	}
	s.picture = ""
	var fault *host.Fault
	if errors.As(err, &fault) && s.remote.ctx.Err() == nil {
		s.stop(s.remote.ctx)
		return Result{Crash: crashOfFault(fault)}, nil
	}
	return Result{}, fmt.Errorf("%w: %w", ErrSession, err)
}

// crashOfFault makes the crash of what went wrong with a plugin.
func crashOfFault(f *host.Fault) *Crash {
	c := &Crash{Kind: "crash", Site: f.Kind.Error(), Detail: f.Error(), Stack: f.StderrTail}
	if errors.Is(f, host.ErrHang) {
		c.Kind, c.Site = "hang", ""
	}
	return c
}

// Inspect decodes the picture that came with the last result.
func (s *remoteSession) Inspect() (in sdk.Inspection, ok bool) {
	if s.picture == "" {
		return in, false
	}
	return in, json.Unmarshal([]byte(s.picture), &in) == nil
}

// LeakedBytes is not known of another process.
func (s *remoteSession) LeakedBytes() (uint64, bool) { return 0, false }

// Close closes the strategy. Its processes serve the next session; those that do not close well are ended.
func (s *remoteSession) Close() error {
	r := s.remote
	good := s.plugin != nil
	if good {
		_, err := s.plugin.Close(r.ctx)
		if err == nil && s.device != nil {
			_, err = s.device.CloseDevice(r.ctx)
		}
		good = err == nil
	}
	r.mu.Lock()
	known := r.open[s]
	delete(r.open, s)
	if good && known {
		r.idle = append(r.idle, s.processes)
		s.processes = processes{}
	}
	r.mu.Unlock()
	s.stop(r.ctx)
	return nil
}
