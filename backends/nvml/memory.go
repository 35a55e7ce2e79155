//go:build cgo && linux

package nvml

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// memory is what is known of a device's memory.
type memory struct {
	total, used, free, reserved uint64
	state                       State // of all but reserved
	reservedState               State
	unified                     bool // from the host's memory
}

// readMemory asks the second version of the query, then the first, then the host.
func (r *Reader) readMemory(d nvml.Device) memory {
	if m, s := ask(r.ask, "nvmlDeviceGetMemoryInfo_v2", d.GetMemoryInfo_v2); s == OK || s == Hung || s == Lost {
		return check(memory{total: m.Total, used: m.Used, free: m.Free, reserved: m.Reserved, state: s, reservedState: s})
	}
	m, s := ask(r.ask, "nvmlDeviceGetMemoryInfo", d.GetMemoryInfo)
	if s == NotSupported {
		if total, available, err := hostMemory(r.meminfo); err == nil {
			return check(memory{total: total, free: available, used: total - min(available, total), reservedState: NotSupported, unified: true})
		}
	}
	return check(memory{total: m.Total, used: m.Used, free: m.Free, state: s, reservedState: NotSupported})
}

// check refuses what cannot be: a value that is none, more than any device has, or more used than there is.
func check(m memory) memory {
	if m.state != OK {
		return m
	}
	if m.total == 0 || m.total > maxPlausibleBytes || m.used > m.total || m.free > m.total {
		m.state = Implausible
	}
	if m.reservedState == OK && m.reserved > m.total {
		m.reservedState = Implausible
	}
	return m
}

func (m memory) sample(v values) {
	v.put("memory_total_bytes", float64(m.total), m.state)
	v.put("memory_used_bytes", float64(m.used), m.state)
	v.put("memory_free_bytes", float64(m.free), m.state)
	v.put("memory_reserved_bytes", float64(m.reserved), m.reservedState)
	if m.unified {
		v["memory.unified"] = 1
	}
}

func (m memory) describe(f facts) {
	f.putInt("memory_total_bytes", m.total, m.state)
	f.putInt("memory_free_bytes", m.free, m.state)
	f.putInt("memory_reserved_bytes", m.reserved, m.reservedState)
	f["memory_source"] = "nvml"
	if m.unified {
		f["memory_source"] = "host MemAvailable: the GPU shares the host's memory and NVML does not support the query"
	}
}

// hostMemory reads MemTotal and MemAvailable.
func hostMemory(path string) (total, available uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		if len(w) < 2 {
			continue
		}
		kib, _ := strconv.ParseUint(w[1], 10, 54)
		switch w[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemAvailable:":
			available = kib << 10
		}
	}
	if total == 0 || available == 0 {
		return 0, 0, os.ErrNotExist
	}
	return total, available, nil
}
