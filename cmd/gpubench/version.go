package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; a build from a checkout adds its commit.
const version = "0.1.0"

// versionInfo is what `gpubench version` prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, s := range bi.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", GroupID: groupMachine, Args: usageArgs(cobra.NoArgs),
		Example: "  gpubench version --format json",
	}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readVersion()
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), v)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "gpubench %s", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(cmd.OutOrStdout(), " (%.12s", v.Commit)
			if v.Modified {
				fmt.Fprint(cmd.OutOrStdout(), ", modified")
			}
			fmt.Fprint(cmd.OutOrStdout(), ")")
		}
		fmt.Fprintf(cmd.OutOrStdout(), " %s %s\n", v.Go, v.Platform)
		return nil
	}
	return cmd
}
