package importers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

// snap builds a snapshot from lines of text; see testdata/snapshot.
type snap struct {
	t        *testing.T
	form     string // "", "list", "1.13", "2.0", "2.14"
	settings *pickletest.Dict
	segs     []any
	traces   []*pickletest.List
	notes    []any
	device   int
	frames   map[string]*pickletest.List
}

var actions = map[string]string{"alloc": "alloc", "request": "free_requested", "complete": "free_completed", "free": "free",
	"segalloc": "segment_alloc", "segfree": "segment_free", "map": "segment_map", "unmap": "segment_unmap"}

func size(t *testing.T, s string) int64 {
	t.Helper()
	mul := int64(1)
	for suffix, m := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, mul = rest, m
		}
	}
	x, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		t.Fatalf("size %q: %v", s, err)
	}
	return x * mul
}

func pool(t *testing.T, s string) pickletest.Tuple {
	a, b, _ := strings.Cut(s, ":")
	return pickletest.Tuple{size(t, a), size(t, b)}
}

// line takes one line of a scenario.
func (s *snap) line(text string) {
	f := strings.Fields(text)
	if len(f) == 0 {
		return
	}
	opt := map[string]string{}
	var arg []string
	for _, w := range f[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			opt[k] = v
		} else {
			arg = append(arg, w)
		}
	}
	switch f[0] {
	case "device":
		s.device = int(size(s.t, arg[0]))
		for len(s.traces) <= s.device {
			s.traces = append(s.traces, pickletest.L())
		}
	case "settings":
		s.setting(opt)
	case "segment":
		s.segment(arg, opt)
	case "note":
		s.notes = append(s.notes, pickletest.D("stage", arg[0], "name", arg[1], "device", s.device, "time_us", size(s.t, opt["t"])))
	default:
		s.entry(f[0], arg, opt)
	}
}

func (s *snap) setting(opt map[string]string) {
	if s.settings == nil {
		s.settings = pickletest.D()
	}
	set := func(k string, v any) {
		s.settings.Keys = append(s.settings.Keys, k)
		s.settings.Values = append(s.settings.Values, v)
	}
	if v, ok := opt["conf"]; ok {
		set("PYTORCH_CUDA_ALLOC_CONF", v)
	}
	if v, ok := opt["expandable"]; ok {
		set("expandable_segments", v == "1")
	}
	if v, ok := opt["split"]; ok {
		set("max_split_size", size(s.t, v))
	}
	if v, ok := opt["gc"]; ok {
		x, _ := strconv.ParseFloat(v, 64)
		set("garbage_collection_threshold", x)
	}
	if v, ok := opt["roundup"]; ok {
		d := pickletest.D()
		for i := range 16 {
			d.Keys, d.Values = append(d.Keys, strconv.Itoa(1<<i)), append(d.Values, size(s.t, v))
		}
		set("roundup_power2_divisions", d)
	}
}

func (s *snap) entry(verb string, arg []string, opt map[string]string) {
	action, ok := actions[verb]
	if !ok {
		action = verb
	}
	e := pickletest.D("action", action)
	add := func(k string, v any) { e.Keys, e.Values = append(e.Keys, k), append(e.Values, v) }
	if verb == "oom" {
		add("device_free", size(s.t, opt["free"]))
		add("size", size(s.t, arg[0]))
	} else {
		add("addr", size(s.t, arg[0]))
		add("size", size(s.t, arg[1]))
	}
	stream := int64(0)
	if v, ok := opt["stream"]; ok {
		stream = size(s.t, v)
	}
	add("stream", stream)
	if v, ok := opt["t"]; ok {
		add("time_us", int64(1_700_000_000_000_000)+size(s.t, v))
	}
	if v, ok := opt["at"]; ok {
		add("frames", s.stack(v))
	}
	if v, ok := opt["pool"]; ok && s.form == "2.14" {
		add("pool_id", pool(s.t, v))
	}
	if s.form == "2.14" {
		add("compile_context", "N/A")
		add("user_metadata", "")
	}
	s.line("device " + strconv.Itoa(s.device))
	s.traces[s.device].Items = append(s.traces[s.device].Items, e)
}

// stack makes the shared frames of "f<g": f called by g, in model.py, below two frames of the framework.
func (s *snap) stack(text string) *pickletest.List {
	if s.frames[text] == nil {
		list := pickletest.L(pickletest.D("name", "torch::unwind::unwind()", "filename", "??", "line", 0),
			pickletest.D("name", "_call_impl", "filename", "/opt/lib/python3/site-packages/torch/nn/modules/module.py", "line", 1751))
		for i, name := range strings.Split(text, "<") {
			list.Items = append(list.Items, pickletest.D("name", name, "filename", "/home/user/model.py", "line", 10+i))
		}
		s.frames[text] = list
	}
	return s.frames[text]
}

// segment takes ADDR KIND and blocks: live:SIZE[/REQUESTED], pending:SIZE[/REQUESTED], free:SIZE.
func (s *snap) segment(arg []string, opt map[string]string) {
	addr := size(s.t, arg[0])
	at, total, allocated, active := addr, int64(0), int64(0), int64(0)
	blocks := pickletest.L()
	for _, text := range arg[2:] {
		kind, sizes, _ := strings.Cut(text, ":")
		bytesText, requestedText, given := strings.Cut(sizes, "/")
		n := size(s.t, bytesText)
		requested := n
		if given {
			requested = size(s.t, requestedText)
		}
		state := map[string]string{"live": "active_allocated", "pending": "active_pending_free", "free": "inactive"}[kind]
		b := pickletest.D("size", n, "state", state)
		switch s.form {
		case "1.13":
			if kind == "live" {
				b = pickletest.D("size", n, "state", state, "history", pickletest.L(pickletest.D("addr", at, "real_size", requested)))
			}
		case "2.0":
			b = pickletest.D("size", n, "requested_size", requested, "state", state)
		default:
			b = pickletest.D("address", at, "size", n, "requested_size", requested, "state", state, "frames", pickletest.L())
		}
		blocks.Items = append(blocks.Items, b)
		at += n
		total += n
		if kind == "live" {
			allocated += n
		}
		if kind != "free" {
			active += n
		}
	}
	d := pickletest.D("device", s.device, "address", addr, "total_size", total, "allocated_size", allocated, "active_size", active,
		"stream", size(s.t, "0"+opt["stream"]), "segment_type", arg[1])
	add := func(k string, v any) { d.Keys, d.Values = append(d.Keys, k), append(d.Values, v) }
	if s.form != "1.13" && s.form != "2.0" {
		id := pickletest.Tuple{0, 0}
		if v, ok := opt["pool"]; ok {
			id = pool(s.t, v)
		}
		add("segment_pool_id", id)
		add("is_expandable", opt["expandable"] == "1")
		add("frames", pickletest.L())
	}
	add("blocks", blocks)
	s.segs = append(s.segs, d)
}

// top returns the whole object, in one order of keys or the other.
func (s *snap) top(tracesFirst bool) any {
	segs := &pickletest.List{Items: s.segs}
	if s.form == "list" || s.form == "1.13" {
		return segs
	}
	traces := pickletest.L()
	for _, l := range s.traces {
		traces.Items = append(traces.Items, l)
	}
	d := pickletest.D("segments", segs, "device_traces", traces)
	if tracesFirst {
		d = pickletest.D("device_traces", traces, "segments", segs)
	}
	if s.settings != nil {
		d.Keys, d.Values = append(d.Keys, "allocator_settings"), append(d.Values, s.settings)
	}
	if s.notes != nil {
		d.Keys, d.Values = append(d.Keys, "external_annotations"), append(d.Values, &pickletest.List{Items: s.notes})
	}
	return d
}

// plain turns test values into what encoding/json writes as Python's json.dump would.
func plain(v any) any {
	switch v := v.(type) {
	case *pickletest.Dict:
		m := map[string]any{}
		for i := range v.Keys {
			m[v.Keys[i].(string)] = plain(v.Values[i])
		}
		return m
	case *pickletest.List:
		list := []any{}
		for _, x := range v.Items {
			list = append(list, plain(x))
		}
		return list
	case pickletest.Tuple:
		return plain(&pickletest.List{Items: v})
	}
	return v
}

// encodings writes the snapshot in every way it may come.
func (s *snap) encodings() map[string][]byte {
	out := map[string][]byte{}
	write := func(name string, v any, protocol int, style pickletest.Style) {
		var buf bytes.Buffer
		if err := pickletest.Write(&buf, v, protocol, style); err != nil {
			s.t.Fatal(err)
		}
		out[name] = buf.Bytes()
	}
	for protocol := range 6 {
		write(fmt.Sprintf("protocol %d", protocol), s.top(protocol%2 == 1), protocol, pickletest.CPython)
	}
	write("the C++ pickler", s.top(false), 2, pickletest.TorchCPP)
	text, err := json.Marshal(plain(s.top(false)))
	if err != nil {
		s.t.Fatal(err)
	}
	out["JSON"] = text
	return out
}

// show imports and writes traces and facts.
func show(in []byte) string {
	res, err := importers.Import(bytes.NewReader(in), importers.Options{})
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, im := range res.Devices {
		if err := trace.Validate(im.Trace); err != nil {
			return "invalid: " + err.Error() + "\n"
		}
		if err := trace.Format(&b, im.Trace); err != nil {
			return "cannot be written: " + err.Error() + "\n"
		}
		f := im.Facts
		fmt.Fprintf(&b, "= %d allocs, %d frees, %d failed, peak %d, proven %t%s\n", f.Allocs, f.Frees, f.FailedAllocs, f.LiveBytesMax,
			f.Proven, map[bool]string{true: "", false: " (" + f.Unproven + ")"}[f.Proven])
	}
	return b.String()
}

// TestSnapshots holds what every form of snapshot becomes, and that it becomes the same in every encoding.
func TestSnapshots(t *testing.T) {
	datadriven.Walk(t, "testdata/snapshot", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			s := &snap{t: t, frames: map[string]*pickletest.List{}}
			td.MaybeScanArgs(t, "form", &s.form)
			for _, line := range strings.Split(td.Input, "\n") {
				s.line(line)
			}
			first := ""
			for name, in := range s.encodings() {
				got := show(in)
				if first == "" {
					first = got
				}
				if got != first {
					t.Errorf("%s: %s differs:\n%s\nfrom\n%s", td.Pos, name, got, first)
				}
			}
			return first
		})
	})
}
