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

// Finish ends the building and returns the trace. For a builder made by CreateFile the file is complete under its name
// afterwards, and the Trace returned has the tables but not the columns: Open the file to read those. An empty Source
// becomes "text". When Finish fails nothing is left behind.
func (b *Builder) Finish(meta Meta) (*Trace, error) {
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
	t := &Trace{
		Meta:    meta,
		Strings: b.strings.list,
		Streams: b.streams.list,
		Pools:   b.pools.list,
		Start:   b.start,
		Slots:   b.names.next,
	}
	if b.err == nil && b.file != nil {
		b.fail(b.file.finish(&b.cols, t))
	}
	if err := b.err; err != nil {
		b.Abandon()
		return nil, err
	}
	b.done = true
	b.err = ErrFinished
	if b.file != nil {
		return t, b.file.commit(b.cols.events(), t.Slots)
	}
	t.Events, t.TimesNs, t.Recorded = b.cols.ev, b.cols.ns, b.cols.rec
	t.Extras, t.SegmentEvents = b.cols.ex, b.cols.seg
	return t, nil
}

// legalKey reports whether s can stand left of an equals sign.
func legalKey(s string) bool { return s != "" && !strings.Contains(s, "=") }

// cutSetting splits "KEY=VALUE".
func cutSetting(s string) (key, value string) {
	key, value, _ = strings.Cut(s, "=")
	return key, value
}
