package sdk

import (
	"context"
	"fmt"
	"os"
	"sync"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// remoteServer serves one device to another process. It has a worker of its own, so that a strategy and a device of the
// same executable do not wait for each other; with a slot that worker does nothing but answer the slot.
type remoteServer struct {
	pluginv1.UnimplementedDeviceServer
	executable *Executable
	files      *files

	mu   sync.Mutex // guards open
	open *openDevice
}

// openDevice is a device being served.
type openDevice struct {
	worker *worker
	server *deviceServer
	slot   *wire.Slot
	served chan struct{} // closed when the slot is served no more; nil without slot
	trace  func() error
}

// OpenDevice implements the contract.
func (s *remoteServer) OpenDevice(ctx context.Context, q *pluginv1.OpenDeviceRequest) (*pluginv1.OpenDeviceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		return nil, answer(fmt.Errorf("%w: the device %s", ErrBusy, s.open.server.device.Info().Name))
	}
	o := &openDevice{worker: newWorker(), trace: func() error { return nil }}
	if err := s.prepare(ctx, o, q); err != nil {
		close(o.worker.jobs)
		return nil, answer(err)
	}
	s.open = o
	info := o.server.info()
	if o.slot != nil {
		o.served = make(chan struct{})
		go o.serveSlot()
	}
	return &pluginv1.OpenDeviceResponse{Info: info}, nil
}

func (s *remoteServer) prepare(ctx context.Context, o *openDevice, q *pluginv1.OpenDeviceRequest) error {
	var t *trace.Trace
	if q.GetTracePath() != "" {
		opened, closer, err := trace.OpenWith(q.GetTracePath(), trace.OpenOptions{Trusted: true})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRequest, err)
		}
		t, o.trace = opened, closer.Close
	}
	open, err := opener(s.executable, q.GetBackend(), q.GetOptionsJson(), q.GetTotalBytes(), t)
	if err != nil {
		return err
	}
	if q.GetSlot() != nil {
		err := s.files.with(q.GetSlot(), func(file *os.File) (err error) {
			o.slot, err = wire.MapSlot(file)
			return err
		})
		if err != nil {
			return err
		}
	}
	return o.worker.do(ctx, func() error {
		server, err := newDeviceServer(open)
		if err == nil {
			o.server = server
		}
		return err
	})
}

// serveSlot answers the slot on the device's thread until the slot is aborted.
func (o *openDevice) serveSlot() {
	defer close(o.served)
	_ = o.worker.do(context.Background(), func() error {
		o.slot.Serve(o.server.handle)
		return nil
	})
}

// Call implements the contract: one device call by RPC.
func (s *remoteServer) Call(ctx context.Context, q *pluginv1.DeviceCall) (*pluginv1.DeviceAnswer, error) {
	s.mu.Lock()
	o := s.open
	s.mu.Unlock()
	switch {
	case o == nil:
		return nil, answer(fmt.Errorf("%w: OpenDevice comes first", ErrNotOpen))
	case o.slot != nil:
		return nil, answer(fmt.Errorf("%w: this device is called through its slot", ErrRequest))
	}
	var a wire.Answer
	err := o.worker.do(ctx, func() error {
		o.server.handle(&wire.Request{Op: wire.Op(q.GetOp()), Stream: q.GetStream(), Addr: q.GetAddr(), Size: q.GetSize(), Aux: q.GetAux()}, &a)
		return nil
	})
	if err != nil {
		return nil, answer(err)
	}
	return &pluginv1.DeviceAnswer{Status: a.Status, Value0: a.Value0, Value1: a.Value1, NowNs: a.NowNs, SpentNs: a.SpentNs}, nil
}

// CloseDevice implements the contract.
func (s *remoteServer) CloseDevice(ctx context.Context, _ *pluginv1.CloseDeviceRequest) (*pluginv1.CloseDeviceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return &pluginv1.CloseDeviceResponse{}, nil
	}
	o := s.open
	s.open = nil
	if o.slot != nil {
		o.slot.Abort()
		<-o.served
	}
	err := o.worker.do(ctx, func() error { return o.server.device.Close() })
	close(o.worker.jobs)
	if o.slot != nil {
		err = firstOf(err, o.slot.Close())
	}
	return &pluginv1.CloseDeviceResponse{Calls: o.server.calls}, answer(firstOf(err, o.trace()))
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
