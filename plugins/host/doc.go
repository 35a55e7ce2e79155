// Package host starts plugins and keeps them in check: it is the harness's side of the plugin contract (docs/PLUGINS.md).
//
// # Structure
//
// [Start] launches an executable under its guard (package guard), shakes hands through hashicorp/go-plugin (gRPC only) and asks
// it to describe itself. The [Plugin] that comes back makes the unary calls, each with a deadline; [Plugin.Replay] runs a trace
// window by window and hands the records out; [Plugin.Execute] runs programs; [Plugin.Stop] ends it. [List] and [Find] look for
// executables, [Check] tests one against the contract.
//
//	harness ─ Plugin ─┬─ go-plugin client ── unix socket ── plugin process
//	                  ├─ window (wire.Reader) ─ memory file ─┘
//	                  └─ guard.Process ── pipes ── guard ── parent of the plugin process
//
// # Faults
//
// Whatever a plugin does wrong becomes one [Fault] of one kind: it did not start, broke the protocol, is not the pinned file,
// crashed, hung, went over its memory limit, or reported counters that cannot be. What it refuses politely is an [Answer] and no
// fault. After a fault the process is dead, every later call returns the same fault, and the caller's other plugins are not
// touched.
//
// Which event it was comes from the counter in the window: the plugin stores it after each event, so index first + done is the
// event that was being executed when the process died or stood still. The records below the counter are valid and are handed
// out before the fault is returned: nothing measured is lost.
//
// Why a process ended is told by its wait status, which the guard reports, never by the text of the broken connection. The
// connection breaks some milliseconds before the status is known, so a failed call waits up to half a second for it.
//
// # Invariants
//
//   - Every exit of Start either returns a Plugin or leaves no process, file, directory or goroutine.
//   - Nothing waits for a plugin without a deadline. go-plugin's Kill does (it asks a stopped process to shut down), so it runs
//     in a goroutine that the death of the process ends. A replay has no deadline in all, but must make progress.
//   - go-plugin parses neither standard error (the guard reads it) nor anything of standard output but one line of bounded
//     length that was checked before.
//   - A plugin gets an allow-list of the environment, its own descriptors, and a private directory for its socket.
//   - The window is shared with code that may be wrong: its counters are checked against the geometry, the answer of the call
//     and the request before any record is handed out.
//
// # Cost
//
// Start and Stop cost two processes, guard and plugin: about 0.1 s of CPU on a small machine, nearly all of it the start of two
// Go programs (BenchmarkStart). Between windows a Replay costs one RPC (BenchmarkReplayWindow); during a window the host loads
// one cache line every 100 ms.
//
// # Known weak cases
//
// The checksum of a pinned file is taken just before it is executed, not of the very pages that run: whoever can write the file
// can win that race. A plugin that keeps the counter moving without doing anything is not seen as hung. A memory limit that the
// kernel enforces first (RLIMIT_DATA) is recognised by what runtimes then say, or by the size reached, not by a status.
package host
