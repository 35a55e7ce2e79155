package main

import (
	"fmt"
	"maps"

	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/plugins/strategies/pytorch"
	"github.com/gpubench/gpubench/trace"
)

// confOption is pytorch's option that holds a settings string.
const confOption = "conf"

// recordedSettings says which allocator settings pytorch was asked to use over the recorded backend, and which it uses.
type recordedSettings struct {
	Requested *string `json:"requested"` // null: none were given
	Effective string  `json:"effective"`
	Source    string  `json:"source"` // user, or recording
}

// String is one line for people.
func (s *recordedSettings) String() string {
	if s.Requested != nil {
		return fmt.Sprintf("requested %q, effective %q", *s.Requested, s.Effective)
	}
	return fmt.Sprintf("requested none, effective %q as the recording states", s.Effective)
}

// asRecorded gives the strategy pytorch the settings that the recordings state, where the recorded backend answers and the user
// gave none: only the allocator as it was set then asks for the memory that the recording saw. settings is nil where this
// does not apply. Recordings that state different settings cannot share a strategy entry.
func asRecorded(backend string, spec configs.StrategySpec, recordings []loaded) (out configs.StrategySpec, settings *recordedSettings, err error) {
	if backend != "recorded" || spec.Name != pytorch.Name || len(recordings) == 0 {
		return spec, nil, nil
	}
	if v, given := spec.Options[confOption]; given {
		text := fmt.Sprint(v)
		return spec, &recordedSettings{Requested: &text, Effective: text, Source: "user"}, nil
	}
	conf := confOf(recordings[0].Trace)
	for i := range recordings[1:] {
		if other := confOf(recordings[1+i].Trace); other != conf {
			return spec, nil, fmt.Errorf("strategy %s: %s was recorded with the settings %q, %s with %q: run them apart, or give the option %s",
				spec.Label, recordings[0].Name, conf, recordings[1+i].Name, other, confOption)
		}
	}
	s := &recordedSettings{Effective: conf, Source: "recording"}
	if conf == "" {
		return spec, s, nil
	}
	options := maps.Clone(spec.Options)
	if options == nil {
		options = map[string]any{}
	}
	options[confOption] = conf
	spec.Options = options
	return spec, s, nil
}

func confOf(t *trace.Trace) string { return pytorch.ConfOf(t.Meta.Settings) }

// recordedRefusal explains a failure over the recorded backend, which serves only a strategy that decides as the recorded program.
const recordedRefusal = "the recorded device answers only the calls that the recording saw, and %s made others: to compare strategies use --backend pmm or ideal"
