package goldentest

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Op is one operation of a script.
type Op struct {
	Size   uint64
	ID     uint32 // of the allocation; ids are dense
	Stream uint16
	Free   bool
}

// Script is an allocation script: lines `a ID SIZE [STREAM]` and `f ID [STREAM]` below a header `# cap=BYTES name=NAME`.
type Script struct {
	CapacityBytes uint64
	Ops           []Op
	IDs           int // ids are below it
	Streams       int // streams are below it; at least 1
}

// LoadScript reads a script, compressed when its name ends in .gz.
func LoadScript(path string) (*Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	s, err := parseScript(r)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return s, nil
}

func parseScript(r io.Reader) (*Script, error) {
	s := &Script{Streams: 1}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		var err error
		if fields[0] == "#" {
			err = s.header(fields[1:])
		} else {
			err = s.op(fields)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	if s.CapacityBytes == 0 {
		return nil, fmt.Errorf("1: no header with cap=BYTES")
	}
	return s, lines.Err()
}

func (s *Script) header(fields []string) (err error) {
	for _, f := range fields {
		if v, ok := strings.CutPrefix(f, "cap="); ok {
			s.CapacityBytes, err = strconv.ParseUint(v, 10, 64)
		}
	}
	return err
}

func (s *Script) op(fields []string) error {
	op := Op{Free: fields[0] == "f"}
	want := 3
	if op.Free {
		want = 2
	} else if fields[0] != "a" {
		return fmt.Errorf("unknown operation %q", fields[0])
	}
	if len(fields) != want && len(fields) != want+1 {
		return fmt.Errorf("%q has %d fields, want %d or %d", fields[0], len(fields), want, want+1)
	}
	id, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return err
	}
	op.ID = uint32(id)
	if !op.Free {
		if op.Size, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
			return err
		}
	}
	if len(fields) > want {
		stream, err := strconv.ParseUint(fields[want], 10, 16)
		if err != nil {
			return err
		}
		op.Stream = uint16(stream)
	}
	s.Ops = append(s.Ops, op)
	s.IDs = max(s.IDs, int(op.ID)+1)
	s.Streams = max(s.Streams, int(op.Stream)+1)
	return nil
}
