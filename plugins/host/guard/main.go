package guard

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main is the guard process: args are the arguments after [Verb], the descriptors are those that [Start] gives it. It runs
// the plugin, cleans up after it, writes the [Status], and returns the exit code of the guard: 0 when it did its work,
// however the plugin ended, 2 when it was called wrongly.
func Main(args []string) int {
	// PR_SET_PDEATHSIG fires when the thread that forked ends, not the process: keep this one (golang/go#27505).
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	o, err := parseArguments(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpubench:", err)
		return 2
	}
	for _, fd := range []int{fdAlive, fdStatus} {
		if !isPipe(fd) {
			fmt.Fprintf(os.Stderr, "gpubench: guard: descriptor %d is not a pipe; this verb is for gpubench itself, see docs/SECURITY.md\n", fd)
			return 2
		}
	}
	closeAllOnExec()
	g := &guardian{options: o, tail: NewRing(StderrTailBytesMax)}
	g.run()
	return 0
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// closeAllOnExec keeps every descriptor from 3 on, ours and those that whoever started the harness left open, from the
// plugin; ForkExec hands on the chosen ones as copies.
func closeAllOnExec() {
	if unix.CloseRange(fdAlive, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return // since Linux 5.11
	}
	names, _ := os.ReadDir("/proc/self/fd")
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= fdAlive {
			unix.CloseOnExec(fd)
		}
	}
}

// guardian is the state of one guard process.
type guardian struct {
	options
	tail      *Ring
	forward   *forwarder
	plugin    int           // process number
	exited    chan exit     // the plugin itself, once
	gone      chan struct{} // closed at ECHILD: nothing is left below us
	collected chan struct{} // closed at the end of the plugin's stderr
}

type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// run is the life of the guard. Everything that can hold it up has a deadline, and the sum of them stays below 2 s.
func (g *guardian) run() {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGTERM)
	// Notified, not ignored: an ignored signal would stay ignored in the plugin. A broken stderr must not kill us (SIGPIPE),
	// nor a key press at the terminal: the harness decides what that means.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)

	alive := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(fdAlive, "alive"))
		close(alive)
	}()

	st := Status{MemoryLimitBytes: g.memoryLimit}
	if err := g.start(); err != nil {
		st.Reason, st.Error = ReasonNotStarted, err.Error()
		g.finish(&st)
		return
	}
	st.PID = g.plugin
	go g.reap()
	watch := watchMemory(g.memoryLimit, g.gone)

	var ex exit
	known := false
	select {
	case ex = <-g.exited:
		known = true
	case <-watch.over:
		st.Reason = ReasonMemoryLimit
	case <-alive:
		st.Reason = ReasonStopped
	case <-hup:
		st.Reason = ReasonStopped
	}
	st.Orphans, st.Survivors = killTree(g.plugin, g.gone, time.Now().Add(killDeadline))
	if !known {
		select { // killed by us: the usage is still of interest
		case ex = <-g.exited:
			known = true
		default:
		}
	}
	if known {
		st.fill(ex)
	}
	if len(st.Survivors) == 0 {
		<-watch.done
		st.AnonymousBytesPeak = watch.peak
	}
	g.finish(&st)
}

// fill puts what wait4 said into the status. A plugin that was told to stop but had already ended in another way than by
// our SIGKILL is reported as it ended: that is what its harness wants to know. A memory limit stays the reason.
func (s *Status) fill(ex exit) {
	s.ResidentBytesPeak = uint64(ex.usage.Maxrss) << 10 // KiB, getrusage(2)
	ours := ex.status.Signaled() && ex.status.Signal() == syscall.SIGKILL
	if s.Reason == ReasonMemoryLimit || s.Reason == ReasonStopped && ours {
		return
	}
	if ex.status.Signaled() {
		s.Reason, s.Signal, s.Core = ReasonSignalled, ex.status.Signal(), ex.status.CoreDump()
	} else {
		s.Reason, s.ExitCode = ReasonExited, ex.status.ExitStatus()
	}
}

// start becomes subreaper, starts the plugin in a session of its own, and gives away the plugin's stdout.
func (g *guardian) start() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", err)
	}
	// A core of a process with a large heap would fill the disk of the run.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	_, _ = unix.FcntlInt(r.Fd(), unix.F_SETPIPE_SZ, 1<<20) // fewer wake-ups in a flood; the default does, too

	files := []uintptr{null.Fd(), 1, w.Fd()}
	for i := range g.files {
		files = append(files, uintptr(fdFirstFile+i))
	}
	g.plugin, err = syscall.ForkExec(g.path, append([]string{g.path}, g.args...), &syscall.ProcAttr{
		Dir:   g.dir,
		Env:   os.Environ(),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		r.Close()
		return fmt.Errorf("%s: %w", g.path, err)
	}
	if g.memoryLimit != 0 {
		_ = limitData(g.plugin, g.memoryLimit) // ESRCH: it ended already
	}
	// When the machine itself runs out of memory, the kernel shall take the plugin, not the harness (proc(5), oom_score_adj).
	_ = os.WriteFile("/proc/"+strconv.Itoa(g.plugin)+"/oom_score_adj", []byte("500"), 0)

	// The harness must see the end of stdout when the plugin closes it.
	_ = unix.Dup3(int(null.Fd()), 1, 0)
	for i := range g.files {
		_ = unix.Close(fdFirstFile + i)
	}
	g.exited, g.gone, g.collected = make(chan exit, 1), make(chan struct{}), make(chan struct{})
	if g.forwarded {
		g.forward = newForwarder(os.Stderr, time.Now())
	}
	go func() {
		defer close(g.collected)
		defer r.Close()
		collectStderr(r, g.tail, g.forward)
	}()
	return nil
}

// reap waits for every child, also adopted ones, until the kernel says that there is none.
func (g *guardian) reap() {
	for {
		var ex exit
		pid, err := syscall.Wait4(-1, &ex.status, 0, &ex.usage)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			close(g.gone)
			return
		case pid == g.plugin:
			g.exited <- ex
		}
	}
}

// finish removes the sockets and writes the status. A harness that does not read has 200 ms.
func (g *guardian) finish(st *Status) {
	if g.collected != nil {
		select {
		case <-g.collected:
			st.StderrBytes, st.StderrTail = g.tail.Total(), string(g.tail.Tail())
		case <-time.After(100 * time.Millisecond): // a survivor holds it open
			st.StderrTail = "(not available: a process that would not die holds it)"
		}
	}
	if g.socketDir != "" {
		_ = os.RemoveAll(g.socketDir)
	}
	_ = unix.SetNonblock(fdStatus, true) // a deadline needs it
	f := os.NewFile(fdStatus, "status")
	_ = f.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	_ = json.NewEncoder(f).Encode(st)
	_ = f.Close()
}
