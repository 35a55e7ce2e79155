package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
	"github.com/gpubench/gpubench/trace"
)

// server serves the control plane. All work on strategies happens on the worker.
type server struct {
	pluginv1.UnimplementedPluginServer
	executable *Executable
	worker     *worker
	files      *files
	open       *session // the worker's
	describe   func() *pluginv1.DescribeResponse
}

func newServer(e *Executable, w *worker, f *files) *server {
	return &server{executable: e, worker: w, files: f, describe: sync.OnceValue(e.describe)}
}

// Describe implements the contract.
func (s *server) Describe(ctx context.Context, _ *pluginv1.DescribeRequest) (resp *pluginv1.DescribeResponse, err error) {
	err = s.worker.do(ctx, func() error {
		resp = s.describe()
		return nil
	})
	return resp, answer(err)
}

// Open implements the contract.
func (s *server) Open(ctx context.Context, q *pluginv1.OpenRequest) (resp *pluginv1.OpenResponse, err error) {
	err = s.worker.do(ctx, func() error {
		if s.open != nil && !s.open.closed {
			return fmt.Errorf("%w: %s", ErrBusy, s.open.runner.config.Strategy.Name)
		}
		if s.open != nil {
			if err := s.open.release(); err != nil {
				return err
			}
			s.open = nil
		}
		opened, r, err := openSession(s.executable, s.files, q)
		s.open, resp = opened, r
		return err
	})
	return resp, answer(err)
}

// with runs f on the worker with the open session.
func (s *server) with(ctx context.Context, f func(o *session) error) error {
	return answer(s.worker.do(ctx, func() error {
		if s.open == nil {
			return ErrNotOpen
		}
		return f(s.open)
	}))
}

// Replay implements the contract.
func (s *server) Replay(ctx context.Context, q *pluginv1.ReplayRequest) (resp *pluginv1.ReplayResponse, err error) {
	err = s.with(ctx, func(o *session) error {
		if o.window == nil {
			return fmt.Errorf("%w: Replay needs a trace and a window at Open", ErrRequest)
		}
		if q.GetReset_() {
			if q.GetFirst() != 0 {
				return fmt.Errorf("%w: after a reset the first event is 0, not %d", ErrRequest, q.GetFirst())
			}
			if err := o.runner.Reset(); err != nil {
				return err
			}
		}
		sum, err := o.runner.Replay(o.window, q.GetFirst(), q.GetMax(), q.GetWarmUp())
		if err != nil {
			return err
		}
		done, calls := o.window.Published()
		resp = &pluginv1.ReplayResponse{Executed: done, Reason: pluginv1.StopReason(sum.Reason), Calls: calls, CallsWaiting: sum.CallsWaiting,
			LoopTicks: sum.LoopTicks, DeviceWallTicks: sum.DeviceWallTicks, Collections: uint32(sum.Collections), Clock: o.clockInfo()}
		if sum.Collections != 0 {
			resp.Warnings = append(resp.Warnings, fmt.Sprintf("%d garbage collections inside the timed loop of the window at event %d: the plugin is near its memory limit",
				sum.Collections, q.GetFirst()))
		}
		return nil
	})
	return resp, err
}

// Execute implements the contract.
func (s *server) Execute(stream grpc.BidiStreamingServer[pluginv1.ExecuteRequest, pluginv1.ExecuteResponse]) error {
	program := new(trace.Trace)
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		resp := &pluginv1.ExecuteResponse{}
		err = s.with(stream.Context(), func(o *session) error { return execute(o, q, program, resp) })
		switch status.Code(err) {
		case codes.OK:
		case codes.InvalidArgument: // the program's fault: the stream goes on
			resp = &pluginv1.ExecuteResponse{Error: status.Convert(err).Message()}
		default:
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

func execute(o *session, q *pluginv1.ExecuteRequest, program *trace.Trace, resp *pluginv1.ExecuteResponse) error {
	if o.executor == nil || o.closed {
		return fmt.Errorf("%w: Execute needs Open without a trace", ErrNotOpen)
	}
	if err := wire.DecodeProgram(q.GetProgram(), program); err != nil {
		return err
	}
	result, err := o.executor.Execute(program, q.GetKeep())
	if err != nil {
		return err
	}
	resp.Result = wire.AppendResult(make([]byte, 0, wire.ResultBytes(result)), result)
	if q.GetInspect() {
		resp.InspectionJson, err = inspect(o)
	}
	return err
}

func inspect(o *session) (string, error) {
	i, err := o.runner.Inspect()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(i)
	return string(text), err
}

// Inspect implements the contract.
func (s *server) Inspect(ctx context.Context, _ *pluginv1.InspectRequest) (resp *pluginv1.InspectResponse, err error) {
	err = s.with(ctx, func(o *session) error {
		text, err := inspect(o)
		resp = &pluginv1.InspectResponse{InspectionJson: text}
		return err
	})
	return resp, err
}

// Restore implements the contract.
func (s *server) Restore(ctx context.Context, _ *pluginv1.RestoreRequest) (*pluginv1.RestoreResponse, error) {
	return &pluginv1.RestoreResponse{}, s.with(ctx, func(o *session) error { return o.runner.Restore() })
}

// Reset implements the contract.
func (s *server) Reset(ctx context.Context, _ *pluginv1.ResetRequest) (*pluginv1.ResetResponse, error) {
	return &pluginv1.ResetResponse{}, s.with(ctx, func(o *session) error { return o.runner.Reset() })
}

// Close implements the contract.
func (s *server) Close(ctx context.Context, _ *pluginv1.CloseRequest) (*pluginv1.CloseResponse, error) {
	resp := &pluginv1.CloseResponse{}
	return resp, answer(s.worker.do(ctx, func() error {
		if s.open == nil {
			return nil
		}
		s.open.closed = true
		err := s.open.runner.Close()
		resp.CallsWaiting = s.open.runner.CallsWaiting()
		return err
	}))
}

// shut closes what is open at the end of the process.
func (s *server) shut(ctx context.Context) error {
	return s.worker.do(ctx, func() error {
		if s.open == nil {
			return nil
		}
		err := s.open.release()
		s.open = nil
		return err
	})
}

// answer turns an error into a gRPC status with one line.
func answer(err error) error {
	if err == nil {
		return nil
	}
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	return status.Error(codeOf(err), line)
}

func codeOf(err error) codes.Code {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case is(context.Canceled):
		return codes.Canceled
	case is(trace.CallOutOfMemory.Err()):
		return codes.ResourceExhausted
	case is(ErrUnknown):
		return codes.NotFound
	case is(ErrNoRestore, ErrNoInspect):
		return codes.Unimplemented
	case is(ErrBusy, ErrNotOpen, ErrClosed, ErrWrongEvent):
		return codes.FailedPrecondition
	case is(trace.CallInvalidValue.Err()): // of the device, when a strategy opens: it does not serve such a strategy
		return codes.InvalidArgument
	case is(ErrOptions, ErrRequest, ErrBadTrace, ErrSegment, wire.ErrGeometry, wire.ErrWindow, wire.ErrSlot, wire.ErrProgram):
		return codes.InvalidArgument
	}
	return codes.Internal
}
