package host

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Kind is what a plugin executable is for; its name says so.
type Kind string

// The kinds: executables are named gpubench-KIND-NAME.
const (
	KindStrategy  Kind = "strategy"
	KindBackend   Kind = "backend"
	KindTelemetry Kind = "telemetry"
)

// PathEnv lists directories of plugins, separated as in $PATH.
const PathEnv = "GPUBENCH_PLUGIN_PATH"

// SumsFile holds pinned checksums beside the executables, as sha256sum(1) writes them: "HEX  NAME", one a line.
const SumsFile = "SHA256SUMS"

const executablePrefix = "gpubench-"

// ErrNotFound: no plugin of that name lies where plugins are looked for.
var ErrNotFound = errors.New("plugin not found")

// Found is a plugin executable that was found.
type Found struct {
	Kind   Kind
	Name   string // without prefix and kind
	Path   string
	Where  string // which of the places: the words of Place.Name
	SHA256 string // pinned by a SumsFile beside it; "" = not pinned
	// Problem says why it cannot be used: not executable, hidden by one of the same name before it. nil is none.
	Problem error
}

// Place is a directory where plugins are looked for.
type Place struct {
	Name string // "$GPUBENCH_PLUGIN_PATH", "beside the executable", "user data directory"
	Dir  string
}

// Places returns the directories in the order of search: $GPUBENCH_PLUGIN_PATH, beside the executable, the user's data
// directory ($XDG_DATA_HOME/gpubench/plugins, by default ~/.local/share/gpubench/plugins: XDG base directory specification).
func Places() []Place {
	var ps []Place
	for _, d := range filepath.SplitList(os.Getenv(PathEnv)) {
		if d != "" {
			ps = append(ps, Place{"$" + PathEnv, d})
		}
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		ps = append(ps, Place{"beside the executable", filepath.Dir(exe)})
	}
	if d := dataDir(); d != "" {
		ps = append(ps, Place{"user data directory", d})
	}
	return ps
}

func dataDir() string {
	if x := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(x) {
		return filepath.Join(x, "gpubench", "plugins")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "gpubench", "plugins")
	}
	return ""
}

// List returns every plugin executable in the places, first of all those that win. What is wrong with one is its Problem;
// what is wrong with a place (it cannot be read, its SumsFile is damaged) comes as problems. A place that does not exist is fine.
func List(places []Place) (found []Found, problems []error) {
	winners := map[string]string{}
	for _, pl := range places {
		entries, err := os.ReadDir(pl.Dir)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				problems = append(problems, fmt.Errorf("%s: %w; its plugins are not seen", pl.Name, err))
			}
			continue
		}
		sums, err := readSums(filepath.Join(pl.Dir, SumsFile))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w; plugins there are not used until it is mended", pl.Name, err))
		}
		for _, e := range entries {
			kind, name, ok := parseName(e.Name())
			if !ok {
				continue
			}
			f := Found{Kind: kind, Name: name, Path: filepath.Join(pl.Dir, e.Name()), Where: pl.Name, SHA256: sums[e.Name()]}
			switch w, taken := winners[e.Name()]; {
			case err != nil:
				f.Problem = err
			case taken:
				f.Problem = fmt.Errorf("hidden by %s", w)
			default:
				f.Problem = executable(f.Path)
			}
			if f.Problem == nil {
				winners[e.Name()] = f.Path
			}
			found = append(found, f)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Problem == nil && found[j].Problem != nil })
	return found, problems
}

// Find returns the plugin that wins. nameOrPath with a slash is a path and is taken as it is, with a SumsFile beside it.
func Find(kind Kind, nameOrPath string, places []Place) (Found, error) {
	if strings.ContainsRune(nameOrPath, filepath.Separator) {
		if err := executable(nameOrPath); err != nil {
			return Found{}, fmt.Errorf("plugin %s: %w", nameOrPath, err)
		}
		sums, err := readSums(filepath.Join(filepath.Dir(nameOrPath), SumsFile))
		if err != nil {
			return Found{}, fmt.Errorf("plugin %s: %w", nameOrPath, err)
		}
		base := filepath.Base(nameOrPath)
		f := Found{Kind: kind, Name: base, Path: nameOrPath, Where: "explicit path", SHA256: sums[base]}
		if k, n, ok := parseName(base); ok {
			f.Kind, f.Name = k, n
		}
		return f, nil
	}
	found, problems := List(places)
	var near []string
	for _, f := range found {
		if f.Kind == kind && f.Name == nameOrPath {
			if f.Problem == nil {
				return f, nil
			}
			problems = append(problems, fmt.Errorf("%s: %w", f.Path, f.Problem))
		}
	}
	for _, p := range places {
		near = append(near, p.Dir)
	}
	err := fmt.Errorf("%w: %s%s-%s is in none of %s; put it there or give its path", ErrNotFound, executablePrefix, kind, nameOrPath, strings.Join(near, ", "))
	return Found{}, errors.Join(append([]error{err}, problems...)...)
}

// parseName splits gpubench-KIND-NAME.
func parseName(file string) (Kind, string, bool) {
	rest, ok := strings.CutPrefix(file, executablePrefix)
	if !ok {
		return "", "", false
	}
	for _, k := range []Kind{KindStrategy, KindBackend, KindTelemetry} {
		if name, ok := strings.CutPrefix(rest, string(k)+"-"); ok && name != "" && !strings.Contains(name, ".") {
			return k, name, true
		}
	}
	return "", "", false
}

func executable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return fmt.Errorf("%s is a directory, not an executable", path)
	case fi.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable; chmod +x it", path)
	}
	return nil
}

// readSums reads a SumsFile; a file that does not exist pins nothing.
func readSums(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sums := map[string]string{}
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sum, name, ok := strings.Cut(line, " ")
		name = strings.TrimPrefix(strings.TrimSpace(name), "*")
		if !ok || len(sum) != 64 || strings.Trim(strings.ToLower(sum), "0123456789abcdef") != "" {
			return nil, fmt.Errorf("%s:%d: want a SHA-256 sum and a name, as sha256sum prints them", path, n)
		}
		sums[name] = sum
	}
	return sums, sc.Err()
}
