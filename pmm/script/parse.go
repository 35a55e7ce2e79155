package script

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/pmm"
)

// ErrSyntax is the error of every malformed script; the message names the line.
var ErrSyntax = errors.New("malformed script")

const (
	// lineBytesMax bounds one line of a script.
	lineBytesMax = 64 << 10
	// opsMax bounds a script.
	opsMax = 1 << 22
	// blocks is the number of VA blocks that a script may name.
	blocks = 64
)

// Op is one operation: a name and its numbers.
type Op struct {
	// Line is where it stands, counted from 1.
	Line int
	// Name is the operation, Args its numbers.
	Name string
	Args []uint64
}

// Script is a parsed .ops file.
type Script struct {
	// Config is the model that the script asks for.
	Config pmm.Config
	Ops    []Op
}

// arity is the number of arguments of each operation.
var arity = map[string]int{
	"alloc": 5, "unpin": 2, "free": 2, "split": 2, "merge": 1, "mark": 2, "evict": 0, "evict_phys": 1, "pma_alloc": 3,
	"pma_free": 1, "pma_evict_range": 2, "release": 0, "sync": 0, "lazyfree": 1, "flush": 0, "complete": 1,
	"inject_split": 1, "inject_evict": 2, "inject_pma": 1, "inject_pin": 1, "inject_kmem": 1, "subchunks": 3,
}

// Parse reads a script: a first line "# pool=ROOTS batch=ORDER user=MASK kernel=MASK kmem=MASK scrub=0|1 oversub=0|1", then
// one operation a line. Blank lines and further lines that start with # are skipped. The error wraps ErrSyntax and names
// the first line that is wrong.
func Parse(r io.Reader) (*Script, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 4096), lineBytesMax)
	s := &Script{}
	line, header := 0, false
	for sc.Scan() {
		line++
		text := strings.TrimSpace(sc.Text())
		if !header {
			cfg, err := parseHeader(text)
			if err != nil {
				return nil, syntax(line, text, err)
			}
			s.Config, header = cfg, true
			continue
		}
		if text == "" || text[0] == '#' {
			continue
		}
		op, err := parseOp(text)
		if err != nil {
			return nil, syntax(line, text, err)
		}
		if len(s.Ops) == opsMax {
			return nil, syntax(line, text, fmt.Errorf("more than %d operations", opsMax))
		}
		op.Line = line
		s.Ops = append(s.Ops, op)
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("%w: line %d is longer than %d bytes", ErrSyntax, line+1, lineBytesMax)
		}
		return nil, fmt.Errorf("reading script after line %d: %w", line, err)
	}
	if !header {
		return nil, fmt.Errorf("%w: it is empty; the first line must be %q", ErrSyntax, headerForm)
	}
	return s, nil
}

const headerForm = "# pool=ROOTS batch=ORDER user=MASK kernel=MASK kmem=MASK scrub=0|1 oversub=0|1"

func syntax(line int, text string, err error) error {
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return fmt.Errorf("%w: line %d %q: %w", ErrSyntax, line, text, err)
}

// parseHeader reads the configuration line.
func parseHeader(text string) (pmm.Config, error) {
	rest, ok := strings.CutPrefix(text, "#")
	if !ok {
		return pmm.Config{}, fmt.Errorf("the first line must be %q", headerForm)
	}
	v := map[string]uint64{}
	for _, f := range strings.Fields(rest) {
		key, val, ok := strings.Cut(f, "=")
		if !ok {
			return pmm.Config{}, fmt.Errorf("%q is not KEY=VALUE; want %q", f, headerForm)
		}
		n, err := strconv.ParseUint(val, 0, 32)
		if err != nil {
			return pmm.Config{}, fmt.Errorf("%s=%s is not a number below 2^32", key, val)
		}
		if _, dup := v[key]; dup {
			return pmm.Config{}, fmt.Errorf("%s is given twice", key)
		}
		v[key] = n
	}
	for _, key := range [...]string{"pool", "batch", "user", "kernel", "kmem", "scrub", "oversub"} {
		if _, ok := v[key]; !ok {
			return pmm.Config{}, fmt.Errorf("%s= is missing; want %q", key, headerForm)
		}
	}
	if len(v) != 7 {
		return pmm.Config{}, fmt.Errorf("unknown key; want %q", headerForm)
	}
	if v["scrub"] > 1 || v["oversub"] > 1 {
		return pmm.Config{}, errors.New("scrub and oversub are 0 or 1")
	}
	cfg := pmm.Config{
		Roots: int(v["pool"]), BatchOrder: int(v["batch"]), UserSizes: v["user"] | pmm.RootBytes,
		KernelSizes: v["kernel"] | v["kmem"] | pmm.RootBytes, Scrub: v["scrub"] == 1, Oversubscription: v["oversub"] == 1,
	}
	return cfg, cfg.Validate()
}

// parseOp reads one operation.
func parseOp(text string) (Op, error) {
	f := strings.Fields(text)
	n, ok := arity[f[0]]
	if !ok {
		return Op{}, fmt.Errorf("unknown operation; there are %s", strings.Join(slices.Sorted(maps.Keys(arity)), ", "))
	}
	if len(f)-1 != n {
		return Op{}, fmt.Errorf("%s takes %d numbers, got %d", f[0], n, len(f)-1)
	}
	op := Op{Name: f[0], Args: make([]uint64, n)}
	for i, a := range f[1:] {
		v, err := strconv.ParseUint(a, 0, bits.UintSize-1)
		if err != nil {
			return Op{}, fmt.Errorf("argument %d, %q, is not a number from 0 to 2^63-1", i+1, a)
		}
		op.Args[i] = v
	}
	return op, nil
}
