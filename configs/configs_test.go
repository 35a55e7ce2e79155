package configs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryEmbeddedDeviceLoads(t *testing.T) {
	names := Devices()
	if len(names) < 20 {
		t.Fatalf("%d devices: %v", len(names), names)
	}
	for _, n := range names {
		d, err := LoadDevice(n)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != n || d.CapacitySource == "" || d.CapacityBytes%(2<<20) != 0 {
			t.Errorf("%s: name %q, capacity %d, source %q", n, d.Name, d.CapacityBytes, d.CapacitySource)
		}
	}
	d, err := LoadDevice("a100-80")
	if err != nil || d.CapacityBytes != 81050<<20 {
		t.Fatalf("a100-80: %v, %v", d, err)
	}
}

func TestLayersOverrideEachOther(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my.yaml")
	write(t, file, "trials: 7\nseed: 3\nstrategies:\n  - tlsf\n  - {name: tlsf, label: tlsf-min, options: {mode: min-memory, some.dotted: 1}}\n")
	s, settings, err := Load(Request{
		Suite: "default", ConfigFile: file,
		Environ: []string{"GPUBENCH_SEED=9", "GPUBENCH_DEVICE=l4", "GPUBENCH_PLUGIN_PATH=/x", "HOME=/h"},
		Flags:   map[string]any{"device": "h200", "time": "30s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Trials != 7 || s.Seed != 9 || s.Device != "h200" || s.Time != 30*time.Second || s.Backend != "pmm" {
		t.Errorf("effective %+v", s)
	}
	if len(s.Strategies) != 2 || s.Strategies[1].Label != "tlsf-min" || s.Strategies[1].Options["mode"] != "min-memory" || s.Strategies[1].Options["some.dotted"] == nil {
		t.Errorf("strategies %+v", s.Strategies)
	}
	want := map[string]Source{"trials": FromFile, "seed": FromEnvironment, "device": FromFlag, "backend": FromSuite, "tight": FromDefault}
	for _, st := range settings {
		if src, ok := want[st.Key]; ok && st.Source != src {
			t.Errorf("%s comes from %s, want %s", st.Key, st.Source, src)
		}
		if st.Key == "time" && (st.Requested != "30s" || st.Effective != "30s") {
			t.Errorf("time: %+v", st)
		}
	}
}

func TestMistakesGiveOneClearLine(t *testing.T) {
	dir := t.TempDir()
	cases := []struct{ name, yaml, want string }{
		{"unknown key", "trails: 3\n", `unknown key "trails"`},
		{"wrong type", "trials: many\n", "trials"},
		{"out of range", "trials: 0\n", "trials: 0 is not between 1 and 1000"},
		{"same label", "strategies: [tlsf, tlsf]\n", `label "tlsf" is used twice`},
		{"unknown key of a strategy", "strategies: [{name: tlsf, opt: 1}]\n", "strategies[0]"},
		{"bad size", "memory_limit: 3 parsecs\n", "memory_limit: size"},
		{"not YAML", "trials: [\n", "bad.yaml"},
	}
	for _, c := range cases {
		file := filepath.Join(dir, "bad.yaml")
		write(t, file, c.yaml)
		_, _, err := Load(Request{ConfigFile: file})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := Load(Request{Environ: []string{"GPUBENCH_SED=1"}}); err == nil || !strings.Contains(err.Error(), "GPUBENCH_SED: no such setting") {
		t.Errorf("environment: %v", err)
	}
	if _, err := LoadDevice("a100-8"); err == nil || !strings.Contains(err.Error(), "a100-80") {
		t.Errorf("device: %v", err)
	}
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{"24GiB": 24 << 30, "1.5 MiB": 3 << 19, "2GB": 2e9, "77": 77, "18446744073709551615": 1<<64 - 1} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "x", "18446744073709551616", "17179869185GiB", "NaN", "1e30GiB"} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
