package pickle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// ReadJSON reads one JSON text as if it were a pickle: objects become dictionaries, arrays lists. Python's NaN, Infinity and
// -Infinity are accepted. It has its own scanner because encoding/json bounds neither the length of a string nor the depth
// of a token stream; strings with escapes are still decoded by encoding/json.
func ReadJSON(r io.Reader, o Options) (*Heap, Value, error) {
	h := newHeap(o.Limits, o.Sink)
	s := &jsonReader{Heap: h, in: newInput(r, h.limits.Bytes), streamKey: o.StreamKey}
	v, err := s.value("", 0)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("byte %d: JSON: %w", s.in.offset(), err)
	}
	return h, v, nil
}

type jsonReader struct {
	*Heap
	in        *input
	streamKey string
	scratch   []byte
}

// peek returns the next byte that is not white space, without taking it.
func (s *jsonReader) peek() (byte, error) {
	for {
		if s.in.pos == s.in.end {
			if err := s.in.fill(1); err != nil {
				return 0, err
			}
		}
		switch c := s.in.buf[s.in.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.in.pos++
		default:
			return c, nil
		}
	}
}

// end checks that only white space follows.
func (s *jsonReader) end() error {
	c, err := s.peek()
	if errors.Is(err, ErrTruncated) {
		return nil
	}
	if err == nil {
		err = malformed("%q after the end of the object", c)
	}
	return err
}

// value reads one value. key is the key it stands at when its list may hold streamed lists, depth how deep it lies.
func (s *jsonReader) value(key string, depth int) (Value, error) {
	if depth > s.limits.Depth {
		return 0, overLimit("nested containers", int64(s.limits.Depth))
	}
	c, err := s.peek()
	if err != nil {
		return 0, err
	}
	switch {
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(key, false, depth)
	case c == '"':
		return s.text()
	}
	return s.scalar()
}

func (s *jsonReader) object(depth int) (Value, error) {
	s.in.pos++
	dict := s.make(KindDict)
	for first := true; ; first = false {
		c, err := s.peek()
		if err != nil {
			return 0, err
		}
		if c == '}' {
			s.in.pos++
			return dict, nil
		}
		if !first {
			if err := s.expect(','); err != nil {
				return 0, err
			}
		}
		if c, err = s.peek(); err != nil {
			return 0, err
		}
		if c != '"' {
			return 0, malformed("%q where a key belongs", c)
		}
		key, err := s.text()
		if err != nil {
			return 0, err
		}
		if err := s.expect(':'); err != nil {
			return 0, err
		}
		name, _ := s.Text(key)
		v, err := s.value(name, depth+1)
		if err != nil {
			return 0, err
		}
		if err := s.add(s.node(dict), key, v); err != nil {
			return 0, err
		}
	}
}

// array reads a list; its items go to the sink when stream is set. key is that of value.
func (s *jsonReader) array(key string, stream bool, depth int) (Value, error) {
	if depth > s.limits.Depth {
		return 0, overLimit("nested containers", int64(s.limits.Depth))
	}
	s.in.pos++
	list := s.make(KindList)
	inner := s.streamKey != "" && key == s.streamKey
	for first := true; ; first = false {
		c, err := s.peek()
		if err != nil {
			return 0, err
		}
		if c == ']' {
			s.in.pos++
			return list, nil
		}
		if !first {
			if err := s.expect(','); err != nil {
				return 0, err
			}
			if c, err = s.peek(); err != nil {
				return 0, err
			}
		} else if stream {
			s.stream(s.node(list))
		}
		var v Value
		if inner && c == '[' {
			v, err = s.array("", true, depth+1)
		} else {
			v, err = s.value("", depth+1)
		}
		if err != nil {
			return 0, err
		}
		if err := s.append(s.node(list), v); err != nil {
			return 0, err
		}
	}
}

func (s *jsonReader) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return malformed("%q where %q belongs", c, want)
	}
	s.in.pos++
	return nil
}

// text reads a string.
func (s *jsonReader) text() (Value, error) {
	s.scratch = append(s.scratch[:0], '"')
	s.in.pos++
	plain := true
	for escaped := false; ; {
		if s.in.pos == s.in.end {
			if err := s.in.fill(1); err != nil {
				return 0, err
			}
		}
		c := s.in.buf[s.in.pos]
		s.in.pos++
		s.scratch = append(s.scratch, c)
		if len(s.scratch) > s.limits.StringBytes {
			return 0, overLimit("bytes in one string", int64(s.limits.StringBytes))
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped, plain = true, false
		case c == '"':
			if plain {
				return s.intern(s.scratch[1 : len(s.scratch)-1])
			}
			var decoded string
			if err := json.Unmarshal(s.scratch, &decoded); err != nil {
				return 0, malformed("string %s", clip(s.scratch))
			}
			return s.intern([]byte(decoded))
		}
	}
}

// maxScalarBytes bounds a number or word.
const maxScalarBytes = 64

// scalar reads a number or one of the words.
func (s *jsonReader) scalar() (Value, error) {
	s.scratch = s.scratch[:0]
	for {
		if s.in.pos == s.in.end {
			if err := s.in.fill(1); errors.Is(err, ErrTruncated) {
				break
			} else if err != nil {
				return 0, err
			}
		}
		c := s.in.buf[s.in.pos]
		if c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		s.scratch = append(s.scratch, c)
		s.in.pos++
		if len(s.scratch) > maxScalarBytes {
			return 0, malformed("%s", clip(s.scratch))
		}
	}
	switch word := string(s.scratch); word {
	case "true", "false":
		return boolValue(word == "true"), nil
	case "null":
		return makeValue(KindNone, 0), nil
	case "NaN":
		return s.makeFloat(math.NaN()), nil
	case "Infinity", "-Infinity":
		return s.makeFloat(math.Inf(len("Infinity") - len(word))), nil
	default:
		return s.jsonNumber(word)
	}
}

func (s *jsonReader) jsonNumber(word string) (Value, error) {
	if word == "" {
		c, _ := s.peek()
		return 0, malformed("%q where a value belongs", c)
	}
	if x, err := strconv.ParseInt(word, 10, 64); err == nil {
		return s.makeInt(x), nil
	}
	if x, err := strconv.ParseUint(word, 10, 64); err == nil {
		return s.makeUint(x), nil
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, malformed("number %s", clip([]byte(word)))
	}
	return s.makeFloat(f), nil
}
