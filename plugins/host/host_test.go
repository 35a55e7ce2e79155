package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/trace"
)

var bg = context.Background()

func start(t *testing.T, s Spec) *Plugin {
	t.Helper()
	p, err := Start(bg, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop(bg)
		checkGone(t, p)
	})
	return p
}

// checkGone fails if process or socket directory are still there.
func checkGone(t *testing.T, p *Plugin) {
	t.Helper()
	if _, err := os.Stat(p.sockets.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", p.sockets.path, err)
	}
	if st, ok := p.Ended(); !ok || len(st.Survivors) > 0 {
		t.Errorf("the plugin is still there: %v %v", st, ok)
	}
}

func fault(t *testing.T, err error) *Fault {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("no fault but %v", err)
	}
	if strings.ContainsAny(f.Error(), "\n\r") {
		t.Errorf("more than a line: %q", f.Error())
	}
	return f
}

// replayed is what the drain function of replay saw.
type replayed struct {
	totals   Totals
	outcomes []trace.Outcome
	partial  int // windows that were not complete
}

func replay(p *Plugin, r ReplayRequest) (replayed, error) {
	var got replayed
	if _, err := p.Open(bg, openRequest()); err != nil {
		return got, err
	}
	var err error
	got.totals, err = p.Replay(bg, r, func(b Batch) error {
		if b.First != r.First+uint64(len(got.outcomes)) {
			return fmt.Errorf("window begins at %d after %d outcomes", b.First, len(got.outcomes))
		}
		got.outcomes = append(got.outcomes, b.Outcomes...)
		if !b.Complete {
			got.partial++
		}
		return nil
	})
	return got, err
}

func TestHealthyReplay(t *testing.T) {
	p := start(t, spec("fine"))
	if d := p.Describe(); d.Name != "faulty" || len(d.Strategies) != 1 {
		t.Errorf("described as %v", d)
	}
	var progress uint64
	got, err := replay(p, ReplayRequest{Progress: func(n uint64) { progress = n }})
	if err != nil {
		t.Fatal(err)
	}
	// 1,000 events through windows of 64: 15 full ones and one of 40.
	want := Totals{Executed: 1000, Windows: 16, Calls: 1000, End: true}
	if got.totals != want || len(got.outcomes) != 1000 || got.outcomes[999].Addr != 999<<21 || progress != 1000 {
		t.Errorf("got %+v, %d outcomes, progress %d", got.totals, len(got.outcomes), progress)
	}
	again, err := p.Replay(bg, ReplayRequest{First: 10, Max: 100}, func(Batch) error { return nil })
	if want := (Totals{Executed: 100, Windows: 2, Calls: 100}); err != nil || again != want {
		t.Errorf("got %+v, %v, want %+v", again, err, want)
	}
	if n, err := p.Close(bg); n != 3 || err != nil {
		t.Errorf("Close: %d, %v", n, err)
	}
	if err := p.Reset(bg); err != nil {
		t.Error(err)
	}
	if err := p.Stop(bg); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if st, _ := p.Ended(); st.Reason != guard.ReasonExited || st.ExitCode != 0 {
		t.Errorf("ended with %#v", st)
	}
	if err := p.Reset(bg); !errors.Is(err, ErrEnded) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestDrainStops(t *testing.T) {
	p := start(t, spec("fine"))
	if _, err := p.Open(bg, openRequest()); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("disk full")
	totals, err := p.Replay(bg, ReplayRequest{}, func(b Batch) error {
		if b.First == 128 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || totals.Executed != 192 {
		t.Errorf("got %+v, %v", totals, err)
	}
	if p.Fault() != nil {
		t.Errorf("that is no fault of the plugin: %v", p.Fault())
	}
}

func TestFaultsBeforeTheHandshake(t *testing.T) {
	for _, c := range []struct {
		args []string
		kind error
		says string
	}{
		{[]string{"exit"}, ErrStart, `did not start: its process exited with code 3 before the handshake; its last words: "no device found"`},
		{[]string{"linker"}, ErrStart, `error while loading shared libraries: libcuda.so.1`},
		{[]string{"garbage"}, ErrProtocol, `its first line of output is no handshake: "Loading the model, please wait"`},
		{[]string{"garbage-exit"}, ErrProtocol, `"usage: a program that is no plugin"`},
		{[]string{"garbage-flood"}, ErrProtocol, `more than 8192 bytes`},
		{[]string{"silent"}, ErrStart, `no handshake and connection within 2 s`},
		{[]string{"closes-stdout"}, ErrProtocol, `closed its standard output without a handshake`},
		{[]string{"says", "1|99|unix|/tmp/x|grpc"}, ErrProtocol, `speaks version "99" of the plugin protocol, this gpubench 1`},
		{[]string{"says", "2|1|unix|/tmp/x|grpc"}, ErrProtocol, `speaks version "2" of go-plugin's protocol`},
		{[]string{"says", "1|1|unix|/tmp/x|netrpc"}, ErrProtocol, `serves "netrpc"`},
		{[]string{"says", "1|1|unix|/tmp/elsewhere|grpc"}, ErrProtocol, `/tmp/elsewhere is not in its private directory`},
		{[]string{"says", "1|1|tcp|8.8.8.8:53|grpc"}, ErrProtocol, `8.8.8.8:53 is not on this machine`},
		{[]string{"stops-after-handshake"}, ErrStart, `no handshake and connection within 2 s`},
		{[]string{"describe-version"}, ErrProtocol, `windows of version 7, this gpubench 1 and 1`},
		{[]string{"describe-panic"}, ErrCrash, `panic: no description`},
		{[]string{"describe-hang"}, ErrHang, `hung during Describe: no answer within 1 s`},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			s := spec(c.args...)
			switch s.StartDeadline = 30 * time.Second; c.args[0] {
			case "silent", "stops-after-handshake":
				s.StartDeadline = 2 * time.Second
			case "describe-hang":
				s.CallDeadline = time.Second
			}
			_, err := Start(bg, s)
			f := fault(t, err)
			if f.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v\nwant %v … %s", err, c.kind, c.says)
			}
		})
	}
}

func TestCannotStart(t *testing.T) {
	_, err := Start(bg, Spec{Path: "/nonexistent/gpubench-strategy-x"})
	if f := fault(t, err); f.Kind != ErrStart || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	_, err = Start(bg, Spec{})
	if f := fault(t, err); f.Kind != ErrStart {
		t.Errorf("got %v", err)
	}
	s := spec("exit")
	s.Name = "mine"
	if _, err = Start(bg, s); err == nil || !strings.HasPrefix(err.Error(), "plugin mine did not start") {
		t.Errorf("got %v", err)
	}
	s = spec("fine")
	s.Guard = []string{"/nonexistent/gpubench"}
	if _, err = Start(bg, s); err == nil || !strings.Contains(err.Error(), "cannot start /nonexistent/gpubench") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(bg)
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err = Start(ctx, spec("silent")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestChecksum(t *testing.T) {
	s := spec("fine")
	sum, err := fileSHA256(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.SHA256 = strings.ToUpper(sum)
	start(t, s)
	s.SHA256 = hex.EncodeToString(make([]byte, 32))
	_, err = Start(bg, s)
	if f := fault(t, err); f.Kind != ErrChecksum || !strings.Contains(err.Error(), sum) || f.Ended {
		t.Errorf("got %v", err)
	}
}

func TestFaultsInReplay(t *testing.T) {
	for _, c := range []struct {
		mode  string
		at    uint64
		kind  error
		says  string
		event uint64
	}{
		{"crash", 500, ErrCrash, `crashed at event 500: its process was killed by signal 9 (killed); its last words: "free(): invalid pointer"`, 500},
		{"crash", 0, ErrCrash, `at event 0`, 0},
		{"crash", 64, ErrCrash, `at event 64`, 64}, // the first of the second window
		{"crash", 127, ErrCrash, `at event 127`, 127},
		{"exit-in-replay", 999, ErrCrash, `exited with code 5`, 999},
		{"panic", 321, ErrCrash, `crashed at event 321: its process exited with code 2; its last words: "panic: index out of range at event 321"`, 321},
		{"hang", 200, ErrHang, `hung at event 200: no progress for 1 s at event 200`, 200},
		{"spin", 201, ErrHang, `at event 201`, 201},
		{"stop", 202, ErrHang, `at event 202`, 202},
		{"bomb", 100, ErrMemoryLimit, `went over its memory limit at event 100: the limit is 192 MiB`, 100},
		{"lie-answer", 130, ErrLie, `it answered 65 events and 64 calls, the window has 64 and 64`, 128},
		{"lie-beyond", 130, ErrLie, `65 outcomes in an area of 64`, 128},
		{"lie-calls", 130, ErrLie, `65 call records in an area of 64`, 128},
		{"lie-reason", 130, ErrLie, `stop reason 77`, 128},
		{"lie-empty", 130, ErrLie, `with an empty window, and more to do`, 128},
		{"lie-first", 130, ErrLie, `begins with event 135, asked was 128`, 128},
		{"lie-clock", 130, ErrLie, `a clock of 3 Hz`, 128},
		{"lie-unfinished", 0, ErrLie, `the window says that the replay still runs`, 0},
		{"lie-after", 0, ErrLie, `65 outcomes in an area of 64`, 0},
	} {
		t.Run(fmt.Sprintf("%s at %d", c.mode, c.at), func(t *testing.T) {
			if c.mode == "bomb" && raceEnabled {
				t.Skip("the race detector's own memory does not fit under a limit")
			}
			t.Parallel()
			s := spec(c.mode, strconv.FormatUint(c.at, 10))
			switch s.ProgressDeadline = 30 * time.Second; c.mode {
			case "hang", "spin", "stop":
				s.ProgressDeadline = time.Second
			case "bomb":
				s.MemoryLimitBytes = 192 << 20
			}
			p := start(t, s)
			got, err := replay(p, ReplayRequest{})
			f := fault(t, err)
			if f.Kind != c.kind || !f.HasEvent || f.Event != c.event || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v\nwant %v at %d … %s", err, c.kind, c.event, c.says)
			}
			// What was done before is not lost, also of the window in which the plugin died.
			if uint64(len(got.outcomes)) != c.event || got.totals.Executed != c.event {
				t.Errorf("%d outcomes were delivered, want %d", len(got.outcomes), c.event)
			}
			for i, o := range got.outcomes {
				if o.Addr != uint64(i)<<21 {
					t.Fatalf("outcome %d has address %#x", i, o.Addr)
				}
			}
			if p.Fault() != f || !errors.Is(p.Reset(bg), c.kind) {
				t.Errorf("afterwards: %v", p.Reset(bg))
			}
		})
	}
}

func TestInternalErrorIsNoCrash(t *testing.T) {
	p := start(t, spec("internal", "70"))
	_, err := replay(p, ReplayRequest{})
	if !errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), "at event 70: the free list is broken") || p.Fault() != nil {
		t.Errorf("got %v", err)
	}
}

func TestAnswers(t *testing.T) {
	for mode, want := range map[string]struct {
		kind error
		says string
	}{
		"open-invalid": {ErrRequest, `refused the request (Open): option "colour" is not known second line`},
		"open-memory":  {ErrNoMemory, "no segment of 80 GiB"},
		"open-aborted": {ErrInternal, "reports a defect of its own (Open): out of luck"},
	} {
		p := start(t, spec(mode))
		_, err := p.Open(bg, openRequest())
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: got %v", mode, err)
		}
		if _, err := p.Inspect(bg); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Inspect: got %v", err)
		}
		if err := p.Stop(bg); err != nil {
			t.Error(err)
		}
	}
}

func TestFloodOfStandardError(t *testing.T) {
	var forwarded bytes.Buffer
	s := spec("flood", "100")
	s.Stderr, s.ProgressDeadline = &forwarded, time.Minute
	p := start(t, s)
	got, err := replay(p, ReplayRequest{})
	if err != nil || !got.totals.End {
		t.Fatalf("got %+v, %v", got.totals, err)
	}
	if err := p.Stop(bg); err != nil {
		t.Error(err)
	}
	st, _ := p.Ended()
	if st.StderrBytes < 1<<30 || len(st.StderrTail) > guard.StderrTailBytesMax {
		t.Errorf("counted %d bytes, kept %d", st.StderrBytes, len(st.StderrTail))
	}
	if forwarded.Len() == 0 || forwarded.Len() > 4<<20 {
		t.Errorf("forwarded %d bytes", forwarded.Len())
	}
	if !strings.Contains(p.tail(), "through the stream\n") {
		t.Error("what came through go-plugin's stream was lost")
	}
}

func TestFloodThroughTheStream(t *testing.T) {
	s := spec("flood-stream", "100")
	s.ProgressDeadline = time.Minute
	p := start(t, s)
	got, err := replay(p, ReplayRequest{})
	if err != nil || !got.totals.End {
		t.Fatalf("got %+v, %v", got.totals, err)
	}
	for range 1000 { // the last of it may still be on its way
		if p.said.Total() >= 31<<20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := p.said.Total(); n < 31<<20 {
		t.Errorf("%d bytes came", n)
	}
	if n := len(p.tail()); n > 2*guard.StderrTailBytesMax {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestStopIsBounded(t *testing.T) {
	t.Run("stopped process", func(t *testing.T) {
		s := spec("stop", "10")
		s.StopDeadline = 300 * time.Millisecond
		p := start(t, s)
		if _, err := p.Open(bg, openRequest()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
		defer cancel()
		if _, err := p.Replay(ctx, ReplayRequest{}, func(Batch) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		begin := time.Now()
		f := fault(t, p.Stop(bg))
		if f.Kind != ErrHang || !strings.Contains(f.Error(), "did not end within 0.3 s and was killed") || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), f)
		}
	})
	t.Run("ignores everything", func(t *testing.T) {
		s := spec("ignores-everything")
		s.StopDeadline = 500 * time.Millisecond
		p := start(t, s)
		if f := fault(t, p.Stop(bg)); f.Kind != ErrHang {
			t.Errorf("got %v", f)
		}
		if err := p.Stop(bg); err == nil {
			t.Error("the second Stop forgot")
		}
	})
	t.Run("context", func(t *testing.T) {
		s := spec("ignores-everything")
		s.StopDeadline = time.Hour
		p := start(t, s)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		if f := fault(t, p.Stop(ctx)); f.Kind != ErrHang {
			t.Errorf("got %v", f)
		}
	})
}

func TestChildrenAreKilledAndCounted(t *testing.T) {
	p := start(t, spec("family", "0"))
	token := tokenOf(p.GuardPID())
	if got, err := replay(p, ReplayRequest{}); err != nil || got.totals.Executed != 1000 {
		t.Errorf("got %+v, %v", got.totals, err)
	}
	if n := len(carrying(token)); n < 4 { // guard, plugin, two children (and what they started)
		t.Errorf("%d processes", n)
	}
	if err := p.Stop(bg); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if p.Orphans() < 2 {
		t.Errorf("%d orphans were counted", p.Orphans())
	}
	if left := carrying(token); len(left) != 0 {
		t.Errorf("%v still run", left)
	}
}

// carrying lists the processes whose environment has the token.
func carrying(token string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(env, []byte(guard.TokenEnv+"="+token+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestKilledHarnessLeavesNothing(t *testing.T) {
	for _, mode := range []string{"hang", "stop", "family"} {
		t.Run(mode, func(t *testing.T) {
			self, _ := os.Executable()
			cmd := exec.Command(self, "harness", mode, "5")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var dir, token string
			sc := bufio.NewScanner(out)
			for sc.Scan() && sc.Text() != "all" {
				if d, ok := strings.CutPrefix(sc.Text(), "dir "); ok {
					dir = d
				}
				if k, ok := strings.CutPrefix(sc.Text(), "token "); ok {
					token = k
				}
			}
			if dir == "" || token == "" {
				t.Fatalf("the harness did not start its plugin: %q", sc.Text())
			}
			if n := len(carrying(token)); n < 2 {
				t.Errorf("%d processes carry the token", n)
			}
			begin := time.Now()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			for {
				_, err := os.Stat(dir)
				left := carrying(token)
				if errors.Is(err, os.ErrNotExist) && len(left) == 0 {
					break
				}
				if time.Since(begin) > 2*time.Second {
					t.Fatalf("2 s later: processes %v, directory %s: %v", left, dir, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

func TestExecute(t *testing.T) {
	p := start(t, spec("fine"))
	for i := range 3 {
		r, err := p.Execute(bg, ExecuteRequest{Program: []byte("alloc")})
		if err != nil || string(r.Result) != "ALLOC" {
			t.Errorf("%d: %q, %v", i, r.Result, err)
		}
	}
	if _, err := p.Execute(bg, ExecuteRequest{}); !errors.Is(err, ErrRequest) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err := p.Execute(ctx, ExecuteRequest{Program: []byte("x")}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r, err := p.Execute(bg, ExecuteRequest{Program: []byte("again")}); err != nil || string(r.Result) != "AGAIN" {
		t.Errorf("%q, %v", r.Result, err)
	}
}

func TestExecuteFaults(t *testing.T) {
	for mode, kind := range map[string]error{"execute-hang": ErrHang, "execute-crash": ErrCrash} {
		s := spec(mode, "3")
		s.ProgressDeadline = 500 * time.Millisecond
		p := start(t, s)
		for i := 1; i <= 3; i++ {
			_, err := p.Execute(bg, ExecuteRequest{Program: []byte("p")})
			if i < 3 && err != nil {
				t.Fatalf("%s: program %d: %v", mode, i, err)
			}
			if i == 3 && fault(t, err).Kind != kind {
				t.Errorf("%s: %v", mode, err)
			}
		}
	}
}

func TestStaleSocketDirectoriesAreSwept(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	if socketBase() != base && len(base) <= socketBaseBytesMax {
		t.Fatalf("base is %s", socketBase())
	}
	old := time.Now().Add(-time.Hour)
	mk := func(name string) string {
		d := filepath.Join(base, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
		return d
	}
	stale, other := mk("gb-stale"), mk("other")
	fresh := mk("gb-fresh")
	_ = os.Chtimes(fresh, time.Now(), time.Now())
	held := mk("gb-held")
	lock, err := os.Open(held)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweepSocketDirs(base, time.Now())
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was not removed", stale)
	}
	for _, d := range []string{other, fresh, held} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("%s was removed", d)
		}
	}
	t.Setenv("TMPDIR", "/"+strings.Repeat("x", socketBaseBytesMax))
	if socketBase() != "/tmp" {
		t.Errorf("a base of %d bytes is used", socketBaseBytesMax+1)
	}
}

func TestEnvironment(t *testing.T) {
	got := environment(
		[]string{"PATH=/bin", "SECRET=1", "LD_PRELOAD=x", "LD_BIND_NOW=1", "CUDA_VISIBLE_DEVICES=0", "LC_ALL=C", "HOME=/root", "odd"},
		[]string{"HOME=/elsewhere", "LD_BIND_NOW=1", "EXTRA=2"})
	want := []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=0", "LC_ALL=C", "HOME=/elsewhere", "EXTRA=2"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// BenchmarkStart is a whole life: guard, plugin, handshake, Describe, Stop.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := Start(bg, spec("fine"))
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Stop(bg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExecute is one program of 5 bytes there and back.
func BenchmarkExecute(b *testing.B) {
	p, err := Start(bg, spec("fine"))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Stop(bg)
	program := ExecuteRequest{Program: []byte("alloc")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Execute(bg, program); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplayWindow is one Replay call of a window of 64 events that cost nothing.
func BenchmarkReplayWindow(b *testing.B) {
	p, err := Start(bg, spec("fine"))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Stop(bg)
	if _, err := p.Open(bg, openRequest()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Replay(bg, ReplayRequest{Max: 64}, func(Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
