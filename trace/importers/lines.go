package importers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLineBytes bounds a line of a text format.
const maxLineBytes = 1 << 20

// lineReader reads lines and counts them.
type lineReader struct {
	r    *bufio.Reader
	no   uint64
	long []byte
	cut  bool // the last line returned did not end in a newline
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next line without its end, CRLF included, or io.EOF. It is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	l.no++
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			if l.long = append(l.long, line...); len(l.long) > maxLineBytes {
				return nil, l.errorf("longer than %d bytes", maxLineBytes)
			}
		}
		line = l.long
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, l.wrap(err)
	}
	if len(line) == 0 {
		return nil, io.EOF
	}
	l.cut = line[len(line)-1] != '\n'
	line = bytes.TrimRight(line, "\r\n")
	if l.no == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, nil
}

func (l *lineReader) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", l.no, fmt.Sprintf(format, args...))
}

func (l *lineReader) wrap(err error) error { return fmt.Errorf("line %d: %w", l.no, err) }
