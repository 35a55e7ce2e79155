package guard

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// anonymousBytes is the anonymous resident memory of a process: resident minus shared (file and shmem) pages of
// /proc/PID/statm, which equals RssAnon of /proc/PID/status (proc(5)). 0 when the process is gone.
func anonymousBytes(pid int) uint64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseUint(f[1], 10, 64)
	shared, err2 := strconv.ParseUint(f[2], 10, 64)
	if err1 != nil || err2 != nil || shared > resident {
		return 0
	}
	return (resident - shared) * uint64(os.Getpagesize())
}

// dataLimit is the RLIMIT_DATA that belongs to a memory limit.
func dataLimit(memoryLimit uint64) uint64 { return memoryLimit + memoryLimit/4 + dataLimitSlackBytes }

// limitData sets RLIMIT_DATA of a running process and, by inheritance, of what it forks.
func limitData(pid int, memoryLimit uint64) error {
	l := unix.Rlimit{Cur: dataLimit(memoryLimit), Max: dataLimit(memoryLimit)}
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &l, nil)
}

// memoryWatch polls the anonymous memory of all descendants until end is closed. It closes over when the limit is passed;
// peak is valid once done is closed.
type memoryWatch struct {
	over chan struct{}
	done chan struct{}
	peak uint64
}

func watchMemory(limit uint64, end <-chan struct{}) *memoryWatch {
	m := &memoryWatch{over: make(chan struct{}), done: make(chan struct{})}
	if limit == 0 {
		close(m.done)
		return m
	}
	go func() {
		defer close(m.done)
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			var sum uint64
			for _, p := range descendants(os.Getpid()) {
				sum += anonymousBytes(p)
			}
			m.peak = max(m.peak, sum)
			if sum > limit {
				close(m.over)
				return
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return m
}
