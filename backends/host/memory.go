package host

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupRoot is where the unified hierarchy of control groups is mounted.
const cgroupRoot = "/sys/fs/cgroup"

// availableBytes returns how much memory the process can take before the kernel has to reclaim or kill: MemAvailable, or what
// the limits of its control groups leave, if that is less.
func availableBytes() (uint64, error) {
	system, err := memAvailable("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return min(system, cgroupLeft(cgroupRoot, "/proc/self/cgroup")), nil
}

// DefaultBytes is the size of a device of which none was asked for: 4 GiB, or half of what is available if that is less; 0 when
// this machine does not say.
func DefaultBytes() uint64 {
	available, err := availableBytes()
	if err != nil {
		return 0
	}
	return min(defaultBytes, available/shareOfAvailable)
}

// memAvailable reads the line MemAvailable of a meminfo file.
func memAvailable(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("how much memory is available: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" && fields[2] == "kB" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			if err != nil {
				return 0, fmt.Errorf("%s: MemAvailable: %w", path, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("%s: no line MemAvailable", path)
}

// cgroupLeft returns the smallest memory.max less memory.current of the control groups from the process's own up to the root of
// the unified hierarchy; without limits the largest number.
func cgroupLeft(root, self string) uint64 {
	left := uint64(math.MaxUint64)
	text, err := os.ReadFile(self)
	if err != nil {
		return left
	}
	for _, line := range strings.Split(string(text), "\n") {
		group, ok := strings.CutPrefix(line, "0::")
		if !ok {
			continue
		}
		for dir := filepath.Join(root, group); ; dir = filepath.Dir(dir) {
			limit, err1 := readNumber(filepath.Join(dir, "memory.max"))
			used, err2 := readNumber(filepath.Join(dir, "memory.current"))
			if err1 == nil && err2 == nil {
				left = min(left, limit-min(used, limit))
			}
			if dir == root || len(dir) <= len(root) {
				break
			}
		}
	}
	return left
}

var errNoLimit = errors.New("no limit")

// readNumber reads a file of one number; "max" is errNoLimit.
func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, errNoLimit
	}
	return strconv.ParseUint(word, 10, 64)
}
