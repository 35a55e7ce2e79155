package pmm

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// rootLockShards is the number of mutexes that stand for the bit locks of the root array. Two roots may share one; nobody
// holds two at a time.
const rootLockShards = 64

// locks are the driver's locks (uvm_pmm_gpu.h, uvm_lock.h) in their order: mutex < pmaLock < root bit lock < PMA's own
// lock < listLock. A nil *locks locks nothing: that is the unlocked core. The driver reads some fields of a chunk under the
// mutex alone; here every access to a node is under listLock, which is a superset and keeps the race detector exact.
type locks struct {
	mutex   sync.Mutex
	pmaLock sync.RWMutex
	root    [rootLockShards]sync.Mutex
	frames  sync.Mutex
	list    sync.Mutex
	// drops counts how often an eviction dropped the mutex for a block.
	drops atomic.Uint64
	// trace watches the order in tests of a single goroutine.
	trace func(at level, taking bool)
}

// level is a lock's place in the order.
type level uint8

const (
	levelMutex level = iota
	levelPMA
	levelRoot
	levelFrames
	levelList
)

// note tells a test which lock is about to be taken or has been dropped.
func (l *locks) note(at level, taking bool) {
	if l.trace != nil {
		l.trace(at, taking)
	}
}

func (l *locks) lockMutex() {
	if l != nil {
		l.note(levelMutex, true)
		l.mutex.Lock()
	}
}

func (l *locks) unlockMutex() {
	if l != nil {
		l.mutex.Unlock()
		l.note(levelMutex, false)
	}
}

// dropMutex is unlockMutex at the one place where an operation goes on afterwards: the eviction of a block.
func (l *locks) dropMutex() {
	if l != nil {
		l.drops.Add(1)
		l.unlockMutex()
	}
}

func (l *locks) lockList() {
	if l != nil {
		l.note(levelList, true)
		l.list.Lock()
	}
}

func (l *locks) unlockList() {
	if l != nil {
		l.list.Unlock()
		l.note(levelList, false)
	}
}

func (l *locks) lockRoot(i int) {
	if l != nil {
		l.note(levelRoot, true)
		l.root[i%rootLockShards].Lock()
	}
}

func (l *locks) unlockRoot(i int) {
	if l != nil {
		l.root[i%rootLockShards].Unlock()
		l.note(levelRoot, false)
	}
}

func (l *locks) lockPMARead() {
	if l != nil {
		l.note(levelPMA, true)
		l.pmaLock.RLock()
	}
}

func (l *locks) unlockPMARead() {
	if l != nil {
		l.pmaLock.RUnlock()
		l.note(levelPMA, false)
	}
}

// mutexFree reports whether nobody holds the mutex; false without locks.
func (l *locks) mutexFree() bool {
	if l == nil || !l.mutex.TryLock() {
		return false
	}
	l.mutex.Unlock()
	return true
}

// flushPMA waits until every call that holds pma_lock for reading has finished.
func (l *locks) flushPMA() {
	if l != nil {
		l.note(levelPMA, true)
		l.pmaLock.Lock()
		//lint:ignore SA2001 taking and dropping it waits for the readers, which is the point
		l.pmaLock.Unlock()
		l.note(levelPMA, false)
	}
}

// yield lets other goroutines run between two looks at a root.
func (l *locks) yield() {
	if l != nil {
		runtime.Gosched()
	}
}

func (l *locks) lockFrames() {
	if l != nil {
		l.note(levelFrames, true)
		l.frames.Lock()
	}
}

func (l *locks) unlockFrames() {
	if l != nil {
		l.frames.Unlock()
		l.note(levelFrames, false)
	}
}

// charge advances the model's clock.
func (m *Model) charge(ns int64) {
	if m.lk != nil {
		atomic.AddInt64(&m.now, ns)
		return
	}
	m.now += ns
}

// NowNs returns the model's clock. It advances by the costs of calls and by AdvanceNs, by nothing else.
func (m *Model) NowNs() int64 {
	if m.lk != nil {
		return atomic.LoadInt64(&m.now)
	}
	return m.now
}

// AdvanceNs moves the model's clock forward, as a trace's recorded gap does. A negative gap is ignored.
func (m *Model) AdvanceNs(ns int64) {
	if ns > 0 {
		m.charge(ns)
	}
}
