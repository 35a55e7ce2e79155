package main

import (
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
)

// pluginServeVerb makes this program serve its built-in strategies and backends as a plugin process.
const pluginServeVerb = "plugin-serve"

// serveZoo after pluginServeVerb serves the fuzzer's own allocators, clean and wrong, in place of the strategies.
const serveZoo = "zoo"

// hiddenRole runs the roles that this program plays for itself: the guard of a plugin, and the plugin of what is built in.
func hiddenRole(args []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case guard.Verb:
		return guard.Main(args[1:]), true
	case pluginServeVerb:
		e := builtinExecutable()
		if len(args) > 1 && args[1] == serveZoo {
			e.Strategies = zoo.Descriptions()
		}
		sdk.Serve(e)
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
