package pickle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// inputBytes is the size of the read buffer.
const inputBytes = 64 << 10

// input is a buffered reader that can show several bytes at once and knows its offset.
type input struct {
	src      io.Reader
	buf      []byte
	pos, end int
	base     int64 // offset of buf[0]
	max      int64
	err      error
}

func newInput(src io.Reader, max int64) *input {
	return &input{src: src, buf: make([]byte, inputBytes), max: max}
}

func (in *input) offset() int64 { return in.base + int64(in.pos) }

// fill reads until at least n bytes (n ≤ inputBytes) are buffered.
func (in *input) fill(n int) error {
	if in.pos > 0 {
		copy(in.buf, in.buf[in.pos:in.end])
		in.base += int64(in.pos)
		in.end -= in.pos
		in.pos = 0
	}
	for in.end < n {
		if in.err != nil {
			if errors.Is(in.err, io.EOF) {
				return fmt.Errorf("%w at byte %d", ErrTruncated, in.base+int64(in.end))
			}
			return in.err
		}
		var got int
		got, in.err = in.src.Read(in.buf[in.end:])
		in.end += got
		if in.base+int64(in.end) > in.max {
			return overLimit("bytes of input", in.max)
		}
	}
	return nil
}

// take returns the next n ≤ inputBytes bytes, valid until the next call.
func (in *input) take(n int) ([]byte, error) {
	if in.end-in.pos < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	b := in.buf[in.pos : in.pos+n]
	in.pos += n
	return b, nil
}

// takeLong returns the next n bytes, however many, growing only as they really arrive.
func (in *input) takeLong(n int) ([]byte, error) {
	if n <= inputBytes {
		return in.take(n)
	}
	var out []byte
	for n > 0 {
		b, err := in.take(min(n, inputBytes))
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
		n -= len(b)
	}
	return out, nil
}

// line returns the bytes up to the next newline, without it, at most max.
func (in *input) line(max int) ([]byte, error) {
	var out []byte
	for {
		part := in.buf[in.pos:in.end]
		end := bytes.IndexByte(part, '\n')
		if end >= 0 {
			part = part[:end]
		}
		if len(out)+len(part) > max {
			return nil, overLimit("bytes in one string or number", int64(max))
		}
		out = append(out, part...)
		in.pos += len(part)
		if end >= 0 {
			in.pos++
			return out, nil
		}
		if err := in.fill(1); err != nil {
			return nil, err
		}
	}
}
