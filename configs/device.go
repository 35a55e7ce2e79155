package configs

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"github.com/spf13/viper"
)

//go:embed devices/*.yaml suites/*.yaml
var embedded embed.FS

// Device is a GPU that can be modelled: capacity, link and cost figures.
type Device struct {
	Name              string          `mapstructure:"name" json:"name"`
	Title             string          `mapstructure:"title" json:"title"`
	Architecture      string          `mapstructure:"architecture" json:"architecture"`
	Capacity          string          `mapstructure:"capacity" json:"capacity"` // what cudaMemGetInfo calls total, e.g. "81050MiB"
	CapacityBytes     uint64          `mapstructure:"-" json:"capacity_bytes"`
	CapacitySource    string          `mapstructure:"capacity_source" json:"capacity_source"`
	BandwidthGBps     float64         `mapstructure:"bandwidth_gbps" json:"bandwidth_gbps"` // device memory, 10^9 bytes a second
	LinkGBps          float64         `mapstructure:"link_gbps" json:"link_gbps"`           // host link, each direction
	ComputeCapability string          `mapstructure:"compute_capability" json:"compute_capability"`
	Source            string          `mapstructure:"source" json:"source"`
	Costs             map[string]Cost `mapstructure:"costs" json:"costs"` // by the parameter name of the cost model
}

// Cost is one parameter of the cost model with where it comes from.
type Cost struct {
	Value        float64 `mapstructure:"value" json:"value"`
	Source       string  `mapstructure:"source" json:"source"`
	Uncalibrated bool    `mapstructure:"uncalibrated" json:"uncalibrated"` // not measured on this very device
}

// Uncalibrated reports whether any cost figure was not measured on this device, so that a latency made from it must say so.
func (d *Device) Uncalibrated() bool {
	for _, c := range d.Costs {
		if c.Uncalibrated {
			return true
		}
	}
	return len(d.Costs) == 0
}

// Devices returns the names of the embedded devices, sorted.
func Devices() []string { return names("devices") }

// LoadDevice reads a device: an embedded one by name, or a YAML file when the name ends in .yaml or .yml.
func LoadDevice(name string) (*Device, error) {
	v, where, err := readYAML("devices", name, Devices())
	if err != nil {
		return nil, fmt.Errorf("device %w", err)
	}
	base := common()
	d := &Device{Costs: map[string]Cost{}}
	for k, c := range base {
		d.Costs[k] = c
	}
	if err := v.UnmarshalExact(d); err != nil {
		return nil, fmt.Errorf("device file %s: %s", where, oneLine(err))
	}
	if d.CapacityBytes, err = ParseBytes(d.Capacity); err != nil {
		return nil, fmt.Errorf("device file %s: capacity: %w", where, err)
	}
	if d.CapacityBytes == 0 || d.Name == "" {
		return nil, fmt.Errorf("device file %s: name and capacity are required", where)
	}
	for k, c := range d.Costs {
		if c.Value < 0 {
			return nil, fmt.Errorf("device file %s: costs: %s: value %v is negative", where, k, c.Value)
		}
		if c.Source == "" && !c.Uncalibrated {
			return nil, fmt.Errorf("device file %s: costs: %s: give a source, or uncalibrated: true", where, k)
		}
	}
	return d, nil
}

// common returns the cost figures that every device starts from (devices/common.yaml has none of its own device's).
func common() map[string]Cost {
	v := newViper()
	raw, err := embedded.ReadFile("devices/_common.yaml")
	if err != nil {
		return nil
	}
	if err := v.ReadConfig(bytes.NewReader(raw)); err != nil {
		return nil
	}
	var out struct {
		Costs map[string]Cost `mapstructure:"costs"`
	}
	if err := v.UnmarshalExact(&out); err != nil {
		return nil
	}
	return out.Costs
}

func names(dir string) []string {
	entries, err := fs.ReadDir(embedded, dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if n := strings.TrimSuffix(e.Name(), ".yaml"); !strings.HasPrefix(n, "_") {
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out
}

// readYAML opens dir/name.yaml of the embedded files, or the file called name, into a fresh viper.
func readYAML(dir, name string, known []string) (v *viper.Viper, where string, err error) {
	v = newViper()
	if isFile(name) {
		v.SetConfigFile(name)
		if err := v.ReadInConfig(); err != nil {
			return nil, name, fmt.Errorf("file %s: %s", name, oneLine(err))
		}
		return v, name, nil
	}
	raw, err := embedded.ReadFile(path.Join(dir, name+".yaml"))
	if err != nil {
		return nil, name, fmt.Errorf("%q is not known; one of %s, or the path of a .yaml file", name, strings.Join(known, ", "))
	}
	where = "embedded " + dir + "/" + name + ".yaml"
	if err := v.ReadConfig(bytes.NewReader(raw)); err != nil {
		return nil, where, fmt.Errorf("file %s: %s", where, oneLine(err))
	}
	return v, where, nil
}

func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// newViper makes an instance of our own: keys split at "::" so that dots in values and names are harmless.
func newViper() *viper.Viper {
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	v.SetConfigType("yaml")
	return v
}

// oneLine folds a library's multi-line error into one.
func oneLine(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " ")
}
