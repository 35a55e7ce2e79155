package strategies

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

// TestDescriptions checks what every description must have, and that the default options open and close.
func TestDescriptions(t *testing.T) {
	seen := map[string]bool{}
	canaries := 0
	for _, d := range Builtin() {
		if d.Name == "" || d.Version == "" || d.Summary == "" || d.Alignment == 0 || d.New == nil {
			t.Errorf("%q: name, version, summary, alignment and New must be set: %+v", d.Name, d)
			continue
		}
		if seen[d.Name] {
			t.Errorf("%q is listed twice", d.Name)
		}
		seen[d.Name] = true
		if d.Canary {
			canaries++
		}
		if err := sdk.CheckOptions(d.Options, json.RawMessage(`{}`)); err != nil {
			t.Errorf("%s: no options: %v", d.Name, err)
		}
		if err := sdk.CheckOptions(d.Options, json.RawMessage(`{"no_such_option": 1}`)); err == nil {
			t.Errorf("%s: the schema accepts an unknown option", d.Name)
		}
		dev, err := ideal.New(ideal.Config{TotalBytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		env := func(options string) *sdk.Env {
			return &sdk.Env{Device: dev, CapacityBytes: 1 << 30, Options: json.RawMessage(options), Streams: []uint64{0}, Pools: []string{"0:0"}, Strings: []string{""}}
		}
		if _, err := d.New(env(`{"no_such_option": 1}`)); err == nil || !strings.Contains(err.Error(), "no_such_option") {
			t.Errorf("%s: opened with an unknown option: %v", d.Name, err)
		}
		s, err := d.New(env(`{}`))
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", d.Name, err)
		}
		if free, total := dev.MemInfo(); free != total {
			t.Errorf("%s: %d of %d bytes free after Close", d.Name, free, total)
		}
	}
	if canaries != 1 {
		t.Errorf("%d canaries, want 1", canaries)
	}
}

// TestPeers checks that every recording in testdata is claimed by a built-in strategy with options that its schema allows,
// so that none is passed over in silence.
func TestPeers(t *testing.T) {
	byName := map[string]sdk.Description{}
	for _, d := range Builtin() {
		byName[d.Name] = d
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		name, traceName, ok := goldentest.SplitName(f.Name())
		if !ok {
			continue
		}
		n++
		peer, known := goldentest.PeerOf(name)
		if !known {
			t.Errorf("%s: no strategy stands for the peer %q", f.Name(), name)
			continue
		}
		d, known := byName[peer.Strategy]
		if !known {
			t.Errorf("%s: strategy %q is not built in", f.Name(), peer.Strategy)
			continue
		}
		if err := sdk.CheckOptions(d.Options, json.RawMessage(peer.Options)); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
		if _, err := goldentest.ScriptOf("testdata", traceName); err != nil {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
	if n == 0 {
		t.Errorf("no recordings in %s", filepath.Join("plugins", "strategies", "testdata"))
	}
}
