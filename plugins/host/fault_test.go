package host

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/gpubench/gpubench/plugins/host/guard"
)

func TestLastWords(t *testing.T) {
	for tail, want := range map[string]string{
		"":                   "",
		"\n \n":              "",
		"loading\nready\n\n": "ready",
		"a\npanic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:3 +0x1d\nexit status 2\n":          "panic: boom",
		"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n":          "terminate called after throwing an instance of 'std::bad_alloc'",
		"Traceback (most recent call last):\n  File \"x.py\", line 3\nValueError: no such pool\n":               "ValueError: no such pool",
		"x: error while loading shared libraries: libcuda.so.1: cannot open shared object file\n(see README)\n": "x: error while loading shared libraries: libcuda.so.1: cannot open shared object file",
		"bad \xff byte":                 "bad � byte",
		strings.Repeat("é", 300) + "\n": strings.Repeat("é", 200) + "…",
	} {
		if got := lastWords(tail); got != want {
			t.Errorf("%q: got %q, want %q", tail, got, want)
		}
	}
}

func TestRefusedMemory(t *testing.T) {
	const limit = 100 << 20
	for _, c := range []struct {
		name string
		st   guard.Status
		tail string
		want bool
	}{
		{"Go says so", guard.Status{Reason: guard.ReasonExited, ExitCode: 2, MemoryLimitBytes: limit}, "fatal error: runtime: out of memory", true},
		{"C++ says so", guard.Status{Reason: guard.ReasonSignalled, Signal: syscall.SIGABRT, MemoryLimitBytes: limit}, "std::bad_alloc", true},
		{"as large as the limit", guard.Status{Reason: guard.ReasonSignalled, Signal: syscall.SIGSEGV, MemoryLimitBytes: limit, ResidentBytesPeak: limit}, "", true},
		{"another crash", guard.Status{Reason: guard.ReasonExited, ExitCode: 2, MemoryLimitBytes: limit, ResidentBytesPeak: limit / 2}, "panic: boom", false},
		{"no limit", guard.Status{Reason: guard.ReasonExited, ExitCode: 2}, "out of memory", false},
		{"ended well", guard.Status{Reason: guard.ReasonExited, MemoryLimitBytes: limit, ResidentBytesPeak: limit}, "out of memory", false},
	} {
		if got := refusedMemory(c.st, c.tail); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if f := ended("p", "Open", c.st, c.tail); errors.Is(f, ErrMemoryLimit) != c.want || errors.Is(f, ErrCrash) == c.want {
			t.Errorf("%s: %v", c.name, f)
		}
	}
}
