package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/plugins/wire"
)

// handshakeBytesMax bounds the first line on a plugin's standard output: a path, some numbers, at most a certificate.
const handshakeBytesMax = 8 << 10

// guarded starts a plugin under its guard for go-plugin (runner.Runner). It reads the handshake before go-plugin does, since
// go-plugin tells of a bad one only in prose.
type guarded struct {
	config guard.Config
	name   string

	started chan struct{} // closed when Start has been called and process is set, or is nil for good
	process *guard.Process
	stdout  *io.PipeReader
	bad     atomic.Pointer[badHandshake]
	drained chan struct{} // closed when the plugin's stdout has ended
}

var _ runner.Runner = (*guarded)(nil)

// badHandshake is why the first line is no handshake.
type badHandshake struct {
	detail, advice string
	silent         bool // there was no line at all
}

// Start starts the guard.
func (g *guarded) Start(context.Context) error {
	defer close(g.started)
	p, err := guard.Start(g.config)
	if err != nil {
		return err
	}
	g.process = p
	r, w := io.Pipe()
	g.stdout, g.drained = r, make(chan struct{})
	go g.read(w)
	return nil
}

// read passes the first line on if it is a handshake, and swallows everything else for as long as there is something.
func (g *guarded) read(w *io.PipeWriter) {
	defer close(g.drained)
	stdout := g.process.Stdout()
	defer stdout.Close()
	br := bufio.NewReaderSize(stdout, handshakeBytesMax)
	line, err := br.ReadSlice('\n')
	if bad := checkHandshake(string(line), err, g.config.SocketDir); bad != nil {
		g.bad.Store(bad)
	} else {
		_, _ = w.Write(line)
	}
	if g.bad.Load() != nil {
		_ = w.Close() // go-plugin gives up at once
	}
	_, _ = io.Copy(io.Discard, br)
	_ = w.Close()
}

// checkHandshake checks go-plugin's line CORE|APP|NETWORK|ADDRESS|PROTOCOL|… (go-plugin docs/internals.md); nil is good.
func checkHandshake(line string, readErr error, socketDir string) *badHandshake {
	const rebuild = "rebuild the plugin against this version of gpubench"
	switch {
	case readErr == io.EOF && line == "":
		return &badHandshake{"it closed its standard output without a handshake", "see docs/PLUGINS.md, \"Life of a plugin\"", true}
	case errors.Is(readErr, bufio.ErrBufferFull):
		return &badHandshake{fmt.Sprintf("its first line of output has more than %d bytes and is no handshake: %q…", handshakeBytesMax, line[:40]), "a plugin writes nothing to standard output before the handshake", false}
	}
	line = strings.TrimSpace(line)
	parts := strings.Split(line, "|")
	if len(parts) < 5 {
		return &badHandshake{fmt.Sprintf("its first line of output is no handshake: %q", oneLine(line)), "a plugin writes nothing to standard output before the handshake", false}
	}
	if parts[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		return &badHandshake{fmt.Sprintf("it speaks version %q of go-plugin's protocol, this gpubench %d", parts[0], plugin.CoreProtocolVersion), rebuild, false}
	}
	if parts[1] != strconv.Itoa(wire.ProtocolVersion) {
		return &badHandshake{fmt.Sprintf("it speaks version %q of the plugin protocol, this gpubench %d", parts[1], wire.ProtocolVersion), rebuild, false}
	}
	if parts[4] != string(plugin.ProtocolGRPC) {
		return &badHandshake{fmt.Sprintf("it serves %q, gpubench wants grpc", parts[4]), rebuild, false}
	}
	switch parts[2] {
	case "unix":
		if rel, err := filepath.Rel(socketDir, parts[3]); err != nil || !filepath.IsLocal(rel) || rel == "." {
			return &badHandshake{fmt.Sprintf("its socket %s is not in its private directory", oneLine(parts[3])), "listen in the directory that PLUGIN_UNIX_SOCKET_DIR names", false}
		}
	case "tcp":
		h, _, err := net.SplitHostPort(parts[3])
		if ip := net.ParseIP(h); err != nil || ip == nil || !ip.IsLoopback() {
			return &badHandshake{fmt.Sprintf("its address %s is not on this machine", oneLine(parts[3])), "listen on a unix socket in the directory that PLUGIN_UNIX_SOCKET_DIR names, or on 127.0.0.1", false}
		}
	default:
		return &badHandshake{fmt.Sprintf("it listens on %q", oneLine(parts[2])), "listen on a unix socket in the directory that PLUGIN_UNIX_SOCKET_DIR names", false}
	}
	return nil
}

// Diagnose adds nothing: the caller classifies.
func (g *guarded) Diagnose(context.Context) string { return "" }

// Stdout gives go-plugin the handshake.
func (g *guarded) Stdout() io.ReadCloser { return g.stdout }

// Stderr gives go-plugin nothing: the guard reads it.
func (g *guarded) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is for go-plugin's log.
func (g *guarded) Name() string { return g.name }

// ID is for go-plugin's log.
func (g *guarded) ID() string {
	if g.process == nil {
		return ""
	}
	return strconv.Itoa(g.process.PID())
}

// Wait waits for guard and plugin.
func (g *guarded) Wait(context.Context) error {
	<-g.process.Done()
	return nil
}

// Kill kills everything. go-plugin calls it as soon as standard output ends, which is often just before the process does by
// itself, with an exit code that says more than a kill.
func (g *guarded) Kill(context.Context) error {
	if g.process == nil {
		return nil
	}
	grace := time.NewTimer(exitGrace)
	defer grace.Stop()
	select {
	case <-g.process.Done():
	case <-grace.C:
		g.process.Kill()
	}
	return nil
}

// PluginToHost and HostToPlugin: both sides see the same addresses.
func (g *guarded) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin is the identity.
func (g *guarded) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
