package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

// The messages of the control plane, as they come from the plugin.
type (
	Description         = pluginv1.DescribeResponse
	StrategyDescription = pluginv1.StrategyDescription
	BackendDescription  = pluginv1.BackendDescription
	Opened              = pluginv1.OpenResponse
	DeviceInfo          = pluginv1.DeviceInfo
	ClockInfo           = pluginv1.ClockInfo
	Fingerprint         = pluginv1.FingerprintResponse
	Sample              = pluginv1.Sample
)

// Geometry says how many records a replay window holds; Slot is the shared memory through which one process calls a device in
// another, and is given to both as one of Spec.Files.
type (
	Geometry = wire.Geometry
	Slot     = wire.Slot
)

// CreateSlot makes a slot and its memory file; both are the caller's to close. Slot.Abort wakes the side whose peer has died.
func CreateSlot() (*os.File, *Slot, error) { return wire.CreateSlot() }

// OpenRequest says which strategy to open over which device. Exactly one of Fused and Remote is set.
type OpenRequest struct {
	Strategy         string
	OptionsJSON      string // "" = {}
	Fused            *FusedDevice
	Remote           *RemoteDevice
	CapacityBytes    uint64
	Seed             uint64
	TracePath        string // binary trace; "" for Execute
	Batch            bool   // read the clock around windows and device calls only, not around events
	RestoreStart     bool   // take over the trace's start state
	MemoryLimitBytes uint64 // what the plugin should know of its limit; 0 = Spec.MemoryLimitBytes
}

// FusedDevice is a backend in the strategy's own process.
type FusedDevice struct {
	Backend     string
	OptionsJSON string
	TotalBytes  uint64
}

// RemoteDevice is a backend in another process, which has answered OpenDevice.
type RemoteDevice struct {
	SlotFile int    // index into Spec.Files of the strategy's process; -1 = calls by RPC to Target
	Target   string // gRPC target of the process that serves the device
	Info     *DeviceInfo
}

// Describe returns what the plugin said of itself at the start.
func (p *Plugin) Describe() *Description { return p.description }

func (p *Plugin) describe(ctx context.Context) (*Description, error) {
	d, err := invoke(ctx, p, "Describe", DescribeDeadline, p.control.Describe, &pluginv1.DescribeRequest{})
	if err != nil {
		return nil, err
	}
	if d.Protocol != wire.ProtocolVersion || d.WindowVersion != wire.WindowVersion {
		return nil, p.fail(&Fault{Kind: ErrProtocol, Plugin: p.name, During: "Describe",
			Detail: fmt.Sprintf("it speaks protocol %d with windows of version %d, this gpubench %d and %d", d.Protocol, d.WindowVersion, wire.ProtocolVersion, wire.WindowVersion),
			Advice: "rebuild the plugin against this version of gpubench"})
	}
	return d, nil
}

// Target is the address at which other processes of this machine reach the plugin by gRPC.
func (p *Plugin) Target() string {
	a, err := p.client.Start() // returns what it knows
	if err != nil {
		return ""
	}
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// FD is the number that Spec.Files[i] has in the plugin's process.
func (p *Plugin) FD(i int) uint32 { return uint32(p.firstFileFD + i) }

// Open opens a strategy.
func (p *Plugin) Open(ctx context.Context, r OpenRequest) (*Opened, error) {
	req := &pluginv1.OpenRequest{
		Strategy: r.Strategy, OptionsJson: r.OptionsJSON, CapacityBytes: r.CapacityBytes, Seed: r.Seed, TracePath: r.TracePath,
		RestoreStart: r.RestoreStart, MemoryLimitBytes: r.MemoryLimitBytes,
	}
	if r.MemoryLimitBytes == 0 {
		req.MemoryLimitBytes = p.spec.MemoryLimitBytes
	}
	if r.Batch {
		req.Timing = pluginv1.Timing_TIMING_BATCH
	}
	switch {
	case r.Fused != nil && r.Remote == nil:
		req.Device = &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Fused{Fused: &pluginv1.FusedDevice{
			Backend: r.Fused.Backend, OptionsJson: r.Fused.OptionsJSON, TotalBytes: r.Fused.TotalBytes}}}
	case r.Remote != nil && r.Fused == nil:
		remote := &pluginv1.RemoteDevice{RpcTarget: r.Remote.Target, Info: r.Remote.Info}
		if r.Remote.SlotFile >= 0 {
			remote.Slot = p.fileSpec(int(p.FD(r.Remote.SlotFile)))
		}
		req.Device = &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Remote{Remote: remote}}
	default:
		return nil, fmt.Errorf("plugin %s: Open needs a fused or a remote device, exactly one", p.name)
	}
	if r.TracePath != "" {
		if p.window == nil {
			return nil, fmt.Errorf("plugin %s: Open with a trace needs a plugin that was started with a window", p.name)
		}
		g := p.window.Geometry()
		req.Window = &pluginv1.WindowSpec{File: p.fileSpec(windowFD), OutcomeCapacity: g.OutcomeCapacity, CallCapacity: g.CallCapacity}
	}
	return invoke(ctx, p, "Open", OpenDeadline, p.control.Open, req)
}

func (p *Plugin) fileSpec(fd int) *pluginv1.FileSpec {
	return &pluginv1.FileSpec{Where: &pluginv1.FileSpec_Fd{Fd: uint32(fd)}}
}

// Inspect returns the strategy's picture of itself, as JSON.
func (p *Plugin) Inspect(ctx context.Context) (string, error) {
	r, err := invoke(ctx, p, "Inspect", CallDeadline, p.control.Inspect, &pluginv1.InspectRequest{})
	return r.GetInspectionJson(), err
}

// Restore takes over the trace's start state.
func (p *Plugin) Restore(ctx context.Context) (warnings []string, err error) {
	r, err := invoke(ctx, p, "Restore", RestoreDeadline, p.control.Restore, &pluginv1.RestoreRequest{})
	return r.GetWarnings(), err
}

// Reset returns strategy and device to the state after Open.
func (p *Plugin) Reset(ctx context.Context) error {
	_, err := invoke(ctx, p, "Reset", CallDeadline, p.control.Reset, &pluginv1.ResetRequest{})
	return err
}

// Close closes strategy and device; the process stays. It returns how many call records wait to be delivered by a Replay.
func (p *Plugin) Close(ctx context.Context) (callsWaiting uint64, err error) {
	p.closeExecutor()
	r, err := invoke(ctx, p, "Close", CallDeadline, p.control.Close, &pluginv1.CloseRequest{})
	return r.GetCallsWaiting(), err
}

// OpenDevice opens a backend as a remote device. slotFile is the index into Spec.Files of the slot; -1 = calls come by RPC.
func (p *Plugin) OpenDevice(ctx context.Context, d FusedDevice, tracePath string, slotFile int) (*DeviceInfo, error) {
	req := &pluginv1.OpenDeviceRequest{Backend: d.Backend, OptionsJson: d.OptionsJSON, TotalBytes: d.TotalBytes, TracePath: tracePath}
	if slotFile >= 0 {
		req.Slot = p.fileSpec(int(p.FD(slotFile)))
	}
	r, err := invoke(ctx, p, "OpenDevice", OpenDeadline, p.device.OpenDevice, req)
	return r.GetInfo(), err
}

// CloseDevice closes a remote device and returns how many calls it answered.
func (p *Plugin) CloseDevice(ctx context.Context) (calls uint64, err error) {
	r, err := invoke(ctx, p, "CloseDevice", CallDeadline, p.device.CloseDevice, &pluginv1.CloseDeviceRequest{})
	return r.GetCalls(), err
}

// Fingerprint asks a telemetry plugin which devices there are.
func (p *Plugin) Fingerprint(ctx context.Context) (*Fingerprint, error) {
	return invoke(ctx, p, "Fingerprint", CallDeadline, p.telemetry.Fingerprint, &pluginv1.FingerprintRequest{})
}

// Watch calls each with every sample of a telemetry plugin until ctx ends, which is no error, or each returns one.
func (p *Plugin) Watch(ctx context.Context, interval time.Duration, devices []uint32, each func(*Sample) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.telemetry.Watch(ctx, &pluginv1.WatchRequest{IntervalMs: uint32(interval.Milliseconds()), Devices: devices})
	for err == nil {
		var s *Sample
		if s, err = stream.Recv(); err != nil {
			break
		}
		if err := each(s); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return p.callError(ctx, "Watch", 0, nil, err)
}

// invoke makes one unary call with a deadline. Spec.CallDeadline, where given, replaces the call's own.
func invoke[Q, R any](ctx context.Context, p *Plugin, call string, deadline time.Duration, f func(context.Context, Q, ...callOption) (R, error), req Q) (R, error) {
	var none R
	if err := p.usable(); err != nil {
		return none, err
	}
	if p.spec.CallDeadline != 0 {
		deadline = p.spec.CallDeadline
	}
	dctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	r, err := f(dctx, req)
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	return none, p.callError(dctx, call, deadline, nil, err)
}

// callError turns an error of gRPC into an Answer or a Fault, which ends the process. event, if set, is the one in execution.
func (p *Plugin) callError(ctx context.Context, call string, deadline time.Duration, event *uint64, err error) error {
	st, _ := status.FromError(err)
	if st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: ") { // gRPC's own words
		return p.fail(&Fault{Kind: ErrProtocol, Plugin: p.name, During: call, Detail: oneLine(st.Message()),
			Advice: fmt.Sprintf("a message has at most %d MiB: docs/PLUGINS.md, \"Life of a plugin\"", wire.MaxMessageBytes>>20), cause: err})
	}
	if kind := answerKind(st.Code(), deadline); kind != nil && p.alive() {
		return &Answer{Kind: kind, Plugin: p.name, Call: call, Message: oneLine(st.Message())}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || st.Code() == codes.DeadlineExceeded {
		return p.fail(&Fault{Kind: ErrHang, Plugin: p.name, During: call, Detail: fmt.Sprintf("no answer within %s", seconds(deadline)),
			Advice: "it was killed; if the machine was only slow, run it again with less beside it", cause: err})
	}
	return p.lost(call, event, err)
}

// answerKind tells the codes with which a plugin answers from those that gRPC itself makes when connection or time run out;
// nil is one of the latter.
func answerKind(c codes.Code, deadline time.Duration) error {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists:
		return ErrRequest
	case codes.ResourceExhausted:
		return ErrNoMemory
	case codes.Unimplemented:
		return ErrUnsupported
	case codes.Unavailable, codes.Canceled:
		return nil
	case codes.DeadlineExceeded:
		if deadline != 0 {
			return nil
		}
	}
	return ErrInternal
}
