package harness

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/results"
)

// busyLoadShare is the one-minute load average, as a share of the processors, above which a timing is disturbed by others:
// with half of the processors busy on average, a trial shares its processor about half of the time on a two-processor machine.
const busyLoadShare = 0.5

// CaptureEnvironment reads what the machine says of itself. root is "/" (tests give a tree of their own).
func CaptureEnvironment(root string) results.Environment {
	env := results.Environment{
		OS: runtime.GOOS, Architecture: runtime.GOARCH, CPUs: runtime.NumCPU(), GoVersion: runtime.Version(),
	}
	c := clock.Calibrated()
	env.ClockSource = c.Source.String()
	env.ClockCostNs = float64(c.ReadCostMilliticks) / clock.MilliticksPerTick * 1e9 / float64(c.FrequencyHz)
	env.Host, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		env.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	cpuInfo(root, &env)
	env.MemoryBytes = memTotal(root)
	env.Governor = line(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	env.CgroupCPUMax = line(root, "sys/fs/cgroup/cpu.max")
	env.CgroupMemory = line(root, "sys/fs/cgroup/memory.max")
	if f := strings.Fields(line(root, "proc/loadavg")); len(f) > 0 {
		env.LoadAverage1, _ = strconv.ParseFloat(f[0], 64)
	}
	nvidia(root, &env)
	env.Warnings = environmentWarnings(&env)
	return env
}

func environmentWarnings(env *results.Environment) []string {
	var w []string
	if env.LoadAverage1 > busyLoadShare*float64(env.CPUs) {
		w = append(w, fmt.Sprintf("the load average is %.1f on %d processors: latencies are disturbed by other programs", env.LoadAverage1, env.CPUs))
	}
	if env.Governor != "" && env.Governor != "performance" {
		w = append(w, fmt.Sprintf("the CPU governor is %q, not performance: the clock rate varies during a trial", env.Governor))
	}
	if env.Hypervisor {
		w = append(w, "this is a virtual machine: the host may take the processor away during a trial")
	}
	return w
}

func cpuInfo(root string, env *results.Environment) {
	f, err := os.Open(filepath.Join(root, "proc/cpuinfo"))
	if err != nil {
		return
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		key, val, _ := strings.Cut(sc.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name":
			env.CPU = strings.TrimSpace(val)
		case "flags":
			env.Hypervisor = strings.Contains(" "+val+" ", " hypervisor ")
			return
		}
	}
}

func memTotal(root string) uint64 {
	f, err := os.Open(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "MemTotal:"); ok {
			kib, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// nvidia reads what the kernel driver shows without any library.
func nvidia(root string, env *results.Environment) {
	env.DriverVersion = line(root, "sys/module/nvidia/version")
	infos, _ := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	for _, path := range infos {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, l := range strings.Split(string(raw), "\n") {
			if model, ok := strings.CutPrefix(l, "Model:"); ok {
				env.GPUs = append(env.GPUs, strings.TrimSpace(model))
			}
		}
	}
}

// line returns the first line of a small file, "" when there is none.
func line(root, path string) string {
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(first)
}
