// Package stats holds the pure statistics of comparisons: order statistics with their intervals, tests, effect sizes, and
// the verdicts that follow from them.
package stats
