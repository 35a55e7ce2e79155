//go:build cgo && linux

package nvml

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpubench/gpubench/internal/clock"
)

// Sample is one look at a device. A reading that could not be had stands as NAME.STATE = 1 (see State).
type Sample struct {
	Device uint32
	UnixNs int64
	Values map[string]float64
}

// Bounds of the interval between samples: the library averages power over tens of milliseconds, and more often than every 10 ms it
// disturbs what it watches.
const (
	IntervalMin     = 10 * time.Millisecond
	IntervalDefault = 50 * time.Millisecond
)

// Sample looks at one device, which is named by its index.
func (r *Reader) Sample(index uint32) (Sample, error) {
	for i := range r.devices {
		if d := &r.devices[i]; d.index == index {
			v := values{}
			r.sample(d, v)
			return Sample{Device: index, UnixNs: clock.Now().UnixNano(), Values: v}, nil
		}
	}
	return Sample{}, fmt.Errorf("%w: number %d", ErrNoDevice, index)
}

func (r *Reader) sample(d *device, v values) {
	h := d.handle
	r.readMemory(h).sample(v)
	r.sampleProcesses(h, v)
	r.sampleClocks(h, v)
	r.sampleErrors(h, v)
	r.sampleViolations(h, v)
}

func (r *Reader) sampleProcesses(h nvml.Device, v values) {
	list, s := r.processes(h)
	v.put("processes_count", float64(len(list)), s)
	for _, p := range list {
		v.put(fmt.Sprintf("process_%d_bytes", p.PID), float64(p.Bytes), p.State)
	}
}

func (r *Reader) sampleClocks(h nvml.Device, v values) {
	for _, q := range []struct {
		name  string
		clock nvml.ClockType
	}{{"clock_sm_mhz", nvml.CLOCK_SM}, {"clock_memory_mhz", nvml.CLOCK_MEM}} {
		n, s := ask(r.ask, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return h.GetClockInfo(q.clock) })
		v.put(q.name, float64(n), s)
	}
	reasons, s := ask(r.ask, "nvmlDeviceGetCurrentClocksEventReasons", h.GetCurrentClocksEventReasons)
	if s == Absent { // the name of drivers before 535
		reasons, s = ask(r.ask, "nvmlDeviceGetCurrentClocksThrottleReasons", h.GetCurrentClocksThrottleReasons)
	}
	v.putCount("clock_event_reasons", reasons, s)
	t, s := ask(r.ask, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return h.GetTemperature(nvml.TEMPERATURE_GPU) })
	v.put("temperature_celsius", float64(t), s)
	mw, s := ask(r.ask, "nvmlDeviceGetPowerUsage", h.GetPowerUsage)
	v.put("power_watts", float64(mw)/milliwattsPerWatt, s)
	mj, s := ask(r.ask, "nvmlDeviceGetTotalEnergyConsumption", h.GetTotalEnergyConsumption)
	v.put("energy_joules", float64(mj)/milliwattsPerWatt, s)
}

func (r *Reader) sampleErrors(h nvml.Device, v values) {
	for _, q := range []struct {
		name string
		kind nvml.MemoryErrorType
	}{{"ecc_uncorrected_total", nvml.MEMORY_ERROR_TYPE_UNCORRECTED}, {"ecc_corrected_total", nvml.MEMORY_ERROR_TYPE_CORRECTED}} {
		n, s := ask(r.ask, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) { return h.GetTotalEccErrors(q.kind, nvml.VOLATILE_ECC) })
		v.putCount(q.name, n, s)
	}
	type rows struct {
		corrected, uncorrected int
		pending, failed        bool
	}
	x, s := ask(r.ask, "nvmlDeviceGetRemappedRows", func() (rows, nvml.Return) {
		c, u, pending, failed, ret := h.GetRemappedRows()
		return rows{c, u, pending, failed}, ret
	})
	v.put("remapped_rows_total", float64(x.corrected+x.uncorrected), s)
	v.put("remapped_rows_pending", bit(x.pending), s)
	v.put("remapped_rows_failed", bit(x.failed), s)
	n, s := ask(r.ask, "nvmlDeviceGetPcieReplayCounter", h.GetPcieReplayCounter)
	v.put("pcie_replays_total", float64(n), s)
}

func (r *Reader) sampleViolations(h nvml.Device, v values) {
	for _, q := range []struct {
		name   string
		policy nvml.PerfPolicyType
	}{{"violation_power_ns", nvml.PERF_POLICY_POWER}, {"violation_thermal_ns", nvml.PERF_POLICY_THERMAL}, {"violation_reliability_ns", nvml.PERF_POLICY_RELIABILITY}} {
		t, s := ask(r.ask, "nvmlDeviceGetViolationStatus", func() (nvml.ViolationTime, nvml.Return) { return h.GetViolationStatus(q.policy) })
		v.putCount(q.name, t.ViolationTime, s)
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Watch sends a sample of each device (by index; none = all) at every interval until ctx ends or send fails. A look that takes
// longer than the interval delays the next; none are made up for.
func (r *Reader) Watch(ctx context.Context, interval time.Duration, devices []uint32, send func(Sample) error) error {
	if interval == 0 {
		interval = IntervalDefault
	}
	tick := time.NewTicker(max(interval, IntervalMin))
	defer tick.Stop()
	for {
		for i := range r.devices {
			d := &r.devices[i]
			if len(devices) > 0 && !slices.Contains(devices, d.index) {
				continue
			}
			s, err := r.Sample(d.index)
			if err != nil {
				return err
			}
			if err := send(s); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
