package fuzz

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpubench/gpubench/fuzz/plan"
	"github.com/gpubench/gpubench/internal/clock"
)

const (
	stateFile   = "state.json"
	corpusDir   = "corpus"
	stateSchema = 1
	// saveEvery is how often progress is written: what a kill costs at most.
	saveEvery = 2 * time.Second
)

// state is what a campaign needs to go on: everything else follows from the seed.
type state struct {
	Schema int        `json:"schema"`
	Target string     `json:"target"`
	Report *Report    `json:"report"`
	Corpus []string   `json:"corpus"`   // names of the entries, in order
	New    [][]uint16 `json:"edges_of"` // of each entry
	Edges  string     `json:"edges"`    // base64 of the set
}

// load reads the state of an earlier run of the same target and seed, and the corpus. A corpus without a state was filled by hand or by
// another seed: it is replayed first.
func (c *campaign) load() error {
	if c.opts.State == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(c.opts.State, corpusDir), 0o755); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	list, problems, err := ReadCorpus(filepath.Join(c.opts.State, corpusDir))
	if err != nil {
		return err
	}
	for _, p := range problems {
		c.warn("corpus: %v; left out", p)
	}
	text, err := os.ReadFile(filepath.Join(c.opts.State, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		c.corpus = list
		return nil
	}
	if err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil || s.Schema != stateSchema || s.Report == nil {
		return fmt.Errorf("campaign: %s is not the state of a campaign of this version; remove it to start anew", filepath.Join(c.opts.State, stateFile))
	}
	if s.Target != c.target.Name || s.Report.Seed != c.opts.Seed || s.Report.Backend != c.report.Backend {
		c.corpus = list
		c.warn("%s is of target %s over %s with seed %d: its corpus is used, its progress is not", c.opts.State, s.Target, s.Report.Backend, s.Report.Seed)
		return nil
	}
	return c.resume(&s)
}

// resume takes over a state.
func (c *campaign) resume(s *state) error {
	checks := c.report.Checks
	c.report = *s.Report
	c.report.Checks, c.report.Resumed, c.report.Warnings = checks, true, nil
	c.before = s.Report.Seconds
	for i, n := range s.Corpus {
		t, err := readProgram(filepath.Join(c.opts.State, corpusDir, n))
		if err != nil {
			return fmt.Errorf("campaign: %w; remove %s to start anew", err, filepath.Join(c.opts.State, stateFile))
		}
		e := Entry{Ops: plan.Ops(nil, t)}
		if i < len(s.New) {
			e.Edges = s.New[i]
		}
		c.corpus = append(c.corpus, e)
	}
	raw, err := base64.StdEncoding.DecodeString(s.Edges)
	if err != nil || len(raw) != 8*len(c.edges.set) {
		return fmt.Errorf("campaign: the edges in %s are damaged; remove it to start anew", filepath.Join(c.opts.State, stateFile))
	}
	var e Edges
	for i := range e.set {
		e.set[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	c.edges.Merge(&e)
	for _, f := range c.report.Findings {
		c.causes[f.Breach.Cause()] = f
	}
	return nil
}

// saveSometimes saves when the last save is old enough.
func (c *campaign) saveSometimes() error {
	if now := clock.Monotonic(); now-c.saved >= saveEvery {
		c.saved = now
		return c.save()
	}
	return nil
}

// save writes corpus and state; the state comes last and names only what is there.
func (c *campaign) save() error {
	if c.opts.State == "" {
		return nil
	}
	s := state{Schema: stateSchema, Target: c.target.Name, Report: &c.report}
	for i := range c.corpus {
		e := &c.corpus[i]
		if err := writeEntry(filepath.Join(c.opts.State, corpusDir), e); err != nil {
			return fmt.Errorf("campaign: %w", err)
		}
		s.Corpus = append(s.Corpus, name(e.text()))
		s.New = append(s.New, e.Edges)
	}
	raw := make([]byte, 0, 8*len(c.edges.set))
	for _, w := range c.edges.set {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	s.Edges = base64.StdEncoding.EncodeToString(raw)
	c.report.Seconds = c.before + (clock.Monotonic() - c.start).Seconds()
	text, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	if err := writeFileAtomic(filepath.Join(c.opts.State, stateFile), text); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	return nil
}
