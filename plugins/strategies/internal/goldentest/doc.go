// Package goldentest checks strategies against recorded decisions of real allocators, one subtest a recording.
//
// A recording is a file PEER.TRACE.jsonl.gz, the outcomes of the allocator PEER on the script TRACE.txt beside it. Peers is
// the one table that says which strategy, with which options, over which device, stands for which peer; Run checks one
// strategy against all recordings of its peers. The recordings shared by the packages of strategies lie in
// plugins/strategies/testdata, which is Run's default when the -golden flag is not given:
//
//	go test ./plugins/strategies/... -run Golden -args -golden /abs/dir
//
// Script is the parsed form of a script, Player drives a strategy with one, and Bench measures one; all three are of use to
// tests and benchmarks that check something else.
package goldentest
