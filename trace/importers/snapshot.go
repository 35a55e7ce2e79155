package importers

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/pickle"
)

// SourceSnapshot is the Meta.Source of traces made from PyTorch snapshots.
const SourceSnapshot = "pytorch-snapshot"

// snapshot is a file as read, before it is taken apart by device.
type snapshot struct {
	h        *pickle.Heap
	t        *entryTable
	segs     []segment
	runs     []*run // by device; nil = none
	rules    allocatorRules
	settings map[string]string
	marks    map[int][]mark

	hostEntries int // entries about pinned host memory (PyTorch 2.14), which is no device memory
}

// readSnapshot reads a pickle, or JSON, of a snapshot in any of its forms.
func readSnapshot(r io.Reader, format Format, limits pickle.Limits) (*snapshot, error) {
	s := &snapshot{t: newEntryTable(), marks: map[int][]mark{}}
	read := pickle.Read
	if format == FormatSnapshotJSON {
		read = pickle.ReadJSON
	}
	h, top, err := read(r, pickle.Options{StreamKey: "device_traces", Sink: s.t, Limits: limits})
	if err != nil {
		return nil, err
	}
	s.h = h
	var segs, traces, settings, notes pickle.Value
	var haveSegs, haveTraces, haveSettings, haveNotes bool
	switch k := h.Kind(top); k {
	case pickle.KindList: // torch.cuda.memory_snapshot(), and the only form of 1.13
		segs, haveSegs = top, true
	case pickle.KindDict:
		s.countHost(top)
		segs, haveSegs = h.Lookup(top, "segments")
		traces, haveTraces = h.Lookup(top, "device_traces")
		settings, haveSettings = h.Lookup(top, "allocator_settings")
		notes, haveNotes = h.Lookup(top, "external_annotations")
	default:
		return nil, fmt.Errorf("not a memory snapshot: the file holds %s", k.A())
	}
	if _, chrome := h.Lookup(top, "traceEvents"); chrome && !haveSegs && !haveTraces {
		return nil, errors.New("a Chrome trace of torch.profiler, not a memory snapshot: make one with torch.cuda.memory._dump_snapshot")
	}
	if !haveSegs && !haveTraces {
		return nil, errors.New(`not a memory snapshot: neither "segments" nor "device_traces" in it`)
	}
	if haveSegs {
		if s.segs, err = s.t.readSegments(h, segs); err != nil {
			return nil, err
		}
	}
	if haveTraces {
		if err := s.readTraces(traces); err != nil {
			return nil, err
		}
	}
	if s.rules, s.settings, err = readSettings(h, settings, haveSettings); err != nil {
		return nil, err
	}
	if haveNotes {
		s.readMarks(notes)
	}
	return s, nil
}

// countHost counts the entries of host_traces, whether in one list or in a list of lists.
func (s *snapshot) countHost(top pickle.Value) {
	list, ok := s.h.Lookup(top, "host_traces")
	if !ok || s.h.Kind(list) != pickle.KindList {
		return
	}
	for i := range s.h.Len(list) {
		if item := s.h.Item(list, i); s.h.Kind(item) == pickle.KindList {
			s.hostEntries += s.h.Len(item)
		} else {
			s.hostEntries++
		}
	}
}

// readTraces finds the entries of every device; a list that was not streamed is converted now.
func (s *snapshot) readTraces(list pickle.Value) error {
	if k := s.h.Kind(list); k != pickle.KindList && k != pickle.KindTuple {
		return fmt.Errorf("device_traces: %s, not a list", k.A())
	}
	if s.h.Len(list) > maxDevices {
		return fmt.Errorf("device_traces: %d devices, the most is %d", s.h.Len(list), maxDevices)
	}
	for device := range s.h.Len(list) {
		entries := s.h.Item(list, device)
		if k := s.h.Kind(entries); k != pickle.KindList && k != pickle.KindTuple {
			return fmt.Errorf("device_traces: device %d: %s, not a list", device, k.A())
		}
		if s.h.Len(entries) == 0 {
			s.runs = append(s.runs, nil)
			continue
		}
		if no, streamed := s.h.Run(entries); streamed {
			for _, r := range s.runs {
				s.t.runs[no].shared = s.t.runs[no].shared || r == s.t.runs[no]
			}
			s.runs = append(s.runs, s.t.runs[no])
			continue
		}
		no := max(len(s.t.runs), s.h.Runs())
		for i := range s.h.Len(entries) {
			if _, err := s.t.Item(s.h, no, s.h.Item(entries, i)); err != nil {
				return fmt.Errorf("device_traces: device %d: %w", device, err)
			}
		}
		s.runs = append(s.runs, s.t.runs[no])
	}
	return nil
}

// readMarks reads the starts of external annotations. They only help to cut a trace: what is not understood is left out.
func (s *snapshot) readMarks(list pickle.Value) {
	if s.h.Kind(list) != pickle.KindList {
		return
	}
	for i := range s.h.Len(list) {
		d := &dict{h: s.h, v: s.h.Item(list, i)}
		stage, _ := d.text("stage")
		name, named := d.text("name")
		us, device := d.uint("time_us"), d.uint("device", 0)
		if d.err != nil || stage != "START" || !named || device >= maxDevices {
			continue
		}
		if name = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(name, "=", ":"), "�")); name != "" {
			s.marks[int(device)] = append(s.marks[int(device)], mark{name: clip(name), us: int64(us)})
		}
	}
	for _, list := range s.marks {
		sort.SliceStable(list, func(i, j int) bool { return list[i].us < list[j].us })
	}
}

// devices returns the numbers of the devices that have segments or entries, in order.
func (s *snapshot) devices() []int {
	var has [maxDevices]bool
	for i := range s.segs {
		has[s.segs[i].device] = true
	}
	for i, r := range s.runs {
		has[i] = has[i] || r != nil && r.n > 0
	}
	var list []int
	for i, ok := range has {
		if ok {
			list = append(list, i)
		}
	}
	return list
}

// of returns the segments of a device.
func (s *snapshot) of(device int) []segment {
	lo := sort.Search(len(s.segs), func(i int) bool { return s.segs[i].device >= device })
	hi := sort.Search(len(s.segs), func(i int) bool { return s.segs[i].device > device })
	return s.segs[lo:hi]
}

// convert makes the trace of one device.
func (s *snapshot) convert(device int, b *trace.Builder, title string) (Imported, error) {
	r := &run{}
	if device < len(s.runs) && s.runs[device] != nil {
		r = s.runs[device]
	}
	c := &conversion{snapshot: s, device: device, r: r, all: r.n, final: s.of(device), b: b, title: title}
	if c.stateOnly() {
		c.r = &run{}
	}
	return c.run()
}
