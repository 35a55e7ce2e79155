package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpubench/gpubench/configs"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the effective configuration, the suites and the devices", GroupID: groupMachine,
		Args: usageArgs(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigShow(), newConfigDevices())
	return cmd
}

func newConfigShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [SUITE]", Short: "Print every setting: requested, effective, and where it came from",
		Long: `Prints every setting of a run with what was asked for, what holds, and which layer decided:
flag, environment variable (GPUBENCH_ and the key in capitals), file (--config, else ./gpubench.yaml), suite, default.`,
		Example: "  gpubench config show default\n  GPUBENCH_DEVICE=h100-80 gpubench config show --config my.yaml",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
	}
	form := formatFlag(cmd, formatText, formatJSON)
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := configs.Request{ConfigFile: *file, Environ: os.Environ(), Suite: "default"}
		if len(args) == 1 {
			req.Suite = args[0]
		}
		suite, settings, err := configs.Load(req)
		if err != nil {
			return usageError(err)
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				Suite    *configs.Suite    `json:"suite"`
				Settings []configs.Setting `json:"settings"`
			}{suite, settings})
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "SETTING\tREQUESTED\tEFFECTIVE\tFROM")
		for _, s := range settings {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Key, orDash(s.Requested), orDash(s.Effective), s.Source)
		}
		return tw.Flush()
	}
	return cmd
}

func newConfigDevices() *cobra.Command {
	cmd := &cobra.Command{
		Use: "devices", Short: "List the devices that can be modelled, with the source of their capacity",
		Example: "  gpubench config devices --format json", Args: usageArgs(cobra.NoArgs),
	}
	form := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var list []*configs.Device
		for _, n := range configs.Devices() {
			d, err := configs.LoadDevice(n)
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		if format(*form) == formatJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "DEVICE\tCAPACITY\tARCHITECTURE\tSOURCE OF THE CAPACITY")
		for _, d := range list {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", d.Name, d.Capacity, d.Architecture, d.CapacitySource)
		}
		return tw.Flush()
	}
	return cmd
}

// configFlag adds --config.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("config", os.Getenv("GPUBENCH_CONFIG"), "configuration file (YAML); default ./gpubench.yaml if it is there")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
