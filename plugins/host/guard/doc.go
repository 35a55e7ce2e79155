// Package guard runs one plugin executable so that nothing of it can outlive, flood or fill up whoever started it.
//
// # Structure
//
// The harness does not start a plugin itself. It starts a guard, which is the same binary re-executed with a hidden verb
// ([Verb]), and the guard starts the plugin:
//
//	harness ──alive pipe──▶ guard ──fork, setsid──▶ plugin ──▶ whatever the plugin forks
//	        ◀─status pipe──       ◀──── stderr ────
//	        ◀────────────── stdout ──────────────
//
// [Start] is the harness's side, [Main] the guard's. The plugin's stdin is /dev/null, its stdout is the harness's pipe
// itself (the handshake needs no copy), its stderr ends in the guard, and the files of [Config.Files] are its descriptors
// 3, 4, ….
//
// # Invariants
//
//   - The guard is a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): a descendant of the plugin that loses its parent
//     becomes a child of the guard, whatever sessions or process groups it made. So wait4(2) answering ECHILD is a proof
//     that nothing is left, and the walk of /proc that finds whom to kill may miss one in a race without harm: the walk is
//     repeated until ECHILD.
//   - The guard holds the read end of the alive pipe, the harness the only write end. The end of file means "the harness is
//     gone or wants an end": everything is killed with SIGKILL, which neither a stopped process nor one that ignores SIGTERM
//     survives. A harness that dies from SIGKILL closes the pipe too, because the kernel does.
//   - No descriptor of the guard reaches the plugin, except the ones it is meant to have.
//   - The guard reads the plugin's stderr as fast as it is written, keeps the last [StderrTailBytesMax] bytes in a ring, and
//     forwards at most [forwardBytesPerSecond] of it. It never waits for the harness to read.
//   - Before the guard exits it removes [Config.SocketDir] and writes one [Status] to the status pipe. A status pipe that
//     ends without a Status means that the guard itself was killed; the harness's side then looks through /proc for
//     processes that carry the token of this start ([TokenEnv]) and kills them.
//   - Should the guard be killed, the plugin dies with it (PR_SET_PDEATHSIG, from a thread that never ends).
//
// # Memory
//
// The limit is on anonymous resident memory summed over the plugin and its descendants, polled every [pollInterval]
// (resident minus shared of /proc/PID/statm). RLIMIT_DATA catches what is faster than the poll; it is set above the limit
// by [dataLimitSlackBytes] and a quarter, because a runtime such as Go's maps its heap in units of 64 MiB and never touches
// much of it. RLIMIT_AS is of no use here: Go does not start under a low one.
//
// # Cost
//
// The guard sleeps in system calls. One poll costs one read a descendant where the kernel lists children
// (CONFIG_PROC_CHILDREN), else one read a process of the machine.
//
// # Known weak cases
//
// Pages shared by a fork are counted once a process. Shared memory (memfd, tmpfs) is not counted. A process in
// uninterruptible sleep dies only when the kernel lets it; the guard gives up after [killDeadline] and says so
// ([Status.Survivors]). A plugin that deliberately kills its guard and scrubs its environment gets away: a plugin is
// trusted code (docs/SECURITY.md).
package guard
