//go:build !race

package explore_test

// raceEnabled: the race detector makes an exploration ten times slower and has nothing to find in it.
const raceEnabled = false
