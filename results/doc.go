// Package results holds what a run found: its schema, the directory that keeps it, statistics over trials, the ranking, and
// the reports.
//
// # The run directory is the truth
//
//	run.json            what was planned, by whom, on what: written once, before the first trial
//	trials.jsonl        one line a finished trial, appended and synced; never rewritten
//	series/TRIAL.json.gz  curves and pictures of a trial for the report; may be lost without harm
//	lock                held while a process writes (flock), so that two runs cannot share a directory
//	report.html, ranking.json  derived; made again at any time from the above
//
// A line of trials.jsonl is {"crc32c":"…","trial":{…}}: the checksum covers the bytes of the value of "trial". A crash loses
// at most the trial in flight: a torn last line is dropped with a warning when the run is resumed, while a damaged line
// before the end is an error that names it, since something else than a crash was at work.
//
// # Versions
//
// Every file carries "schema". A reader refuses a schema that is newer than itself and says so.
//
// # What is derived
//
// Rank reads trials and returns values: scores, ties, intervals, groups, warnings. It writes nothing, so that a ranking can
// be made again, from an old directory, with newer rules.
package results
