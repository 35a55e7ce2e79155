package importers

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/trace"
)

// SourceRMM is the Meta.Source of traces made from logs of RAPIDS RMM's logging_resource_adaptor.
const SourceRMM = "rmm-csv"

// rmmColumns are the columns of all versions: v0.14 has no thread, v0.15 and later have six columns, and the C API of 0.4 to
// 0.13 (src/memory_manager.cpp, Logger::to_csv) has twelve of its own.
type rmmColumns struct {
	thread, time, action, pointer, size, stream, device int // -1 = absent
	count                                               int
	seconds                                             bool // times are seconds since the start, not a time of day
}

func isRMMHeader(line string) bool {
	_, ok := parseRMMHeader(line)
	return ok
}

func parseRMMHeader(line string) (rmmColumns, bool) {
	c := rmmColumns{thread: -1, time: -1, action: -1, pointer: -1, size: -1, stream: -1, device: -1}
	names := strings.Split(line, ",")
	for i, name := range names {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "thread":
			c.thread = i
		case "time":
			c.time = i
		case "start":
			c.time, c.seconds = i, true
		case "action", "event type":
			c.action = i
		case "pointer", "address":
			c.pointer = i
		case "size", "size (bytes)":
			c.size = i
		case "stream":
			c.stream = i
		case "device id":
			c.device = i
		}
	}
	c.count = len(names)
	return c, c.time >= 0 && c.action >= 0 && c.pointer >= 0 && c.size >= 0
}

// rmmDevice is the log of one device.
type rmmDevice struct {
	pointerLog
	number  int
	threads indexOf[string]
	records uint64
}

type rmmLog struct {
	lines   *lineReader
	cols    rmmColumns
	devices map[int]*rmmDevice
	make    func() (*trace.Builder, error)
	unknown map[string]int
	headers int
	cutLine uint64
	firstNs int64
	lastNs  int64
	timed   bool
	dayNs   int64
	back    int
}

func importRMM(r io.Reader, title string, newBuilder func() (*trace.Builder, error)) ([]Imported, error) {
	l := &rmmLog{lines: newLineReader(r), devices: map[int]*rmmDevice{}, make: newBuilder, unknown: map[string]int{}}
	if err := l.read(); err != nil {
		l.abandon()
		return nil, err
	}
	return l.finish(title)
}

func (l *rmmLog) abandon() {
	for _, d := range l.devices {
		d.b.Abandon()
	}
}

func (l *rmmLog) read() error {
	for have := false; ; {
		raw, err := l.lines.next()
		if errors.Is(err, io.EOF) {
			if !have {
				return l.lines.errorf("no header of an RMM log")
			}
			return nil
		}
		if err != nil {
			return err
		}
		line := strings.TrimSpace(string(raw))
		if line == "" {
			continue
		}
		if cols, ok := parseRMMHeader(line); ok {
			l.cols = cols
			if have {
				l.headers++
			}
			have = true
			continue
		}
		if !have {
			return l.lines.errorf("%q is not the header of an RMM log", clip(line))
		}
		if err := l.row(strings.Split(line, ",")); err != nil {
			var malformed *rowError
			if errors.As(err, &malformed) && l.lines.cut {
				l.cutLine = l.lines.no // the last line of a log that was not flushed to its end
				return nil
			}
			return l.lines.wrap(err)
		}
	}
}

// rowError says that a row cannot be read.
type rowError struct{ text string }

// Error returns the reason.
func (e *rowError) Error() string { return e.text }

func rowErrorf(format string, args ...any) error { return &rowError{fmt.Sprintf(format, args...)} }

func (l *rmmLog) row(f []string) error {
	// The location, last of the old columns, may hold commas; every other row has exactly the columns of its header.
	if len(f) < l.cols.count || len(f) > l.cols.count && l.cols.device < 0 {
		return rowErrorf("%d columns where the header has %d", len(f), l.cols.count)
	}
	number := 0
	if l.cols.device >= 0 {
		n, err := strconv.Atoi(strings.TrimSpace(f[l.cols.device]))
		if err != nil || n < 0 || n >= maxDevices {
			return rowErrorf("device %q is not a number from 0 to %d", clip(f[l.cols.device]), maxDevices-1)
		}
		number = n
	}
	addr, err := pointerText(f[l.cols.pointer])
	if err != nil {
		return err
	}
	size, err := strconv.ParseUint(strings.TrimSpace(f[l.cols.size]), 10, 64)
	if err != nil {
		return rowErrorf("size %q is not a number of bytes", clip(f[l.cols.size]))
	}
	var stream uint64
	if l.cols.stream >= 0 {
		if stream, err = pointerText(f[l.cols.stream]); err != nil {
			return err
		}
	}
	ns, err := l.time(strings.TrimSpace(f[l.cols.time]))
	if err != nil {
		return err
	}
	d := l.devices[number]
	if d == nil {
		d = &rmmDevice{number: number}
		if d.b, err = l.make(); err != nil {
			return err
		}
		l.devices[number] = d
	}
	return l.event(d, f, addr, size, stream, ns)
}

func (l *rmmLog) event(d *rmmDevice, f []string, addr, size, stream uint64, ns int64) error {
	d.records++
	d.b.At(ns)
	s := d.b.Stream(stream)
	var thread uint32
	if l.cols.thread >= 0 {
		thread = uint32(d.threads.of(strings.TrimSpace(f[l.cols.thread]))) + 1
	}
	args := trace.AllocArgs{Stream: s, Thread: thread}
	switch action := strings.ToLower(strings.TrimSpace(f[l.cols.action])); action {
	case "allocate", "alloc":
		return d.alloc(addr, size, args)
	case "allocate failure":
		return d.fail(size, args)
	case "realloc":
		return d.realloc(addr, size, args)
	case "free":
		return d.free(addr, size, trace.FreeArgs{Stream: s, OnStream: true, Thread: thread})
	default:
		if _, known := l.unknown[action]; !known && len(l.unknown) >= maxUnknownActions {
			action = "(others)"
		}
		l.unknown[action]++
		return nil
	}
}

// pointerText reads a pointer as C++ streams, fmt and printf write it: hexadecimal with 0x, (nil), or 0.
func pointerText(s string) (uint64, error) {
	s = strings.TrimSpace(s)
	if s == "(nil)" || s == "0" || s == "" {
		return 0, nil
	}
	digits, base := s, 10
	if rest, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		digits, base = rest, 16
	} else if strings.ContainsAny(strings.ToLower(s), "abcdef") {
		base = 16
	}
	x, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, rowErrorf("%q is not a pointer", clip(s))
	}
	return x, nil
}

const (
	nsPerSecond = int64(1_000_000_000)
	nsPerDay    = 24 * 60 * 60 * nsPerSecond
	// maxSeconds keeps times within 63 bits of nanoseconds.
	maxSeconds = 9e9
)

// time returns the time of a row in ns since the first one. A time of day that goes back by more than half a day has
// passed midnight; one that goes back by less comes from another thread and is taken as the time before.
func (l *rmmLog) time(s string) (int64, error) {
	var ns int64
	if l.cols.seconds {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= 0 && x < maxSeconds) {
			return 0, rowErrorf("time %q is not a number of seconds", clip(s))
		}
		ns = int64(x * float64(nsPerSecond))
	} else {
		var err error
		if ns, err = timeOfDay(s); err != nil {
			return 0, err
		}
		ns += l.dayNs
		if l.timed && ns < l.lastNs-nsPerDay/2 {
			l.dayNs += nsPerDay
			ns += nsPerDay
		}
	}
	if !l.timed {
		l.timed, l.firstNs, l.lastNs = true, ns, ns
	}
	if ns < l.lastNs {
		l.back++
		ns = l.lastNs
	}
	l.lastNs = ns
	return ns - l.firstNs, nil
}

// timeOfDay reads HH:MM:SS.uuuuuu, or with a colon before the microseconds as RMM wrote before 21.06.
func timeOfDay(s string) (int64, error) {
	bad := rowErrorf("time %q is not HH:MM:SS.microseconds", clip(s))
	if len(s) != len("HH:MM:SS.uuuuuu") || s[2] != ':' || s[5] != ':' || s[8] != ':' && s[8] != '.' {
		return 0, bad
	}
	var part [4]int64
	for i, p := range []string{s[0:2], s[3:5], s[6:8], s[9:]} {
		x, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return 0, bad
		}
		part[i] = int64(x)
	}
	if part[0] > 23 || part[1] > 59 || part[2] > 60 { // 60: a leap second
		return 0, bad
	}
	return ((part[0]*60+part[1])*60+part[2])*nsPerSecond + part[3]*1000, nil
}

func (l *rmmLog) finish(title string) ([]Imported, error) {
	if len(l.devices) == 0 { // a log with a header and nothing else
		b, err := l.make()
		if err != nil {
			return nil, err
		}
		l.devices[0] = &rmmDevice{pointerLog: pointerLog{b: b}}
	}
	var list []*rmmDevice
	for _, d := range l.devices {
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].number < list[j].number })
	var out []Imported
	for i, d := range list {
		meta := trace.Meta{Source: SourceRMM, Device: d.number, Title: title}
		warn := func(format string, args ...any) { meta.Warnings = append(meta.Warnings, fmt.Sprintf(format, args...)) }
		meta.Skipped = d.finish(warn)
		if i == 0 {
			meta.Skipped += l.fileWarnings(warn)
		}
		meta.CoversPercent = d.facts.CoversPercent
		d.facts.Device, d.facts.Records = d.number, d.records
		d.facts.Unproven = "the log holds no segments"
		t, err := d.b.Finish(meta)
		if err != nil {
			l.abandon()
			return nil, err
		}
		out = append(out, Imported{Trace: t, Facts: d.facts})
	}
	return out, nil
}

// fileWarnings says what concerns the whole file.
func (l *rmmLog) fileWarnings(warn func(string, ...any)) (skipped uint64) {
	for _, name := range sortedKeys(l.unknown) {
		warn("skipped: %d rows with the unknown action %q", l.unknown[name], clip(name))
		skipped += uint64(l.unknown[name])
	}
	if l.back > 0 {
		warn("%d times go back; those events have the time of the one before", l.back)
	}
	if l.headers > 0 {
		warn("the header occurs %d times more: several logs in one file", l.headers)
	}
	if l.cutLine > 0 {
		warn("skipped: line %d is cut off: the log was not written to its end", l.cutLine)
		skipped++
	}
	return skipped
}
