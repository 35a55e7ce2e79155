package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

const (
	// DescribeVerb as the only argument of a plugin executable makes it print its description as JSON and exit.
	DescribeVerb = "describe"
	// shutDeadline bounds the closing of strategy and device when the harness ends the process in good order.
	shutDeadline = 2 * time.Second
	// http2WindowBytes lets a whole result cross without waiting for window updates.
	http2WindowBytes = 8 << 20
	exitOrphaned     = 1
	exitMisused      = 2
)

// Serve serves a plugin executable and returns when the harness ends it. Call it first in main: from here on standard output
// belongs to the handshake, and whatever a strategy or a C library prints goes to standard error.
//
// Started by hand, the executable explains itself; with the one argument "describe" it prints its description.
func Serve(e Executable) {
	if err := e.check(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: this plugin is put together wrongly: %v\n", e.Name, err)
		os.Exit(exitMisused)
	}
	if len(os.Args) == 2 && os.Args[1] == DescribeVerb {
		if err := PrintDescription(os.Stdout, e); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
			os.Exit(exitMisused)
		}
		return
	}
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		fmt.Fprintf(os.Stderr, "%s is a gpubench plugin and is started by gpubench: put it into a directory of $GPUBENCH_PLUGIN_PATH, "+
			"or try `gpubench plugin check %s`, or `%s describe`.\n", e.Name, os.Args[0], os.Args[0])
		os.Exit(exitMisused)
	}
	if err := keepStdoutClean(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
		os.Exit(exitMisused)
	}
	watchLifeline()
	f := &files{}
	control := newServer(&e, newWorker(), f)
	keepStderr(control)
	set := plugin.PluginSet{wire.PluginName: &grpcPlugin{control: control, device: &remoteServer{executable: &e, files: &files{}},
		telemetry: &telemetryServer{executable: &e}}}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: set},
		GRPCServer:       newGRPCServer,
		Logger:           hclog.New(&hclog.LoggerOptions{Name: e.Name, Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	ctx, cancel := context.WithTimeout(context.Background(), shutDeadline)
	defer cancel()
	if err := control.shut(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: closing: %v\n", e.Name, err)
	}
}

// PrintDescription writes what Describe answers, as JSON.
func PrintDescription(w io.Writer, e Executable) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(e.describe())
	if err != nil {
		return err
	}
	var pretty bytes.Buffer // protojson varies its spaces on purpose; people and tests want one form
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		return err
	}
	pretty.WriteByte('\n')
	_, err = pretty.WriteTo(w)
	return err
}

// newGRPCServer raises the limit on received messages, which gRPC servers start at 4 MiB.
func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(wire.MaxMessageBytes), grpc.MaxSendMsgSize(wire.MaxMessageBytes),
		grpc.InitialWindowSize(http2WindowBytes), grpc.InitialConnWindowSize(http2WindowBytes))...)
}

// grpcPlugin registers the services. It is the plugin's side only.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	control   pluginv1.PluginServer
	device    pluginv1.DeviceServer
	telemetry pluginv1.TelemetryServer
}

// GRPCServer registers the services of the contract.
func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pluginv1.RegisterPluginServer(s, p.control)
	pluginv1.RegisterDeviceServer(s, p.device)
	pluginv1.RegisterTelemetryServer(s, p.telemetry)
	return nil
}

// GRPCClient is the harness's side, which lies in package host.
func (p *grpcPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("%w: a plugin is no client", ErrRequest)
}

// keepStdoutClean leaves the real standard output to os.Stdout alone, for the line of the handshake, and points descriptor 1 at
// standard error: C libraries print there without asking.
func keepStdoutClean() error {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("keeping standard output clean: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return fmt.Errorf("keeping standard output clean: %w", err)
	}
	os.Stdout = os.NewFile(uintptr(fd), "stdout")
	return nil
}

// keepStderr gives os.Stderr back its descriptor. go-plugin replaces it by a stream of 1 KiB messages to the harness: a plugin that
// writes 1 GiB there takes 15 s and a core of the harness, where the guard reads descriptor 2 in half a second. Describe is
// the first call of every harness and comes after the replacement.
func keepStderr(s *server) {
	stderr, describe := os.Stderr, s.describe
	s.describe = sync.OnceValue(func() *pluginv1.DescribeResponse {
		os.Stderr = stderr
		return describe()
	})
}

// watchLifeline ends the process when the harness is gone: the other end of an inherited pipe closes. Started without a
// lifeline, by hand or by another launcher, it does nothing.
func watchLifeline() {
	fd, err := strconv.ParseUint(os.Getenv(wire.EnvLifelineFD), 10, 16)
	if err != nil {
		return
	}
	unix.CloseOnExec(int(fd))
	go func() {
		lifeline := os.NewFile(uintptr(fd), "lifeline")
		if lifeline == nil {
			return
		}
		var b [1]byte
		for {
			if _, err := lifeline.Read(b[:]); err != nil {
				os.Exit(exitOrphaned)
			}
		}
	}()
}
