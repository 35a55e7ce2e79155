package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// The test binary is also the plugin: started with this variable it serves.
const servesEnv = "SDK_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(servesEnv) == "tlsf" {
		sdk.Serve(tlsfExecutable())
		return
	}
	if os.Getenv(servesEnv) != "" || len(os.Args) == 2 && os.Args[1] == sdk.DescribeVerb {
		sdk.Serve(executable)
		return
	}
	os.Exit(m.Run())
}

var executable = sdk.Executable{
	Name: "sdk-test", Version: "0.1",
	Strategies: []sdk.Description{{
		Name: "caching", Version: "1", Summary: "keeps freed blocks of a size for the next request of it",
		Options: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"loud":{"type":"boolean"},"limit_bytes":{"type":"integer","minimum":1}}}`),
		New:     newCaching,
	}},
	Backends: []sdk.Backend{{
		Name: "ideal", Version: "1", Summary: "a budget", Options: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Capabilities: []sdk.Capability{sdk.CapStreams},
		Open: func(_ json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			return ideal.New(ideal.Config{TotalBytes: total})
		},
	}},
}

// caching keeps freed blocks in lists by size, and waits for the stream that used a block.
type caching struct {
	env     *sdk.Env
	streams backends.Streams
	lists   map[uint64][]uint64
	sizes   map[uint64]uint64
}

func newCaching(env *sdk.Env) (sdk.Strategy, error) {
	var o struct {
		Loud       bool   `json:"loud"`
		LimitBytes uint64 `json:"limit_bytes"`
	}
	if err := sdk.DecodeOptions(env.Options, &o); err != nil {
		return nil, err
	}
	if o.Loud {
		fmt.Println("loud to os.Stdout")
		os.NewFile(1, "raw").WriteString("loud to descriptor 1\n")
	}
	s := &caching{env: env, lists: map[uint64][]uint64{}, sizes: map[uint64]uint64{}}
	s.streams, _ = env.Device.(backends.Streams)
	return s, nil
}

func (s *caching) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	size := (r.Size + 511) &^ 511
	if list := s.lists[size]; len(list) > 0 {
		*b = sdk.Block{Addr: list[len(list)-1], Size: size}
		s.lists[size] = list[:len(list)-1]
		return trace.StatusOK
	}
	addr, st := s.env.Device.Malloc(size)
	recovered := trace.StatusOK
	if st.OutOfMemory() && s.Trim() == trace.StatusOK {
		addr, st = s.env.Device.Malloc(size)
		recovered = trace.StatusRecovered
	}
	if st != trace.CallOK {
		return trace.StatusFailed
	}
	s.sizes[addr] = size
	*b = sdk.Block{Addr: addr, Size: size}
	return recovered
}

func (s *caching) Free(b *sdk.Block, stream sdk.Stream) trace.Status {
	if s.streams != nil {
		e := s.streams.Record(stream)
		if !s.streams.Query(e) {
			s.streams.Wait(e)
		}
		s.streams.Drop(e)
	}
	s.lists[b.Size] = append(s.lists[b.Size], b.Addr)
	return trace.StatusOK
}

func (s *caching) Trim() trace.Status {
	for _, size := range slices.Sorted(func(yield func(uint64) bool) {
		for k := range s.lists {
			if !yield(k) {
				return
			}
		}
	}) {
		for _, addr := range s.lists[size] {
			s.env.Device.Free(addr)
			delete(s.sizes, addr)
		}
	}
	clear(s.lists)
	return trace.StatusOK
}

func (s *caching) Inspect() sdk.Inspection {
	return sdk.Inspection{Counters: map[string]uint64{"segments": uint64(len(s.sizes))}}
}

func (s *caching) Close() error { s.Trim(); return nil }

const program = `# gpubench trace 1
events manual
h1 = alloc 3MiB
h2 = alloc 2MiB stream=7
free h1
h3 = alloc 3MiB @10us
wait stream=0 on=7
free h2 stream=0
complete stream=7
h4 = alloc 30MiB
h5 = alloc 40MiB
fail-next device=1
h6 = alloc 5MiB
trim
free h4
free h3
sync
mark iteration=2
h7 = alloc 40MiB
`

func parse(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.Parse(strings.NewReader(text), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// process is a plugin process started as the harness does, without a guard.
type process struct {
	control pluginv1.PluginClient
	device  pluginv1.DeviceClient
	target  string
	cmd     *exec.Cmd
	client  *plugin.Client
	alive   *os.File // our end of the lifeline
}

type clientPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (clientPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }
func (clientPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// start starts the test binary as a plugin; files become descriptors 4, 5, …
func start(t testing.TB, files ...*os.File) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{servesEnv + "=1"}, append(os.Environ(), wire.EnvLifelineFD+"=3")...)
	cmd.ExtraFiles = append([]*os.File{r}, files...)
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: clientPlugin{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              cmd, Logger: hclog.NewNullLogger(), SyncStdout: io.Discard, SyncStderr: io.Discard,
	})
	t.Cleanup(func() { client.Kill(); w.Close() })
	protocol, err := client.Client()
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protocol.Dispense(wire.PluginName)
	if err != nil {
		t.Fatal(err)
	}
	conn := raw.(*grpc.ClientConn)
	return &process{control: pluginv1.NewPluginClient(conn), device: pluginv1.NewDeviceClient(conn), cmd: cmd, client: client, alive: w,
		target: "unix:" + client.ReattachConfig().Addr.String()}
}

func fd(n uint32) *pluginv1.FileSpec {
	return &pluginv1.FileSpec{Where: &pluginv1.FileSpec_Fd{Fd: n}}
}

const deviceBytes = 64 << 20

func fused() *pluginv1.DeviceSpec {
	return &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Fused{Fused: &pluginv1.FusedDevice{Backend: "ideal", TotalBytes: deviceBytes}}}
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// replayed is everything deterministic of a replay.
type replayed struct {
	outcomes []trace.Outcome
	calls    []trace.Call
}

func exact(outcomes []trace.Outcome, calls []trace.Call) (r replayed) {
	for _, o := range outcomes {
		o.PolicyTicks, o.Flags = 0, 0
		r.outcomes = append(r.outcomes, o)
	}
	for _, c := range calls {
		c.WallTicks = 0
		r.calls = append(r.calls, c)
	}
	return r
}

// replay opens the case in a plugin process and runs it to the end through a window of geometry g.
func replay(t testing.TB, p *process, r *wire.Reader, device *pluginv1.DeviceSpec, path string) (replayed, *pluginv1.OpenResponse) {
	t.Helper()
	ctx := deadline(t)
	g := r.Geometry()
	opened, err := p.control.Open(ctx, &pluginv1.OpenRequest{Strategy: "caching", Device: device, TracePath: path,
		Window: &pluginv1.WindowSpec{File: fd(4), OutcomeCapacity: g.OutcomeCapacity, CallCapacity: g.CallCapacity}})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []trace.Outcome
	var calls []trace.Call
	for {
		first := uint64(len(outcomes))
		resp, err := p.control.Replay(ctx, &pluginv1.ReplayRequest{First: first, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Drain(first)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Executed != uint64(len(d.Outcomes)) || resp.Calls != uint64(len(d.Calls)) || uint32(resp.Reason) != uint32(d.Summary.Reason) {
			t.Fatalf("the answer %v disagrees with the window: %d outcomes, %d calls, %v", resp, len(d.Outcomes), len(d.Calls), d.Summary.Reason)
		}
		outcomes, calls = append(outcomes, d.Outcomes...), append(calls, d.Calls...)
		if resp.Reason == pluginv1.StopReason_STOP_REASON_END {
			break
		}
	}
	return exact(outcomes, calls), opened
}

func writeTrace(t testing.TB, tr *trace.Trace) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.gbt")
	if err := trace.WriteFile(path, tr); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same case in process, in one plugin process, over a device in another process through a slot, and through RPCs, gives
// identical outcomes and call logs.
func TestFusedAndRemoteAreIdentical(t *testing.T) {
	tr := parse(t, program)
	path := writeTrace(t, tr)
	runner, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: &executable.Strategies[0], Trace: tr, OpenDevice: func() (backends.Device, error) {
		return ideal.New(ideal.Config{TotalBytes: deviceBytes})
	}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := sdk.NewExecutor(runner).Execute(tr, false)
	if err != nil {
		t.Fatal(err)
	}
	want := exact(result.Outcomes, result.Calls)
	wantStatus := map[int]trace.Status{4: trace.StatusOK, 8: trace.StatusOK, 9: trace.StatusFailed, 11: trace.StatusRecovered, 17: trace.StatusRecovered}
	for i, st := range wantStatus {
		if want.outcomes[i].Status != st {
			t.Errorf("event %d: %v, want %v", i, want.outcomes[i].Status, st)
		}
	}

	window, reader, err := wire.CreateWindow(wire.Geometry{OutcomeCapacity: 5, CallCapacity: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer window.Close()
	defer reader.Close()
	slotFile, slot, err := wire.CreateSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer slotFile.Close()
	defer slot.Close()

	check := func(t *testing.T, got replayed) {
		t.Helper()
		if !slices.Equal(got.outcomes, want.outcomes) {
			t.Errorf("outcomes\n%v, want\n%v", got.outcomes, want.outcomes)
		}
		if !slices.Equal(got.calls, want.calls) {
			t.Errorf("calls\n%v, want\n%v", got.calls, want.calls)
		}
	}
	t.Run("fused", func(t *testing.T) {
		got, opened := replay(t, start(t, window), reader, fused(), path)
		check(t, got)
		if opened.Device.Name != "ideal" || opened.TraceEvents != uint64(len(tr.Events)) || opened.Clock.FrequencyHz == 0 {
			t.Errorf("opened %v", opened)
		}
	})
	for _, binding := range []string{"slot", "rpc"} {
		t.Run(binding, func(t *testing.T) {
			far := start(t, slotFile)
			q := &pluginv1.OpenDeviceRequest{Backend: "ideal", TotalBytes: deviceBytes, TracePath: path}
			if binding == "slot" {
				q.Slot = fd(4)
			}
			device, err := far.device.OpenDevice(deadline(t), q)
			if err != nil {
				t.Fatal(err)
			}
			near := start(t, window, slotFile)
			remote := &pluginv1.RemoteDevice{Info: device.Info, RpcTarget: far.target}
			if binding == "slot" {
				remote.Slot = fd(5)
			}
			got, opened := replay(t, near, reader, &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Remote{Remote: remote}}, path)
			check(t, got)
			c := opened.RemoteCost
			if c.GetBinding() != binding || c.GetP50Ns() == 0 || c.GetP99Ns() < c.GetP50Ns() {
				t.Errorf("cost of a call: %v", c)
			}
			t.Logf("transport of a call by %s: mean %d ns, p50 %d ns, p99 %d ns", binding, c.GetMeanNs(), c.GetP50Ns(), c.GetP99Ns())
			if _, err := near.control.Close(deadline(t), &pluginv1.CloseRequest{}); err != nil {
				t.Error(err)
			}
			closed, err := far.device.CloseDevice(deadline(t), &pluginv1.CloseDeviceRequest{})
			if err != nil || closed.Calls == 0 {
				t.Errorf("closing the device: %v, %v", closed, err)
			}
		})
	}
}

func TestExecuteOverRPC(t *testing.T) {
	p := start(t)
	ctx := deadline(t)
	if _, err := p.control.Open(ctx, &pluginv1.OpenRequest{Strategy: "caching", Device: fused()}); err != nil {
		t.Fatal(err)
	}
	stream, err := p.control.Execute(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(b []byte, keep bool) *pluginv1.ExecuteResponse {
		t.Helper()
		if err := stream.Send(&pluginv1.ExecuteRequest{Program: b, Keep: keep, Inspect: true}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	encode := func(text string) []byte {
		b, err := wire.AppendProgram(nil, parse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := send(encode(program), false)
	var r wire.Result
	if err := wire.DecodeResult(whole.Result, 18, &r); err != nil {
		t.Fatal(err)
	}
	first := exact(r.Outcomes, r.Calls)
	if resp := send([]byte("not a program"), false); !strings.Contains(resp.Error, "not a program") || resp.Result != nil {
		t.Errorf("nonsense: %v", resp)
	}
	again := send(encode(program), false)
	if err := wire.DecodeResult(again.Result, 18, &r); err != nil {
		t.Fatal(err)
	}
	if got := exact(r.Outcomes, r.Calls); !slices.Equal(got.outcomes, first.outcomes) || !slices.Equal(got.calls, first.calls) {
		t.Error("the same program a second time gives other outcomes")
	}
	// h7 holds 40 of 64 MiB now: going on, 40 more fail; from the start they do not.
	more := encode("# gpubench trace 1\nh8 = alloc 40MiB\n")
	for _, c := range []struct {
		keep bool
		want trace.Status
	}{{true, trace.StatusFailed}, {false, trace.StatusOK}} {
		if err := wire.DecodeResult(send(more, c.keep).Result, 1, &r); err != nil {
			t.Fatal(err)
		}
		if r.Outcomes[0].Status != c.want {
			t.Errorf("keep %v: %v, want %v", c.keep, r.Outcomes[0].Status, c.want)
		}
	}
	if resp := send(more, false); resp.InspectionJson != `{"segments":null,"counters":{"segments":1}}` {
		t.Errorf("inspection %s", resp.InspectionJson)
	}
}

func TestRequestsAreRefusedInOneLine(t *testing.T) {
	window, reader, err := wire.CreateWindow(wire.Geometry{OutcomeCapacity: 5, CallCapacity: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer window.Close()
	defer reader.Close()
	p := start(t, window)
	ctx := deadline(t)
	path := writeTrace(t, parse(t, program))
	win := func(outcomes uint64) *pluginv1.WindowSpec {
		return &pluginv1.WindowSpec{File: fd(4), OutcomeCapacity: outcomes, CallCapacity: 3}
	}
	for _, c := range []struct {
		name string
		q    *pluginv1.OpenRequest
		code codes.Code
		want string
	}{
		{"no such strategy", &pluginv1.OpenRequest{Strategy: "cashing", Device: fused()}, codes.NotFound, `no strategy "cashing" (there are caching)`},
		{"no such option", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), OptionsJson: `{"louder":true}`}, codes.InvalidArgument,
			"strategy caching: bad options: no option louder (there are limit_bytes, loud)"},
		{"wrong type", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), OptionsJson: `{"loud":3}`}, codes.InvalidArgument, "loud: got number, want boolean"},
		{"below minimum", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), OptionsJson: `{"limit_bytes":0}`}, codes.InvalidArgument, "limit_bytes: minimum: got 0, want 1"},
		{"no device", &pluginv1.OpenRequest{Strategy: "caching"}, codes.InvalidArgument, "neither a fused nor a remote device"},
		{"no such backend", &pluginv1.OpenRequest{Strategy: "caching", Device: &pluginv1.DeviceSpec{Binding: &pluginv1.DeviceSpec_Fused{
			Fused: &pluginv1.FusedDevice{Backend: "real"}}}}, codes.NotFound, `no backend "real" (there are ideal)`},
		{"no trace file", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), TracePath: "/nonexistent", Window: win(5)}, codes.InvalidArgument, "/nonexistent"},
		{"trace without window", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), TracePath: path}, codes.InvalidArgument, "a trace needs a window"},
		{"other geometry", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), TracePath: path, Window: win(4)}, codes.InvalidArgument, "Open said 4 and 3"},
		{"not a window", &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), TracePath: path, Window: &pluginv1.WindowSpec{
			File: &pluginv1.FileSpec{Where: &pluginv1.FileSpec_Path{Path: path}}, OutcomeCapacity: 5, CallCapacity: 3}}, codes.InvalidArgument, "not a usable window"},
	} {
		_, err := p.control.Open(ctx, c.q)
		st := status.Convert(err)
		if st.Code() != c.code || !strings.Contains(st.Message(), c.want) || strings.Contains(st.Message(), "\n") {
			t.Errorf("%s: %v %q, want %v %q", c.name, st.Code(), st.Message(), c.code, c.want)
		}
	}
	if _, err := p.control.Replay(ctx, &pluginv1.ReplayRequest{Max: 1}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Replay before Open: %v", err)
	}
	if _, err := p.control.Close(ctx, &pluginv1.CloseRequest{}); err != nil {
		t.Errorf("Close before Open: %v", err)
	}
	open := &pluginv1.OpenRequest{Strategy: "caching", Device: fused(), OptionsJson: `{"loud":true}`}
	if _, err := p.control.Open(ctx, open); err != nil {
		t.Errorf("a strategy that prints: %v", err)
	}
	if _, err := p.control.Open(ctx, open); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("second Open: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	p := start(t)
	d, err := p.control.Describe(deadline(t), &pluginv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "sdk-test" || d.Protocol != 1 || d.WindowVersion != 1 || len(d.Strategies) != 1 || len(d.Backends) != 1 {
		t.Fatalf("%v", d)
	}
	if got := strings.Join(d.Strategies[0].Capabilities, " "); got != "trim inspect" {
		t.Errorf("capabilities %q", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, sdk.DescribeVerb).Output()
	if err != nil {
		t.Fatal(err)
	}
	var printed struct {
		Strategies []struct {
			Name         string
			Capabilities []string
		}
	}
	if err := json.Unmarshal(out, &printed); err != nil || len(printed.Strategies) != 1 || printed.Strategies[0].Name != "caching" {
		t.Errorf("describe printed %s (%v)", out, err)
	}
}

// A plugin whose harness is gone exits by itself.
func TestPluginEndsWithItsLifeline(t *testing.T) {
	p := start(t)
	p.alive.Close()
	for i := 0; !p.client.Exited(); i++ {
		if i == 1000 {
			t.Fatal("the plugin lives on without its harness")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
