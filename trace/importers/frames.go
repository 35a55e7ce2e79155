package importers

import (
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/trace/pickle"
)

// frameTable numbers stack frames and the tags made of them. A tag is the most telling frames of a stack, written
// "model.py:54 forward < train.py:20 main", innermost first.
type frameTable struct {
	frames  indexOf[frame]
	ranks   []frameRank // by frame number
	tags    indexOf[[tagFrames]uint32]
	strings []string // text of the tags, made on demand
	short   bool     // tags name functions only
}

// frame is one stack frame: numbers of strings of the heap, and the line.
type frame struct {
	name, file uint32
	line       int32
}

// tagFrames is how many frames a tag names: the caller of a layer tells apart what the layer alone does not.
const tagFrames = 3

// frameRank says how much a frame tells a reader.
type frameRank uint8

const (
	rankNative  frameRank = iota // C++ of the framework and the unwinder
	rankLibrary                  // Python of the framework
	rankUser                     // Python of the program
)

// newFrameTable returns a table in which tag 0 is "no stack" and frame 0 is none.
func newFrameTable() frameTable {
	var t frameTable
	t.frames.of(frame{})
	t.ranks = append(t.ranks, rankNative)
	t.tags.of([tagFrames]uint32{})
	return t
}

// setTag gives an entry the tag of its stack and lets the stack go.
func (t *entryTable) setTag(h *pickle.Heap, e *entry, v pickle.Value) error {
	if token, ok := h.Token(v); ok {
		if token&^uint64(tokenPayload) != tokenTag {
			return fmt.Errorf("something else than a list of frames")
		}
		e.tag = uint32(token & tokenPayload)
		return nil
	}
	switch k := h.Kind(v); k {
	case pickle.KindList, pickle.KindTuple:
	case pickle.KindNone:
		return nil
	default:
		return fmt.Errorf("%s, not a list of frames", k.A())
	}
	tag, err := t.frames.tag(h, v)
	if err != nil {
		return err
	}
	e.tag = tag
	h.Replace(v, tokenTag|uint64(tag))
	return nil
}

// tag numbers the tag of a stack. Every frame becomes a token.
func (t *frameTable) tag(h *pickle.Heap, stack pickle.Value) (uint32, error) {
	var chosen [tagFrames]uint32
	rank, n := rankNative, 0
	for i := range h.Len(stack) {
		id, err := t.frame(h, h.Item(stack, i))
		if err != nil {
			return 0, fmt.Errorf("frame %d: %w", i, err)
		}
		switch r := t.ranks[id]; {
		case r > rank:
			chosen = [tagFrames]uint32{id}
			rank, n = r, 1
		case r == rank && n < tagFrames:
			chosen[n] = id
			n++
		}
	}
	return uint32(t.tags.of(chosen)), nil
}

func (t *frameTable) frame(h *pickle.Heap, v pickle.Value) (uint32, error) {
	if token, ok := h.Token(v); ok {
		if token&^uint64(tokenPayload) != tokenFrame {
			return 0, fmt.Errorf("something else than a frame")
		}
		return uint32(token & tokenPayload), nil
	}
	if k := h.Kind(v); k != pickle.KindDict {
		return 0, fmt.Errorf("%s, not a dictionary", k.A())
	}
	var f frame
	f.name, f.file = t.text(h, v, "name"), t.text(h, v, "filename")
	if line, ok := h.Lookup(v, "line"); ok {
		n, _ := h.Int(line)
		f.line = int32(n)
	}
	id := uint32(t.frames.of(f))
	if int(id) == len(t.ranks) {
		t.ranks = append(t.ranks, rankOf(lookupText(h, v, "filename"), lookupText(h, v, "name")))
	}
	h.Replace(v, tokenFrame|uint64(id))
	return id, nil
}

// text returns 1 + the number of the string at a key, 0 when there is none.
func (t *frameTable) text(h *pickle.Heap, dict pickle.Value, key string) uint32 {
	v, _ := h.Lookup(dict, key)
	id, ok := h.StringID(v)
	if !ok {
		return 0
	}
	return id + 1
}

func lookupText(h *pickle.Heap, dict pickle.Value, key string) string {
	v, ok := h.Lookup(dict, key)
	if !ok {
		return ""
	}
	s, _ := h.Text(v)
	return s
}

// frameworkPaths mark files that belong to PyTorch or Python rather than to the program.
var frameworkPaths = []string{"/torch/", "/site-packages/", "/dist-packages/", "<frozen ", "/lib/python"}

func rankOf(file, name string) frameRank {
	file = strings.ReplaceAll(file, `\`, "/")
	if !strings.HasSuffix(file, ".py") && !strings.HasPrefix(file, "<") {
		return rankNative
	}
	for _, p := range frameworkPaths {
		if strings.Contains(file, p) {
			return rankLibrary
		}
	}
	if name == "" {
		return rankLibrary
	}
	return rankUser
}

// label writes the text of a tag. Of a file only its name is kept: paths tell about people, not about memory.
func (t *frameTable) label(h *pickle.Heap, tag uint32) string {
	for int(tag) >= len(t.strings) {
		t.strings = append(t.strings, "")
	}
	if tag != 0 && t.strings[tag] == "" {
		var parts []string
		for _, id := range t.tags.list[tag] {
			if id != 0 {
				parts = append(parts, t.frameText(h, t.frames.list[id]))
			}
		}
		t.strings[tag] = strings.Join(parts, " < ")
	}
	return t.strings[tag]
}

func (t *frameTable) frameText(h *pickle.Heap, f frame) string {
	name, file := h.TextOf(f.name), h.TextOf(f.file)
	file = cut(file[strings.LastIndexAny(file, `/\`)+1:])
	name = cut(name)
	if t.short || file == "" || file == "??" {
		return name
	}
	if f.line <= 0 {
		return file + " " + name
	}
	return fmt.Sprintf("%s:%d %s", file, f.line, name)
}

// cut shortens a name and makes it valid UTF-8.
func cut(name string) string {
	if len(name) > maxFrameName {
		name = name[:maxFrameName] + "…"
	}
	return strings.ToValidUTF8(name, "")
}

// maxFrameName cuts the name of a function: C++ templates can be thousands of characters long.
const maxFrameName = 120
