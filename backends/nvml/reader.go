//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Deadline bounds one call of the library: they take microseconds to some milliseconds, a query of processes on a busy machine tens.
const Deadline = 2 * time.Second

// InstanceBase is the index of the first MIG instance of device 0; those of device n begin at InstanceBase × (n+1).
const InstanceBase = 1000

// Errors of opening, for errors.Is.
var (
	ErrNoLibrary = errors.New("NVML is not here")
	ErrNoDriver  = errors.New("NVIDIA's driver is not running")
	ErrNoDevice  = errors.New("NVML shows no device")
	ErrHung      = errors.New("NVML does not answer")
	ErrLibrary   = errors.New("NVML refused")
)

// Reader reads the library. Its methods are called from one goroutine at a time. Make one with Open.
type Reader struct {
	lib     nvml.Interface
	ask     *asker
	meminfo string
	procfs  string
	devices []device
}

// device is a GPU or a MIG instance.
type device struct {
	handle   nvml.Device
	index    uint32
	uuid     string
	name     string
	parent   string // UUID of the GPU of an instance
	instance bool
}

// Options are what tests replace.
type Options struct {
	Library  nvml.Interface // nil: libnvidia-ml.so.1
	Deadline time.Duration  // 0: Deadline
	Meminfo  string         // "": /proc/meminfo
	Procfs   string         // "": /proc
}

// Open initialises the library and lists the devices.
func Open(o Options) (*Reader, error) {
	r := &Reader{lib: o.Library, meminfo: o.Meminfo, procfs: o.Procfs, ask: &asker{deadline: o.Deadline, missing: map[string]bool{}}}
	if r.lib == nil {
		r.lib = nvml.New()
	}
	if r.ask.deadline == 0 {
		r.ask.deadline = Deadline
	}
	if r.meminfo == "" {
		r.meminfo = "/proc/meminfo"
	}
	if r.procfs == "" {
		r.procfs = "/proc"
	}
	var ret nvml.Return
	if _, s := ask(r.ask, "", func() (int, nvml.Return) { ret = r.lib.Init(); return 0, nvml.SUCCESS }); s == Hung {
		return nil, fmt.Errorf("%w: nvmlInit did not return within %v; look at the driver (dmesg)", ErrHung, r.ask.deadline)
	}
	if err := initError(ret); err != nil {
		return nil, err
	}
	r.ask.lookup = r.lib.Extensions().LookupSymbol
	return r, r.list()
}

func initError(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("%w: libnvidia-ml.so.1 cannot be loaded; it comes with NVIDIA's driver", ErrNoLibrary)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("%w: libnvidia-ml.so.1 is installed, the kernel's driver is not loaded; try: modprobe nvidia", ErrNoDriver)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("%w: library and kernel driver have different versions; restart the machine", ErrLibrary)
	}
	return fmt.Errorf("%w: nvmlInit answered %d", ErrLibrary, int(ret))
}

// list finds the GPUs and, where MIG is on, their instances.
func (r *Reader) list() error {
	n, s := ask(r.ask, "", r.lib.DeviceGetCount)
	if s != OK {
		return fmt.Errorf("%w: the number of devices: %s", ErrLibrary, s)
	}
	for i := range n {
		h, s := ask(r.ask, "", func() (nvml.Device, nvml.Return) { return r.lib.DeviceGetHandleByIndex(i) })
		if s != OK {
			continue // a GPU that fell off the bus has no handle; the others go on
		}
		d := device{handle: h, index: uint32(i)}
		d.uuid, _ = ask(r.ask, "nvmlDeviceGetUUID", h.GetUUID)
		d.name, _ = ask(r.ask, "nvmlDeviceGetName", h.GetName)
		r.devices = append(r.devices, d)
		r.instances(d)
	}
	if len(r.devices) == 0 {
		return fmt.Errorf("%w: the driver is installed; check nvidia-smi, the container's devices, and dmesg", ErrNoDevice)
	}
	return nil
}

// migOn is the current MIG mode of a GPU that has it on.
const migOn = 1

func (r *Reader) instances(parent device) {
	mode, s := ask(r.ask, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		now, _, ret := parent.handle.GetMigMode()
		return now, ret
	})
	if s != OK || mode != migOn {
		return
	}
	most, s := ask(r.ask, "nvmlDeviceGetMaxMigDeviceCount", parent.handle.GetMaxMigDeviceCount)
	if s != OK {
		return
	}
	for i := range most {
		h, s := ask(r.ask, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) { return parent.handle.GetMigDeviceHandleByIndex(i) })
		if s != OK {
			continue // slots are sparse
		}
		d := device{handle: h, index: InstanceBase*(parent.index+1) + uint32(i), parent: parent.uuid, instance: true}
		d.uuid, _ = ask(r.ask, "nvmlDeviceGetUUID", h.GetUUID)
		d.name, _ = ask(r.ask, "nvmlDeviceGetName", h.GetName)
		r.devices = append(r.devices, d)
	}
}

// Process is a program on a device.
type Process struct {
	PID   uint32
	Name  string
	Bytes uint64
	State State // of Bytes
}

// processes lists the programs on a device, of compute and of graphics, each once.
func (r *Reader) processes(d nvml.Device) ([]Process, State) {
	compute, state := ask(r.ask, "nvmlDeviceGetComputeRunningProcesses", d.GetComputeRunningProcesses)
	graphics, s := ask(r.ask, "nvmlDeviceGetGraphicsRunningProcesses", d.GetGraphicsRunningProcesses)
	if state != OK && s != OK {
		return nil, state
	}
	var list []Process
	seen := map[uint32]bool{}
	for _, p := range append(compute, graphics...) {
		if seen[p.Pid] {
			continue
		}
		seen[p.Pid] = true
		x := Process{PID: p.Pid, Bytes: p.UsedGpuMemory, Name: r.comm(p.Pid)}
		if p.UsedGpuMemory == notAvailable {
			x.Bytes, x.State = 0, NotSupported
		}
		list = append(list, x)
	}
	return list, OK
}

// comm is the name of a process, "?" where it cannot be seen (another container).
func (r *Reader) comm(pid uint32) string {
	raw, err := os.ReadFile(r.procfs + "/" + strconv.FormatUint(uint64(pid), 10) + "/comm")
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(raw))
}

// Users lists the programs on the device with this UUID, as CUDA writes it, without the calling process.
func (r *Reader) Users(uuid string) ([]Process, error) {
	for i := range r.devices {
		if r.devices[i].uuid != uuid {
			continue
		}
		list, s := r.processes(r.devices[i].handle)
		if s != OK {
			return nil, fmt.Errorf("%w: the processes on %s: %s", ErrLibrary, uuid, s)
		}
		var others []Process
		for _, p := range list {
			if p.PID != uint32(os.Getpid()) {
				others = append(others, p)
			}
		}
		return others, nil
	}
	return nil, fmt.Errorf("%w: %s is not among the devices", ErrNoDevice, uuid)
}
