package pmm

// Issue starts a piece of work on a GPU (0 the owner of the memory, 1 another) and returns the tracker that is done when
// the work is.
func (m *Model) Issue(gpu int) Tracker {
	m.lk.lockList()
	m.issued[gpu]++
	var t Tracker
	t[gpu] = m.issued[gpu]
	m.lk.unlockList()
	return t
}

// Complete finishes all work issued on a GPU so far.
func (m *Model) Complete(gpu int) {
	m.lk.lockList()
	m.completed[gpu] = m.issued[gpu]
	m.lk.unlockList()
}

// Pending counts the entries of a tracker that are not done.
func (m *Model) Pending(t Tracker) int {
	m.lk.lockList()
	n := 0
	for g, seq := range t {
		if seq > m.completed[g] {
			n++
		}
	}
	m.lk.unlockList()
	return n
}

// Wait blocks until the tracker is done. On the model's clock that costs one synchronisation for each entry pending.
func (m *Model) Wait(t Tracker) {
	for g, seq := range t {
		m.waitEntry(g, seq)
	}
}

func (m *Model) waitEntry(gpu int, seq uint64) {
	if seq == 0 {
		return
	}
	m.lk.lockList()
	if seq > m.completed[gpu] {
		m.completed[gpu] = seq
		m.stats.Waits++
		m.charge(m.price.sync)
	}
	m.lk.unlockList()
}

// pendingOf returns the entries of a root's tracker that are not done, and forgets the others. Under the root's bit lock.
func (m *Model) pendingOf(root int) Tracker {
	t := &m.trackers[root]
	if *t == (Tracker{}) {
		return Tracker{}
	}
	m.lk.lockList()
	for g := range t {
		if t[g] <= m.completed[g] {
			t[g] = 0
		}
	}
	m.lk.unlockList()
	return *t
}

// addWork joins a tracker into a root's.
func (m *Model) addWork(root int, t Tracker) {
	m.lk.lockRoot(root)
	m.trackers[root].Add(t)
	m.lk.unlockRoot(root)
}

// Sync waits for the work of every root that is not with PMA (uvm_pmm_gpu_sync).
func (m *Model) Sync() {
	for i := range m.trackers {
		m.lk.lockList()
		away := m.nodes[i+1].state == PMAOwned
		m.lk.unlockList()
		if away {
			continue
		}
		m.lk.lockRoot(i)
		m.Wait(m.trackers[i])
		m.lk.unlockRoot(i)
	}
}
