package strategypython

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/host"
	"github.com/gpubench/gpubench/plugins/host/guard"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

const backendVerb = "serve-backend"

// The test binary is also the guard and the process of the backend.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guard.Verb:
			os.Exit(guard.Main(os.Args[2:]))
		case backendVerb:
			sdk.Serve(sdk.Executable{Name: "backend", Version: "1", Backends: []sdk.Backend{{Name: "ideal", Version: "1",
				Open: func(_ json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
					return ideal.New(ideal.Config{TotalBytes: total})
				}}}})
			return
		}
	}
	os.Exit(m.Run())
}

// The plugin in Python keeps the contract: the check that `gpubench plugin check` makes, over a device in another process.
func TestPythonPluginKeepsTheContract(t *testing.T) {
	const script = "gpubench-strategy-pybump"
	const python = "/usr/bin/python3" // the first line of the script
	if err := exec.Command(python, "-c", "import grpc, google.protobuf").Run(); err != nil {
		t.Skipf("%s has no grpc and protobuf (python3-grpcio, python3-protobuf): %v", python, err)
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("no protoc to make the messages (protobuf-compiler)")
	}
	dir := t.TempDir()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, script)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("protoc", "-I", "../../plugins/proto/gpubench/plugin/v1", "--python_out", dir, "plugin.proto").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	report, err := host.Check(ctx, path, host.CheckOptions{Guard: []string{self, guard.Verb}, BackendName: "ideal",
		Backend: host.Spec{Path: self, Args: []string{backendVerb}, Guard: []string{self, guard.Verb}}})
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	if err := report.WriteText(&lines); err != nil {
		t.Fatal(err)
	}
	if !report.OK() || !strings.Contains(lines.String(), "replays churn alike in another process") {
		t.Errorf("\n%s", lines.String())
	}
}
