package goldentest_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/bestfit"
	"github.com/gpubench/gpubench/plugins/strategies/firstfit"
	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

// TestSeesDifferences: the check must fail for another policy, a changed line, a missing line and a line too many.
func TestSeesDifferences(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Holes of 2 and 1 units at 0 and 3 units: first fit takes the first for 1 unit, best fit the second.
	write("x.txt.gz", "# cap=2097152 name=x\na 0 512\na 1 1\na 2 256\na 3 200\nf 0\nf 2\na 4 256\na 5 9999999\nf 5\n")
	const right = `{"off":0}
{"off":512}
{"off":768}
{"off":1024}
{}
{}
{"i":6,"op":"a","id":4,"size":256,"off":0}
{"fail":true}
{}
`
	for _, c := range []struct {
		name, from, to string
		desc           sdk.Description
		want           string // "" = equal
	}{
		{"right", "", "", firstfit.Description(), ""},
		{"other policy", "", "", bestfit.Description(), "line 7: alloc id 4, 256 bytes: at 768, recorded at 0"},
		{"offset", `{"off":512}`, `{"off":768}`, firstfit.Description(), "line 2: alloc id 1, 1 bytes: at 512, recorded at 768"},
		{"failure", `{"fail":true}`, `{"off":0}`, firstfit.Description(), "line 8: alloc id 5, 9999999 bytes: failed, recorded at 0"},
		{"success", `{"off":768}`, `{"fail":true}`, firstfit.Description(), "line 3: alloc id 2, 256 bytes: placed at 768, recorded a failure"},
		{"operation", `"id":4`, `"id":3`, firstfit.Description(), "line 7: the recorded operation is not that of the script"},
		{"empty outcome", `{"off":512}`, `{}`, firstfit.Description(), "line 2: recorded neither"},
		{"missing line", "{\"off\":0}\n", "", firstfit.Description(), "line 1: "},
		{"last line", "{\"fail\":true}\n{}\n", "{\"fail\":true}\n", firstfit.Description(), "8 recorded lines for 9 operations"},
		{"line too many", "{\"fail\":true}\n", "{\"fail\":true}\n{}\n", firstfit.Description(), "line 10: the script has only 9"},
		{"not JSON", `{"off":512}`, `{"off"`, firstfit.Description(), "line 2: "},
	} {
		path := write("ref-first-fit.x.jsonl.gz", strings.Replace(right, c.from, c.to, 1))
		err := goldentest.Compare(c.desc, path)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestScriptErrors: each bad script has one error that names the line.
func TestScriptErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1: no header"},
		{"# cap=x\n", "1: "},
		{"# cap=1\nx 1\n", `2: unknown operation "x"`},
		{"# cap=1\na 1\n", `2: "a" has 2 fields, want 3 or 4`},
		{"# cap=1\n\nf 1 2 3\n", `3: "f" has 4 fields, want 2 or 3`},
		{"# cap=1\na 1 -1\n", "2: "},
		{"# cap=1\na 1 1 70000\n", "2: "},
		{"# cap=1\na 5000000000 1\n", "2: "},
	} {
		path := filepath.Join(t.TempDir(), "s.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := goldentest.LoadScript(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+":"+c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestPowerLaw: the generated script is well formed, repeatable, and keeps its live set near what was asked.
func TestPowerLaw(t *testing.T) {
	a, b := goldentest.PowerLaw(10_000, 500, 3), goldentest.PowerLaw(10_000, 500, 3)
	live := map[uint32]bool{}
	most := 0
	for i, op := range a.Ops {
		if op != b.Ops[i] {
			t.Fatalf("operation %d differs between equal seeds", i)
		}
		if op.Free {
			if !live[op.ID] {
				t.Fatalf("operation %d frees %d, which is not live", i, op.ID)
			}
			delete(live, op.ID)
			continue
		}
		if op.Size < 256 || op.Size > 8<<20 {
			t.Fatalf("operation %d: size %d", i, op.Size)
		}
		live[op.ID] = true
		most = max(most, len(live))
	}
	if most < 450 || most > 1000 {
		t.Errorf("at most %d blocks were live, want about 500 to 600", most)
	}
}
