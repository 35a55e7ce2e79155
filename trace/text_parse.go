package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes bounds a line of text: a string of MaxStringBytes of which every byte is escaped, and the rest.
const MaxLineBytes = 4*MaxStringBytes + 1<<12

// SyntaxError says which line of a text cannot be read, and what to do.
type SyntaxError struct {
	Name string // name of the text, usually its path
	Line uint64 // from 1
	Err  error  // wraps ErrSyntax, or is an *EventError
}

// ErrSyntax is the reason for which a line is refused that breaks no rule of handles.
var ErrSyntax = errors.New("syntax error")

// Error returns one line: NAME:LINE: what is wrong; what to do.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err) }

// Unwrap returns the reason.
func (e *SyntaxError) Unwrap() error { return e.Err }

// message is an error that is ErrSyntax and says only its own text.
type message struct{ text string }

func (m message) Error() string        { return m.text }
func (m message) Is(target error) bool { return target == ErrSyntax }

func syntaxf(format string, args ...any) error { return message{fmt.Sprintf(format, args...)} }

// Parse reads the text form (docs/TRACES.md) whole into memory. name stands in errors. The first error ends the reading
// and is a *SyntaxError, unless r itself fails.
func Parse(r io.Reader, name string) (*Trace, error) {
	b := NewBuilder()
	meta, err := ParseInto(b, r, name)
	if err != nil {
		return nil, err
	}
	t, err := b.Finish(meta)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// ParseInto reads the text form into a builder, which may write a file: memory does not grow with the text. It does not
// finish the builder; the caller does, with the Meta returned.
func ParseInto(b *Builder, r io.Reader, name string) (Meta, error) {
	p := &parser{b: b, meta: Meta{Source: SourceText, CoversPercent: 100}}
	br := bufio.NewReaderSize(r, readBufferBytes)
	for {
		line, err := p.readLine(br)
		p.line++
		if len(line) > 0 && (err == nil || err == io.EOF) {
			if perr := p.parseLine(bytes.TrimRight(line, "\r\n")); perr != nil {
				return p.meta, p.located(perr, name)
			}
		}
		switch {
		case err == nil:
		case err == io.EOF:
			if p.section == sectionState {
				return p.meta, p.located(syntaxf("the state section does not end: write end after its last block"), name)
			}
			return p.meta, nil
		case errors.Is(err, ErrLimit):
			return p.meta, p.located(err, name)
		default:
			return p.meta, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// readBufferBytes holds every line but the oddest; longer ones are put together in p.long.
const readBufferBytes = 1 << 16

func (p *parser) readLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	p.long = p.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if p.long = append(p.long, line...); len(p.long) > MaxLineBytes {
			return nil, limitError("MaxLineBytes", MaxLineBytes)
		}
		line, err = br.ReadSlice('\n')
	}
	p.long = append(p.long, line...)
	return p.long, err
}

// The parts of a text, in their order.
type textSection uint8

const (
	sectionFirst  textSection = iota // nothing read yet
	sectionHeader                    // in the block of comment lines after "# gpubench trace 1"
	sectionBody
	sectionState
)

type parser struct {
	b       *Builder
	line    uint64
	section textSection
	meta    Meta
	state   *State
	blocks  int
	long    []byte
	a       arguments
	lex     lexer
}

func (p *parser) located(err error, name string) error {
	var ee *EventError
	if errors.As(err, &ee) {
		ee.Line = 0 // the prefix names the line
	}
	return &SyntaxError{Name: name, Line: p.line, Err: err}
}

func (p *parser) parseLine(s []byte) error {
	if p.line == 1 {
		s = bytes.TrimPrefix(s, []byte("\xef\xbb\xbf")) // a byte order mark, as some editors write it
	}
	s = bytes.Trim(s, " \t")
	if p.section <= sectionHeader {
		if in, err := p.headerLine(s); in || err != nil {
			return err
		}
		p.section = sectionBody
	}
	if len(s) == 0 || s[0] == '#' {
		return nil
	}
	p.lex = lexer{s: s}
	t, ok, err := p.lex.next()
	if err != nil || !ok {
		return lexError(err)
	}
	if p.section == sectionState {
		return p.stateLine(t)
	}
	return p.statement(t)
}

func lexError(err error) error {
	if err == nil {
		return nil
	}
	return syntaxf("%v", err)
}

// word returns the next token, which must be a lone word.
func (p *parser) word(what string) ([]byte, error) {
	t, ok, err := p.lex.next()
	if err != nil {
		return nil, lexError(err)
	}
	if !ok {
		return nil, syntaxf("%s is missing", what)
	}
	if t.eq {
		return nil, syntaxf("found %s=… where %s is due", t.key, what)
	}
	return t.key, nil
}

// handle returns the next token as a handle.
func (p *parser) handle() (Handle, error) {
	w, err := p.word("a handle such as h1")
	if err != nil {
		return 0, err
	}
	return parseHandle(w)
}

func parseHandle(w []byte) (Handle, error) {
	if len(w) > 1 && w[0] == 'h' && w[1]-'0' <= 9 {
		if n, _, digits, rest, err := scanDecimal(w[1:]); err == nil && digits == 0 && len(rest) == 0 && n > 0 && w[1] != '0' {
			return Handle(n), nil
		}
	}
	return 0, syntaxf("%q is no handle: write h and a number from 1, for example h1", w)
}

// number reads an unsigned number, decimal or hexadecimal.
func number(w []byte, what string) (uint64, error) {
	n, _, digits, rest, err := scanDecimal(w)
	if err != nil || digits != 0 || len(rest) != 0 {
		return 0, syntaxf("%s %q is no whole number below 2^64", what, w)
	}
	return n, nil
}
