package host

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

// ExecuteRequest is one program for an open strategy.
type ExecuteRequest struct {
	Program []byte // docs/PLUGINS.md, "Programs"
	Keep    bool   // go on from the state that the last program left
	Inspect bool   // answer with the picture after the program
}

// ExecuteResult is what came of it.
type ExecuteResult struct {
	Result         []byte // docs/PLUGINS.md, "Results"
	InspectionJSON string
}

// executor is the long-lived stream of Execute.
type executor struct {
	stream grpc.BidiStreamingClient[pluginv1.ExecuteRequest, pluginv1.ExecuteResponse]
	cancel context.CancelFunc
}

func (p *Plugin) openExecutor() (*executor, error) {
	p.mu.Lock()
	ex := p.executor
	p.mu.Unlock()
	if ex != nil {
		return ex, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := p.control.Execute(ctx)
	if err != nil {
		cancel()
		return nil, p.callError(ctx, "Execute", 0, nil, err)
	}
	ex = &executor{stream, cancel}
	p.mu.Lock()
	p.executor = ex
	p.mu.Unlock()
	return ex, nil
}

// closeExecutor ends the stream, if there is one; the next Execute opens another.
func (p *Plugin) closeExecutor() {
	p.mu.Lock()
	ex := p.executor
	p.executor = nil
	p.mu.Unlock()
	if ex != nil {
		_ = ex.stream.CloseSend()
		ex.cancel()
	}
}

// Execute runs one program. It costs one message each way on a stream that stays open. A program that is not answered within
// Spec.ProgressDeadline is a hang; one that the plugin refuses is an Answer of kind ErrRequest.
func (p *Plugin) Execute(ctx context.Context, r ExecuteRequest) (ExecuteResult, error) {
	if err := p.usable(); err != nil {
		return ExecuteResult{}, err
	}
	if len(r.Program) > wire.MaxMessageBytes/2 {
		return ExecuteResult{}, fmt.Errorf("plugin %s: a program of %d bytes is larger than a message", p.name, len(r.Program))
	}
	ex, err := p.openExecutor()
	if err != nil {
		return ExecuteResult{}, err
	}
	var late atomic.Bool
	watch := time.AfterFunc(p.spec.ProgressDeadline, func() {
		late.Store(true)
		p.run.process.Kill()
	})
	defer watch.Stop()
	unhook := context.AfterFunc(ctx, ex.cancel)
	defer unhook()

	err = ex.stream.Send(&pluginv1.ExecuteRequest{Program: r.Program, Keep: r.Keep, Inspect: r.Inspect})
	var resp *pluginv1.ExecuteResponse
	if resp, err = recv(ex.stream, err); err == nil {
		if resp.Error != "" {
			return ExecuteResult{}, &Answer{Kind: ErrRequest, Plugin: p.name, Call: "Execute", Message: oneLine(resp.Error)}
		}
		return ExecuteResult{resp.Result, resp.InspectionJson}, nil
	}
	p.closeExecutor()
	if late.Load() {
		return ExecuteResult{}, p.fail(&Fault{Kind: ErrHang, Plugin: p.name, During: "Execute", Detail: fmt.Sprintf("no answer to a program within %s", seconds(p.spec.ProgressDeadline)),
			Advice: "it was killed; the program is its reproduction", cause: err})
	}
	if ctx.Err() != nil {
		return ExecuteResult{}, ctx.Err()
	}
	return ExecuteResult{}, p.callError(ctx, "Execute", 0, nil, err)
}

// recv receives the answer, or, when sending failed, the reason for that: only the receiving side of a stream has it.
func recv(s grpc.BidiStreamingClient[pluginv1.ExecuteRequest, pluginv1.ExecuteResponse], sendErr error) (*pluginv1.ExecuteResponse, error) {
	resp, err := s.Recv()
	if err == nil && sendErr != nil {
		return nil, sendErr
	}
	return resp, err
}
