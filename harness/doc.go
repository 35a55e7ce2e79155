// Package harness is what one run is: it plans the cases, runs the trials in fresh plugin processes, qualifies the
// environment, and keeps what was found.
//
// # From a suite to a run
//
// Plan expands recordings × strategies × backend × capacities into cases, adds an A/A control (one case planned twice, so
// that the run measures its own noise), and draws a seeded, interleaved order of the trials: round by round, each round a
// permutation of all cases, so that a machine that slows down half-way slows every strategy alike. The plan is written
// before the first trial. Running it again in the same directory does the trials that are missing, which is all that resuming is.
//
// # A trial
//
// A fresh plugin process under its guard; Open; Restore where the trace has a start state; a warm-up pass that is thrown
// away; then the replay, window by window. Between windows the ledger reads outcomes and call log. A short trace repeats
// (Reset, replay) until there are 50 ms of timed loop and 10,000 samples; every pass must answer exactly as the first, else
// the strategy is not deterministic and that is a warning on the trial. A plugin that crashes, hangs or lies costs its trial,
// is recorded as such, and the run goes on.
//
// # What is pure
//
// Planning, ordering, and the decision whether a trial needs another pass are functions of their arguments; only Runner
// starts processes and writes files.
package harness
