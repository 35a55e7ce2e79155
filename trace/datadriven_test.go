package trace_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/trace"
)

// TestParse runs testdata/parse: what Parse answers to texts, above all to wrong ones.
func TestParse(t *testing.T) {
	datadriven.RunTest(t, "testdata/parse", func(t *testing.T, d *datadriven.TestData) string {
		tr, err := trace.Parse(strings.NewReader(d.Input), "t")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				d.Fatalf(t, "more than one line: %q", err)
			}
			return err.Error()
		}
		var out bytes.Buffer
		must(t, trace.Format(&out, tr))
		return out.String()
	})
}
