package guard

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is harness, guard and every kind of plugin: its first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Verb:
			os.Exit(Main(os.Args[2:]))
		case "plugin":
			plugin(os.Args[2:])
			os.Exit(0)
		case "harness":
			harness(os.Args[2:])
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// plugin misbehaves as asked.
func plugin(args []string) {
	switch args[0] {
	case "exit":
		n, _ := strconv.Atoi(args[1])
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(n)
	case "signal":
		n, _ := strconv.Atoi(args[1])
		signal.Reset(syscall.Signal(n))
		_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
		time.Sleep(time.Hour)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "descriptors": // without the Go runtime's own: epoll, eventfd, the limits of the cgroup
		names, _ := os.ReadDir("/proc/self/fd")
		for _, n := range names {
			if link, err := os.Readlink("/proc/self/fd/" + n.Name()); err == nil && !strings.HasPrefix(link, "anon_inode") && !strings.HasPrefix(link, "/proc/") && !strings.HasPrefix(link, "/sys/") {
				fmt.Println(n.Name(), strings.SplitN(link, ":", 2)[0])
			}
		}
		text, _ := io.ReadAll(os.NewFile(3, "three"))
		fmt.Printf("three says %q\n", text)
		sid, _ := syscall.Getpgid(0)
		fmt.Println("leads its group:", sid == os.Getpid())
	case "flood":
		n, _ := strconv.ParseInt(args[1], 10, 64)
		line := bytes.Repeat([]byte("x"), 1<<20)
		for ; n > 0; n -= int64(len(line)) {
			os.Stderr.Write(line)
		}
		fmt.Fprint(os.Stderr, "the end")
	case "sleeper": // ignores what it can; announces itself
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("pid", os.Getpid())
		os.NewFile(3, "ready").Close()
		if args[1] == "stopped" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		time.Sleep(time.Hour)
	case "parent": // a child in another session, then this process ends: the child is an orphan
		spawn(args[1], os.NewFile(3, "ready"))
	case "family":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("pid", os.Getpid())
		ready, held, err := os.Pipe() // ends when every child has announced itself and closed its copy
		if err != nil {
			os.Exit(9)
		}
		spawn("running", held)
		spawn("stopped", held)
		self, _ := os.Executable()
		c := exec.Command(self, "plugin", "parent", "running") // double fork
		c.Stdout, c.ExtraFiles = os.Stdout, []*os.File{held}
		_ = c.Run()
		held.Close()
		_, _ = io.ReadAll(ready)
		if args[1] == "leave" {
			os.Exit(0)
		}
		fmt.Println("all")
		if args[1] == "stop" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
		time.Sleep(time.Hour)
	}
}

func spawn(kind string, ready *os.File) {
	self, _ := os.Executable()
	c := exec.Command(self, "plugin", "sleeper", kind)
	c.Stdout, c.ExtraFiles = os.Stdout, []*os.File{ready}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println("cannot spawn:", err)
	}
}

// harness starts a family under a guard, passes its words on, and waits to be killed.
func harness(args []string) {
	p, err := Start(Config{Path: args[0], Args: []string{"plugin", "family", args[1]}, Env: environ(), SocketDir: args[2]})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("pid", p.PID())
	_, _ = io.Copy(os.Stdout, p.Stdout())
	<-p.Done()
	fmt.Printf("ended: %#v\n", p.Status())
}

// environ is the environment of guards and plugins. A process under the race detector sleeps a second at its end otherwise.
func environ() []string { return append(os.Environ(), "GORACE=atexit_sleep_ms=0") }

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// run starts the test binary as a plugin and waits for its end.
func run(t *testing.T, c Config, args ...string) (Status, string) {
	t.Helper()
	c.Path, c.Args = self(t), append([]string{"plugin"}, args...)
	if c.Env == nil {
		c.Env = environ()
	}
	return runPath(t, c)
}

func runPath(t *testing.T, c Config) (Status, string) {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(p.Stdout())
	p.Stdout().Close()
	wait(t, p)
	return p.Status(), string(out)
}

func wait(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the guard did not end")
	}
}

func running(pid int) bool { return !zombie(pid) }

// waitGone fails if one of the processes still runs after the given time.
func waitGone(t *testing.T, pids []int, limit time.Duration) {
	t.Helper()
	end := time.Now().Add(limit)
	for _, p := range pids {
		for running(p) {
			if time.Now().After(end) {
				cmd, _ := os.ReadFile("/proc/" + strconv.Itoa(p) + "/cmdline")
				t.Fatalf("process %d still runs after %v: %q", p, limit, cmd)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestExitCodeAndLastWords(t *testing.T) {
	st, _ := run(t, Config{}, "exit", "7")
	if st.Reason != ReasonExited || st.ExitCode != 7 || st.StderrTail != "last words\n" || st.StderrBytes != 11 || st.Orphans != 0 {
		t.Errorf("got %#v", st)
	}
	if st.String() != "exited with code 7" {
		t.Errorf("String: %q", st)
	}
}

func TestSignal(t *testing.T) {
	st, _ := run(t, Config{}, "signal", strconv.Itoa(int(syscall.SIGKILL)))
	if st.Reason != ReasonSignalled || st.Signal != syscall.SIGKILL {
		t.Errorf("got %#v", st)
	}
	if st.String() != "was killed by signal 9 (killed)" {
		t.Errorf("String: %q", st)
	}
}

func TestCannotBeExecuted(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/nonexistent/plugin": syscall.ENOENT, t.TempDir(): syscall.EACCES, text: syscall.ENOEXEC} {
		st, _ := runPath(t, Config{Path: path, Env: environ()})
		if st.Reason != ReasonNotStarted || !strings.Contains(st.Error, want.Error()) {
			t.Errorf("%s: got %#v, want %v", path, st, want)
		}
	}
}

func TestEnvironmentIsWhatWasGiven(t *testing.T) {
	t.Setenv("GUARD_TEST_SECRET", "1")
	st, out := run(t, Config{Env: []string{"A=b"}}, "env")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || lines[0] != "A=b" || !strings.HasPrefix(lines[1], TokenEnv+"=") {
		t.Errorf("environment %q, %+v", lines, st)
	}
}

func TestDescriptorsAndSession(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprint(w, "hello")
	w.Close()
	lock, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	st, out := run(t, Config{Files: []*os.File{r}, SocketDirLock: lock}, "descriptors")
	want := "0 /dev/null\n1 pipe\n2 pipe\n3 pipe\nthree says \"hello\"\nleads its group: true\n"
	if out != want {
		t.Errorf("got\n%swant\n%s%+v", out, want, st)
	}
}

// lockedBuffer is a bytes.Buffer that may be read while it is written.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func TestFloodIsBounded(t *testing.T) {
	const flood = 1 << 30
	var got lockedBuffer
	start := time.Now()
	st, _ := run(t, Config{Stderr: &got}, "flood", strconv.Itoa(flood))
	seconds := int(time.Since(start).Seconds()) + 2
	if st.StderrBytes != flood+7 || len(st.StderrTail) != StderrTailBytesMax || !strings.HasSuffix(st.StderrTail, "xxxthe end") {
		t.Errorf("counted %d bytes, tail of %d ending in %q", st.StderrBytes, len(st.StderrTail), st.StderrTail[max(0, len(st.StderrTail)-10):])
	}
	if max := seconds * (forwardBytesPerSecond + 256); got.Len() > max {
		t.Errorf("%d bytes were forwarded in %d s, more than %d", got.Len(), seconds, max)
	}
}

func bomb(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "bomb")
	cmd := exec.Command("go", "build", "-o", exe, "./testdata/bomb")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

func TestMemoryLimits(t *testing.T) {
	exe := bomb(t)
	t.Run("step by step", func(t *testing.T) {
		st, _ := runPath(t, Config{Path: exe, Env: environ(), MemoryLimitBytes: 128 << 20})
		if st.Reason != ReasonMemoryLimit || st.AnonymousBytesPeak <= 128<<20 || st.ResidentBytesPeak <= 128<<20 {
			t.Errorf("got %#v", st)
		}
		if st.String() != "was killed at its memory limit of 128 MiB" {
			t.Errorf("String: %q", st)
		}
	})
	t.Run("all at once", func(t *testing.T) { // no poll can see it: RLIMIT_DATA refuses
		st, out := runPath(t, Config{Path: exe, Args: []string{"giant"}, Env: environ(), MemoryLimitBytes: 128 << 20})
		if st.Reason != ReasonExited || st.ExitCode != 2 || !strings.Contains(st.StderrTail, "out of memory") {
			t.Errorf("got %q, %#v", out, st)
		}
	})
}

// startFamily starts a plugin with children of every kind and returns their process numbers.
func startFamily(t *testing.T, socketDir, kind string) (*Process, []int) {
	t.Helper()
	p, err := Start(Config{Path: self(t), Args: []string{"plugin", "family", kind}, Env: environ(), SocketDir: socketDir})
	if err != nil {
		t.Fatal(err)
	}
	pids := readFamily(t, p.Stdout())
	go func() {
		_, _ = io.Copy(io.Discard, p.Stdout())
		p.Stdout().Close()
	}()
	return p, pids
}

// readFamily reads "pid N" lines until "all" or the end.
func readFamily(t *testing.T, r io.Reader) []int {
	t.Helper()
	var pids []int
	sc := bufio.NewScanner(r)
	for sc.Scan() && sc.Text() != "all" {
		if text, ok := strings.CutPrefix(sc.Text(), "pid "); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		} else {
			t.Fatalf("unexpected line %q", sc.Text())
		}
	}
	return pids
}

func socketDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sockets")
	if err := os.MkdirAll(filepath.Join(dir, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "inner", "socket"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkRemoved(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", dir, err)
	}
}

func TestKillTakesTheWholeFamily(t *testing.T) {
	for _, kind := range []string{"stay", "stop"} {
		t.Run(kind, func(t *testing.T) {
			dir := socketDir(t)
			p, pids := startFamily(t, dir, kind)
			if len(pids) != 4 {
				t.Fatalf("%d processes announced themselves, want 4", len(pids))
			}
			p.Kill()
			p.Kill()
			wait(t, p)
			waitGone(t, pids, 0)
			checkRemoved(t, dir)
			if st := p.Status(); st.Reason != ReasonStopped || st.Orphans != 3 || st.Survivors != nil {
				t.Errorf("got %#v", st)
			}
		})
	}
}

func TestOrphansDieWithThePlugin(t *testing.T) {
	p, pids := startFamily(t, "", "leave")
	wait(t, p)
	if len(pids) != 4 {
		t.Errorf("%d processes announced themselves, want 4", len(pids))
	}
	waitGone(t, pids, 0)
	if st := p.Status(); st.Reason != ReasonExited || st.ExitCode != 0 || st.Orphans != 3 {
		t.Errorf("got %#v", st)
	}
}

func TestHarnessKilled(t *testing.T) {
	for _, kind := range []string{"stay", "stop"} {
		t.Run(kind, func(t *testing.T) {
			dir := socketDir(t)
			cmd := exec.Command(self(t), "harness", self(t), kind, dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pids := readFamily(t, out)
			if len(pids) != 5 { // the guard and its family
				t.Errorf("%d processes announced themselves, want 5", len(pids))
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			waitGone(t, pids, 2*time.Second)
			checkRemoved(t, dir)
		})
	}
}

func TestGuardKilled(t *testing.T) {
	dir := socketDir(t)
	p, pids := startFamily(t, dir, "stay")
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	waitGone(t, pids, time.Second)
	checkRemoved(t, dir)
	if st := p.Status(); st.Reason != ReasonGuardLost || !strings.Contains(st.Error, "killed") {
		t.Errorf("got %#v", st)
	}
}

func TestGuardStoppedIsKilled(t *testing.T) {
	p, pids := startFamily(t, "", "stay")
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	wait(t, p)
	waitGone(t, pids, time.Second)
	if st := p.Status(); st.Reason != ReasonGuardLost {
		t.Errorf("got %#v", st)
	}
}

func TestCalledByHand(t *testing.T) {
	for _, args := range [][]string{{}, {"-nonsense"}, {"-files=-1", "--", "/bin/true"}} {
		if _, err := parseArguments(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	cmd := exec.Command(self(t), Verb, "--", "/bin/true")
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != 2 || !strings.Contains(string(out), "is not a pipe") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRing(t *testing.T) {
	for _, writes := range [][]string{{}, {"ab"}, {"ab", "cd"}, {"abcd"}, {"abcde"}, {"abc", "defghij"}, {"abcdefghijkl", "m"}, {"a", "bcdefghij", "kl"}} {
		r := NewRing(4)
		all := strings.Join(writes, "")
		for _, w := range writes {
			_, _ = r.Write([]byte(w))
		}
		want := all[max(0, len(all)-4):]
		if got := string(r.Tail()); got != want || r.Total() != uint64(len(all)) {
			t.Errorf("%q: kept %q of %d, want %q", writes, got, r.Total(), want)
		}
	}
}

func TestForwarderSaysWhatItDropped(t *testing.T) {
	var got lockedBuffer
	now := time.Unix(0, 0)
	f := newForwarder(&got, now)
	f.offer(bytes.Repeat([]byte("a"), forwardBytesPerSecond-10), now)
	f.offer([]byte("this is dropped"), now) // 15 bytes, 10 left
	f.offer([]byte("kept"), now.Add(time.Second))
	close(f.queue)
	want := strings.Repeat("a", forwardBytesPerSecond-10) +
		"\n[gpubench: 15 bytes of the plugin's standard error dropped: more than 65536 bytes/s]\nkept"
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got.Lock()
		n := got.Len()
		got.Unlock()
		if n == len(want) {
			break
		}
	}
	if got.String() != want {
		t.Errorf("got …%q", got.String()[forwardBytesPerSecond-20:])
	}
}

func TestDescendantsBothWays(t *testing.T) {
	p, pids := startFamily(t, "", "stay")
	for name, f := range map[string]func(int) []int{"children": descendantsByChildren, "scan": descendantsByScan} {
		if name == "children" {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(syscall.Gettid()) + "/children"); err != nil {
				continue // the kernel has no CONFIG_PROC_CHILDREN
			}
		}
		found := map[int]bool{}
		for _, pid := range f(p.PID()) {
			found[pid] = true
		}
		for _, pid := range pids {
			if !found[pid] {
				t.Errorf("%s: process %d not found among %v", name, pid, found)
			}
		}
	}
	p.Kill()
	wait(t, p)
}
