package guard

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Verb is the hidden first argument that makes a binary call [Main] with the arguments after it.
const Verb = "guard"

// TokenEnv is the environment variable that marks the plugin and, by inheritance, its descendants with the token of their start.
const TokenEnv = "GPUBENCH_PLUGIN_TOKEN"

// Limits. Each is asserted where it applies.
const (
	// StderrTailBytesMax is how much of the plugin's standard error is kept, the newest part.
	StderrTailBytesMax = 64 << 10
	// forwardBytesPerSecond bounds what of the plugin's standard error goes on to the harness; one second's worth may come at
	// once. A person reads less than 1 KiB/s; a 1 GB flood then costs the harness 64 KiB a second.
	forwardBytesPerSecond = 64 << 10
	// statusBytesMax bounds what the harness reads from the status pipe: a tail of 64 KiB whose every byte is escaped as
	// \u0000 has 6 × 64 KiB, and the other fields fit in the rest.
	statusBytesMax = 512 << 10
	// dataLimitSlackBytes is added to the memory limit for RLIMIT_DATA: private writable mappings that a runtime makes and
	// does not touch (Go: heap arenas of 64 MiB and their metadata; C: 8 MiB of stack a thread).
	dataLimitSlackBytes = 256 << 20
	// pollInterval is how often memory is looked at. A bomb touches about 3 GB/s, so it overshoots by some 0.3 GB at most.
	pollInterval = 100 * time.Millisecond
	// killDeadline is how long the guard tries to kill everything; with the rest of its work it stays below 2 s.
	killDeadline = 1500 * time.Millisecond
	// guardExitDeadline is how long the harness waits for a guard that it told to end before it kills the guard itself.
	guardExitDeadline = 2 * time.Second
)

// First descriptors that the guard finds open, in this order.
const (
	fdAlive     = 3
	fdStatus    = 4
	fdFirstFile = 5
)

// Config says what to run under a guard.
type Config struct {
	// Guard is the command that ends in Main; nil is the running executable with Verb.
	Guard []string
	// Path is the plugin executable, Args its arguments without the program's name.
	Path string
	Args []string
	// Env is the whole environment of the plugin, "KEY=VALUE" each. Start adds TokenEnv.
	Env []string
	// Dir is the plugin's working directory; "" is the current one.
	Dir string
	// Files become the descriptors 3, 4, … of the plugin. They stay the caller's.
	Files []*os.File
	// SocketDir is removed, with all in it, when the plugin has ended; "" is none.
	SocketDir string
	// SocketDirLock is kept open by the guard as long as it runs, so that a lock on SocketDir outlives the harness; nil is none.
	SocketDirLock *os.File
	// MemoryLimitBytes bounds the anonymous resident memory of plugin and descendants; 0 is no limit.
	MemoryLimitBytes uint64
	// Stderr gets the plugin's standard error as it comes, at a bounded rate; nil is nobody. It must not block for ever.
	Stderr io.Writer
}

// options is what Main reads from its arguments.
type options struct {
	path        string
	args        []string
	dir         string
	files       int
	socketDir   string
	memoryLimit uint64
	forwarded   bool
}

// arguments renders the part of the configuration that travels on the command line, readable in `ps`.
func (c *Config) arguments() []string {
	a := []string{fmt.Sprintf("-files=%d", len(c.Files))}
	if c.SocketDir != "" {
		a = append(a, "-socket-dir="+c.SocketDir)
	}
	if c.MemoryLimitBytes != 0 {
		a = append(a, fmt.Sprintf("-memory-limit-bytes=%d", c.MemoryLimitBytes))
	}
	if c.Dir != "" {
		a = append(a, "-dir="+c.Dir)
	}
	if c.Stderr != nil {
		a = append(a, "-forward")
	}
	a = append(a, "--", c.Path)
	return append(a, c.Args...)
}

func parseArguments(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet(Verb, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&o.files, "files", 0, "number of descriptors for the plugin, from 5 on")
	fs.StringVar(&o.socketDir, "socket-dir", "", "directory to remove at the end")
	fs.Uint64Var(&o.memoryLimit, "memory-limit-bytes", 0, "limit of anonymous resident memory; 0 = none")
	fs.StringVar(&o.dir, "dir", "", "working directory of the plugin")
	fs.BoolVar(&o.forwarded, "forward", false, "forward the plugin's standard error")
	if err := fs.Parse(args); err != nil {
		return o, fmt.Errorf("guard: %w", err)
	}
	if fs.NArg() == 0 {
		return o, errors.New("guard: no plugin to run; this verb is for gpubench itself, see docs/SECURITY.md")
	}
	if o.files < 0 {
		return o, fmt.Errorf("guard: -files=%d: must not be negative", o.files)
	}
	o.path, o.args = fs.Arg(0), fs.Args()[1:]
	return o, nil
}
