package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/results"
)

// ability is one thing that the doctor looks for: what there is, and what it adds.
type ability struct {
	Name  string `json:"name"`
	Have  bool   `json:"have"`
	What  string `json:"what"`
	Adds  string `json:"adds"`  // what it adds, or what would be possible with it
	Fatal bool   `json:"fatal"` // without it the main job cannot be done
}

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", GroupID: groupMachine, Short: "What this machine can do, and what each thing adds", Args: usageArgs(cobra.NoArgs),
		Example: "  gpubench doctor",
	}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := diagnose(cmd)
		if format(*form) == formatJSON {
			if err := printJSON(cmd.OutOrStdout(), list); err != nil {
				return err
			}
		} else {
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, a := range list {
				mark := "✓"
				if !a.Have {
					mark = "–"
				}
				fmt.Fprintf(tw, "%s %s\t%s\t%s\n", mark, a.Name, a.What, a.Adds)
			}
			if err := tw.Flush(); err != nil {
				return err
			}
		}
		for _, a := range list {
			if a.Fatal && !a.Have {
				return withCode(codeUsage, fmt.Errorf("%s: %s", a.Name, a.What))
			}
		}
		return nil
	}
	return cmd
}

func diagnose(cmd *cobra.Command) []ability {
	env := harness.CaptureEnvironment("/")
	list := []ability{
		pluginAbility(cmd),
		{Name: "clock", Have: env.ClockSource != "monotonic", What: fmt.Sprintf("%s, an interval costs %.1f ns", env.ClockSource, env.ClockCostNs),
			Adds: "a processor counter resolves shorter times than the system's clock"},
		{Name: "processors", Have: env.CPUs >= 2, What: fmt.Sprintf("%d × %s", env.CPUs, env.CPU), Adds: "with two, harness and plugin do not share one"},
		{Name: "memory", Have: env.MemoryBytes > 0, What: results.Bytes(env.MemoryBytes), Adds: "each plugin may take the suite's memory_limit"},
		{Name: "quiet machine", Have: len(env.Warnings) == 0, What: quiet(env.Warnings), Adds: "latencies can be told apart that lie closer"},
		gpuAbility(&env),
		libraryAbility("libcuda.so.1", "CUDA driver", "replays on the real device through gpubench-backend-cuda"),
		libraryAbility("libnvidia-ml.so.1", "NVML", "telemetry: whether a measurement on the device can be trusted"),
		cudaPlugin(),
		toolAbility("gcc", "C compiler", "builds gpubench-backend-cuda, and lets tests run under the race detector"),
	}
	list = append(list, hardwareAbilities(cmd.Context())...)
	for _, p := range host.Places() {
		_, err := os.Stat(p.Dir)
		list = append(list, ability{Name: "plugins, " + p.Name, Have: err == nil, What: p.Dir, Adds: "third-party strategies and backends are found here"})
	}
	return list
}

// pluginAbility starts this program as a plugin under its guard: what every run needs.
func pluginAbility(cmd *cobra.Command) ability {
	a := ability{Name: "plugin processes", Fatal: true, Adds: "every strategy runs in a process of its own"}
	launcher, err := newLauncher(cmd.Context(), "ideal")
	if err == nil {
		d, derr := launcher.Describe(cmd.Context(), harness.Executable{})
		if err = derr; err == nil {
			a.Have, a.What = true, fmt.Sprintf("start under the guard; %d strategies and %d backends built in", len(d.GetStrategies()), len(d.GetBackends()))
			return a
		}
	}
	a.What = oneLine(err.Error())
	return a
}

func quiet(warnings []string) string {
	if len(warnings) == 0 {
		return "nothing disturbs timing"
	}
	return strings.Join(warnings, "; ")
}

func gpuAbility(env *results.Environment) ability {
	a := ability{Name: "NVIDIA GPU", Have: len(env.GPUs) > 0, What: "none found in /proc/driver/nvidia", Adds: "real placement, failures and latency; without one the models answer"}
	if a.Have {
		a.What = strings.Join(env.GPUs, ", ") + ", driver " + env.DriverVersion
	}
	return a
}

// libraryDirs are where the loader looks besides its cache, on the platforms supported.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/cuda/compat"}

func libraryAbility(file, name, adds string) ability {
	a := ability{Name: name, What: file + " not found", Adds: adds}
	dirs := append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), libraryDirs...)
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, file)); err == nil {
			a.Have, a.What = true, filepath.Join(d, file)
			return a
		}
	}
	return a
}

func cudaPlugin() ability {
	a := ability{Name: "gpubench-backend-cuda", What: "not found where plugins are looked for", Adds: "the cuda backend and NVML telemetry"}
	if f, err := host.Find(host.KindBackend, "cuda", host.Places()); err == nil {
		a.Have, a.What = true, f.Path
	}
	return a
}

func toolAbility(tool, name, adds string) ability {
	a := ability{Name: name, What: tool + " not found", Adds: adds}
	if p, err := exec.LookPath(tool); err == nil {
		a.Have, a.What = true, p
	}
	return a
}
