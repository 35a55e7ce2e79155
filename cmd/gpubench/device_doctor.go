package main

import (
	"context"
	"fmt"

	"github.com/gpubench/gpubench/configs"
)

// hardwareAbilities are what the plugin for hardware finds: a device that the CUDA driver opens, and telemetry. Each says in
// one line what is missing.
func hardwareAbilities(ctx context.Context) []ability {
	device := ability{Name: "CUDA device", Adds: "run --backend cuda: placement, failures and latency of the real driver"}
	if _, err := telemetryPlugin(); err != nil {
		device.What = "gpubench-backend-cuda was not found"
	} else if d, err := hardwareDevice(ctx, "cuda", nil, &configs.Device{}); err != nil {
		device.What = oneLine(err.Error())
	} else if d.Name != "" {
		device.Have, device.What = true, fmt.Sprintf("%s, of which %d MiB may be taken", d.Name, d.CapacityBytes>>20)
	}
	telemetry := ability{Name: "telemetry", Adds: "says whether a measurement on the device can be trusted"}
	if list, err := fingerprint(ctx); err != nil {
		telemetry.What = oneLine(err.Error())
	} else {
		telemetry.Have, telemetry.What = true, fmt.Sprintf("NVML shows %d devices", len(list))
	}
	return []ability{device, telemetry}
}
