package lint

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

const module = "github.com/gpubench/gpubench"

// maxFileLines bounds a file that is not a test and not generated: beyond it, it is more than one thing.
const maxFileLines = 500

// allowed says which packages (below the module path) a package may import; "/..." covers everything below. internal/... is
// allowed everywhere. The longest matching key governs.
var allowed = map[string][]string{
	"pmm":                {"pmm/..."},
	"trace":              {"trace/..."},
	"backends":           {"backends/...", "pmm/...", "trace/..."},
	"ledger":             {"ledger/...", "trace/..."},
	"plugins/wire":       {"trace"},
	"plugins/proto":      {"plugins/proto/..."},
	"plugins/sdk":        {"plugins/sdk/...", "plugins/wire", "plugins/proto/...", "backends/...", "trace/..."},
	"plugins/strategies": {"plugins/strategies/...", "plugins/sdk/...", "backends", "trace"},
	// helpers of tests: they play recordings on the reference device and keep the ledger's books over the answers
	"plugins/strategies/internal/conformtest": {"plugins/strategies/...", "plugins/sdk/...", "plugins/wire", "backends/...", "ledger", "trace/..."},
	"plugins/strategies/internal/goldentest":  {"plugins/strategies/...", "plugins/sdk/...", "backends/...", "trace"},
	"plugins/host":                            {"plugins/host/...", "plugins/wire", "plugins/proto/...", "trace/..."},
	"results":                                 {"results/...", "trace/...", "ledger/..."},
	"harness":                                 {"harness/...", "ledger/...", "plugins/host/...", "results/...", "trace/..."},
	"fuzz":                                    {"fuzz/...", "ledger/...", "pmm/...", "backends/...", "plugins/sdk/...", "plugins/host/...", "results/...", "trace/..."},
	"fuzz/zoo":                                {"fuzz/zoo/...", "plugins/sdk/...", "pmm/...", "backends", "trace"},
	"configs":                                 {"configs/..."},
	"internal":                                {"internal/..."},
	"cmd/gpubench":                            {"cmd/gpubench/...", "pmm/...", "trace/...", "backends/...", "ledger/...", "plugins/...", "results/...", "harness/...", "fuzz/...", "configs/..."},
	"cmd/gpubench-backend-cuda":               {"plugins/...", "backends/...", "trace/..."},
	"examples":                                {"plugins/sdk/...", "backends", "trace"},
}

// forbidden overrides allowed.
var forbidden = map[string][]string{
	"cmd/gpubench": {"backends/cuda", "backends/nvml"},
}

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", module+"/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	return pkgs
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if from == "" {
			continue
		}
		key := longestKey(from)
		if key == "" {
			t.Errorf("package %s is in no rule: add it to docs/ARCHITECTURE.md and to allowed", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours || matches("internal/...", to) {
				continue
			}
			if !anyMatch(allowed[key], to) || anyMatch(forbidden[key], to) {
				t.Errorf("%s imports %s: the rule for %s allows only %v", from, to, key, allowed[key])
			}
		}
	}
}

func longestKey(from string) string {
	best := ""
	for k := range allowed {
		if (from == k || strings.HasPrefix(from, k+"/")) && len(k) > len(best) {
			best = k
		}
	}
	return best
}

func anyMatch(patterns []string, to string) bool {
	for _, p := range patterns {
		if matches(p, to) {
			return true
		}
	}
	return false
}

func matches(pattern, to string) bool {
	if root, ok := strings.CutSuffix(pattern, "/..."); ok {
		return to == root || strings.HasPrefix(to, root+"/")
	}
	return to == pattern
}

// source is one hand-written Go file of the project.
type source struct {
	path string
	text []byte
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".tools")) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		out = append(out, source{path: filepath.ToSlash(rel), text: text, file: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFilesAreOneThing(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		if n := bytes.Count(s.text, []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it", s.path, n, maxFileLines)
		}
	}
}

// pure packages take time and randomness as parameters.
var pure = []string{"pmm/", "ledger/", "plugins/strategies/"}

func TestPureCoresReadNoClock(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") || strings.HasPrefix(s.path, "internal/clock") {
			continue
		}
		for _, imp := range s.file.Imports {
			p := strings.Trim(imp.Path.Value, `"`)
			for _, root := range pure {
				if strings.HasPrefix(s.path, root) && !strings.Contains(s.path, "test/") && (p == "time" || p == "os" || p == "math/rand") {
					t.Errorf("%s imports %s: time, files and randomness are parameters in %s", s.path, p, root)
				}
			}
		}
	}
}

func TestEveryExportIsExplained(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !wellKnown[d.Name.Name] {
					t.Errorf("%s: %s has no doc comment", s.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				checkSpecs(t, s, d)
			}
		}
	}
}

// wellKnown methods need no comment: their meaning is fixed by the interface that they implement.
var wellKnown = map[string]bool{
	"Error": true, "String": true, "Unwrap": true, "Is": true, "Close": true, "MarshalJSON": true, "UnmarshalJSON": true,
	"Len": true, "Less": true, "Swap": true, "Write": true, "Read": true,
}

func checkSpecs(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch sp := spec.(type) {
		case *ast.TypeSpec:
			if sp.Name.IsExported() && d.Doc == nil && sp.Doc == nil && sp.Comment == nil {
				t.Errorf("%s: type %s has no doc comment", s.fset.Position(sp.Pos()), sp.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range sp.Names {
				if n.IsExported() && d.Doc == nil && sp.Doc == nil && sp.Comment == nil {
					t.Errorf("%s: %s has no doc comment", s.fset.Position(sp.Pos()), n.Name)
				}
			}
		}
	}
}

// exportedReceiver is true for functions and for methods of exported types; methods that implement an interface on an
// unexported type are explained at the interface.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
			continue
		case *ast.IndexExpr:
			typ = x.X
			continue
		case *ast.Ident:
			return x.IsExported()
		}
		return true
	}
}

func TestEveryPackageIsExplained(t *testing.T) {
	docs := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		dir := filepath.Dir(s.path)
		docs[dir] = docs[dir] || s.file.Doc != nil
	}
	var dirs []string
	for d, ok := range docs {
		if !ok {
			dirs = append(dirs, d)
		}
	}
	sort.Strings(dirs)
	for _, d := range dirs {
		t.Errorf("%s has no package comment: say what it is, its structure and its limits in doc.go", d)
	}
}

// unfinished are the marks of work left for later, put together here so that this file does not hold them.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|not imple` + `mented`)

func TestNothingIsLeftUnfinished(t *testing.T) {
	for _, s := range sources(t) {
		for i, line := range strings.Split(string(s.text), "\n") {
			if m := unfinished.FindString(line); m != "" {
				t.Errorf("%s:%d: %q: finish it or say in the documentation what is missing", s.path, i+1, m)
			}
		}
	}
}
