package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpubench/gpubench/plugins/host/guard"
)

// The faults of a plugin, for errors.Is. Every [Fault] is exactly one of them.
var (
	// ErrStart: the executable did not come as far as the handshake.
	ErrStart = errors.New("did not start")
	// ErrProtocol: it said something that is not the plugin protocol, or another version of it.
	ErrProtocol = errors.New("broke the protocol")
	// ErrChecksum: the file is not the one that was pinned.
	ErrChecksum = errors.New("has the wrong checksum")
	// ErrCrash: its process ended in the middle of its work.
	ErrCrash = errors.New("crashed")
	// ErrHang: it made no progress, or did not answer, for longer than allowed.
	ErrHang = errors.New("hung")
	// ErrMemoryLimit: it took more memory than allowed.
	ErrMemoryLimit = errors.New("went over its memory limit")
	// ErrLie: counters that it reported contradict each other or what was asked.
	ErrLie = errors.New("reported what cannot be")
)

// Fault is what a plugin did wrong. Its text is one line that ends with what to do.
type Fault struct {
	Kind     error  // one of the sentinels above
	Plugin   string // name of the executable
	During   string // "start", "Open", "Replay", …
	Event    uint64 // index of the event that was being executed
	HasEvent bool   // Event means something
	Detail   string // what exactly
	Advice   string // what to do about it

	Ended      bool         // the process had ended; End says how
	End        guard.Status // of the process
	StderrTail string       // the last 64 KiB of what the plugin said

	cause error
}

// lastWordsRunesMax bounds the line of the plugin's standard error that an error message quotes.
const lastWordsRunesMax = 200

// Error returns one line.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s %v", f.Plugin, f.Kind)
	if f.HasEvent {
		fmt.Fprintf(&b, " at event %d", f.Event)
	} else if f.During != "" && f.Kind != ErrStart && f.Kind != ErrChecksum {
		fmt.Fprintf(&b, " during %s", f.During)
	}
	if f.Detail != "" {
		b.WriteString(": " + f.Detail)
	}
	if w := lastWords(f.StderrTail); w != "" && !strings.Contains(f.Detail, w) {
		fmt.Fprintf(&b, "; its last words: %q", w)
	}
	if f.Advice != "" {
		b.WriteString("; " + f.Advice)
	}
	return b.String()
}

// Is matches the fault's kind.
func (f *Fault) Is(target error) bool { return target == f.Kind }

// Unwrap returns the underlying error, if there is one: of the transport or of a check.
func (f *Fault) Unwrap() error { return f.cause }

// tellingPrefixes begin the lines that say why a program died: the Go runtime, C++'s terminate, glibc, assert(3), Python.
var tellingPrefixes = []string{"panic: ", "fatal error: ", "runtime: out of memory", "terminate called", "Assertion ", "MemoryError", "SIGSEGV", "SIGABRT"}

// lastWords picks the line of a standard error that best says what happened: the last one that begins a crash message, else
// the last one that is not empty.
func lastWords(tail string) string {
	lines := strings.Split(tail, "\n")
	pick := ""
	for _, l := range lines {
		for _, p := range tellingPrefixes {
			if strings.HasPrefix(l, p) {
				pick = l
			}
		}
		if strings.Contains(l, "error while loading shared libraries") {
			pick = l
		}
	}
	for i := len(lines) - 1; i >= 0 && pick == ""; i-- {
		pick = lines[i]
		if strings.TrimSpace(pick) == "" {
			pick = ""
		}
	}
	pick = strings.ToValidUTF8(strings.TrimSpace(pick), "�")
	if r := []rune(pick); len(r) > lastWordsRunesMax {
		pick = string(r[:lastWordsRunesMax]) + "…"
	}
	return pick
}

// outOfMemoryWords are what runtimes say when the kernel refuses memory (RLIMIT_DATA): Go, C++, Python, glibc.
var outOfMemoryWords = []string{"out of memory", "cannot allocate memory", "Cannot allocate memory", "std::bad_alloc", "MemoryError"}

// refusedMemory reports whether a process with a memory limit ended because the kernel refused it more, as far as one can
// tell from outside: it ended badly, and either it said so or it was as large as the limit.
func refusedMemory(st guard.Status, tail string) bool {
	if st.MemoryLimitBytes == 0 || st.Reason == guard.ReasonExited && st.ExitCode == 0 || st.Reason == guard.ReasonNotStarted {
		return false
	}
	if max(st.AnonymousBytesPeak, st.ResidentBytesPeak) >= st.MemoryLimitBytes {
		return true
	}
	for _, w := range outOfMemoryWords {
		if strings.Contains(tail, w) {
			return true
		}
	}
	return false
}

// ended makes the fault of a process that ended by itself, or at a limit, while something was asked of it.
func ended(plugin, during string, st guard.Status, tail string) *Fault {
	f := &Fault{Plugin: plugin, During: during, Ended: true, End: st, StderrTail: tail}
	switch {
	case st.Reason == guard.ReasonMemoryLimit || refusedMemory(st, tail):
		f.Kind = ErrMemoryLimit
		f.Detail = fmt.Sprintf("the limit is %d MiB, its peak was %d MiB", st.MemoryLimitBytes>>20, max(st.AnonymousBytesPeak, st.ResidentBytesPeak)>>20)
		f.Advice = "raise the limit or give it less work"
	case st.Reason == guard.ReasonNotStarted:
		f.Kind, f.Detail = ErrStart, st.Error
		f.Advice = "check that the file exists, is executable and made for this machine"
	default:
		f.Kind, f.Detail = ErrCrash, "its process "+st.String()
		f.Advice = "this is a defect of the plugin: its standard error, kept with the trial, says more"
	}
	return f
}

// Errors that are no fault but an answer: the plugin works, the request does not.
var (
	// ErrRequest: the plugin refused the request as wrong (an option, a name, an order of calls).
	ErrRequest = errors.New("refused the request")
	// ErrNoMemory: the strategy could not get the memory that it needs to open.
	ErrNoMemory = errors.New("could not get its memory")
	// ErrUnsupported: the plugin has no such operation.
	ErrUnsupported = errors.New("has no such operation")
	// ErrInternal: the plugin reports a defect of its own.
	ErrInternal = errors.New("reports a defect of its own")
	// ErrEnded: the plugin was stopped before.
	ErrEnded = errors.New("was stopped already")
)

// Answer is an error that the plugin answered with.
type Answer struct {
	Kind    error // ErrRequest, ErrNoMemory, ErrUnsupported, ErrInternal
	Plugin  string
	Call    string
	Message string // the plugin's own words, one line
}

func (a *Answer) Error() string {
	return fmt.Sprintf("plugin %s %v (%s): %s", a.Plugin, a.Kind, a.Call, a.Message)
}

// Is matches the kind.
func (a *Answer) Is(target error) bool { return target == a.Kind }

// oneLine makes foreign text fit for an error message.
func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "�")
	if r := []rune(s); len(r) > 4*lastWordsRunesMax {
		s = string(r[:4*lastWordsRunesMax]) + "…"
	}
	return s
}

func nameOf(path string) string { return filepath.Base(path) }

func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
