package bounds

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrCSV says that a file is no MiniMalloc CSV. The error names the line.
var ErrCSV = errors.New("not a MiniMalloc CSV")

// MaxBuffers bounds the buffers that ReadCSV reads.
const MaxBuffers = 1 << 20

// columns of MiniMalloc's CSV, by their names and aliases; end is inclusive where upper is not.
var columns = map[string]string{
	"id": "id", "buffer": "id", "buffer_id": "id", "lower": "lower", "begin": "lower", "start": "lower",
	"upper": "upper", "end": "end", "size": "size", "alignment": "alignment", "gaps": "gaps", "hint": "hint", "offset": "offset",
}

// ReadCSV reads MiniMalloc's CSV (google/minimalloc src/converter.cc): a header that names the columns in any order (id, lower,
// upper, size are needed; begin and start are lower, end is upper but inclusive, buffer and buffer_id are id; alignment and gaps are read, hint and offset
// are not), then a buffer a line, up to the end or the first empty line. A gap is lo-hi, gaps are separated by spaces; the window behind
// an @ is read as if the whole buffer were unused.
func ReadCSV(r io.Reader) ([]Buffer, error) {
	lines := csv.NewReader(untilEmptyLine(r))
	lines.TrimLeadingSpace = true
	head, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: no header: %w", ErrCSV, err)
	}
	at := map[string]int{}
	for i, name := range head {
		c, ok := columns[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))]
		if !ok {
			return nil, fmt.Errorf("%w: line 1: unknown column %q", ErrCSV, name)
		}
		if _, twice := at[c]; twice {
			return nil, fmt.Errorf("%w: line 1: column %s is named twice", ErrCSV, c)
		}
		at[c] = i
	}
	if _, ok := at["upper"]; !ok {
		if _, ok = at["end"]; !ok {
			return nil, fmt.Errorf("%w: line 1: no column upper or end", ErrCSV)
		}
	}
	for _, c := range []string{"id", "lower", "size"} {
		if _, ok := at[c]; !ok {
			return nil, fmt.Errorf("%w: line 1: no column %s", ErrCSV, c)
		}
	}
	var out []Buffer
	for {
		row, err := lines.Read()
		if err == io.EOF {
			return out, nil
		}
		line, _ := lines.FieldPos(0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCSV, err)
		}
		b, err := parseBuffer(row, at)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrCSV, line, err)
		}
		if out = append(out, b); len(out) > MaxBuffers {
			return nil, fmt.Errorf("%w: line %d: more than MaxBuffers, %d", ErrCSV, line, MaxBuffers)
		}
	}
}

func parseBuffer(row []string, at map[string]int) (b Buffer, err error) {
	number := func(column string) (n int64) {
		if i, ok := at[column]; ok && err == nil {
			if n, err = strconv.ParseInt(strings.TrimSpace(row[i]), 10, 64); err != nil {
				err = fmt.Errorf("%s is %q, not a number", column, row[i])
			}
		}
		return n
	}
	b.ID = row[at["id"]]
	b.Lower, b.Upper = number("lower"), number("upper")
	if _, ok := at["end"]; ok {
		if b.Upper = number("end"); b.Upper < 1<<63-1 {
			b.Upper++
		}
	}
	size, align := number("size"), number("alignment")
	if err != nil {
		return b, err
	}
	if size <= 0 || align < 0 || b.Lower >= b.Upper {
		return b, fmt.Errorf("buffer %s has size %d, alignment %d and the lifetime [%d, %d)", b.ID, size, align, b.Lower, b.Upper)
	}
	b.Size, b.Alignment = uint64(size), uint64(align)
	if i, ok := at["gaps"]; ok {
		b.Gaps, err = parseGaps(row[i], b)
	}
	return b, err
}

func parseGaps(text string, b Buffer) (gaps []Span, err error) {
	last := b.Lower
	for _, word := range strings.Fields(text) {
		span, _, _ := strings.Cut(word, "@")
		lo, hi, ok := strings.Cut(span, "-")
		g := Span{}
		var e1, e2 error
		g.Lower, e1 = strconv.ParseInt(lo, 10, 64)
		g.Upper, e2 = strconv.ParseInt(hi, 10, 64)
		if !ok || e1 != nil || e2 != nil || g.Lower < last || g.Upper <= g.Lower || g.Upper > b.Upper {
			return nil, fmt.Errorf("buffer %s has the gap %q; give lo-hi within [%d, %d), in ascending order", b.ID, word, b.Lower, b.Upper)
		}
		last = g.Upper
		gaps = append(gaps, g)
	}
	return gaps, nil
}

// emptyLineReader ends at the first empty line.
type emptyLineReader struct {
	r       io.Reader
	newline bool // the last byte given out was a newline
	end     bool
}

func untilEmptyLine(r io.Reader) io.Reader { return &emptyLineReader{r: r} }

// Read gives out what comes before the first empty line.
func (e *emptyLineReader) Read(p []byte) (int, error) {
	if e.end {
		return 0, io.EOF
	}
	n, err := e.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' && e.newline {
			e.end = true
			return i, nil
		}
		if c != '\r' {
			e.newline = c == '\n'
		}
	}
	return n, err
}
