package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpubench/gpubench/fuzz"
	"github.com/gpubench/gpubench/fuzz/zoo"
	"github.com/gpubench/gpubench/plugins/sdk"
)

// Options say how a score is taken.
type Options struct {
	Time     time.Duration // CPU time of one search
	Seeds    int           // searches of each mutant
	BlackBox bool          // without a look at what the allocators show of themselves
	Only     []string      // IDs of mutants; empty: all
	Clean    bool          // search the clean allocators, too
	// Progress is called before each mutant.
	Progress func(what string, done, of int)
}

// Row is the score of one mutant.
type Row struct {
	zoo.Mutant
	Seeds          int      `json:"seeds"`
	Found          int      `json:"found"`  // of Seeds
	Checks         []string `json:"checks"` // that caught it first, the most frequent first
	ProgramsMedian float64  `json:"programs_median"`
	CPUSMedian     float64  `json:"cpu_s_median"`
	CPUSMax        float64  `json:"cpu_s_max"`
	EventsMedian   float64  `json:"events_median"` // of the shrunk programs
	EventsMax      int      `json:"events_max"`
	Program        string   `json:"program,omitempty"` // the smallest
}

// Alarm is a clean allocator with what was found on it: a false alarm, or a bug of the zoo itself.
type Alarm struct {
	Strategy string `json:"strategy"`
	Breach   string `json:"breach"`
	Program  string `json:"program"`
}

// Score is the score of the fuzzer.
type Score struct {
	CPUSLimit     float64 `json:"cpu_s_limit"`
	Seeds         int     `json:"seeds"`
	BlackBox      bool    `json:"black_box"`
	Rows          []Row   `json:"mutants"`
	Mutants       int     `json:"mutants_total"`
	FoundAll      int     `json:"found_every_seed"`
	FoundAny      int     `json:"found_any_seed"`
	CPUSMedian    float64 `json:"cpu_s_median"` // over the mutants, of their medians
	CPUSMax       float64 `json:"cpu_s_max"`
	EventsMedian  float64 `json:"events_median"`
	EventsMax     int     `json:"events_max"`
	CleanSearched int     `json:"clean_searched"`
	CleanPrograms uint64  `json:"clean_programs"`
	Alarms        []Alarm `json:"alarms"`
	Interrupted   bool    `json:"interrupted,omitempty"`
	Note          string  `json:"note"` // what of it is exact
}

const note = "programs and checks are exact for a seed; CPU times are of this machine, up to the first finding, without the shrinking"

// ErrMutant says that there is no such mutant.
var ErrMutant = errors.New("no such mutant in the zoo")

// Run takes the score with the fuzzer's own generator.
func Run(ctx context.Context, o Options) (*Score, error) {
	list, err := chosen(o.Only)
	if err != nil {
		return nil, err
	}
	s := &Score{CPUSLimit: o.Time.Seconds(), Seeds: o.Seeds, BlackBox: o.BlackBox, Mutants: len(list), Alarms: []Alarm{}, Note: note}
	if o.Clean {
		if err := s.clean(ctx, &o); err != nil {
			return s, err
		}
	}
	for i := range list {
		if o.Progress != nil {
			o.Progress(zoo.Prefix+list[i].ID, i, len(list))
		}
		row, err := scoreOf(ctx, &list[i], &o)
		if err != nil {
			return s, err
		}
		if ctx.Err() != nil {
			s.Interrupted = true
			break
		}
		s.Rows = append(s.Rows, row)
	}
	s.sum()
	return s, nil
}

func chosen(only []string) ([]zoo.Mutant, error) {
	all := zoo.Mutants()
	if len(only) == 0 {
		return all, nil
	}
	var list []zoo.Mutant
	for _, id := range only {
		i := slices.IndexFunc(all, func(m zoo.Mutant) bool { return m.ID == id || zoo.Prefix+m.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: %q", ErrMutant, id)
		}
		list = append(list, all[i])
	}
	return list, nil
}

func targetOf(d sdk.Description, blackBox bool) (*fuzz.Target, error) {
	t, err := fuzz.NewTarget(d.Name, d)
	if err == nil {
		t.BlackBox = blackBox
	}
	return t, err
}

// clean searches the clean allocators, which must be silent.
func (s *Score) clean(ctx context.Context, o *Options) error {
	list := zoo.Clean()
	for i := range list {
		if o.Progress != nil {
			o.Progress(list[i].Name, i, len(list))
		}
		t, err := targetOf(list[i], o.BlackBox)
		if err != nil {
			return err
		}
		g, err := NewGenerator(Plans, t.Limits(), 1)
		if err != nil {
			return err
		}
		r, err := Search(ctx, t, g, o.Time)
		if err != nil {
			return err
		}
		s.CleanSearched++
		s.CleanPrograms += r.Programs
		if !r.Found {
			continue
		}
		f, err := Shrunk(t, &r)
		if err != nil {
			return err
		}
		s.Alarms = append(s.Alarms, Alarm{list[i].Name, f.Breach.String(), text(f)})
	}
	return nil
}

// scoreOf searches one mutant with every seed and shrinks what is found.
func scoreOf(ctx context.Context, m *zoo.Mutant, o *Options) (Row, error) {
	row := Row{Mutant: *m, Seeds: o.Seeds, Checks: []string{}}
	t, err := targetOf(m.Description(), o.BlackBox)
	if err != nil {
		return row, err
	}
	var programs, cpu, events []float64
	checks := map[string]int{}
	for seed := range o.Seeds {
		g, err := NewGenerator(Plans, t.Limits(), uint64(seed+1))
		if err != nil {
			return row, err
		}
		r, err := Search(ctx, t, g, o.Time)
		if err != nil || ctx.Err() != nil {
			return row, err
		}
		cpu = append(cpu, r.CPU.Seconds())
		if !r.Found {
			continue
		}
		row.Found++
		checks[r.Breach.Check]++
		programs = append(programs, float64(r.Programs))
		f, err := Shrunk(t, &r)
		if err != nil {
			return row, err
		}
		if row.Program == "" || float64(f.Events) < slices.Min(events) {
			row.Program = text(f)
		}
		events = append(events, float64(f.Events))
		row.EventsMax = max(row.EventsMax, f.Events)
	}
	for c := range checks {
		row.Checks = append(row.Checks, c)
	}
	slices.SortFunc(row.Checks, func(a, b string) int { return cmp.Or(cmp.Compare(checks[b], checks[a]), cmp.Compare(a, b)) })
	row.ProgramsMedian, row.CPUSMedian, row.EventsMedian = median(programs), median(cpu), median(events)
	row.CPUSMax = slices.Max(append(cpu, 0))
	return row, nil
}

// sum fills in the totals.
func (s *Score) sum() {
	var cpu, events []float64
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Found == 0 {
			continue
		}
		s.FoundAny++
		if r.Found == r.Seeds {
			s.FoundAll++
		}
		cpu, events = append(cpu, r.CPUSMedian), append(events, r.EventsMedian)
		s.CPUSMax, s.EventsMax = max(s.CPUSMax, r.CPUSMax), max(s.EventsMax, r.EventsMax)
	}
	s.CPUSMedian, s.EventsMedian = median(cpu), median(events)
}

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(list []float64) float64 {
	n := len(list)
	if n == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return (list[(n-1)/2] + list[n/2]) / 2
}
