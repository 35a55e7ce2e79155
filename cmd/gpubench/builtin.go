package main

import (
	"encoding/json"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
	"github.com/gpubench/gpubench/trace"
)

// pluginServeVerb makes this program serve its built-in strategies and backends as a plugin process.
const pluginServeVerb = "plugin-serve"

// hiddenRole runs the roles that this program plays for itself: the guard of a plugin, and the plugin of what is built in.
func hiddenRole(args []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case guard.Verb:
		return guard.Main(args[1:]), true
	case pluginServeVerb:
		sdk.Serve(builtinExecutable())
		return codeOK, true
	}
	return 0, false
}

func builtinExecutable() sdk.Executable {
	return sdk.Executable{Name: "gpubench", Version: version, Strategies: builtinStrategies(), Backends: builtinBackends()}
}

func builtinStrategies() []sdk.Description { return strategies.Builtin() }

func strategyNames() []string {
	var out []string
	for _, d := range builtinStrategies() {
		out = append(out, d.Name)
	}
	return out
}

// builtinBackends are the devices that need no hardware.
func builtinBackends() []sdk.Backend {
	return []sdk.Backend{
		{
			Name: "ideal", Version: version, Summary: "a budget and first-fit addresses; the reference device of the recordings",
			Options: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
				"contiguous":{"type":"boolean","description":"addresses end at the capacity, so that external fragmentation of the device shows"},
				"packed":{"type":"boolean","description":"addresses and charges by 256 bytes instead of 2 MiB"}}}`),
			Capabilities: []sdk.Capability{sdk.CapVirtualMemory, sdk.CapStreams, sdk.CapStreamControl, sdk.CapClocked, sdk.CapFaultInjector, sdk.CapDeviceReset},
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
		},
	}
}

func backendNames() []string {
	var out []string
	for _, b := range builtinBackends() {
		out = append(out, b.Name)
	}
	return out
}
