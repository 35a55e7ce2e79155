//go:build cgo && linux

// Command gpubench-backend-cuda is the plugin for NVIDIA hardware: the cuda backend over the CUDA driver, NVML telemetry, and
// all built-in strategies, so that strategy and device run in one process and a device call is a function call.
//
// Build it with a C compiler; CUDA is not needed, neither to build nor to start:
//
//	go build -ldflags '-extldflags=-Wl,-z,lazy' ./cmd/gpubench-backend-cuda
//
// go-nvml refers to functions that older drivers lack; lazy binding lets it start there all the same, since those are looked up
// before they are called. gpubench takes LD_BIND_NOW out of its environment for that reason.
//
// Beside what every plugin does, "gpubench-backend-cuda calibrate OPTIONS" measures what the device's calls cost and prints
// that as JSON; OPTIONS is a JSON object of the backend's options.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
)

// calibrateVerb makes the executable measure.
const calibrateVerb = "calibrate"

func main() {
	if len(os.Args) == 3 && os.Args[1] == calibrateVerb {
		if err := calibrate(os.Stdout, []byte(os.Args[2])); err != nil {
			fmt.Fprintln(os.Stderr, "gpubench-backend-cuda: "+err.Error())
			os.Exit(1)
		}
		return
	}
	sdk.Serve(executable())
}

func executable() sdk.Executable {
	return sdk.Executable{
		Name: "gpubench-backend-cuda", Version: version(), Strategies: strategies.Builtin(),
		Backends: []sdk.Backend{backend()}, Telemetry: []sdk.Telemetry{telemetry()},
	}
}

// version is the module's, as the Go tool recorded it.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}
