//go:build cgo && linux

package nvml

import (
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Device is a GPU or MIG instance with how it is set up. A fact that cannot be had has the name of its State as value.
type Device struct {
	Index uint32
	UUID  string
	Name  string
	Facts map[string]string
}

// Fingerprint describes every device.
func (r *Reader) Fingerprint() []Device {
	system := facts{}
	v, s := ask(r.ask, "nvmlSystemGetDriverVersion", r.lib.SystemGetDriverVersion)
	system.put("driver_version", v, s)
	v, s = ask(r.ask, "nvmlSystemGetNVMLVersion", r.lib.SystemGetNVMLVersion)
	system.put("nvml_version", v, s)
	n, s := ask(r.ask, "nvmlSystemGetCudaDriverVersion", r.lib.SystemGetCudaDriverVersion)
	system.put("cuda_version", fmt.Sprintf("%d.%d", n/1000, n%1000/10), s)
	var list []Device
	for i := range r.devices {
		d := &r.devices[i]
		f := facts{}
		for k, v := range system {
			f[k] = v
		}
		r.describe(d, f)
		list = append(list, Device{Index: d.index, UUID: d.uuid, Name: d.name, Facts: f})
	}
	return list
}

func (r *Reader) describe(d *device, f facts) {
	h := d.handle
	r.readMemory(h).describe(f)
	f["kind"] = "gpu"
	if d.instance {
		f["kind"], f["mig_parent"] = "mig-instance", d.parent
		return // the rest is the parent's
	}
	arch, s := ask(r.ask, "nvmlDeviceGetArchitecture", h.GetArchitecture)
	f.put("architecture", architecture(arch), s)
	cc, s := ask(r.ask, "nvmlDeviceGetCudaComputeCapability", func() (string, nvml.Return) {
		major, minor, ret := h.GetCudaComputeCapability()
		return fmt.Sprintf("%d.%d", major, minor), ret
	})
	f.put("compute_capability", cc, s)
	bar, s := ask(r.ask, "nvmlDeviceGetBAR1MemoryInfo", h.GetBAR1MemoryInfo)
	f.putInt("bar1_total_bytes", bar.Bar1Total, s)
	vbios, s := ask(r.ask, "nvmlDeviceGetVbiosVersion", h.GetVbiosVersion)
	f.put("vbios_version", vbios, s)
	r.describeLink(h, f)
	r.describeModes(h, f)
	r.describeClocks(h, f)
}

func (r *Reader) describeLink(h nvml.Device, f facts) {
	for _, q := range []struct {
		name, symbol string
		f            func() (int, nvml.Return)
	}{
		{"pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", h.GetCurrPcieLinkGeneration},
		{"pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", h.GetMaxPcieLinkGeneration},
		{"pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", h.GetCurrPcieLinkWidth},
		{"pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", h.GetMaxPcieLinkWidth},
	} {
		n, s := ask(r.ask, q.symbol, q.f)
		f.put(q.name, strconv.Itoa(n), s)
	}
}

func (r *Reader) describeModes(h nvml.Device, f facts) {
	onOff := func(name, symbol string, q func() (nvml.EnableState, nvml.Return)) {
		v, s := ask(r.ask, symbol, q)
		f.put(name, map[bool]string{true: "on", false: "off"}[v == nvml.FEATURE_ENABLED], s)
	}
	onOff("ecc_mode", "nvmlDeviceGetEccMode", func() (nvml.EnableState, nvml.Return) {
		now, _, ret := h.GetEccMode()
		return now, ret
	})
	onOff("persistence_mode", "nvmlDeviceGetPersistenceMode", h.GetPersistenceMode)
	onOff("mig_mode", "nvmlDeviceGetMigMode", func() (nvml.EnableState, nvml.Return) {
		now, _, ret := h.GetMigMode()
		return nvml.EnableState(now), ret
	})
	mode, s := ask(r.ask, "nvmlDeviceGetComputeMode", h.GetComputeMode)
	f.put("compute_mode", computeMode(mode), s)
}

// computeMode names a mode in which a device admits programs.
func computeMode(m nvml.ComputeMode) string {
	switch m {
	case nvml.COMPUTEMODE_DEFAULT:
		return "default"
	case nvml.COMPUTEMODE_PROHIBITED:
		return "prohibited"
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return "exclusive"
	}
	return strconv.Itoa(int(m))
}

const milliwattsPerWatt = 1000

func (r *Reader) describeClocks(h nvml.Device, f facts) {
	mw, s := ask(r.ask, "nvmlDeviceGetEnforcedPowerLimit", h.GetEnforcedPowerLimit)
	f.put("power_limit_watts", strconv.FormatFloat(float64(mw)/milliwattsPerWatt, 'f', -1, 64), s)
	for _, q := range []struct {
		name, symbol string
		clock        nvml.ClockType
		f            func(nvml.ClockType) (uint32, nvml.Return)
	}{
		{"clock_sm_max_mhz", "nvmlDeviceGetMaxClockInfo", nvml.CLOCK_SM, h.GetMaxClockInfo},
		{"clock_memory_max_mhz", "nvmlDeviceGetMaxClockInfo", nvml.CLOCK_MEM, h.GetMaxClockInfo},
		{"clock_sm_application_mhz", "nvmlDeviceGetApplicationsClock", nvml.CLOCK_SM, h.GetApplicationsClock},
		{"clock_memory_application_mhz", "nvmlDeviceGetApplicationsClock", nvml.CLOCK_MEM, h.GetApplicationsClock},
	} {
		n, s := ask(r.ask, q.symbol, func() (uint32, nvml.Return) { return q.f(q.clock) })
		f.putInt(q.name, uint64(n), s)
	}
}

// architecture names NVML's numbers (nvml.h, NVML_DEVICE_ARCH_*).
func architecture(a nvml.DeviceArchitecture) string {
	names := map[nvml.DeviceArchitecture]string{
		nvml.DEVICE_ARCH_KEPLER: "kepler", nvml.DEVICE_ARCH_MAXWELL: "maxwell", nvml.DEVICE_ARCH_PASCAL: "pascal", nvml.DEVICE_ARCH_VOLTA: "volta",
		nvml.DEVICE_ARCH_TURING: "turing", nvml.DEVICE_ARCH_AMPERE: "ampere", nvml.DEVICE_ARCH_ADA: "ada", nvml.DEVICE_ARCH_HOPPER: "hopper",
		nvml.DEVICE_ARCH_BLACKWELL: "blackwell",
	}
	if n, ok := names[a]; ok {
		return n
	}
	return fmt.Sprintf("number %d", uint32(a))
}
