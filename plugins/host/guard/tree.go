package guard

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// descendants returns the processes below pid, parents before children, zombies included. In a race it may miss one that
// was just forked; callers repeat.
func descendants(pid int) []int {
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(syscall.Gettid()) + "/children"); err == nil {
		return descendantsByChildren(pid)
	}
	return descendantsByScan(pid)
}

// descendantsByChildren uses /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN).
func descendantsByChildren(pid int) []int {
	var all []int
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; {
		p := queue[0]
		queue = queue[1:]
		tasks := "/proc/" + strconv.Itoa(p) + "/task/"
		for _, t := range namesIn(tasks) {
			text, err := os.ReadFile(tasks + t + "/children")
			if err != nil {
				continue // the thread ended
			}
			for _, w := range strings.Fields(string(text)) {
				if c, err := strconv.Atoi(w); err == nil && !seen[c] {
					seen[c] = true
					all = append(all, c)
					queue = append(queue, c)
				}
			}
		}
	}
	return all
}

// descendantsByScan reads the parent of every process of the machine.
func descendantsByScan(pid int) []int {
	children := map[int][]int{}
	for _, p := range processes() {
		if parent, ok := parentOf(p); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var all []int
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children[queue[0]] {
			if !seen[c] {
				seen[c] = true
				all = append(all, c)
				queue = append(queue, c)
			}
		}
	}
	return all
}

// namesIn lists a directory of /proc, without a look at each entry: the guard does this many times a second beside a measurement.
func namesIn(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// processes lists the process numbers of /proc.
func processes() []int {
	names := namesIn("/proc")
	pids := make([]int, 0, len(names))
	for _, n := range names {
		if p, err := strconv.Atoi(n); err == nil {
			pids = append(pids, p)
		}
	}
	return pids
}

// parentOf reads field 4 of /proc/PID/stat; field 2 is in brackets and may hold anything, also brackets (proc(5)).
func parentOf(pid int) (int, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return 0, false
	}
	f := strings.Fields(string(text[i+1:]))
	if len(f) < 2 {
		return 0, false
	}
	p, err := strconv.Atoi(f[1])
	return p, err == nil
}

// killTree kills everything below this process until gone is closed (wait4 said that there are no children) or the
// deadline has passed. It returns how many it killed besides the plugin, and those that are still there.
func killTree(plugin int, gone <-chan struct{}, deadline time.Time) (others int, survivors []int) {
	self := os.Getpid()
	killed := map[int]bool{}
	for {
		fresh := false
		for _, p := range descendants(self) {
			if !killed[p] {
				killed[p], fresh = true, true
				if p != plugin && !zombie(p) {
					others++
				}
			}
			_ = syscall.Kill(p, syscall.SIGKILL) // ESRCH: it ended meanwhile
		}
		if fresh { // look again at once: what it forked meanwhile must not get ahead
			select {
			case <-gone:
				return others, nil
			default:
				continue
			}
		}
		select {
		case <-gone:
			return others, nil
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return others, descendants(self)
		}
	}
}

// zombie reports whether the process has ended and only waits for its parent to notice.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(text, ')')
	return i < 0 || i+2 >= len(text) || text[i+2] == 'Z' || text[i+2] == 'X'
}

// killByToken kills every process of the machine whose environment carries the token, until none is left or the deadline
// has passed. It is the harness's last resort when a guard was lost.
func killByToken(token string, deadline time.Time) {
	want := []byte(TokenEnv + "=" + token + "\x00")
	for {
		found := false
		for _, p := range processes() {
			env, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/environ")
			if err != nil || !bytes.Contains(env, want) || p == os.Getpid() {
				continue
			}
			found = true
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		if !found || time.Now().After(deadline) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
