package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/gpubench/gpubench/plugins/host/guard"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

// Deadlines of the control plane. They are generous: what they must tell apart is slow and never.
const (
	StartDeadline    = 10 * time.Second // from exec to handshake and connection
	DescribeDeadline = 5 * time.Second  // the contract says one second; a loaded machine gets more
	OpenDeadline     = 60 * time.Second // opening a real device, mapping and checking a large trace
	RestoreDeadline  = 60 * time.Second
	CallDeadline     = 30 * time.Second // every other call
	StopDeadline     = 3 * time.Second  // to end when asked to, before SIGKILL; a plugin of the SDK takes at most 2 to close its device
	ProgressDeadline = 5 * time.Second  // without an event done during a replay
)

// http2WindowBytes is the flow-control window of a connection: Execute's programs and results go in one piece.
const http2WindowBytes = 8 << 20

// Spec says which plugin to start, and how.
type Spec struct {
	// Name is what messages call the plugin; "" is the name of the file.
	Name string
	// Path is the executable; Args its arguments. For what is built in: the running executable and its hidden verb.
	Path string
	Args []string
	// SHA256 pins the file, in hexadecimal; "" does not. Found.SHA256 has it from a SumsFile.
	SHA256 string
	// Env is added to the allowed part of the harness's environment.
	Env []string
	// Window is the geometry of the replay window; zero is none (Describe, Execute, remote devices).
	Window wire.Geometry
	// Files are inherited by the plugin; Plugin.FD tells their numbers there. They stay the caller's.
	Files []*os.File
	// MemoryLimitBytes bounds the anonymous memory of the plugin and what it starts; 0 is no limit.
	MemoryLimitBytes uint64
	// Stderr gets what the plugin says, at a bounded rate; nil is nobody. The last 64 KiB are kept in any case.
	Stderr io.Writer
	// Guard is the command of the guard; nil is the running executable with guard.Verb.
	Guard []string

	// StartDeadline, CallDeadline (of every unary call), StopDeadline and ProgressDeadline replace the constants of the same
	// names; 0 keeps them.
	StartDeadline, CallDeadline, StopDeadline, ProgressDeadline time.Duration
}

// Plugin is a running plugin. Its calls are made from one goroutine at a time; Progress, Fault and Stop may be called from any.
// After a fault the process is dead and every call returns that fault.
type Plugin struct {
	spec        Spec
	name        string
	run         *guarded
	client      *plugin.Client
	control     pluginv1.PluginClient
	device      pluginv1.DeviceClient
	telemetry   pluginv1.TelemetryClient
	said        *guard.Ring // what came through go-plugin's stdio stream
	sockets     *socketDir
	lifeline    *os.File
	window      *wire.Reader
	firstFileFD int
	description *Description
	executor    *executor

	stop    sync.Once
	stopped chan struct{}
	stopErr error
	mu      sync.Mutex
	fault   *Fault
	ending  bool
}

// grpcPlugin makes go-plugin hand over its connection.
type grpcPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the host's side")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// Start starts a plugin under its guard, shakes hands and asks it to describe itself. On an error nothing is left behind.
// The caller calls Stop.
func Start(ctx context.Context, spec Spec) (*Plugin, error) {
	if spec.Name == "" {
		spec.Name = nameOf(spec.Path)
	}
	p := &Plugin{spec: spec, name: spec.Name, said: guard.NewRing(guard.StderrTailBytesMax), stopped: make(chan struct{})}
	if err := p.spec.prepare(); err != nil {
		return nil, err
	}
	files, err := p.openFiles()
	if err != nil {
		p.release()
		return nil, err
	}
	p.configure(files)
	conn, err := p.connect(ctx)
	for _, f := range files[:p.firstFileFD-3] {
		_ = f.Close() // ours; the plugin has its own copies
	}
	if err != nil {
		p.abandon()
		return nil, err
	}
	p.control = pluginv1.NewPluginClient(conn)
	p.device = pluginv1.NewDeviceClient(conn)
	p.telemetry = pluginv1.NewTelemetryClient(conn)
	if p.description, err = p.describe(ctx); err != nil {
		p.abandon()
		return nil, err
	}
	return p, nil
}

// prepare fills in defaults and checks the file.
func (s *Spec) prepare() error {
	defaults := []struct {
		d *time.Duration
		v time.Duration
	}{{&s.StartDeadline, StartDeadline}, {&s.StopDeadline, StopDeadline}, {&s.ProgressDeadline, ProgressDeadline}}
	for _, x := range defaults {
		if *x.d == 0 {
			*x.d = x.v
		}
	}
	abs, err := filepath.Abs(s.Path)
	if s.Path == "" || err != nil {
		return &Fault{Kind: ErrStart, Plugin: s.Name, During: "start", Detail: "no executable was named", Advice: "name a plugin or its path"}
	}
	s.Path = abs
	if s.SHA256 == "" {
		return nil
	}
	got, err := fileSHA256(s.Path)
	if err != nil {
		return &Fault{Kind: ErrStart, Plugin: s.Name, During: "start", Detail: err.Error(), Advice: "check the path", cause: err}
	}
	if !strings.EqualFold(got, s.SHA256) {
		return &Fault{Kind: ErrChecksum, Plugin: s.Name, During: "start",
			Detail: fmt.Sprintf("%s has SHA-256 %s, pinned is %s", s.Path, got, strings.ToLower(s.SHA256)),
			Advice: "if you changed the file on purpose, pin the new sum; if not, do not run it"}
	}
	return nil
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openFiles makes what the plugin inherits, in the order of its descriptors from 3 on: lifeline, window, the caller's.
func (p *Plugin) openFiles() ([]*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting plugin %s: %w", p.name, err)
	}
	p.lifeline = w
	files := []*os.File{r}
	if p.spec.Window != (wire.Geometry{}) {
		f, reader, err := wire.CreateWindow(p.spec.Window)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("starting plugin %s: %w", p.name, err)
		}
		p.window = reader
		files = append(files, f)
	}
	p.firstFileFD = 3 + len(files)
	if p.sockets, err = newSocketDir(); err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("starting plugin %s: %w", p.name, err)
	}
	return append(files, p.spec.Files...), nil
}

const (
	lifelineFD = 3
	windowFD   = 4
)

// configure makes go-plugin's client.
func (p *Plugin) configure(files []*os.File) {
	extra := []string{fmt.Sprintf("%s=%d", wire.EnvLifelineFD, lifelineFD)}
	if p.window != nil {
		extra = append(extra, fmt.Sprintf("%s=%d", wire.EnvWindowFD, windowFD))
	}
	if len(p.spec.Files) > 0 {
		extra = append(extra, fmt.Sprintf("%s=%d", wire.EnvSlotFD, p.firstFileFD))
	}
	p.run = &guarded{name: p.name, started: make(chan struct{}), config: guard.Config{
		Guard:            p.spec.Guard,
		Path:             p.spec.Path,
		Args:             p.spec.Args,
		Env:              environment(os.Environ(), append(extra, p.spec.Env...)),
		Files:            files,
		SocketDir:        p.sockets.path,
		SocketDirLock:    p.sockets.lock,
		MemoryLimitBytes: p.spec.MemoryLimitBytes,
		Stderr:           p.spec.Stderr,
	}}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: grpcPlugin{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     p.spec.StartDeadline + time.Second, // ours comes first and knows more
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       p.said,
		SyncStderr:       p.said,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.sockets.path},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)),
			grpc.WithInitialWindowSize(http2WindowBytes), grpc.WithInitialConnWindowSize(http2WindowBytes),
		},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			p.run.config.Env = append(p.run.config.Env, cmd.Env...) // go-plugin's own: cookie, versions, socket directory
			return p.run, nil
		},
	})
}

// connect starts the process and connects to it; go-plugin has no deadline for the second part.
func (p *Plugin) connect(ctx context.Context) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.spec.StartDeadline)
	defer cancel()
	type result struct {
		conn *grpc.ClientConn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		protocol, err := p.client.Client()
		if err != nil {
			done <- result{nil, err}
			return
		}
		raw, err := protocol.Dispense(wire.PluginName)
		conn, _ := raw.(*grpc.ClientConn)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, p.startFault(ctx, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		select { // before the process exists it cannot be killed
		case <-p.run.started:
		case r := <-done:
			done <- r
		}
		if p.run.process == nil {
			return nil, p.startFault(ctx, (<-done).err)
		}
		err := p.startFault(ctx, ctx.Err()) // kills the process, and with it the connection
		<-done
		return nil, err
	}
}

// startFault says why there was no handshake.
func (p *Plugin) startFault(ctx context.Context, cause error) error {
	if p.run.process == nil {
		return fmt.Errorf("starting plugin %s: %w", p.name, cause)
	}
	bad := p.run.bad.Load()
	grace := time.NewTimer(exitGrace)
	defer grace.Stop()
	select { // an exit explains more than the silence that it leaves
	case <-p.run.process.Done():
	case <-grace.C:
		p.run.process.Kill()
		<-p.run.process.Done()
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	st := p.run.process.Status()
	f := ended(p.name, "start", st, p.tail())
	f.cause = cause
	switch {
	case f.Kind == ErrMemoryLimit, st.Reason == guard.ReasonNotStarted:
	case bad != nil && (!bad.silent || st.Reason == guard.ReasonStopped):
		f.Kind, f.Detail, f.Advice = ErrProtocol, bad.detail, bad.advice
	case st.Reason == guard.ReasonStopped && errors.Is(cause, context.DeadlineExceeded):
		f.Kind = ErrStart
		f.Detail = fmt.Sprintf("no handshake and connection within %s", seconds(p.spec.StartDeadline))
		f.Advice = "run `gpubench plugin check` on it; it may wait for a device or a lock"
	case st.Reason == guard.ReasonStopped:
		f.Kind = ErrProtocol
		f.Detail = "no connection after the handshake: " + oneLine(cause.Error())
		f.Advice = "listen before the handshake is written"
	case st.Reason == guard.ReasonExited && st.ExitCode == exitLinker:
		f.Kind, f.Detail = ErrStart, "the dynamic linker refused it (exit code 127)"
		f.Advice = "install the library, or name its directory in LD_LIBRARY_PATH"
	default:
		f.Kind, f.Detail = ErrStart, "its process "+st.String()+" before the handshake"
		f.Advice = "run `gpubench plugin check` on it, or see its own documentation"
	}
	return f
}

const (
	// exitGrace is how long a failed call waits for the news that the process ended: measured, the connection breaks before.
	exitGrace = 500 * time.Millisecond
	// exitLinker is the exit code of ld.so(8) when a library or symbol is missing.
	exitLinker = 127
)

// abandon cleans up after a failed Start.
func (p *Plugin) abandon() {
	if p.run.process != nil {
		p.run.process.Kill()
		<-p.run.process.Done()
		<-p.run.drained
	}
	p.client.Kill()
	p.release()
}

// release gives back what the host holds beside the process.
func (p *Plugin) release() {
	if p.lifeline != nil {
		_ = p.lifeline.Close()
	}
	if p.window != nil {
		_ = p.window.Close()
	}
	if p.sockets != nil {
		p.sockets.remove()
	}
}

// tail is what the plugin said last, by either way.
func (p *Plugin) tail() string {
	said := string(p.said.Tail())
	select {
	case <-p.run.process.Done():
		return said + p.run.process.Status().StderrTail
	default:
		return said
	}
}
