//go:build cgo && linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/cuda"
	"github.com/gpubench/gpubench/internal/standin"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
	"github.com/gpubench/gpubench/trace"
)

// serveVerb makes the test binary the plugin itself.
const serveVerb = "serve-plugin"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guard.Verb:
			os.Exit(guard.Main(os.Args[2:]))
		case serveVerb:
			sdk.Serve(executable())
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

const mib = 1 << 20

// program is some life of a strategy: sizes from 512 B to 6 MiB on three streams, uses across streams, waits, a trim, and every
// block freed in another order.
func program(t *testing.T) *trace.Trace {
	t.Helper()
	var b strings.Builder
	b.WriteString("# gpubench trace 1\n")
	for i := 1; i <= 40; i++ {
		fmt.Fprintf(&b, "h%d = alloc %d stream=%d\n", i, 512+(i*i*7919)%(2*mib), i%3)
		if i%4 == 0 {
			fmt.Fprintf(&b, "use h%d stream=%d\n", i, (i+1)%3)
		}
		if i%5 == 0 {
			fmt.Fprintf(&b, "free h%d\n", i-3)
		}
	}
	b.WriteString("sync\ntrim\n")
	for i := 1; i <= 40; i++ {
		if (i+3)%5 != 0 || i+3 > 40 {
			fmt.Fprintf(&b, "free h%d\n", i)
		}
	}
	b.WriteString("sync\n")
	p, err := trace.Parse(strings.NewReader(b.String()), "program")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func stand(t *testing.T) *standin.Library {
	t.Helper()
	return standin.Load(t, standin.Build(t, t.TempDir()))
}

// runner opens a strategy over the stand-in.
func runner(t *testing.T, d *sdk.Description, lib *standin.Library, p *trace.Trace) *sdk.Runner {
	t.Helper()
	r, err := sdk.NewRunner(sdk.RunnerConfig{Strategy: d, Trace: p, OpenDevice: func() (backends.Device, error) {
		return cuda.Open(cuda.Config{Library: lib.Path, TotalBytes: 400 * mib, CallDeadline: time.Second})
	}})
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	return r
}

// Every strategy runs its life on the driver, succeeds, and leaves nothing behind.
func TestAllStrategiesOverTheDriver(t *testing.T) {
	lib := stand(t)
	p := program(t)
	for _, d := range strategies.Builtin() {
		if d.Canary {
			continue
		}
		lib.Configure("memory=512M")
		r := runner(t, &d, lib, p)
		result, err := sdk.NewExecutor(r).Execute(p, false)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		for i, o := range result.Outcomes {
			if e := &p.Events[i]; e.Kind == trace.KindAlloc && !o.Status.Placed() && o.Status != trace.StatusRefused {
				t.Errorf("%s: event %d, alloc of %d: %v", d.Name, i, e.Size, o.Status)
			}
		}
		if len(result.Calls) == 0 && lib.Calls("cuMemAlloc_v2")+lib.Calls("cuMemCreate") == 0 {
			t.Errorf("%s never asked the device", d.Name)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		if lib.Held() != 0 || lib.Objects() != 0 {
			t.Errorf("%s: %d bytes and %d objects are held at the end", d.Name, lib.Held(), lib.Objects())
		}
	}
}

// A call that hangs, and a device that is lost, end a program with errors, not with a crash; the next one runs.
func TestTheRunGoesOn(t *testing.T) {
	lib := stand(t)
	p := program(t)
	all := strategies.Builtin()
	d := &all[0]
	for _, words := range []string{"memory=512M,hang=cuMemAlloc_v2:5", "memory=512M,hang=cuMemFree_v2:3", "memory=512M,lost=30", "memory=512M,fail=cuMemAlloc_v2:7:2"} {
		lib.Configure(words)
		r := runner(t, d, lib, p)
		result, err := sdk.NewExecutor(r).Execute(p, false)
		if err != nil || len(result.Outcomes) != len(p.Events) {
			t.Fatalf("%s: %v", words, err)
		}
		bad := 0
		for _, o := range result.Outcomes {
			if o.Status == trace.StatusError || o.Status == trace.StatusFailed {
				bad++
			}
		}
		if bad == 0 {
			t.Errorf("%s: every event succeeded", words)
		}
		_ = r.Close() // a lost device cannot be closed in order
		lib.Configure("memory=512M")
		again := runner(t, d, lib, p)
		result, err = sdk.NewExecutor(again).Execute(p, false)
		if err != nil || result.Outcomes[0].Status != trace.StatusOK {
			t.Errorf("after %s: %v", words, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if lib.Held() != 0 {
			t.Errorf("after %s: %d bytes are held", words, lib.Held())
		}
	}
}

// Whatever is missing is one clear line through the contract, and no defect of the plugin.
func TestWhatIsMissingIsOneLine(t *testing.T) {
	lib := stand(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, words, device, want string
	}{
		{"no driver", t.TempDir(), "", "{}", "the CUDA driver is not here: libcuda.so.1"},
		{"no device", filepath.Dir(lib.Path), "devices=0", "{}", "there is no CUDA device"},
		{"no such device", filepath.Dir(lib.Path), "devices=2", `{"device":"7"}`, "no such CUDA device: 7; the driver shows 2"},
		{"no such option", filepath.Dir(lib.Path), "", `{"devise":"7"}`, "no option devise"},
		// 58720256 is 90 % of 64 MiB, down to whole pages.
		{"a device", filepath.Dir(lib.Path), "devices=2,memory=64M", `{"device":"1"}`, ""},
	} {
		t.Setenv("LD_LIBRARY_PATH", c.dir)
		t.Setenv("CUDA_STANDIN", c.words)
		p, err := host.Start(t.Context(), host.Spec{Path: self, Args: []string{serveVerb}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.OpenDevice(t.Context(), host.FusedDevice{Backend: "cuda", OptionsJSON: c.device}, "", -1)
		switch {
		case c.want == "" && (err != nil || info.GetName() != "Stand-in GPU" || info.GetTotalBytes() != 58720256):
			t.Errorf("%s: %v, %v", c.name, info, err)
		case c.want != "" && (!errors.Is(err, host.ErrRequest) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := p.Fingerprint(t.Context()); !errors.Is(err, host.ErrRequest) || !strings.Contains(err.Error(), "NVML is not here") {
			t.Errorf("%s: telemetry: %v", c.name, err)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
