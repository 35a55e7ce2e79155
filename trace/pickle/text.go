package pickle

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// This file reads the arguments of protocol 0, which are text up to a newline.

func (m *machine) indexLine() (uint64, error) {
	b, err := m.in.line(m.limits.StringBytes)
	if err != nil {
		return 0, err
	}
	i, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, malformed("memo index %s", clip(b))
	}
	return i, nil
}

// decimal takes INT, LONG and FLOAT. INT 00 and 01 are False and True; LONG may end in L.
func (m *machine) decimal(op byte) error {
	b, err := m.in.line(m.limits.StringBytes)
	if err != nil {
		return err
	}
	if op == opFloat {
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return malformed("float %s", clip(b))
		}
		return m.push(m.makeFloat(f))
	}
	if op == opInt && len(b) == 2 && b[0] == '0' && (b[1] == '0' || b[1] == '1') {
		return m.push(boolValue(b[1] == '1'))
	}
	if op == opLong {
		b = bytes.TrimSuffix(b, []byte{'L'})
	}
	if x, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return m.push(m.makeInt(x))
	}
	x, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return malformed("integer %s", clip(b))
	}
	return m.push(m.makeUint(x))
}

func (m *machine) textLine(op byte) error {
	b, err := m.in.line(m.limits.StringBytes)
	if err != nil {
		return err
	}
	if op == opUnicode {
		b, err = rawUnicodeEscape(b)
	} else {
		b, err = unquote(b)
	}
	if err != nil {
		return err
	}
	v, err := m.intern(b)
	if err != nil {
		return err
	}
	return m.push(v)
}

// rawUnicodeEscape decodes the argument of UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX, every other backslash literal.
func rawUnicodeEscape(b []byte) ([]byte, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		digits := 0
		if b[i] == '\\' && i+1 < len(b) {
			switch b[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			out = utf8.AppendRune(out, rune(b[i]))
			i++
			continue
		}
		r, ok := hex(b[i+2:], digits)
		if !ok {
			return nil, malformed("escape in string %s", clip(b))
		}
		out = utf8.AppendRune(out, r)
		i += 2 + digits
	}
	return out, nil
}

// simpleEscapes are Python's one-letter escapes.
var simpleEscapes = map[byte]byte{'\\': '\\', '\'': '\'', '"': '"', 'n': '\n', 'r': '\r', 't': '\t', 'a': 7, 'b': 8, 'f': 12, 'v': 11}

// unquote decodes the argument of STRING: a quoted Python 2 string with escapes. Its bytes are taken as UTF-8.
func unquote(b []byte) ([]byte, error) {
	if len(b) < 2 || b[0] != b[len(b)-1] || b[0] != '\'' && b[0] != '"' {
		return nil, malformed("string %s is not quoted", clip(b))
	}
	whole := b
	b = b[1 : len(b)-1]
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		i++
		if i == len(b) {
			return nil, malformed("escape in string %s", clip(whole))
		}
		c, simple := simpleEscapes[b[i]]
		switch {
		case simple:
			out = append(out, c)
		case b[i] == 'x':
			r, ok := hex(b[i+1:], 2)
			if !ok {
				return nil, malformed("escape in string %s", clip(whole))
			}
			out = append(out, byte(r))
			i += 2
		case b[i] >= '0' && b[i] <= '7':
			n := 0
			x := 0
			for n < 3 && i+n < len(b) && b[i+n] >= '0' && b[i+n] <= '7' {
				x = x<<3 | int(b[i+n]-'0')
				n++
			}
			out = append(out, byte(x))
			i += n - 1
		default:
			out = append(out, '\\', b[i])
		}
	}
	return out, nil
}

func hex(b []byte, digits int) (rune, bool) {
	if len(b) < digits {
		return 0, false
	}
	x, err := strconv.ParseUint(string(b[:digits]), 16, 32)
	if err != nil || x > utf8.MaxRune {
		return 0, false
	}
	return rune(x), true
}

// clip quotes a piece of input for a message, shortened to one short line.
func clip(b []byte) string {
	const most = 40
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}
