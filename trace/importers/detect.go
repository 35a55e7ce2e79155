package importers

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gpubench/gpubench/trace"
)

// Format is a file format, told by content.
type Format string

// The formats.
const (
	FormatBinary         Format = "gpubench-binary"
	FormatText           Format = "gpubench-text"
	FormatSnapshotPickle Format = "pytorch-snapshot"
	FormatSnapshotJSON   Format = "pytorch-snapshot-json"
	FormatRMM            Format = "rmm-csv"
	FormatScript         Format = "script"
	FormatOperations     Format = "operations-jsonl"
)

// Files that are recognised but hold no recording.
var (
	ErrUnknownFormat = errors.New("format not recognised")
	ErrLFSPointer    = errors.New("this is a Git LFS pointer, not the file itself: fetch it with `git lfs pull`")
	ErrEmpty         = errors.New("the file is empty")
)

// DetectBytes is how many leading bytes Detect looks at.
const DetectBytes = 4096

// Detect names the format of a file from its first bytes (after decompression), DetectBytes or the whole file.
func Detect(head []byte) (Format, error) {
	switch {
	case len(head) == 0:
		return "", ErrEmpty
	case trace.IsBinary(head):
		return FormatBinary, nil
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return "", ErrLFSPointer
	case head[0] == 0x80: // PROTO, the first opcode of protocols 2 to 5
		return FormatSnapshotPickle, nil
	}
	if f := detectText(head); f != "" {
		return f, nil
	}
	// Protocols 0 and 1 have no first opcode of their own: a dictionary or a list begins with MARK, or is empty first.
	if c := head[0]; c == '(' || (c == '}' || c == ']') && len(head) > 1 || plainPickle(head) {
		return FormatSnapshotPickle, nil
	}
	return "", fmt.Errorf("%w: it begins with %q; known are PyTorch snapshots (pickle or JSON), RMM logs, allocation scripts, operations as JSON lines and traces of gpubench",
		ErrUnknownFormat, clip(string(head[:min(len(head), 64)])))
}

// plainPickle says whether a file could be a protocol 0 pickle that executes something, so that it is refused by name.
func plainPickle(head []byte) bool {
	return head[0] == 'c' && bytes.Count(head, []byte{'\n'}) >= 2 && bytes.ContainsAny(head, "(R")
}

// detectText looks at the first line that is not empty.
func detectText(head []byte) Format {
	text := strings.TrimPrefix(string(head), "\ufeff")
	line := ""
	for _, l := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(l); line != "" {
			break
		}
	}
	switch {
	case strings.HasPrefix(line, "# gpubench trace"):
		return FormatText
	case isRMMHeader(line):
		return FormatRMM
	case strings.HasPrefix(line, "# cap=") || isScriptLine(line):
		return FormatScript
	case strings.HasPrefix(line, "{") && isOperationsHeader(line):
		return FormatOperations
	case (strings.HasPrefix(line, "{") || strings.HasPrefix(line, "[")) && looksLikeJSON(line):
		return FormatSnapshotJSON
	}
	if isTraceText(text) {
		return FormatText
	}
	return ""
}

// isTraceText reports whether the first line that is no comment is an event of the text form: what a person writes by hand
// has no header.
func isTraceText(text string) bool {
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l == "" || l[0] == '#' {
			continue
		}
		if namesHandle(l) {
			return true
		}
		t, err := trace.Parse(strings.NewReader(l+"\n"), "")
		return err == nil && len(t.Events) == 1
	}
	return false
}

// namesHandle reports whether a line begins like an event that makes a handle, h1 = …: nothing else does, and whoever mistyped
// the rest is told so, with the line.
func namesHandle(line string) bool {
	name, _, ok := strings.Cut(line, "=")
	name = strings.TrimSpace(name)
	return ok && len(name) > 1 && name[0] == 'h' && strings.Trim(name[1:], "0123456789") == ""
}

// looksLikeJSON tells a JSON text from a protocol 1 pickle, whose first byte may be ']' or '}' but never '{' or '['.
func looksLikeJSON(line string) bool { return utf8.ValidString(line[:1]) }

// clip shortens a text for a message to one short, valid line.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}
