package script_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/pmm/script"
	"github.com/gpubench/gpubench/pmm/view"
)

// TestBehaviour runs short scripts and shows what they leave behind. "run" prints one line an operation and the map, "stats"
// the counts, "states" the transitions, "error" what is wrong with a script.
func TestBehaviour(t *testing.T) {
	datadriven.Walk(t, "testdata/behaviour", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out bytes.Buffer
			err := script.Run(strings.NewReader(d.Input), &out, script.Options{Check: true})
			if d.Cmd == "error" {
				if err == nil {
					return "no error\n"
				}
				return err.Error() + "\n"
			}
			if err != nil {
				return err.Error() + "\n"
			}
			m, err := script.Play(strings.NewReader(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			var shown bytes.Buffer
			switch d.Cmd {
			case "run":
				shown.WriteString(brief(t, out.Bytes()))
				err = view.Map(&shown, m)
			case "stats":
				err = view.Stats(&shown, m)
			case "states":
				err = view.States(&shown, m.Coverage())
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			if err != nil {
				return err.Error() + "\n"
			}
			return shown.String()
		})
	})
}

// brief is one line an operation: its name, arguments, answer, and what it made.
func brief(t *testing.T, jsonl []byte) string {
	var b strings.Builder
	for i, line := range bytes.Split(bytes.TrimSpace(jsonl), []byte("\n")) {
		if i == 0 {
			continue
		}
		var o struct {
			Op     string
			Args   []uint64
			Status string
			IDs    []int
			Addr   *uint64
			State  string
			Zero   int
			Extra  *int
		}
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s -> %s", strings.Join(append([]string{o.Op}, strings.Fields(strings.Trim(fmt.Sprint(o.Args), "[]"))...), " "), o.Status)
		if len(o.IDs) > 0 {
			fmt.Fprintf(&b, " ids %s", strings.Trim(fmt.Sprint(o.IDs), "[]"))
		}
		if o.Addr != nil {
			fmt.Fprintf(&b, " at 0x%x", *o.Addr)
		}
		if o.State != "" {
			fmt.Fprintf(&b, " %s zero=%d", o.State, o.Zero)
		}
		if o.Extra != nil {
			fmt.Fprintf(&b, " extra=%d", *o.Extra)
		}
		b.WriteString("\n")
	}
	return b.String()
}
