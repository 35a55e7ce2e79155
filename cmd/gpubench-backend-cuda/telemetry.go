//go:build cgo && linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/gpubench/gpubench/backends/nvml"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// reader initialises NVML once a process; a library that failed is not asked again.
var reader = sync.OnceValues(func() (*nvml.Reader, error) { return nvml.Open(nvml.Options{}) })

func telemetry() sdk.Telemetry {
	var one sync.Mutex // the reader is used by one goroutine at a time
	return sdk.Telemetry{
		Name: "nvml", Version: version(), Summary: "NVIDIA's management library: what the devices are and how they are doing",
		Fingerprint: func(context.Context) ([]sdk.HardwareDevice, error) {
			one.Lock()
			defer one.Unlock()
			r, err := reader()
			if err != nil {
				return nil, &refusal{err}
			}
			var list []sdk.HardwareDevice
			for _, d := range r.Fingerprint() {
				list = append(list, sdk.HardwareDevice{Index: d.Index, UUID: d.UUID, Name: d.Name, Facts: d.Facts})
			}
			return list, nil
		},
		Watch: func(ctx context.Context, intervalMs uint32, devices []uint32, send func(sdk.HardwareSample) error) error {
			one.Lock()
			defer one.Unlock()
			r, err := reader()
			if err != nil {
				return &refusal{err}
			}
			return r.Watch(ctx, time.Duration(intervalMs)*time.Millisecond, devices, func(s nvml.Sample) error {
				return send(sdk.HardwareSample{Device: s.Device, UnixNs: s.UnixNs, Values: s.Values})
			})
		},
	}
}
