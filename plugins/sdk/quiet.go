package sdk

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"golang.org/x/sys/unix"
)

// softLimitPercent of the memory limit of the process is where the garbage collector comes back to life in a timed loop: a
// collection disturbs a measurement, dying of the limit ends it.
const softLimitPercent = 80

const collectionsMetric = "/gc/cycles/total:gc-cycles"

// quiet is a process whose thread is locked and whose garbage collector is off.
type quiet struct {
	percent     int
	collections uint64
}

// limitMemory sets the soft limit of the process. It stays: setting it stops the world, so it is not done at every window.
func limitMemory(memoryMax uint64) { debug.SetMemoryLimit(softLimit(memoryMax)) }

// quieten locks the thread and turns the collector off, up to the soft limit. It waits for a collection in progress.
func quieten() quiet {
	runtime.LockOSThread()
	return quiet{percent: debug.SetGCPercent(-1), collections: collections()}
}

// restore undoes quieten and returns the number of collections that happened in between.
func (q quiet) restore() uint64 {
	n := collections() - q.collections
	debug.SetGCPercent(q.percent)
	runtime.UnlockOSThread()
	return n
}

func collections() uint64 {
	s := []metrics.Sample{{Name: collectionsMetric}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// softLimit returns 80 % of the limit: the given one, else RLIMIT_DATA, else the physical memory.
func softLimit(memoryMax uint64) int64 {
	if memoryMax == 0 {
		memoryMax = systemMemory()
	}
	if memoryMax > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(memoryMax / 100 * softLimitPercent)
}

func systemMemory() uint64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &r); err == nil && r.Cur < math.MaxInt64 {
		return r.Cur
	}
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err == nil {
		return uint64(s.Totalram) * uint64(s.Unit)
	}
	return math.MaxUint64
}
