package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// zooPrefix begins the names of the fuzzer's own allocators, clean or with one bug.
const zooPrefix = "zoo/"

// settingsOf are what `set` events are drawn from, by strategy: options that may change while it runs.
var settingsOf = map[string][]string{
	"pytorch": {"expandable_segments=True", "expandable_segments=False", "max_split_size_mb=40", "garbage_collection_threshold=0.6"},
}

// optionsOf are options that a campaign tries beside the defaults, by strategy.
var optionsOf = map[string][]string{
	"pytorch":   {`{"alloc_conf":"expandable_segments:True"}`, `{"alloc_conf":"max_split_size_mb:40"}`, `{"alloc_conf":"roundup_power2_divisions:4"}`},
	"first-fit": {`{"grow":true}`}, "best-fit": {`{"grow":true}`}, "buddy": {`{"grow":true}`}, "tlsf": {`{"grow":true}`},
	"bfc": {`{"allow_growth":true}`},
}

// fuzzDescription finds a strategy in this program by the name of a target.
func fuzzDescription(name string) (sdk.Description, bool) {
	list := builtinStrategies()
	if strings.HasPrefix(name, zooPrefix) {
		list = zoo.Descriptions()
	}
	i := slices.IndexFunc(list, func(d sdk.Description) bool { return d.Name == name })
	if i < 0 {
		return sdk.Description{}, false
	}
	return list[i], true
}

// fuzzTarget is a target with what must be closed in the end.
type fuzzTarget struct {
	*fuzz.Target
	checksum string
	closer   io.Closer
}

func (t *fuzzTarget) close() {
	if t.closer != nil {
		_ = t.closer.Close() // its processes end with ours in any case
	}
}

// openFuzzTarget finds what is to be fuzzed: a built-in strategy, one of the zoo, or the path of a plugin. With process, strategies of ours
// run in a process of their own as well.
func openFuzzTarget(cmd *cobra.Command, name, backend string, process bool) (*fuzzTarget, error) {
	if t, ok, err := hardwareFuzzTarget(cmd, name, backend); ok {
		return t, err
	}
	if d, ok := fuzzDescription(name); ok && !process {
		t, err := fuzz.NewTarget(name, d)
		if err != nil {
			return nil, err
		}
		t.Backend = backend
		t.Settings = settingsOf[name]
		for _, o := range optionsOf[name] {
			t.Options = append(t.Options, []byte(o))
		}
		return &fuzzTarget{Target: t}, nil
	} else if ok {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args := []string{pluginServeVerb}
		if strings.HasPrefix(name, zooPrefix) {
			args = append(args, serveZoo)
		}
		return remoteTarget(cmd, fuzz.RemoteSpec{Path: exe, Args: args, Strategy: d.Name, InProcess: &d}, backend)
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return remoteTarget(cmd, fuzz.RemoteSpec{Path: name}, backend)
	}
	return nil, usageError(fmt.Errorf("target %q is no built-in strategy (%s), none of the zoo (%sZ1, …), not pmm, and no plugin's executable",
		name, strings.Join(strategyNames(), ", "), zooPrefix))
}

func remoteTarget(cmd *cobra.Command, s fuzz.RemoteSpec, backend string) (*fuzzTarget, error) {
	sum, err := checksumOf(s.Path)
	if err != nil {
		return nil, err
	}
	s.Backend = backend
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.BackendPath, s.BackendArgs = exe, []string{pluginServeVerb}
	r, err := fuzz.OpenRemote(cmd.Context(), s)
	if err != nil {
		return nil, withCode(codePluginFault, err)
	}
	return &fuzzTarget{Target: r.Target(), checksum: sum, closer: r}, nil
}

func checksumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usageError(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// canaryTarget is the strategy that is wrong on purpose: a campaign that does not find its bug is blind.
func canaryTarget() (*fuzz.Target, error) {
	for _, d := range builtinStrategies() {
		if d.Canary {
			return fuzz.NewTarget(d.Name, d)
		}
	}
	return nil, fmt.Errorf("no canary is built in")
}
