package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/plugins/host/guard"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// The test binary is the harness, the guard, and every kind of plugin: its first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guard.Verb:
			os.Exit(guard.Main(os.Args[2:]))
		case "plugin":
			pluginMain(os.Args[2:])
			os.Exit(0)
		case "harness":
			harnessMain(os.Args[2:])
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// pluginMain is a plugin that does as its first argument says. The modes before the handshake come first.
func pluginMain(args []string) {
	switch args[0] {
	case "exit":
		fmt.Fprintln(os.Stderr, "no device found")
		os.Exit(3)
	case "linker":
		fmt.Fprintln(os.Stderr, "gpubench-backend-x: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory")
		os.Exit(127)
	case "garbage":
		fmt.Println("Loading the model, please wait")
		time.Sleep(time.Hour)
	case "garbage-exit":
		fmt.Println("usage: a program that is no plugin")
		os.Exit(1)
	case "garbage-flood":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
				return
			}
		}
	case "silent":
		time.Sleep(time.Hour)
	case "closes-stdout":
		_ = syscall.Close(1)
		time.Sleep(time.Hour)
	case "says": // any first line
		fmt.Println(args[1])
		time.Sleep(time.Hour)
	case "stops-after-handshake":
		path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
		if _, err := net.Listen("unix", path); err != nil {
			os.Exit(9)
		}
		fmt.Printf("1|%d|unix|%s|grpc\n", wire.ProtocolVersion, path)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "sdk":
		serveSDK(args[1:])
	default:
		serve(args)
	}
}

// serve serves the protocol, misbehaving as asked.
func serve(args []string) {
	s := &faulty{mode: args[0]}
	if len(args) > 1 {
		s.at, _ = strconv.ParseUint(args[1], 10, 64)
	}
	if s.mode == "ignores-everything" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if s.mode == "family" {
		spawn("sleeper", "running")
		spawn("sleeper", "stopped")
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: servePlugin{s: s}}},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(wire.MaxMessageBytes))...)
		},
		Logger: hclog.NewNullLogger(),
	})
	if s.mode == "ignores-everything" {
		time.Sleep(time.Hour)
	}
}

func spawn(args ...string) {
	self, _ := os.Executable()
	c := exec.Command("/bin/sh", "-c", `trap "" TERM; [ "$1" = stopped ] && kill -STOP $$; while :; do sleep 1000; done`, "sleeper", args[1])
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, self, err)
		os.Exit(9)
	}
}

type servePlugin struct {
	plugin.NetRPCUnsupportedPlugin
	s *faulty
}

func (p servePlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pluginv1.RegisterPluginServer(s, p.s)
	return nil
}

func (servePlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not this side")
}

// faulty is the server. It executes a trace of 1,000 events that all succeed; at event `at` it does what mode says.
type faulty struct {
	pluginv1.UnimplementedPluginServer
	mode     string
	at       uint64
	window   *wire.Window
	sequence uint64
	keep     [][]byte
}

const faultyEvents = 1000

func (s *faulty) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	d := &pluginv1.DescribeResponse{Name: "faulty", Version: "1", Protocol: wire.ProtocolVersion, WindowVersion: wire.WindowVersion,
		Strategies: []*pluginv1.StrategyDescription{{Name: "faulty", Version: "1", OptionsSchema: `{"type":"object"}`}}}
	switch s.mode {
	case "describe-version":
		d.WindowVersion = 7
	case "describe-hang":
		time.Sleep(time.Hour)
	case "describe-panic":
		panic("no description")
	}
	return d, nil
}

func (s *faulty) Open(_ context.Context, r *pluginv1.OpenRequest) (*pluginv1.OpenResponse, error) {
	switch s.mode {
	case "open-invalid":
		return nil, status.Error(codes.InvalidArgument, "option \"colour\" is not known\nsecond line")
	case "open-aborted":
		return nil, status.Error(codes.Aborted, "out of luck")
	case "open-memory":
		return nil, status.Error(codes.ResourceExhausted, "no segment of 80 GiB")
	}
	if w := r.GetWindow(); w != nil {
		win, err := wire.MapWindow(os.NewFile(uintptr(w.File.GetFd()), "window"), wire.Geometry{OutcomeCapacity: w.OutcomeCapacity, CallCapacity: w.CallCapacity})
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		s.window = win
	}
	return &pluginv1.OpenResponse{TraceEvents: faultyEvents}, nil
}

func (s *faulty) Replay(_ context.Context, r *pluginv1.ReplayRequest) (*pluginv1.ReplayResponse, error) {
	w := s.window
	w.Begin(r.First, s.sequence, 0)
	s.sequence++
	var n uint64
	end := min(r.First+min(r.Max, uint64(len(w.Outcomes()))), faultyEvents)
	for e := r.First; e < end; e++ {
		w.Calls()[n] = trace.Call{Event: e, Kind: trace.CallMalloc, Addr: e << 21, Size: 2 << 20}
		if e == s.at {
			if err := s.misbehave(e, n); err != nil {
				return nil, err
			}
		}
		w.Outcomes()[n] = trace.Outcome{Status: trace.StatusOK, Calls: 1, Addr: e << 21, Granted: 2 << 20}
		n++
		w.Publish(n, n)
	}
	sum := &wire.Summary{Reason: wire.StopMax, Clock: clock.Info{Source: clock.SourceMonotonic, FrequencyHz: 1e9}}
	switch {
	case end == faultyEvents:
		sum.Reason = wire.StopEnd
	case n < r.Max:
		sum.Reason = wire.StopAreaFull
	}
	resp := &pluginv1.ReplayResponse{Executed: n, Calls: n}
	if r.First <= s.at && s.at < end {
		s.lie(resp, sum)
	}
	resp.Reason = pluginv1.StopReason(sum.Reason)
	if s.mode != "lie-unfinished" {
		w.End(sum)
	}
	if s.mode == "lie-after" { // the window changes after its end was declared
		w.Publish(n+1, n)
	}
	return resp, nil
}

// misbehave does what cannot be taken back.
func (s *faulty) misbehave(event, n uint64) error {
	switch s.mode {
	case "crash":
		fmt.Fprintln(os.NewFile(2, "stderr"), "free(): invalid pointer")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "exit-in-replay":
		os.Exit(5)
	case "panic":
		panic(fmt.Sprintf("index out of range at event %d", event))
	case "hang":
		time.Sleep(time.Hour)
	case "spin":
		for spun := 0; ; spun++ { // never yields by itself
			s.keep = s.keep[:min(len(s.keep), spun)]
		}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour) // the signal takes its time to reach every thread
	case "flood":
		line := bytes.Repeat([]byte("flood "), 1<<16)
		raw := os.NewFile(2, "stderr")
		for left := 1 << 30; left > 0; left -= len(line) {
			_, _ = raw.Write(line)
		}
		fmt.Fprintln(os.Stderr, "through the stream") // go-plugin's server has replaced os.Stderr
	case "flood-stream": // what a Go plugin writes to os.Stderr goes through go-plugin's stream
		line := bytes.Repeat([]byte("stream "), 1<<16)
		for left := 32 << 20; left > 0; left -= len(line) {
			_, _ = os.Stderr.Write(line)
		}
	case "bomb":
		for {
			b := bytes.Repeat([]byte{1}, 8<<20)
			s.keep = append(s.keep, b)
		}
	case "internal":
		return status.Error(codes.Internal, "the free list is broken")
	}
	return nil
}

// lie falsifies the answer, or the header, or both.
func (s *faulty) lie(resp *pluginv1.ReplayResponse, sum *wire.Summary) {
	switch s.mode {
	case "lie-answer":
		resp.Executed++
	case "lie-beyond":
		s.window.Publish(uint64(len(s.window.Outcomes()))+1, 0)
	case "lie-calls":
		s.window.Publish(resp.Executed, uint64(len(s.window.Calls()))+1)
	case "lie-reason":
		sum.Reason = 77
	case "lie-empty":
		s.window.Publish(0, 0)
		resp.Executed, resp.Calls, sum.Reason = 0, 0, wire.StopAreaFull
	case "lie-first":
		s.window.Begin(s.at+5, 0, 0)
		s.window.Publish(resp.Executed, resp.Calls)
	case "lie-clock":
		sum.Clock.FrequencyHz = 3
	}
}

func (s *faulty) Execute(stream pluginv1.Plugin_ExecuteServer) error {
	for n := uint64(1); ; n++ {
		r, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case n == s.at && s.mode == "execute-hang":
			time.Sleep(time.Hour)
		case n == s.at && s.mode == "execute-crash":
			os.Exit(4)
		case len(r.Program) == 0:
			err = stream.Send(&pluginv1.ExecuteResponse{Error: "an empty program"})
		default:
			err = stream.Send(&pluginv1.ExecuteResponse{Result: bytes.ToUpper(r.Program)})
		}
		if err != nil {
			return err
		}
	}
}

func (s *faulty) Close(context.Context, *pluginv1.CloseRequest) (*pluginv1.CloseResponse, error) {
	return &pluginv1.CloseResponse{CallsWaiting: 3}, nil
}

func (s *faulty) Reset(context.Context, *pluginv1.ResetRequest) (*pluginv1.ResetResponse, error) {
	return &pluginv1.ResetResponse{}, nil
}

// harnessMain starts a plugin, says which processes and which directory it has, and replays until it is killed.
func harnessMain(args []string) {
	p, err := Start(context.Background(), spec(args...))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("dir", p.sockets.path)
	fmt.Println("token", tokenOf(p.GuardPID()))
	_, _ = p.Open(context.Background(), openRequest())
	fmt.Println("all")
	_, err = p.Replay(context.Background(), ReplayRequest{}, func(Batch) error { return nil })
	fmt.Println("error", err)
}

// tokenOf reads the token that marks guard and plugin.
func tokenOf(pid int) string {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for _, kv := range strings.Split(string(env), "\x00") {
		if t, ok := strings.CutPrefix(kv, guard.TokenEnv+"="); ok {
			return t
		}
	}
	return ""
}

func spec(args ...string) Spec {
	self, _ := os.Executable()
	return Spec{
		Path: self, Args: append([]string{"plugin"}, args...),
		Env:    []string{"GORACE=atexit_sleep_ms=0"},
		Window: wire.Geometry{OutcomeCapacity: 64, CallCapacity: 64},
	}
}

func openRequest() OpenRequest {
	return OpenRequest{Strategy: "faulty", Fused: &FusedDevice{Backend: "ideal", TotalBytes: 1 << 30}, TracePath: "/dev/null"}
}
