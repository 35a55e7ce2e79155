package trace

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// token is one word of a line: KEY, KEY=VALUE, or VALUE alone in quotes (then quoted is set and it lies in key).
type token struct {
	key, val []byte
	eq       bool // an equals sign followed the key
	quoted   bool // the key was in quotes
}

var errQuote = errors.New("a string in quotes does not end, or has an unknown escape")

// lexer splits a line into tokens. Tokens point into the line unless a string has escapes.
type lexer struct {
	s []byte
	i int
}

// next returns the next token; ok is false at the end of the line or at a comment.
func (l *lexer) next() (t token, ok bool, err error) {
	for l.i < len(l.s) && (l.s[l.i] == ' ' || l.s[l.i] == '\t') {
		l.i++
	}
	if l.i >= len(l.s) || l.s[l.i] == '#' {
		return t, false, nil
	}
	if l.s[l.i] == '"' {
		t.quoted = true
		if t.key, err = l.quoted(); err != nil {
			return t, false, err
		}
	} else {
		start := l.i
		for l.i < len(l.s) && !endsKey(l.s[l.i]) {
			l.i++
		}
		t.key = l.s[start:l.i]
	}
	if l.i >= len(l.s) || l.s[l.i] != '=' {
		return t, true, l.boundary()
	}
	l.i++
	t.eq = true
	if l.i < len(l.s) && l.s[l.i] == '"' {
		if t.val, err = l.quoted(); err != nil {
			return t, false, err
		}
		return t, true, l.boundary()
	}
	start := l.i
	for l.i < len(l.s) && l.s[l.i] != ' ' && l.s[l.i] != '\t' && l.s[l.i] != '"' {
		l.i++
	}
	t.val = l.s[start:l.i]
	return t, true, l.boundary()
}

func endsKey(c byte) bool { return c == ' ' || c == '\t' || c == '=' || c == '"' }

// boundary holds that a token is followed by a blank.
func (l *lexer) boundary() error {
	if l.i < len(l.s) && l.s[l.i] != ' ' && l.s[l.i] != '\t' {
		return fmt.Errorf("stray %q: put a blank between words, and quotes round the whole of a value", l.s[l.i])
	}
	return nil
}

// quoted reads a string in quotes, which begins at l.i.
func (l *lexer) quoted() ([]byte, error) {
	s := l.s[l.i:]
	for j := 1; j < len(s); j++ {
		switch s[j] {
		case '"':
			l.i += j + 1
			if bytes.IndexByte(s[:j], '\\') < 0 {
				return s[1:j], nil
			}
			text, err := strconv.Unquote(string(s[:j+1]))
			if err != nil {
				return nil, errQuote
			}
			return []byte(text), nil
		case '\\':
			j++
		}
	}
	return nil, errQuote
}

// bare reports whether s may stand without quotes as a name or a value.
func bare(s string) bool {
	if s == "" || s[0] == '-' || s[0] == '@' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '#' || c == '=' || c == '\\' {
			return false
		}
	}
	return true
}

// appendWord appends s, in quotes where it needs them.
func appendWord(p []byte, s string) []byte {
	if bare(s) {
		return append(p, s...)
	}
	return strconv.AppendQuote(p, s)
}

// nearest returns the word of list closest to s, "" when none is close: at most two letters changed, added, dropped, or
// swapped.
func nearest(s string, list []string) string {
	best, at := 3, ""
	for _, w := range list {
		if d := editDistance(s, w, best); d < best {
			best, at = d, w
		}
	}
	return at
}

// editDistance is Levenshtein's distance, cut off at limit.
func editDistance(a, b string, limit int) int {
	if len(a) > 32 || len(b) > 32 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var row [33]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost = 1 + min(diag, row[j], row[j+1])
			}
			diag, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}
