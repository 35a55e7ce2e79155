package sdk

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// remoteOver serves what open opens through a slot in ordinary memory.
func remoteOver(t testing.TB, open func() (backends.Device, error)) (*remoteDevice, *deviceServer, *wire.Slot) {
	t.Helper()
	server, err := newDeviceServer(open)
	if err != nil {
		t.Fatal(err)
	}
	slot := wire.NewSlot()
	done := make(chan struct{})
	go func() {
		defer close(done)
		slot.Serve(server.handle)
	}()
	t.Cleanup(func() { slot.Abort(); <-done })
	info, caps := fromDeviceInfo(server.info())
	return newRemoteDevice(slot, info, caps, func() error { return nil }), server, slot
}

func newIdeal() (backends.Device, error) { return ideal.New(ideal.Config{TotalBytes: 64 << 20}) }

// drive makes every call there is on a device and writes down the answers and the clock.
func drive(d backends.Device) (log []string) {
	say := func(format string, args ...any) {
		log = append(log, fmt.Sprintf(format, args...)+fmt.Sprintf(" @%d", d.NowNs()))
	}
	caps := DeviceCapabilities(d)
	say("%+v %v", d.Info(), slices.DeleteFunc(caps, func(c Capability) bool { return c == CapDeviceReset }))
	a, st := d.Malloc(5 << 20)
	say("malloc %#x %d", a, st)
	_, st = d.Malloc(1 << 40)
	say("too much %d", st)
	free, total := d.MemInfo()
	say("info %d %d", free, total)
	if c := capabilityOf[backends.Clocked](d, CapClocked); c != nil {
		c.AdvanceNs(12_345)
	}
	if f := capabilityOf[backends.FaultInjector](d, CapFaultInjector); f != nil {
		f.FailNext(1)
		_, st = d.Malloc(1)
		say("injected %d", st)
	}
	if ad := capabilityOf[backends.SegmentAdopter](d, CapSegmentAdopter); ad != nil {
		say("adopt %d", ad.Adopt(32<<20, 2<<20))
		say("adopt again %d", ad.Adopt(32<<20, 2<<20))
	}
	if vm := capabilityOf[backends.VirtualMemory](d, CapVirtualMemory); vm != nil {
		va, st := vm.Reserve(4 << 20)
		say("reserve %#x %d", va, st)
		p, st := vm.Create(2 << 20)
		say("create %d %d", p, st)
		say("map %d access %d", vm.Map(va, 2<<20, p), vm.SetAccess(va, 2<<20))
		say("map twice %d", vm.Map(va, 2<<20, p))
		say("unmap %d release %d unreserve %d", vm.Unmap(va, 2<<20), vm.Release(p), vm.Unreserve(va, 4<<20))
	}
	if s := capabilityOf[backends.Streams](d, CapStreams); s != nil {
		ctl := capabilityOf[backends.StreamControl](d, CapStreamControl)
		ctl.SetManualEvents(true)
		e, f, g := s.Record(1), s.Record(2), s.Record(1)
		say("%d %d %d: %v %v %v", e, f, g, s.Query(e), s.Query(f), s.Query(g))
		s.Wait(e)
		s.StreamWait(2, g)
		say("after wait: %v %v %v", s.Query(e), s.Query(f), s.Query(g))
		ctl.Complete(2)
		say("after complete: %v %v", s.Query(f), s.Query(g))
		s.SyncStream(1)
		h := s.Record(3)
		ctl.DestroyStream(3)
		say("after destroy: %v", s.Query(h))
		i := s.Record(0)
		ctl.CompleteAll()
		s.SyncDevice()
		say("after all: %v", s.Query(i))
		s.Drop(i)
	}
	say("free %d, twice %d", d.Free(a), d.Free(a))
	if r := capabilityOf[backends.Resetter](d, CapDeviceReset); r != nil {
		r.Reset()
		a, st = d.Malloc(2 << 20)
		say("after reset %#x %d", a, st)
	}
	return log
}

// A remote device answers like the device itself, call by call, and has the same optional interfaces.
func TestRemoteAnswersLikeTheDevice(t *testing.T) {
	own, err := newIdeal()
	if err != nil {
		t.Fatal(err)
	}
	far, _, _ := remoteOver(t, newIdeal)
	want, got := drive(own), drive(far)
	if !slices.Equal(got, want) {
		t.Errorf("remote\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(want) < 15 {
		t.Errorf("only %d answers: the device under test lost its interfaces", len(want))
	}
	// A device without any: the remote one has none either, though its type has the methods. Only a reset is always there.
	bare, _, _ := remoteOver(t, func() (backends.Device, error) { return nullDevice{}, nil })
	if caps := DeviceCapabilities(bare); !slices.Equal(caps, []Capability{CapDeviceReset}) {
		t.Errorf("capabilities of a bare device: %v", caps)
	}
	if _, st := bare.Reserve(1); st != trace.CallNotSupported {
		t.Errorf("reserve on a bare device: %v", st)
	}
}

// A device that cannot reset itself is opened again by the far side.
func TestRemoteResetReopens(t *testing.T) {
	opened := 0
	var last *arenaDevice
	far, _, _ := remoteOver(t, func() (backends.Device, error) {
		if opened++; opened == 3 {
			return nil, errors.New("gone")
		}
		last = newArenaDevice(1 << 20)
		return last, nil
	})
	far.Reset()
	if opened != 1 {
		t.Errorf("a reset of a fresh device opened it %d times", opened)
	}
	first := last
	a, _ := far.Malloc(4096)
	far.Reset()
	if b, _ := far.Malloc(4096); b != a || opened != 2 || !first.closed {
		t.Errorf("after the reset: address %#x, want %#x; opened %d times; old one closed %v", b, a, opened, first.closed)
	}
	far.Reset()
	if _, st := far.Malloc(1); st != trace.CallDeviceLost {
		t.Errorf("a device that could not be opened again: %v", st)
	}
}

// When the other process dies, every call from then on says that the device is lost, and the replay comes to its end.
func TestLostDevice(t *testing.T) {
	far, _, slot := remoteOver(t, func() (backends.Device, error) { return newArenaDevice(1 << 20), nil })
	r := open(t, RunnerConfig{Strategy: describeDirect(0), Trace: parse(alloc(1, 8), alloc(2, 8), free(2), free(1))}, far)
	w := window(t, 10, 10)
	if _, err := r.Replay(w, 0, 1, false); err != nil {
		t.Fatal(err)
	}
	slot.Abort()
	if _, err := r.Replay(w, 1, 10, false); err != nil {
		t.Fatal(err)
	}
	if got := statusWords(w.Outcomes()[:3]); got != "failed skipped error" {
		t.Errorf("statuses %s", got)
	}
	if c := w.Calls()[0]; c.Status != trace.CallDeviceLost || c.Addr != 0 {
		t.Errorf("call %+v", c)
	}
	if !far.Query(1) {
		t.Error("an event of a lost device must not be waited for")
	}
}

// Device time of a remote call is the far side's; the transport is in neither time.
func TestRemoteDeviceTime(t *testing.T) {
	far, _, _ := remoteOver(t, func() (backends.Device, error) { return newArenaDevice(1 << 20), nil })
	r := open(t, RunnerConfig{Strategy: describeDirect(2), Trace: parse(alloc(1, 8))}, far)
	w := window(t, 10, 10)
	s, err := r.Replay(w, 0, 10, false)
	if err != nil {
		t.Fatal(err)
	}
	if o := w.Outcomes()[0]; o.DeviceNs != testMallocNs+2*testCallNs || s.DeviceNs != uint64(o.DeviceNs) || s.DeviceCalls != 3 {
		t.Errorf("device time %d ns, sum %d, %d calls", o.DeviceNs, s.DeviceNs, s.DeviceCalls)
	}
	var wall uint64
	for _, c := range w.Calls()[:3] {
		wall += uint64(c.WallTicks)
	}
	if wall != s.DeviceWallTicks || wall == 0 {
		t.Errorf("wall ticks of the calls %d, of the window %d", wall, s.DeviceWallTicks)
	}
	cost, err := far.measure()
	if err != nil || cost.Calls != remoteCostCalls || cost.P99Ns < cost.P50Ns || cost.P50Ns == 0 {
		t.Errorf("cost %+v, %v", cost, err)
	}
}

func TestDeviceInfoRoundTrip(t *testing.T) {
	want := backends.Info{Name: "x", TotalBytes: 1, PageBytes: 2, AddrLimit: 3, Deterministic: true, ModelledTime: true, UncalibratedTime: true, CostSource: "here"}
	d := &arenaDevice{}
	info, caps := fromDeviceInfo(&pluginv1.DeviceInfo{Name: "x", TotalBytes: 1, PageBytes: 2, AddrLimit: 3, Deterministic: true, ModelledTime: true,
		UncalibratedTime: true, CostSource: "here", Capabilities: append(words(DeviceCapabilities(d)), "of the future")})
	if !reflect.DeepEqual(info, want) || !slices.Equal(caps, DeviceCapabilities(d)) {
		t.Errorf("%+v %v", info, caps)
	}
}

func BenchmarkRemoteSlotCall(b *testing.B) {
	far, _, _ := remoteOver(b, func() (backends.Device, error) { return nullDevice{}, nil })
	b.ReportAllocs()
	for b.Loop() {
		far.Malloc(4096)
	}
}
