package host

import (
	"slices"
	"strings"
)

// allowedEnv are the variables of the harness that a plugin gets; a name that ends in * stands for a prefix. What is not
// here does not reach a plugin: results must not depend on it, and secrets are none of its business.
var allowedEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TZ", "LANG", "LC_*", "TMPDIR",
	"LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
	"GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "GORACE", "GOMAXPROCS",
	"PYTHONPATH", "PYTHONHOME", "PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV",
}

// droppedEnv never reach a plugin, not even when asked for: LD_BIND_NOW makes the loader resolve every symbol at start, and
// a plugin over a driver library then does not start where an older driver lacks a function that is never called.
var droppedEnv = []string{"LD_BIND_NOW"}

// environment is what a plugin's process gets: the allowed part of the harness's, then extra, which overrides.
func environment(harness, extra []string) []string {
	var env []string
	at := map[string]int{}
	add := func(kv string) {
		key, _, ok := strings.Cut(kv, "=")
		if !ok || slices.Contains(droppedEnv, key) {
			return
		}
		if i, seen := at[key]; seen {
			env[i] = kv
			return
		}
		at[key] = len(env)
		env = append(env, kv)
	}
	for _, kv := range harness {
		if key, _, _ := strings.Cut(kv, "="); envAllowed(key) {
			add(kv)
		}
	}
	for _, kv := range extra {
		add(kv)
	}
	return env
}

func envAllowed(key string) bool {
	for _, a := range allowedEnv {
		if prefix, ok := strings.CutSuffix(a, "*"); ok && strings.HasPrefix(key, prefix) || key == a {
			return true
		}
	}
	return false
}
