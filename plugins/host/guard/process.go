package guard

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is a guard with its plugin, as the harness sees them.
type Process struct {
	stdout *os.File
	cmd    *exec.Cmd
	alive  *os.File
	token  string
	config Config

	kill sync.Once
	done chan struct{}
	last Status // valid once done is closed
}

// Start starts a guard, which starts the plugin. An executable that cannot be started is not an error here but the first
// and last thing that [Process.Status] says. The caller reads [Process.Stdout] to its end and, at some time, calls
// [Process.Kill] or waits for [Process.Done].
func Start(c Config) (*Process, error) {
	if c.Path == "" {
		return nil, errors.New("guard: no plugin executable given")
	}
	command := c.Guard
	if command == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("guard: cannot find the running executable: %w", err)
		}
		command = []string{self, Verb}
	}
	p := &Process{config: c, token: rand.Text(), done: make(chan struct{})}
	p.cmd = exec.Command(command[0], append(append([]string(nil), command[1:]...), c.arguments()...)...)
	p.cmd.Env = append(append([]string(nil), c.Env...), TokenEnv+"="+p.token)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	var pipes pipes
	aliveR, aliveW := pipes.open()
	statusR, statusW := pipes.open()
	stdoutR, stdoutW := pipes.open()
	stderrR, stderrW := pipes.open()
	if pipes.err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("guard: %w", pipes.err)
	}
	p.cmd.Stdout, p.cmd.Stderr = stdoutW, stderrW
	p.cmd.ExtraFiles = append([]*os.File{aliveR, statusW}, c.Files...)
	if c.SocketDirLock != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, c.SocketDirLock)
	}
	if err := p.cmd.Start(); err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("guard: cannot start %s: %w", command[0], err)
	}
	for _, f := range []*os.File{aliveR, statusW, stdoutW, stderrW} {
		f.Close()
	}
	p.stdout, p.alive = stdoutR, aliveW
	go p.watch(statusR, stderrR)
	return p, nil
}

// Stdout is the read end of the plugin's standard output. The caller reads it to its end: a plugin that fills the pipe
// waits. It ends at the latest half a second after Done.
func (p *Process) Stdout() *os.File { return p.stdout }

// PID is the process number of the guard.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when plugin, descendants and guard have ended and the socket directory is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status says how the plugin ended. It may be called once Done is closed.
func (p *Process) Status() Status { return p.last }

// Kill makes the guard kill the plugin and all descendants, and returns at once. Done is closed within 2 s or, if the guard
// itself does not answer, soon after that. It may be called at any time, also twice.
func (p *Process) Kill() {
	p.kill.Do(func() {
		p.alive.Close()
		go func() {
			t := time.NewTimer(guardExitDeadline)
			defer t.Stop()
			select {
			case <-p.done:
			case <-t.C:
				_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			}
		}()
	})
}

// watch takes the guard's words until the guard has ended.
func (p *Process) watch(statusR, stderrR *os.File) {
	own := NewRing(StderrTailBytesMax)
	read := make(chan struct{})
	go func() {
		defer close(read)
		var w io.Writer = own
		if p.config.Stderr != nil {
			w = io.MultiWriter(own, p.config.Stderr)
		}
		if _, err := io.Copy(w, stderrR); err != nil {
			_, _ = io.Copy(own, stderrR) // the caller's writer failed: go on without it
		}
	}()
	var st Status
	err := json.NewDecoder(io.LimitReader(statusR, statusBytesMax)).Decode(&st)
	waitErr := p.cmd.Wait()
	statusR.Close()
	if err != nil {
		killByToken(p.token, time.Now().Add(time.Second))
	}
	_ = stderrR.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	<-read
	stderrR.Close()
	if err != nil {
		st = Status{Reason: ReasonGuardLost, StderrTail: string(own.Tail()), StderrBytes: own.Total()}
		if waitErr != nil {
			st.Error = waitErr.Error()
		}
	}
	if p.config.SocketDir != "" {
		_ = os.RemoveAll(p.config.SocketDir)
	}
	_ = p.stdout.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	p.last = st
	close(p.done)
	p.Kill() // closes the alive pipe; nobody is left to kill
}

// pipes opens several pipes and remembers the first error.
type pipes struct {
	all []*os.File
	err error
}

func (p *pipes) open() (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return nil, nil
	}
	p.all = append(p.all, r, w)
	return r, w
}

func (p *pipes) closeAll() {
	for _, f := range p.all {
		f.Close()
	}
}
