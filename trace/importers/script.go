package importers

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

// SourceScript is the Meta.Source of traces made from allocation scripts.
const SourceScript = "script"

// isScriptLine reports whether a line is an operation of a script.
func isScriptLine(line string) bool {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "a" && f[0] != "f" {
		return false
	}
	for _, n := range f[1:] {
		if _, err := strconv.ParseUint(n, 10, 64); err != nil {
			return false
		}
	}
	return f[0] == "a" && (len(f) == 3 || len(f) == 4) || f[0] == "f" && len(f) <= 3
}

// handles turns the ids of a script into handles. Where ids count from 0, every handle is its id + 1.
type handles struct {
	base  uint64
	known bool
}

func (h *handles) of(id uint64) (trace.Handle, error) {
	if !h.known {
		h.known = true
		if id == 0 {
			h.base = 1
		}
	}
	if id+h.base == 0 || id > ^uint64(0)-h.base {
		return 0, fmt.Errorf("id %d: the ids of this file count from 1", id)
	}
	return trace.Handle(id + h.base), nil
}

// script reads the lines `a ID SIZE [STREAM]` and `f ID [STREAM]`, with an optional header `# cap=BYTES name=NAME`. Unlike
// in a log of pointers, an id that was never allocated or is freed twice is an error: a script is written, not observed.
type script struct {
	b     *trace.Builder
	ids   handles
	sizes map[trace.Handle]uint64
	meta  trace.Meta
	facts Facts
	bytes uint64
}

func importScript(r io.Reader, title string, b *trace.Builder) (Imported, error) {
	s := &script{b: b, sizes: map[trace.Handle]uint64{}, meta: trace.Meta{Source: SourceScript, Title: title, CoversPercent: 100}}
	lines := newLineReader(r)
	for {
		raw, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Imported{}, err
		}
		line := strings.TrimSpace(string(raw))
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			err = s.header(line)
		default:
			err = s.operation(strings.Fields(line))
		}
		if err != nil {
			return Imported{}, lines.wrap(err)
		}
	}
	s.facts.CoversPercent = 100
	s.facts.Unproven = "a script holds no addresses"
	t, err := b.Finish(s.meta)
	return Imported{Trace: t, Facts: s.facts}, err
}

func (s *script) header(line string) error {
	for _, word := range strings.Fields(line[1:]) {
		key, val, _ := strings.Cut(word, "=")
		switch key {
		case "cap":
			n, err := strconv.ParseUint(val, 10, 64)
			if err != nil {
				return fmt.Errorf("cap=%s is not a number of bytes", clip(val))
			}
			s.meta.CapacityBytes = n
		case "name":
			s.meta.Title = clip(val)
		}
	}
	return nil
}

func (s *script) operation(f []string) error {
	if !isScriptLine(strings.Join(f, " ")) {
		return fmt.Errorf("%q is neither `a ID SIZE [STREAM]` nor `f ID [STREAM]`", clip(strings.Join(f, " ")))
	}
	var n [3]uint64
	for i, word := range f[1:] {
		n[i], _ = strconv.ParseUint(word, 10, 64) // isScriptLine has checked it
	}
	s.facts.Records++
	h, err := s.ids.of(n[0])
	if err != nil {
		return err
	}
	if f[0] == "a" {
		s.facts.Allocs++
		if err := s.b.Alloc(h, n[1], trace.AllocArgs{Stream: s.b.Stream(n[2])}); err != nil {
			return err
		}
		s.sizes[h] = n[1]
		s.bytes += n[1]
		s.facts.LiveBytesMax = max(s.facts.LiveBytesMax, s.bytes)
		return nil
	}
	s.facts.Frees++
	args := trace.FreeArgs{}
	if len(f) == 3 {
		args = trace.FreeArgs{Stream: s.b.Stream(n[1]), OnStream: true}
	}
	if err := s.b.Free(h, args); err != nil {
		return err
	}
	s.bytes -= s.sizes[h]
	delete(s.sizes, h)
	return nil
}
