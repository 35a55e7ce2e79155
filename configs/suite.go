package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/spf13/viper"
)

// Limits of a suite, so that a mistyped number is an error and not a run of a year.
const (
	maxTrials     = 1000
	maxStrategies = 200
	maxRecordings = 1000
	maxTime       = 30 * 24 * time.Hour
)

// Suite says what a run compares. The zero value of a field means "take the default".
type Suite struct {
	Name            string         `mapstructure:"name" json:"name"`
	Title           string         `mapstructure:"title" json:"title,omitempty"`
	Recordings      []string       `mapstructure:"recordings" json:"recordings"` // files, or bundled:NAME
	Strategies      []StrategySpec `mapstructure:"strategies" json:"strategies"`
	Backend         string         `mapstructure:"backend" json:"backend"`
	BackendOptions  map[string]any `mapstructure:"backend_options" json:"backend_options,omitempty"`
	Device          string         `mapstructure:"device" json:"device"`
	Trials          int            `mapstructure:"trials" json:"trials"`
	Time            time.Duration  `mapstructure:"time" json:"time"`
	Seed            uint64         `mapstructure:"seed" json:"seed"`
	MinCapacity     bool           `mapstructure:"min_capacity" json:"min_capacity"`
	Tight           bool           `mapstructure:"tight" json:"tight"` // also at 1.10 × the lower bound
	TightFactor     float64        `mapstructure:"tight_factor" json:"tight_factor"`
	Remote          bool           `mapstructure:"remote" json:"remote"` // strategy and backend in two processes
	Control         bool           `mapstructure:"control" json:"control"`
	MemoryLimit     string         `mapstructure:"memory_limit" json:"memory_limit"` // of each plugin process
	HangTimeout     time.Duration  `mapstructure:"hang_timeout" json:"hang_timeout"`
	Out             string         `mapstructure:"out" json:"out,omitempty"`
	MemoryLimitByte uint64         `mapstructure:"-" json:"memory_limit_bytes"`
}

// StrategySpec names a strategy, with options and a label for the ranking. In YAML it is a plain name or a mapping.
type StrategySpec struct {
	Name    string         `mapstructure:"name" json:"name"`
	Label   string         `mapstructure:"label" json:"label"`
	Options map[string]any `mapstructure:"options" json:"options,omitempty"`
}

// Source says where an effective value came from.
type Source string

// The sources, strongest first.
const (
	FromFlag        Source = "flag"
	FromEnvironment Source = "environment"
	FromFile        Source = "file"
	FromSuite       Source = "suite"
	FromDefault     Source = "default"
)

// Setting is one line of `gpubench config show`.
type Setting struct {
	Key       string `json:"key"`
	Requested string `json:"requested"` // as written where it was set; "" when it is the default
	Effective string `json:"effective"`
	Source    Source `json:"source"`
}

// defaults are the values of a suite that nobody sets. Trials: 5 fresh processes a case are the fewest for which the
// interval of the median by order statistics has 93.75 % coverage (1 − 2·0.5⁵).
var defaults = map[string]any{
	"name": "", "title": "", "recordings": []string{}, "strategies": []any{}, "backend": "pmm", "backend_options": map[string]any{},
	"device": "a100-80", "trials": 5, "time": "10m", "seed": 1, "min_capacity": false, "tight": true, "tight_factor": 1.10,
	"remote": false, "control": true, "memory_limit": "4GiB", "hang_timeout": "5s", "out": "",
}

// Request is what the user asked for: a suite (embedded name or file), a configuration file, and the flags that were given.
type Request struct {
	Suite      string         // embedded suite or path of a YAML file; "" = no suite (the defaults and flags say all)
	ConfigFile string         // --config; "" = gpubench.yaml in the working directory if it is there
	Flags      map[string]any // only flags that were really given, by key of Suite
	Environ    []string       // the environment, as os.Environ gives it
}

// ErrConfig is wrapped by every error of this package's readers that is the user's to mend.
var ErrConfig = errors.New("configuration")

// Suites returns the names of the embedded suites, sorted.
func Suites() []string { return names("suites") }

// Load reads the layers, strongest last (default < suite < file < environment < flag), checks them, and returns the effective suite with the origin of
// every value.
func Load(req Request) (*Suite, []Setting, error) {
	merged := newViper()
	origin := map[string]Setting{}
	keys := make([]string, 0, len(defaults))
	for k, d := range defaults {
		merged.SetDefault(k, d)
		keys = append(keys, k)
		origin[k] = Setting{Key: k, Source: FromDefault}
	}
	sort.Strings(keys)
	if err := layerFiles(merged, origin, req); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := layerEnvironment(merged, origin, req.Environ); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for k, val := range req.Flags {
		merged.Set(k, val)
		origin[k] = Setting{Key: k, Requested: show(val), Source: FromFlag}
	}
	s, err := decode(merged)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, effective(s, keys, origin), nil
}

func layerFiles(merged *viper.Viper, origin map[string]Setting, req Request) error {
	if req.Suite != "" {
		v, where, err := readYAML("suites", req.Suite, Suites())
		if err != nil {
			return fmt.Errorf("suite %w", err)
		}
		if err := layer(merged, origin, v, FromSuite, where); err != nil {
			return err
		}
	}
	file := req.ConfigFile
	if file == "" {
		if _, err := os.Stat("gpubench.yaml"); err != nil {
			return nil
		}
		file = "gpubench.yaml"
	}
	v := newViper()
	v.SetConfigFile(file)
	v.SetConfigType("yaml")
	if err := v.ReadInConfig(); err != nil {
		return fmt.Errorf("file %s: %s", file, oneLine(err))
	}
	return layer(merged, origin, v, FromFile, file)
}

func layer(merged *viper.Viper, origin map[string]Setting, v *viper.Viper, src Source, where string) error {
	for _, k := range topKeys(v.AllSettings()) {
		if _, ok := defaults[k]; !ok {
			return fmt.Errorf("%s: unknown key %q; known keys: %s", where, k, strings.Join(topKeys(defaults), ", "))
		}
		merged.Set(k, v.Get(k))
		origin[k] = Setting{Key: k, Requested: show(v.Get(k)), Source: src}
	}
	return nil
}

// envPrefix precedes every environment variable that is a setting. Two names are used elsewhere and are no settings.
const envPrefix = "GPUBENCH_"

var envElsewhere = map[string]bool{"PLUGIN_PATH": true, "CONFIG": true}

func layerEnvironment(merged *viper.Viper, origin map[string]Setting, environ []string) error {
	for _, kv := range environ {
		name, val, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || envElsewhere[rest] || strings.HasPrefix(rest, "INTERNAL_") {
			continue
		}
		key := strings.ToLower(rest)
		d, known := defaults[key]
		if !known {
			return fmt.Errorf("environment variable %s: no such setting; known: %s", name, strings.Join(topKeys(defaults), ", "))
		}
		switch d.(type) {
		case []string, []any:
			merged.Set(key, splitList(val))
		case map[string]any:
			return fmt.Errorf("environment variable %s: a mapping cannot be given this way; use a file", name)
		default:
			merged.Set(key, val)
		}
		origin[key] = Setting{Key: key, Requested: val, Source: FromEnvironment}
	}
	return nil
}

func splitList(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func decode(v *viper.Viper) (*Suite, error) {
	raw := v.AllSettings()
	specs, err := strategySpecs(v.Get("strategies"))
	if err != nil {
		return nil, err
	}
	delete(raw, "strategies")
	plain := newViper()
	for k, val := range raw {
		plain.Set(k, val)
	}
	s := &Suite{}
	if err := plain.UnmarshalExact(s); err != nil {
		return nil, fmt.Errorf("%s", oneLine(err))
	}
	s.Strategies = specs
	if s.MemoryLimitByte, err = ParseBytes(s.MemoryLimit); err != nil {
		return nil, fmt.Errorf("memory_limit: %w", err)
	}
	return s, s.validate()
}

// strategySpecs reads a list of names and mappings.
func strategySpecs(val any) ([]StrategySpec, error) {
	var list []any
	switch l := val.(type) {
	case []any:
		list = l
	case []string:
		for _, n := range l {
			list = append(list, n)
		}
	case string:
		for _, n := range splitList(l) {
			list = append(list, n)
		}
	default:
		return nil, fmt.Errorf("strategies: want a list of names or mappings, have %T", val)
	}
	var out []StrategySpec
	for i, e := range list {
		switch e := e.(type) {
		case string:
			out = append(out, StrategySpec{Name: e, Label: e})
		case map[string]any:
			sub := newViper()
			for k, x := range e {
				sub.Set(k, x)
			}
			var sp StrategySpec
			if err := sub.UnmarshalExact(&sp); err != nil {
				return nil, fmt.Errorf("strategies[%d]: %s", i, oneLine(err))
			}
			if sp.Label == "" {
				sp.Label = sp.Name
			}
			out = append(out, sp)
		default:
			return nil, fmt.Errorf("strategies[%d]: want a name or a mapping, have %T", i, e)
		}
	}
	return out, nil
}

func (s *Suite) validate() error {
	switch {
	case s.Trials < 1 || s.Trials > maxTrials:
		return fmt.Errorf("trials: %d is not between 1 and %d", s.Trials, maxTrials)
	case s.Time < 0 || s.Time > maxTime:
		return fmt.Errorf("time: %v is not between 0 and %v", s.Time, maxTime)
	case s.TightFactor < 1 || s.TightFactor > 100:
		return fmt.Errorf("tight_factor: %v is not between 1 and 100", s.TightFactor)
	case s.HangTimeout < 100*time.Millisecond || s.HangTimeout > time.Hour:
		return fmt.Errorf("hang_timeout: %v is not between 100ms and 1h", s.HangTimeout)
	case len(s.Strategies) > maxStrategies:
		return fmt.Errorf("strategies: %d are more than %d", len(s.Strategies), maxStrategies)
	case len(s.Recordings) > maxRecordings:
		return fmt.Errorf("recordings: %d are more than %d", len(s.Recordings), maxRecordings)
	case s.Backend == "":
		return errors.New("backend: is empty; for instance pmm or ideal")
	}
	seen := map[string]bool{}
	for i, sp := range s.Strategies {
		if sp.Name == "" {
			return fmt.Errorf("strategies[%d]: has no name", i)
		}
		if seen[sp.Label] {
			return fmt.Errorf("strategies[%d]: label %q is used twice; give each entry its own label", i, sp.Label)
		}
		seen[sp.Label] = true
	}
	return nil
}

func effective(s *Suite, keys []string, origin map[string]Setting) []Setting {
	raw, _ := json.Marshal(s)
	var m map[string]any
	_ = json.Unmarshal(raw, &m)
	out := make([]Setting, 0, len(keys))
	for _, k := range keys {
		st := origin[k]
		st.Effective = show(m[k])
		switch k {
		case "time":
			st.Effective = s.Time.String()
		case "hang_timeout":
			st.Effective = s.HangTimeout.String()
		}
		out = append(out, st)
	}
	return out
}

func show(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func topKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
