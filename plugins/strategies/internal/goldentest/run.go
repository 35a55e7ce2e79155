package goldentest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// SharedDir is where the recordings common to the packages of strategies lie, seen from such a package.
const SharedDir = "../testdata"

// line is one recorded outcome. Op, ID and Size repeat the script's operation and may be absent, as in testdata.
type line struct {
	Op    *string `json:"op"` // "a" or "f"
	ID    *uint32 `json:"id"`
	Size  *uint64 `json:"size"`  // requested
	Off   *uint64 `json:"off"`   // address of a successful allocation
	Fail  bool    `json:"fail"`  // a failed allocation
	Waits *uint64 `json:"waits"` // stream waits so far
}

// of reports whether the line can be the outcome of op.
func (l *line) of(op *Op) bool {
	kind := "a"
	if op.Free {
		kind = "f"
	}
	return (l.Op == nil || *l.Op == kind) && (l.ID == nil || *l.ID == op.ID) && (l.Size == nil || op.Free || *l.Size == op.Size)
}

// Run checks the strategy against every recording of its peers, one subtest a recording.
func Run(t *testing.T, desc sdk.Description) {
	for _, path := range testflags.GoldenFiles(t, SharedDir, Of(desc.Name)) {
		name := strings.TrimSuffix(filepath.Base(path), suffix)
		t.Run(name, func(t *testing.T) {
			if err := Compare(desc, path); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		})
	}
}

// ScriptOf loads the script of the trace, TRACE.txt or TRACE.txt.gz in dir.
func ScriptOf(dir, traceName string) (*Script, error) {
	path := filepath.Join(dir, traceName+".txt")
	if _, err := os.Stat(path); os.IsNotExist(err) {
		path += ".gz"
	}
	return LoadScript(path)
}

// Compare replays the script of the recording at path with the strategy, set up as the recording's peer, and returns the first
// difference, with its line; nil when there is none and the strategy gives everything back.
func Compare(desc sdk.Description, path string) error {
	peerName, traceName, _ := SplitName(filepath.Base(path))
	script, err := ScriptOf(filepath.Dir(path), traceName)
	if err != nil {
		return err
	}
	peer, ok := PeerOf(peerName)
	if !ok {
		return fmt.Errorf("no strategy stands for the peer %q", peerName)
	}
	p, err := NewPlayer(desc, peer, script)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	if err := p.compare(script, z); err != nil {
		return err
	}
	if err := p.Strategy.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if free, total := p.Device.MemInfo(); free != total {
		return fmt.Errorf("after close the device has %d of %d bytes free", free, total)
	}
	return nil
}

// compare executes the script and compares each outcome with its line.
func (p *Player) compare(script *Script, outcomes io.Reader) error {
	lines := bufio.NewScanner(outcomes)
	n := 0
	for ; lines.Scan(); n++ {
		if n >= len(script.Ops) {
			return fmt.Errorf("line %d: the script has only %d operations", n+1, len(script.Ops))
		}
		var want line
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		if err := step(p, &script.Ops[n], &want); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if n == 0 || n != len(script.Ops) {
		return fmt.Errorf("%d recorded lines for %d operations", n, len(script.Ops))
	}
	return nil
}

// step executes op and compares the outcome with the recorded one.
func step(p *Player, op *Op, want *line) error {
	if !want.of(op) {
		return fmt.Errorf("the recorded operation is not that of the script, %+v", *op)
	}
	b, st := p.Do(op)
	switch {
	case op.Free:
		if st != trace.StatusOK && st != trace.StatusSkipped {
			return fmt.Errorf("free of id %d at %d: %v", op.ID, b.Addr, st)
		}
	case want.Fail:
		if st.Placed() {
			return fmt.Errorf("alloc id %d, %d bytes: placed at %d, recorded a failure", op.ID, op.Size, b.Addr)
		}
		if st != trace.StatusFailed && st != trace.StatusRefused {
			return fmt.Errorf("alloc id %d, %d bytes: %v, recorded a failure", op.ID, op.Size, st)
		}
	case want.Off == nil:
		return fmt.Errorf("recorded neither an offset nor a failure")
	case !st.Placed():
		return fmt.Errorf("alloc id %d, %d bytes: %v, recorded at %d", op.ID, op.Size, st, *want.Off)
	case b.Addr != *want.Off:
		return fmt.Errorf("alloc id %d, %d bytes: at %d, recorded at %d", op.ID, op.Size, b.Addr, *want.Off)
	case b.Size < op.Size:
		return fmt.Errorf("alloc id %d: granted %d bytes of %d", op.ID, b.Size, op.Size)
	}
	if want.Waits != nil && p.Device.StreamWaits != *want.Waits {
		return fmt.Errorf("id %d: %d stream waits so far, recorded %d", op.ID, p.Device.StreamWaits, *want.Waits)
	}
	return nil
}
