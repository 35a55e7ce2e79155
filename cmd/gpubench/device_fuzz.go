package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// hardwareFuzzTarget is a built-in strategy over the backend of a plugin that serves both, as gpubench-backend-cuda does: programs
// run there in one process, which the guard watches. ok is false for a backend that is built in.
func hardwareFuzzTarget(cmd *cobra.Command, strategy, backend string) (t *fuzzTarget, ok bool, err error) {
	for _, b := range builtinBackends() {
		if b.Name == backend {
			return nil, false, nil
		}
	}
	found, err := host.Find(host.KindBackend, backend, host.Places())
	if err != nil {
		return nil, true, usageError(err)
	}
	sum, err := checksumOf(found.Path)
	if err != nil {
		return nil, true, err
	}
	r, err := fuzz.OpenRemote(cmd.Context(), fuzz.RemoteSpec{Path: found.Path, Strategy: strategy, Backend: backend})
	if err != nil {
		return nil, true, withCode(codePluginFault, err)
	}
	target := r.Target()
	// The driver's addresses differ from run to run, so nobody can promise equal outcomes over it.
	target.Desc.Promises = slices.DeleteFunc(target.Desc.Promises, func(p sdk.Promise) bool { return p == sdk.PromiseDeterministic })
	return &fuzzTarget{Target: target, checksum: sum, closer: r}, true, nil
}
