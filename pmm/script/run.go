package script

import (
	"bufio"
	"fmt"
	"io"

	"github.com/gpubench/gpubench/pmm"
)

// Options choose what Run does beside running.
type Options struct {
	// Check verifies every invariant after every operation and stops at the first breach.
	Check bool
	// Lazy applies the list rule after a lazy free (pmm.Config.LazyListRule) instead of the driver's behaviour.
	Lazy bool
	// Observe, when set, is called after every operation.
	Observe func(op Op, m *pmm.Model)
}

// Run parses a script, runs it on a fresh model and writes the outcomes: a header line, then one JSON object a line, byte
// for byte as the recordings of the driver's own code. A malformed script is an error that wraps ErrSyntax, before
// anything is written.
func Run(r io.Reader, w io.Writer, opts Options) error {
	s, err := Parse(r)
	if err != nil {
		return err
	}
	return s.Run(w, opts)
}

// Run is the function Run for a script that is parsed.
func (s *Script) Run(w io.Writer, opts Options) error {
	cfg := s.Config
	cfg.LazyListRule = opts.Lazy
	m, err := pmm.New(cfg)
	if err != nil {
		return err
	}
	if opts.Check {
		m.Audit()
	}
	bw := bufio.NewWriterSize(w, 64<<10)
	rn := newRunner(m)
	line := appendHeader(nil, cfg)
	for i, op := range s.Ops {
		if _, err := bw.Write(line); err != nil {
			return fmt.Errorf("writing outcomes: %w", err)
		}
		rn.do(op)
		line = rn.appendLine(line[:0], i, op)
		if opts.Observe != nil {
			opts.Observe(op, m)
		}
		if !opts.Check {
			continue
		}
		if v := m.Check(); len(v) > 0 {
			// What led there is written too; the breach is what is reported.
			_, _ = bw.Write(line)
			_ = bw.Flush()
			return fmt.Errorf("line %d %q: %w", op.Line, op, v[0])
		}
	}
	if _, err := bw.Write(line); err != nil {
		return fmt.Errorf("writing outcomes: %w", err)
	}
	if err := bw.Flush(); err != nil {
		return fmt.Errorf("writing outcomes: %w", err)
	}
	return nil
}

// Play runs a script on a fresh, audited model without printing, and returns the model as it is in the end, for views of it.
func Play(r io.Reader) (*pmm.Model, error) {
	s, err := Parse(r)
	if err != nil {
		return nil, err
	}
	m, err := pmm.New(s.Config)
	if err != nil {
		return nil, err
	}
	m.Audit()
	rn := newRunner(m)
	for _, op := range s.Ops {
		rn.do(op)
		if v := m.Breaches(); len(v) > 0 {
			return nil, fmt.Errorf("line %d %q: %w", op.Line, op, v[0])
		}
	}
	return m, nil
}
