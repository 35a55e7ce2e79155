// Package stats holds the pure statistics of comparisons: order statistics with their intervals, tests, effect sizes, and the
// verdicts that follow from them.
//
// Times of allocators have long tails and several modes, so nothing here assumes a distribution: quantiles are order statistics,
// intervals come from the binomial distribution of ranks (MedianCI, QuantileCI), two samples are compared by Mann-Whitney with the
// Hodges-Lehmann shift and its interval, effects are given as Vargha and Delaney's A12, and strategies are compared over traces by Friedman's
// test with Nemenyi's critical difference. Small samples, the usual case (ten trials), are counted out exactly, ties included.
//
// Functions are pure: equal arguments give equal results, the bootstrap takes its seed. Samples are never changed. What cannot be given is NaN, and
// what a reader must know travels in the result: an Interval says what it covers, a Verdict carries its warnings. Package x/perf's benchmath has the
// same aims; it is not used since it has neither shifts with intervals, nor effect sizes, nor the rank tests over many traces.
//
// Cost: tests up to 60 samples count subsets in n·N² steps (about 2 ms at 30 + 30); Shift sorts n·m differences.
package stats
