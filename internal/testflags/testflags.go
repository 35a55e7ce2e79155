// Package testflags registers the two command-line flags that every test package below pmm/, plugins/strategies/ and
// trace/ accepts, so that one `go test` over several packages can be pointed at recordings kept elsewhere:
//
//	go test ./plugins/strategies/... -run Golden -args -golden /abs/dir
//	go test ./trace/... -args -recordings /abs/dir
//
// A test binary refuses a flag that it does not know, hence one helper that all of them import. Without a flag the tests
// use the `testdata` folder beside them.
package testflags

import (
	"flag"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

var (
	golden     = flag.String("golden", "", "absolute directory of golden recordings to check instead of testdata")
	recordings = flag.String("recordings", "", "absolute directory of original recordings to check instead of testdata")
)

// GoldenDir returns the directory given by -golden, or "" when the flag was not given.
func GoldenDir() string { return *golden }

// RecordingsDir returns the directory given by -recordings, or "" when the flag was not given.
func RecordingsDir() string { return *recordings }

// knownSuffixes are the name endings of recordings that some test package can read: golden outcomes of strategies and of
// the PyTorch allocator (*.jsonl.gz), scripts of the memory manager (*.ops). A -golden directory without one such file is
// an error in every package, since the caller certainly mistyped it; a package that merely finds none of *its* files passes.
var knownSuffixes = []string{".jsonl.gz", ".jsonl", ".ops"}

// GoldenFiles returns the sorted absolute paths below the golden directory (-golden if given, else dir, usually
// "testdata") for which match reports true. It fails the test when the directory cannot be read, when -golden is not
// absolute, or when the directory holds no file that any package knows. It returns an empty list when the directory holds
// recordings of other packages only.
func GoldenFiles(t testing.TB, dir string, match func(name string) bool) []string {
	t.Helper()
	return files(t, "golden", *golden, dir, knownSuffixes, match)
}

// RecordingFiles is GoldenFiles for the -recordings flag: original files of real programs. Every regular file counts as
// known, since importers detect the format by content.
func RecordingFiles(t testing.TB, dir string, match func(name string) bool) []string {
	t.Helper()
	return files(t, "recordings", *recordings, dir, nil, match)
}

func files(t testing.TB, flagName, given, dir string, known []string, match func(string) bool) []string {
	t.Helper()
	root := dir
	if given != "" {
		if !filepath.IsAbs(given) {
			t.Fatalf("-%s %s: the directory must be absolute, because every test package runs in its own folder", flagName, given)
		}
		root = given
	}
	var found []string
	anyKnown := false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if known == nil || hasSuffix(d.Name(), known) {
			anyKnown = true
		}
		if match(d.Name()) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("-%s: %v", flagName, err)
	}
	if given != "" && !anyKnown {
		t.Fatalf("-%s %s: no file there is known to any package (looked for %s)", flagName, given, strings.Join(known, ", "))
	}
	sort.Strings(found)
	return found
}

func hasSuffix(name string, suffixes []string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}
