package pmm

import (
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
}

func (l *locks) lockMutex() {
	if l != nil {
		l.mutex.Lock()
	}
}

func (l *locks) unlockMutex() {
	if l != nil {
		l.mutex.Unlock()
	}
}

// dropMutex is unlockMutex at the one place where an operation goes on afterwards: the eviction of a block.
func (l *locks) dropMutex() {
	if l != nil {
		l.drops.Add(1)
		l.mutex.Unlock()
	}
}

func (l *locks) lockList() {
	if l != nil {
		l.list.Lock()
	}
}

func (l *locks) unlockList() {
	if l != nil {
		l.list.Unlock()
	}
}

func (l *locks) lockRoot(i int) {
	if l != nil {
		l.root[i%rootLockShards].Lock()
	}
}

func (l *locks) unlockRoot(i int) {
	if l != nil {
		l.root[i%rootLockShards].Unlock()
	}
}

func (l *locks) lockPMARead() {
	if l != nil {
		l.pmaLock.RLock()
	}
}

func (l *locks) unlockPMARead() {
	if l != nil {
		l.pmaLock.RUnlock()
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
		l.pmaLock.Lock()
		l.pmaLock.Unlock() //nolint:staticcheck // taking and dropping it is the point
	}
}

func (l *locks) lockFrames() {
	if l != nil {
		l.frames.Lock()
	}
}

func (l *locks) unlockFrames() {
	if l != nil {
		l.frames.Unlock()
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
