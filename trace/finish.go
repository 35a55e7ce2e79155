package trace

import "strings"

// The sources of Meta.Source that this package itself knows. Importers add their own.
const (
	SourceProgram = "program" // written by the fuzzer
	SourceText    = "text"    // the text form without a source line: written by hand
	SourceSynth   = "synth"   // trace/synth
)

// MayFreeWrong reports whether traces of the source may hold `free!`: programs and hand-written text.
func MayFreeWrong(source string) bool { return source == SourceProgram || source == SourceText }

// Finish ends the building. In memory it returns the trace; into a file it writes the tables, makes the file durable under
// its final name and returns the trace opened from it (close it with the trace's Close). An empty Source becomes "text".
func (b *Builder) Finish(meta Meta) (*Trace, error) {
	if b.err != nil {
		b.abandon()
		return nil, b.err
	}
	if b.done {
		return nil, ErrFinished
	}
	if meta.Source == "" {
		meta.Source = SourceText
	}
	if b.wrong > 0 && !MayFreeWrong(meta.Source) {
		b.fail(ErrNotAProgram)
	}
	if err := meta.check(); err != nil {
		b.fail(err)
	}
	if b.err != nil {
		b.abandon()
		return nil, b.err
	}
	t := &Trace{
		Meta:    meta,
		Strings: b.strings.list,
		Streams: b.streams.list,
		Pools:   b.pools.list,
		Start:   b.start,
		Slots:   b.names.next,
	}
	b.done = true
	b.fail(ErrFinished)
	t.Events, t.TimesNs, t.Recorded, t.Extras = b.cols.ev, b.cols.ns, b.cols.rec, b.cols.ex
	return t, nil
}

// legalKey reports whether s can stand left of an equals sign.
func legalKey(s string) bool { return s != "" && !strings.Contains(s, "=") }
