package fuzz

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gpubench/gpubench/pmm/script"
	"github.com/gpubench/gpubench/trace"
)

// The files of a finding's directory.
const (
	FindingFile  = "finding.json"
	ProgramFile  = "program.txt"  // the smallest program
	OriginalFile = "original.txt" // the program as it was found
	DiagramFile  = "diagram.txt"
	DiffFile     = "model.diff"
	StackFile    = "stack.txt" // of a crash
	ReproFile    = "repro.sh"
)

// findingSchema is the version of FindingFile.
const findingSchema = 1

// Environment is where a finding was made.
type Environment struct {
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
	Version   string `json:"gpubench_version"`
}

// Finding is a proven breach, with the smallest program that shows it.
type Finding struct {
	Schema          int            `json:"schema"`
	Class           string         `json:"class"`
	Title           string         `json:"title"`
	Target          string         `json:"target"`
	StrategyVersion string         `json:"strategy_version,omitempty"`
	Checksum        string         `json:"checksum,omitempty"` // SHA-256 of a plugin's executable
	Breach          Breach         `json:"breach"`
	Config          Config         `json:"config"`
	Events          int            `json:"events"`          // of the smallest program
	OriginalEvents  int            `json:"original_events"` // of the program as it was found
	ShrinkRuns      int            `json:"shrink_runs"`
	Reliability     string         `json:"reliability"` // runs of five that show the breach: "5/5"
	Seed            uint64         `json:"seed"`
	Batch           uint64         `json:"batch"`
	Program         uint64         `json:"program"`  // index in the batch
	Programs        uint64         `json:"programs"` // run before it was found
	Count           uint64         `json:"count"`    // how often this cause was met
	FirstSeen       string         `json:"first_seen,omitempty"`
	LastSeen        string         `json:"last_seen,omitempty"`
	Environment     Environment    `json:"environment"`
	Minimal         *trace.Trace   `json:"-"`
	Original        *trace.Trace   `json:"-"`
	Script          *script.Script `json:"-"` // of a finding in the model itself, instead of Minimal
	originalScript  *script.Script
	run             []trace.Outcome // of the smallest program
}

// Name is the name of the finding's directory: the class, and a hash of target and cause. Two programs that break one target by the
// same cause are one finding.
func (f *Finding) Name() string {
	sum := sha256.Sum256([]byte(f.Target + "\x00" + f.Breach.Cause()))
	return f.Class + "-" + hex.EncodeToString(sum[:4])
}

// title is mechanical, so that equal causes have equal titles.
func (f *Finding) title() string {
	s := fmt.Sprintf("%s: %s/%s: %s", f.Breach.Code, f.Target, f.Config.Backend, checkWhat[f.Breach.Check])
	if f.Breach.Kind != "" {
		s += ": broken at " + f.Breach.Kind
	}
	if f.Breach.Site != "" {
		s += " in " + f.Breach.Site
	}
	return s
}

// checkWhat says in a few words what each check demands.
var checkWhat = map[string]string{
	CheckOverlap: "no two live blocks overlap", CheckConservation: "every byte is accounted for", CheckStatistics: "figures agree with the books",
	CheckCoalescing: "free neighbours are joined", CheckPlacement: "blocks are placed and sized right", CheckSpurious: "no failure while memory would have served",
	CheckStreams: "no reuse while another stream uses the memory", CheckCrash: "no crash", CheckHang: "no hang",
	CheckMetamorphic: "equal programs have equal outcomes", CheckNoTrace: "failures leave no trace", CheckCanary: "bytes of live blocks stay",
	CheckReclaim: "everything goes back", CheckMetadata: "bookkeeping is bounded", CheckLinear: "concurrent histories are linearizable",
	CheckEviction: "eviction is legal", CheckCost: "costs are bounded",
}

// The settings of a program file that say how to run it.
const (
	settingTarget  = "fuzz.target"
	settingBackend = "fuzz.backend"
	settingDevice  = "fuzz.device_bytes"
	settingArena   = "fuzz.arena_bytes"
	settingOptions = "fuzz.options"
	settingSeed    = "fuzz.seed"
)

// withConfig returns a program with its configuration in the header, so that the file alone is enough to run it.
func withConfig(t *trace.Trace, target string, c *Config, title string) *trace.Trace {
	out := *t
	out.Meta = trace.Meta{Source: trace.SourceProgram, CoversPercent: 100, CapacityBytes: c.DeviceBytes, Title: title, Settings: map[string]string{
		settingTarget: target, settingBackend: c.Backend, settingDevice: strconv.FormatUint(c.DeviceBytes, 10),
		settingArena: strconv.FormatUint(c.ArenaBytes, 10), settingSeed: strconv.FormatUint(c.Seed, 10),
	}}
	if len(c.Options) > 0 {
		out.Meta.Settings[settingOptions] = string(c.Options)
	}
	return &out
}

// ErrNoConfig says that a program does not say how it was run.
var ErrNoConfig = errors.New("the program does not say what it is for")

// ConfigOf reads target and configuration from the header of a program.
func ConfigOf(t *trace.Trace) (target string, c Config, err error) {
	s := t.Meta.Settings
	number := func(key string) (n uint64) {
		if err == nil {
			if n, err = strconv.ParseUint(s[key], 10, 64); err != nil {
				err = fmt.Errorf("%w: its header needs a line: # setting %s=NUMBER", ErrNoConfig, key)
			}
		}
		return n
	}
	c = Config{Backend: s[settingBackend], DeviceBytes: number(settingDevice), ArenaBytes: number(settingArena), Seed: number(settingSeed)}
	if o := s[settingOptions]; o != "" {
		c.Options = json.RawMessage(o)
	}
	if target = s[settingTarget]; target == "" && err == nil {
		err = fmt.Errorf("%w: its header needs a line: # setting %s=NAME", ErrNoConfig, settingTarget)
	}
	return target, c, err
}

// Write writes the finding's directory below dir and returns its path. A finding of the same cause that lies there is counted, and
// its program replaced if this one is smaller.
func (f *Finding) Write(dir string, now time.Time) (string, error) {
	f.Schema, f.LastSeen = findingSchema, now.UTC().Format(time.RFC3339)
	path := filepath.Join(dir, f.Name())
	if old, err := ReadFinding(path); err == nil {
		f.Count += old.Count
		f.FirstSeen = old.FirstSeen
		if old.Events <= f.Events {
			old.Count, old.LastSeen = f.Count, f.LastSeen
			return path, old.writeJSON(path)
		}
	} else {
		f.FirstSeen = f.LastSeen
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("finding: %w", err)
	}
	for _, file := range f.contents() {
		if len(file.text) == 0 {
			continue
		}
		at := filepath.Join(path, file.name)
		if err := writeFileAtomic(at, file.text); err != nil {
			return "", fmt.Errorf("finding: %w", err)
		}
		if file.name == ReproFile {
			if err := os.Chmod(at, 0o755); err != nil {
				return "", fmt.Errorf("finding: %w", err)
			}
		}
	}
	return path, f.writeJSON(path) // last: a directory with it is whole
}

func (f *Finding) writeJSON(path string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(path, FindingFile), b.Bytes())
}

type namedText struct {
	name string
	text []byte
}

func (f *Finding) contents() []namedText {
	text := func(t *trace.Trace, title string) []byte {
		if t == nil {
			return nil
		}
		var b bytes.Buffer
		if trace.Format(&b, withConfig(t, f.Target, &f.Config, title)) != nil {
			return nil
		}
		return b.Bytes()
	}
	if f.Script != nil {
		list := []namedText{{ScriptFile, scriptText(f.Script)}, {DiffFile, []byte(f.diff())}, {StackFile, []byte(f.Breach.Stack)}, {ReproFile, []byte(f.repro())}}
		if f.originalScript != nil {
			list = append(list, namedText{"original.ops", scriptText(f.originalScript)})
		}
		return list
	}
	return []namedText{
		{ProgramFile, text(f.Minimal, f.Title)}, {OriginalFile, text(f.Original, "as found: "+f.Title)},
		{DiagramFile, []byte(Diagram(f.Minimal, f.run))}, {DiffFile, []byte(f.diff())}, {StackFile, []byte(f.Breach.Stack)}, {ReproFile, []byte(f.repro())},
	}
}

// diff shows expected against observed at the event.
func (f *Finding) diff() string {
	at := "after the program: everything freed, streams completed, caches dropped"
	if f.Script != nil && f.Breach.Event >= 0 && f.Breach.Event < len(f.Script.Ops) {
		at = f.Script.Ops[f.Breach.Event].String()
	}
	if f.Minimal != nil && f.Breach.Event >= 0 && f.Breach.Event < len(f.Minimal.Events) {
		at = string(f.Minimal.AppendEvent(nil, uint64(f.Breach.Event)))
	}
	s := fmt.Sprintf("--- expected\n+++ observed\n@@ event %d: %s @@ %s %s\n-%s\n+%s\n", f.Breach.Event, at, f.Breach.Check, f.Breach.Code, f.Breach.Expected, f.Breach.Observed)
	if f.Breach.Map != "" {
		s += "\n" + strings.TrimRight(f.Breach.Map, "\n") + "\n"
	}
	return s
}

// repro is one command that needs no configuration: the program says what it is for.
func (f *Finding) repro() string {
	return "#!/bin/sh\n# " + f.Title + "\n# Exit code 4: the breach shows. GPUBENCH names the program to run it with, if it is not in the path.\n" +
		"exec \"${GPUBENCH:-gpubench}\" finding replay \"$(dirname \"$0\")\"\n"
}

// ReadFinding reads a finding's directory.
func ReadFinding(dir string) (*Finding, error) {
	text, err := os.ReadFile(filepath.Join(dir, FindingFile))
	if err != nil {
		return nil, err
	}
	f := &Finding{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, FindingFile), err)
	}
	if f.Schema != findingSchema {
		return nil, fmt.Errorf("%s: schema %d; this program reads %d", dir, f.Schema, findingSchema)
	}
	if text, err := os.ReadFile(filepath.Join(dir, ScriptFile)); err == nil {
		if f.Script, err = ReadScript(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ScriptFile), err)
		}
	}
	for _, p := range []struct {
		name string
		to   **trace.Trace
	}{{ProgramFile, &f.Minimal}, {OriginalFile, &f.Original}} {
		t, err := readProgram(filepath.Join(dir, p.name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		*p.to = t
	}
	return f, nil
}

// ReadFindings reads all findings below a directory, in the order of their names.
func ReadFindings(dir string) ([]*Finding, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*Finding
	for _, e := range entries {
		f, err := ReadFinding(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // no finding, or one that was being written when the program was killed
		}
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// HereAndNow describes this process.
func HereAndNow(version string) Environment {
	return Environment{GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Version: version}
}
