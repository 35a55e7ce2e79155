package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Socket directories. A plugin listens on a unix socket in a private directory /tmp/gb-XXXX, which its guard removes. The
// directory is locked (flock) as long as harness or guard lives, so one that can be locked by somebody else, and is not
// brand new, was left by a machine that went down; the next start removes it.
const (
	socketDirPrefix = "gb-"
	// socketBaseBytesMax is how long $TMPDIR may be to be used: a socket's path has at most 107 bytes (unix(7)), and
	// below the base come "/gb-" and "/plugin-dir" and "/plugin" with ten digits each.
	socketBaseBytesMax = 107 - len("/gb-") - len("/plugin-dir") - len("/plugin") - 3*10
	// staleAfter is the age below which an unlocked directory is left alone: its owner may be about to lock it.
	staleAfter = time.Minute
)

// swept has the bases that this process has swept.
var swept sync.Map

type socketDir struct {
	path string
	lock *os.File
}

// socketBase is $TMPDIR where that is short enough, else /tmp.
func socketBase() string {
	if t := os.Getenv("TMPDIR"); t != "" && filepath.IsAbs(t) && len(t) <= socketBaseBytesMax {
		return t
	}
	return "/tmp"
}

func newSocketDir() (*socketDir, error) {
	base := socketBase()
	if _, done := swept.LoadOrStore(base, true); !done { // once a process: the directory may be large
		sweepSocketDirs(base, time.Now())
	}
	path, err := os.MkdirTemp(base, socketDirPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for a plugin's socket: %w; set TMPDIR to a writable directory of at most %d characters", err, socketBaseBytesMax)
	}
	lock, err := os.Open(path)
	if err == nil {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
			err = nil // a file system without locks: then nobody can lock, and nobody sweeps
		}
	}
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("cannot lock a plugin's socket directory %s: %w", path, err)
	}
	return &socketDir{path: path, lock: lock}, nil
}

// remove removes the directory; the guard has done so already, unless it was never started.
func (d *socketDir) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

// sweepSocketDirs removes what dead harnesses and guards of this user left below base.
func sweepSocketDirs(base string, now time.Time) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), socketDirPrefix) {
			continue
		}
		fi, err := e.Info()
		if err != nil || now.Sub(fi.ModTime()) < staleAfter {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		path := filepath.Join(base, e.Name())
		lock, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}
