package host

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gpubench/gpubench/plugins/host/guard"
)

// callOption shortens the signature of invoke.
type callOption = grpc.CallOption

// Name is the name of the executable.
func (p *Plugin) Name() string { return p.name }

// GuardPID is the process number of the guard.
func (p *Plugin) GuardPID() int { return p.run.process.PID() }

// Fault returns what went wrong with the plugin, nil if nothing did.
func (p *Plugin) Fault() *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Done is closed when the plugin's process, its descendants and its guard have ended, for whatever reason. Whoever shares a Slot
// with it then calls Slot.Abort.
func (p *Plugin) Done() <-chan struct{} { return p.run.process.Done() }

// alive reports whether guard and plugin run, as far as is known.
func (p *Plugin) alive() bool {
	select {
	case <-p.run.process.Done():
		return false
	default:
		return true
	}
}

// usable returns the reason why no call can be made.
func (p *Plugin) usable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fault != nil:
		return p.fault
	case p.ending:
		return fmt.Errorf("plugin %s %w", p.name, ErrEnded)
	}
	return nil
}

// fail records the first fault, kills the process, and adds how it ended and what it said. It returns the first fault.
func (p *Plugin) fail(f *Fault) error {
	p.run.process.Kill()
	<-p.run.process.Done()
	if !f.Ended {
		f.Ended, f.End = true, p.run.process.Status()
	}
	f.StderrTail = p.tail()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == nil {
		p.fault = f
	}
	return p.fault
}

// lost makes the fault of a broken connection: a crash where the process has ended, else a breach of the protocol.
func (p *Plugin) lost(during string, event *uint64, cause error) error {
	p.mu.Lock()
	ending := p.ending
	p.mu.Unlock()
	if ending {
		return fmt.Errorf("plugin %s %w", p.name, ErrEnded)
	}
	t := time.NewTimer(exitGrace)
	defer t.Stop()
	select {
	case <-p.run.process.Done():
	case <-t.C: // still there, or its guard is slow to say: the status tells
		p.run.process.Kill()
		<-p.run.process.Done()
	}
	f := ended(p.name, during, p.run.process.Status(), p.tail())
	if f.Kind == ErrCrash && f.End.Reason == guard.ReasonStopped {
		f.Kind, f.Detail = ErrProtocol, "the connection broke while its process went on: "+oneLine(cause.Error())
		f.Advice = "this is a defect of the plugin"
	}
	f.cause = cause
	if event != nil {
		f.Event, f.HasEvent = *event, true
	}
	return p.fail(f)
}

// Stop ends the plugin: it is asked to, and after Spec.StopDeadline (or when ctx ends) killed with all its descendants. The
// error says that it had to be killed; the results that it gave before are not touched by that. Stop may be called twice
// and after a fault, and leaves nothing behind in any case.
func (p *Plugin) Stop(ctx context.Context) error {
	p.stop.Do(func() {
		p.mu.Lock()
		p.ending = true
		p.mu.Unlock()
		p.stopErr = p.end(ctx)
		close(p.stopped)
	})
	<-p.stopped
	return p.stopErr
}

func (p *Plugin) end(ctx context.Context) error {
	p.closeExecutor()
	// go-plugin asks for a shutdown without a deadline and can wait for ever on a stopped process: hence in a goroutine,
	// which the death of the process ends.
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		p.client.Kill()
	}()
	t := time.NewTimer(p.spec.StopDeadline)
	defer t.Stop()
	begin := time.Now()
	select {
	case <-p.run.process.Done():
	case <-t.C:
	case <-ctx.Done():
	}
	waited := time.Since(begin)
	p.run.process.Kill()
	<-p.run.process.Done()
	<-p.run.drained
	<-asked
	p.release()
	return p.stopError(waited)
}

// stopError says whether it ended by itself. One that the guard had to kill did not.
func (p *Plugin) stopError(waited time.Duration) error {
	st := p.run.process.Status()
	if p.Fault() != nil {
		return nil // known already
	}
	f := &Fault{Plugin: p.name, During: "Stop", Ended: true, End: st, StderrTail: p.tail()}
	switch {
	case len(st.Survivors) > 0:
		f.Kind = ErrHang
		f.Detail = fmt.Sprintf("processes %v cannot be killed (uninterruptible sleep)", st.Survivors)
		f.Advice = "look at the driver; only a restart of the machine may help"
	case st.Reason == guard.ReasonStopped:
		f.Kind = ErrHang
		f.Detail = fmt.Sprintf("it did not end within %s and was killed", seconds(waited.Round(100*time.Millisecond)))
		f.Advice = "its results are complete; the plugin should end at the Shutdown call"
	default:
		return nil
	}
	return f
}

// Orphans is the number of processes that the plugin left behind and that the guard killed. It is known after Stop.
func (p *Plugin) Orphans() int {
	select {
	case <-p.run.process.Done():
		return p.run.process.Status().Orphans
	default:
		return 0
	}
}

// Ended says how the process ended. It is known after Stop or a fault; ok is false before.
func (p *Plugin) Ended() (st guard.Status, ok bool) {
	select {
	case <-p.run.process.Done():
		return p.run.process.Status(), true
	default:
		return guard.Status{}, false
	}
}
