package importers_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/trace/importers"
)

// TestTexts holds what RMM logs, scripts and operations become. The directive names the format expected; crlf writes the
// lines as Windows does, cut leaves out the last newline.
func TestTexts(t *testing.T) {
	datadriven.Walk(t, "testdata/text", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			in := td.Input + "\n"
			if td.HasArg("cut") {
				in = td.Input
			}
			if td.HasArg("crlf") {
				in = "\ufeff" + strings.ReplaceAll(in, "\n", "\r\n")
			}
			format, err := importers.Detect([]byte(in))
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			if string(format) != td.Cmd {
				t.Errorf("%s: detected %s, want %s", td.Pos, format, td.Cmd)
			}
			return show([]byte(in))
		})
	})
}

func TestDetect(t *testing.T) {
	for in, want := range map[string]importers.Format{
		"\x80\x04}.":                            importers.FormatSnapshotPickle,
		"(dp0\n.":                               importers.FormatSnapshotPickle,
		"}q\x00.":                               importers.FormatSnapshotPickle,
		"]q\x00.":                               importers.FormatSnapshotPickle,
		"{\"segments\":[]":                      importers.FormatSnapshotJSON,
		"\n [ {":                                importers.FormatSnapshotJSON,
		"# gpubench trace 1\n":                  importers.FormatText,
		"# by hand\nh1 = alloc 1\nfree h1\n":    importers.FormatText,
		"a 0 512\n":                             importers.FormatScript,
		"f 0 3\n":                               importers.FormatScript,
		"# cap=1 name=x\n":                      importers.FormatScript,
		`{"op":"e"}` + "\n":                     importers.FormatOperations,
		`{"name":"x","total":1,"ops":0}` + "\n": importers.FormatOperations,
		"Time,Action,Pointer,Size,Stream\r\n":   importers.FormatRMM,
	} {
		if got, err := importers.Detect([]byte(in)); got != want || err != nil {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
}
