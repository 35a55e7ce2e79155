package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/host"
	"github.com/gpubench/gpubench/backends/ideal"
	pmmdevice "github.com/gpubench/gpubench/backends/pmm"
	"github.com/gpubench/gpubench/backends/recorded"
	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/pmm"
	"github.com/gpubench/gpubench/trace"
)

// modelCapabilities are the optional interfaces of the devices that are models.
var modelCapabilities = []sdk.Capability{sdk.CapVirtualMemory, sdk.CapStreams, sdk.CapStreamControl, sdk.CapClocked, sdk.CapFaultInjector,
	sdk.CapDeviceReset, sdk.CapSegmentAdopter}

// builtinBackends are the devices that need no hardware.
func builtinBackends() []sdk.Backend {
	return []sdk.Backend{idealBackend(), recordedBackend(), pmmBackend(), hostBackend()}
}

func backendNames() []string {
	var out []string
	for _, b := range builtinBackends() {
		out = append(out, b.Name)
	}
	return out
}

func idealBackend() sdk.Backend {
	return sdk.Backend{
		Name: "ideal", Version: version, Summary: "a budget and first-fit addresses: the reference device of the recordings",
		Options: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"contiguous":{"type":"boolean","description":"addresses end at the capacity, so that fragmentation of the device itself shows"},
			"packed":{"type":"boolean","description":"addresses and charges by 256 bytes instead of 2 MiB"}}}`),
		Capabilities: modelCapabilities,
		Open: func(options json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			var o struct {
				Contiguous bool `json:"contiguous"`
				Packed     bool `json:"packed"`
			}
			if err := sdk.DecodeOptions(options, &o); err != nil {
				return nil, err
			}
			return ideal.New(ideal.Config{TotalBytes: total, Contiguous: o.Contiguous, Packed: o.Packed})
		},
	}
}

func recordedBackend() sdk.Backend {
	return sdk.Backend{
		Name: "recorded", Version: version, Summary: "answers with the addresses that the recording saw",
		Capabilities: []sdk.Capability{sdk.CapVirtualMemory, sdk.CapStreams, sdk.CapStreamControl, sdk.CapClocked, sdk.CapDeviceReset, sdk.CapRecordedAnswers, sdk.CapSegmentAdopter},
		Open: func(_ json.RawMessage, total uint64, t *trace.Trace) (backends.Device, error) {
			if t == nil {
				return nil, fmt.Errorf("%w: %w", sdk.ErrRequest, recorded.ErrNothingRecorded)
			}
			d, err := recorded.New(t, total)
			if errors.Is(err, recorded.ErrNothingRecorded) {
				return nil, fmt.Errorf("%w: %w", sdk.ErrRequest, err)
			}
			return d, err
		},
	}
}

func hostBackend() sdk.Backend {
	return sdk.Backend{
		Name: "host", Version: version, Summary: "real host memory by mmap, every page touched: real latencies without a GPU",
		Options: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"lazy":{"type":"boolean","description":"leave pages untouched until the program touches them"}}}`),
		Capabilities: []sdk.Capability{sdk.CapVirtualMemory, sdk.CapStreams, sdk.CapStreamControl, sdk.CapDeviceReset},
		Open: func(options json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			var o struct {
				Lazy bool `json:"lazy"`
			}
			if err := sdk.DecodeOptions(options, &o); err != nil {
				return nil, err
			}
			d, err := host.New(host.Config{TotalBytes: total, Lazy: o.Lazy})
			if errors.Is(err, host.ErrTooLarge) {
				return nil, fmt.Errorf("%w: %w", sdk.ErrRequest, err)
			}
			return d, err
		},
	}
}

// pmmOptions are the options of the pmm backend; cmd fills device and costs from the device file.
type pmmOptions struct {
	Device  string                  `json:"device,omitempty"`
	Costs   map[string]configs.Cost `json:"costs,omitempty"`
	RMPages string                  `json:"rm_pages,omitempty"`
}

func pmmBackend() sdk.Backend {
	return sdk.Backend{
		Name: "pmm", Version: version, Summary: "the model of NVIDIA's physical memory manager, with its costs", Capabilities: modelCapabilities,
		Options: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
			"device":{"type":"string","description":"name of the device that is modelled"},
			"rm_pages":{"enum":["2MiB","mixed","64KiB"],"description":"pages that device memory is made of: 2MiB (default) rounds every request up; mixed puts what is less into pages of 64 KiB, so that a request of 2 MiB can fail while as much is free; 64KiB has no other"},
			"costs":{"type":"object","description":"cost parameters by name; the rest keep their defaults","additionalProperties":{"type":"object","additionalProperties":false,
				"required":["value"],"properties":{"value":{"type":"number","minimum":0},"source":{"type":"string"},"uncalibrated":{"type":"boolean"}}}}}}`),
		Open: func(options json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			var o pmmOptions
			if err := sdk.DecodeOptions(options, &o); err != nil {
				return nil, err
			}
			costs, err := modelCosts(o.Costs)
			if err != nil {
				return nil, err
			}
			kind, err := pmmdevice.ParseRMPages(o.RMPages)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", sdk.ErrRequest, err)
			}
			cfg := pmmdevice.Config{TotalBytes: total, Pages: kind, Costs: costs, CostSource: "configs/devices, each figure with its source", ScrubNsPerFrame: -1}
			if o.Device != "" {
				cfg.Name = "pmm " + o.Device
			}
			return pmmdevice.New(cfg)
		},
	}
}

// modelCosts puts the figures of a device file into the model's parameters.
func modelCosts(given map[string]configs.Cost) (*pmm.Costs, error) {
	costs := pmm.DefaultCosts()
	known := map[string]*pmm.Cost{}
	for _, f := range costs.Fields() {
		known[f.Name] = f.Cost
	}
	for name, c := range given {
		field := known[name]
		if field == nil {
			return nil, fmt.Errorf("cost parameter %q is not known to the model; see: gpubench config devices --format json", name)
		}
		*field = pmm.Cost{Value: int64(c.Value), Source: c.Source, Uncalibrated: c.Uncalibrated}
	}
	return &costs, nil
}

// capacityFor is the capacity of a case: the device's, or for the backend that takes real memory of this machine what it can spare.
func capacityFor(backend string, device *configs.Device) uint64 {
	if n := host.DefaultBytes(); backend == "host" && n > 0 {
		return min(n, device.CapacityBytes)
	}
	return device.CapacityBytes
}

// memoryLimitFor is the limit of a plugin process: memory that the host backend maps for the case comes on top.
func memoryLimitFor(backend string, limit, capacity uint64) uint64 {
	if backend == "host" {
		return limit + capacity
	}
	return limit
}
