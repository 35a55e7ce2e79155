//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// healthy fills in what go-nvml's mocks leave out: an idle card with ECC on.
func healthy(d *server.Device) {
	total := d.MemoryInfo.Total
	ok := nvml.SUCCESS
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: total, Reserved: 1 << 29, Used: 1 << 20, Free: total - 1<<29 - 1<<20}, ok
	}
	quiet(&d.Device)
}

func quiet(d *mock.Device) {
	ok := nvml.SUCCESS
	number := func(n int) func() (int, nvml.Return) { return func() (int, nvml.Return) { return n, ok } }
	none := func() ([]nvml.ProcessInfo, nvml.Return) { return nil, ok }
	on := func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, ok }
	d.GetBAR1MemoryInfoFunc = func() (nvml.BAR1Memory, nvml.Return) { return nvml.BAR1Memory{Bar1Total: 128 << 30}, ok }
	d.GetVbiosVersionFunc = func() (string, nvml.Return) { return "96.00.5E.00.01", ok }
	d.GetCurrPcieLinkGenerationFunc, d.GetMaxPcieLinkGenerationFunc = number(5), number(5)
	d.GetCurrPcieLinkWidthFunc, d.GetMaxPcieLinkWidthFunc = number(16), number(16)
	d.GetPcieReplayCounterFunc = number(0)
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, ok
	}
	d.GetPersistenceModeFunc = on
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, ok }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 700_000, ok }
	d.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, ok }
	d.GetApplicationsClockFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, ok }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksEventReasonGpuIdle, ok }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 35, ok }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 115_500, ok }
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 7_000, ok }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, ok }
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, ok }
	d.GetViolationStatusFunc = func(nvml.PerfPolicyType) (nvml.ViolationTime, nvml.Return) { return nvml.ViolationTime{}, ok }
	d.GetComputeRunningProcessesFunc, d.GetGraphicsRunningProcessesFunc = none, none
}

func reader(t *testing.T, s *server.Server, o Options) *Reader {
	t.Helper()
	for _, d := range s.Devices {
		if d.(*server.Device).GetBAR1MemoryInfoFunc == nil {
			healthy(d.(*server.Device))
		}
	}
	o.Library = s
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func first(s *server.Server) *server.Device {
	d := s.Devices[0].(*server.Device)
	healthy(d)
	return d
}

func sampled(t *testing.T, r *Reader) map[string]float64 {
	t.Helper()
	s, err := r.Sample(0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Values
}

func TestFingerprintOfMockServers(t *testing.T) {
	for _, c := range []struct {
		s                  *server.Server
		name, arch, cc     string
		driver, cuda       string
		memoryMiB, devices uint64
	}{
		{dgxa100.New(), "Mock NVIDIA A100-SXM4-40GB", "ampere", "8.0", "550.54.15", "12.4", 40960, 8},
		{dgxh100.New(), "NVIDIA H100 80GB HBM3", "hopper", "9.0", "550.54.15", "12.4", 81920, 8},
		{dgxh200.New(), "NVIDIA H200 141GB HBM3e", "hopper", "9.0", "550.54.15", "12.4", 144384, 8},
		{dgxb200.New(), "NVIDIA B200 180GB HBM3e", "blackwell", "10.0", "560.28.03", "12.6", 184320, 8},
	} {
		list := reader(t, c.s, Options{}).Fingerprint()
		if uint64(len(list)) != c.devices {
			t.Errorf("%s: %d devices", c.name, len(list))
		}
		d := list[0]
		if d.Name != c.name || d.UUID != c.s.Devices[0].(*server.Device).UUID || d.Index != 0 {
			t.Errorf("device %+v, want %s", d, c.name)
		}
		for k, v := range map[string]string{"architecture": c.arch, "compute_capability": c.cc, "driver_version": c.driver, "cuda_version": c.cuda,
			"memory_source": "nvml", "ecc_mode": "on", "mig_mode": "off", "power_limit_watts": "700", "clock_sm_max_mhz": "1980",
			"clock_sm_application_mhz": "not_supported", "compute_mode": "default", "memory_reserved_bytes": "536870912", "pcie_width": "16", "kind": "gpu"} {
			if d.Facts[k] != v {
				t.Errorf("%s: %s is %q, want %q", c.name, k, d.Facts[k], v)
			}
		}
		if mib := c.s.Devices[0].(*server.Device).MemoryInfo.Total >> 20; mib != c.memoryMiB {
			t.Errorf("%s: %d MiB, want %d", c.name, mib, c.memoryMiB)
		}
	}
}

func TestSampleOfAHealthyCard(t *testing.T) {
	v := sampled(t, reader(t, dgxh100.New(), Options{}))
	for k, want := range map[string]float64{"memory_total_bytes": 80 << 30, "memory_used_bytes": 1 << 20, "memory_reserved_bytes": 1 << 29,
		"clock_sm_mhz": 1980, "clock_event_reasons": 1, "temperature_celsius": 35, "power_watts": 115.5, "energy_joules": 7, "ecc_uncorrected_total": 0,
		"remapped_rows_pending": 0, "processes_count": 0, "pcie_replays_total": 0, "violation_power_ns": 0} {
		if got, ok := v[k]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", k, got, ok, want)
		}
	}
}

func TestWhatACardDoesNotTell(t *testing.T) {
	s := dgxh100.New()
	d := first(s)
	d.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return ^uint64(0), nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 80 << 30, Used: 81 << 30}, nvml.SUCCESS
	}
	s.LookupSymbolFunc = func(symbol string) error {
		if symbol == "nvmlDeviceGetRemappedRows" {
			return errors.New("undefined symbol")
		}
		return nil
	}
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) {
		t.Error("a function that the library lacks was called: that ends a process")
		return 0, 0, false, false, nvml.SUCCESS
	}
	v := sampled(t, reader(t, s, Options{}))
	for _, k := range []string{"clock_sm_mhz.not_supported", "ecc_uncorrected_total.implausible", "temperature_celsius.lost", "power_watts.error",
		"memory_used_bytes.implausible", "remapped_rows_pending.absent"} {
		if v[k] != 1 {
			t.Errorf("%s is %v, want 1", k, v[k])
		}
	}
	for _, k := range []string{"clock_sm_mhz", "ecc_uncorrected_total", "temperature_celsius", "memory_used_bytes", "remapped_rows_pending"} {
		if got, ok := v[k]; ok {
			t.Errorf("%s is %v, want no value", k, got)
		}
	}
}

func TestImplausibleMemory(t *testing.T) {
	for _, m := range []memory{{total: ^uint64(0)}, {total: 0}, {total: 1 << 30, used: 2 << 30}, {total: 1 << 30, free: ^uint64(0)}} {
		if check(m).state != Implausible {
			t.Errorf("%+v passes", m)
		}
	}
	if m := check(memory{total: 80 << 30, used: 80 << 30}); m.state != OK {
		t.Error("a full card is called implausible")
	}
	if m := check(memory{total: 80 << 30, reserved: 81 << 30}); m.state != OK || m.reservedState != Implausible {
		t.Errorf("%+v", m)
	}
}

func meminfo(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "meminfo")
	text := "MemTotal:       125000000 kB\nMemFree:          1000000 kB\nMemAvailable:   100000000 kB\n"
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// A GB10 answers NOT_SUPPORTED to both memory queries; MemFree is far below what can be had.
func TestUnifiedMemory(t *testing.T) {
	s := dgxh100.New()
	d := first(s)
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_NOT_SUPPORTED }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_NOT_SUPPORTED }
	r := reader(t, s, Options{Meminfo: meminfo(t)})
	v := sampled(t, r)
	if v["memory_total_bytes"] != 125000000<<10 || v["memory_free_bytes"] != 100000000<<10 || v["memory.unified"] != 1 || v["memory_reserved_bytes.not_supported"] != 1 {
		t.Errorf("values %v", v)
	}
	if f := r.Fingerprint()[0].Facts["memory_source"]; f != "host MemAvailable: the GPU shares the host's memory and NVML does not support the query" {
		t.Errorf("memory_source %q", f)
	}
	r.meminfo = "/nonexistent"
	if v := sampled(t, r); v["memory_total_bytes.not_supported"] != 1 {
		t.Errorf("without meminfo: %v", v)
	}
}

func TestOldDriver(t *testing.T) {
	s := dgxh100.New()
	d := first(s)
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_FUNCTION_NOT_FOUND }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 80 << 30, Used: 1 << 30, Free: 79 << 30}, nvml.SUCCESS
	}
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_FUNCTION_NOT_FOUND }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksThrottleReasonSwPowerCap, nvml.SUCCESS }
	v := sampled(t, reader(t, s, Options{}))
	if v["memory_used_bytes"] != 1<<30 || v["memory_reserved_bytes.not_supported"] != 1 || v["clock_event_reasons"] != 4 {
		t.Errorf("values %v", v)
	}
}

// A call that hangs is given up; the next ones are not made until it comes back, and then readings are whole again.
func TestHungCall(t *testing.T) {
	s := dgxh100.New()
	d := first(s)
	release := make(chan struct{})
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) {
		<-release
		return 1000, nvml.SUCCESS
	}
	r := reader(t, s, Options{Deadline: 20 * time.Millisecond})
	v := sampled(t, r)
	if v["power_watts.hung"] != 1 || v["ecc_uncorrected_total.hung"] != 1 || v["temperature_celsius"] != 35 {
		t.Errorf("values %v: what comes before the hung call is there, what comes after is not asked", v)
	}
	began := time.Now()
	if v = sampled(t, r); v["memory_total_bytes.hung"] != 1 {
		t.Errorf("values %v", v)
	}
	if took := time.Since(began); took > 15*time.Millisecond*20 {
		t.Errorf("a sample of a library that hangs took %v: it must not wait a deadline a reading", took)
	}
	close(release)
	for range 100 {
		if v = sampled(t, r); v["power_watts"] == 1 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("after the call came back: %v", v)
}

func TestProcesses(t *testing.T) {
	s := dgxh100.New()
	d := first(s)
	self := uint32(os.Getpid())
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: self, UsedGpuMemory: 5}, {Pid: 4242, UsedGpuMemory: 1 << 30}}, nvml.SUCCESS
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 4242, UsedGpuMemory: 1 << 30}, {Pid: 4243, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "4242"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "4242", "comm"), []byte("python3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := reader(t, s, Options{Procfs: proc})
	v := sampled(t, r)
	if v["processes_count"] != 3 || v["process_4242_bytes"] != 1<<30 || v["process_4243_bytes.not_supported"] != 1 {
		t.Errorf("values %v", v)
	}
	users, err := r.Users(d.UUID)
	if err != nil || len(users) != 2 || users[0].Name != "python3" || users[1].Name != "?" {
		t.Errorf("users %+v, %v", users, err)
	}
	if _, err := r.Users("GPU-unknown"); !errors.Is(err, ErrNoDevice) {
		t.Errorf("err = %v", err)
	}
}

// A parent with MIG on and one instance in its third slot.
func migServer() (*server.Server, *mock.Device) {
	s := dgxh100.New()
	s.Devices = s.Devices[:1]
	d := first(s)
	d.MigMode = 1
	instance := &mock.Device{}
	quiet(instance)
	unsupported := func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	instance.GetClockInfoFunc = unsupported
	instance.GetUUIDFunc = func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS }
	instance.GetNameFunc = func() (string, nvml.Return) { return "NVIDIA H100 80GB HBM3 MIG 1g.10gb", nvml.SUCCESS }
	instance.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 10 << 30, Free: 10 << 30}, nvml.SUCCESS
	}
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return instance, nvml.SUCCESS
	}
	return s, instance
}

func TestMIG(t *testing.T) {
	s, _ := migServer()
	r := reader(t, s, Options{})
	list := r.Fingerprint()
	if len(list) != 2 || list[0].Facts["mig_mode"] != "on" || list[1].UUID != "MIG-1" || list[1].Index != 1002 ||
		list[1].Facts["kind"] != "mig-instance" || list[1].Facts["mig_parent"] != list[0].UUID || list[1].Facts["memory_total_bytes"] != "10737418240" {
		t.Fatalf("devices %+v", list)
	}
	x, err := r.Sample(1002)
	if err != nil || x.Values["clock_sm_mhz.not_supported"] != 1 || x.Values["memory_total_bytes"] != 10<<30 {
		t.Errorf("sample %+v, %v", x, err)
	}
}

func TestOpening(t *testing.T) {
	for _, c := range []struct {
		ret  nvml.Return
		want error
	}{{nvml.ERROR_LIBRARY_NOT_FOUND, ErrNoLibrary}, {nvml.ERROR_DRIVER_NOT_LOADED, ErrNoDriver}, {nvml.ERROR_LIB_RM_VERSION_MISMATCH, ErrLibrary}, {nvml.ERROR_UNKNOWN, ErrLibrary}} {
		s := dgxh100.New()
		s.InitFunc = func() nvml.Return { return c.ret }
		if _, err := Open(Options{Library: s}); !errors.Is(err, c.want) {
			t.Errorf("%d: %v", c.ret, err)
		}
	}
	s := dgxh100.New()
	s.Devices = nil
	if _, err := Open(Options{Library: s}); !errors.Is(err, ErrNoDevice) {
		t.Errorf("no device: %v", err)
	}
	s.InitFunc = func() nvml.Return { select {} }
	if _, err := Open(Options{Library: s, Deadline: 10 * time.Millisecond}); !errors.Is(err, ErrHung) {
		t.Errorf("an init that hangs: %v", err)
	}
}

func TestWatch(t *testing.T) {
	r := reader(t, dgxh100.New(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var seen []uint32
	err := r.Watch(ctx, IntervalMin, []uint32{1, 3}, func(s Sample) error {
		if seen = append(seen, s.Device); len(seen) == 4 {
			cancel()
		}
		return nil
	})
	if err != nil || len(seen) != 4 || seen[0] != 1 || seen[1] != 3 || seen[2] != 1 {
		t.Errorf("samples of %v, %v", seen, err)
	}
	stop := errors.New("enough")
	if err := r.Watch(t.Context(), IntervalMin, nil, func(Sample) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("err = %v", err)
	}
}
