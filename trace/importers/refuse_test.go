package importers_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/pickle"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

var (
	d = pickletest.D
	l = pickletest.L
)

func pickled(t fataler, v any) string {
	t.Helper()
	var buf bytes.Buffer
	if err := pickletest.Write(&buf, v, 4, pickletest.CPython); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func zipped(t fataler, s string) string {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func goodSegment() *pickletest.Dict {
	return d("device", 0, "address", 4096, "total_size", 1024, "stream", 0, "segment_type", "small",
		"blocks", l(d("address", 4096, "size", 1024, "requested_size", 1000, "state", "active_allocated")))
}

// with returns a dictionary like v with one key set or, when the value is nil, removed.
func with(v *pickletest.Dict, key string, value any) *pickletest.Dict {
	out := d()
	for i, k := range v.Keys {
		if k != key {
			out.Keys, out.Values = append(out.Keys, k), append(out.Values, v.Values[i])
		}
	}
	if value != nil {
		out.Keys, out.Values = append(out.Keys, key), append(out.Values, value)
	}
	return out
}

// TestRefusals holds the one line that each file gets that is no recording, or a broken one.
func TestRefusals(t *testing.T) {
	segs := func(s ...any) string { return pickled(t, d("segments", l(s...))) }
	entry := func(e any) string { return pickled(t, d("segments", l(), "device_traces", l(l(e)))) }
	alloc := d("action", "alloc", "addr", 1, "size", 1, "stream", 0)
	whole := segs(goodSegment())
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"text", "hello, world\n", `format not recognised: it begins with "hello, world\n"; known are PyTorch snapshots (pickle or JSON), RMM logs, allocation scripts, operations as JSON lines and traces of gpubench`},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n", "this is a Git LFS pointer, not the file itself: fetch it with `git lfs pull`"},
		{"broken gzip", "\x1f\x8bxx", "gzip: unexpected EOF"},
		{"gzip cut off", zipped(t, whole)[:60], "read: unexpected EOF"},
		{"executes", "cos\nsystem\n(S'true'\ntR.", "byte 0: GLOBAL: refused: it would import or run code; a memory snapshot holds plain data only"},
		{"cut off", whole[:len(whole)-9], "byte 160: SHORT_BINUNICODE: file ends early at byte 176"},
		{"not a snapshot", pickled(t, d("weights", l())), `not a memory snapshot: neither "segments" nor "device_traces" in it`},
		{"a profiler's trace", `{"traceEvents": []}`, "a Chrome trace of torch.profiler, not a memory snapshot: make one with torch.cuda.memory._dump_snapshot"},
		{"a number", pickled(t, 7), "not a memory snapshot: the file holds an int"},
		{"a JSON number", "{\"a\": 7}", `not a memory snapshot: neither "segments" nor "device_traces" in it`},
		{"segments of another kind", pickled(t, d("segments", 1)), "segments: an int, not a list"},
		{"a segment of another kind", segs(1), "segment 0: an int, not a dictionary"},
		{"no address", segs(with(goodSegment(), "address", nil)), "segment 0: address: missing"},
		{"address of another kind", segs(with(goodSegment(), "address", "x")), "segment 0: address: a str where an integer from 0 belongs"},
		{"negative address", segs(with(goodSegment(), "address", -1)), "segment 0: address: an int where an integer from 0 belongs"},
		{"end of the address space", segs(with(goodSegment(), "address", uint64(1<<64-1))), "segment 0: total_size: 1024 bytes at 0xffffffffffffffff pass the end of the address space"},
		{"device", segs(with(goodSegment(), "device", 5000)), "segment 0: device: 5000, the most is 1023"},
		{"pool", segs(with(goodSegment(), "segment_pool_id", 3)), "segment 0: segment_pool_id: an int, not a pair of integers"},
		{"no blocks", segs(with(goodSegment(), "blocks", nil)), "segment 0: blocks: missing, or not a list"},
		{"blocks that do not fill", segs(with(goodSegment(), "total_size", 2048)), "segment 0: blocks: they hold 1024 of the segment's 2048 bytes"},
		{"a block too large", segs(with(goodSegment(), "total_size", 512)), "segment 0: block 0: size: 1024 bytes pass the end of the segment"},
		{"a block elsewhere", segs(with(goodSegment(), "blocks", l(d("address", 1, "size", 1024, "state", "inactive")))), "segment 0: block 0: address: 0x1, but the block before it ends at 0x1000"},
		{"an unknown state", segs(with(goodSegment(), "blocks", l(d("size", 1024, "state", "lost")))), `segment 0: block 0: state: "lost" is not known`},
		{"more requested than there", segs(with(goodSegment(), "blocks", l(d("size", 1024, "requested_size", 2000, "state", "active_allocated")))), "segment 0: block 0: requested_size: 2000 bytes in a block of 1024"},
		{"overlap", segs(goodSegment(), goodSegment()), "segment 0x1000 overlaps segment 0x1000"},
		{"traces of another kind", pickled(t, d("device_traces", 1)), "device_traces: an int, not a list"},
		{"a trace of another kind", pickled(t, d("device_traces", l(1))), "device_traces: device 0: an int, not a list"},
		{"an entry of another kind", entry(7), "byte 49: APPEND: trace entry 0: an int, not a dictionary"},
		{"an action of another kind", entry(with(alloc, "action", 7)), "byte 91: APPEND: trace entry 0: action is an int, not a string"},
		{"a size of another kind", entry(with(alloc, "size", "x")), "byte 99: APPEND: trace entry 0: size: a str, not an integer from 0"},
		{"a negative size", entry(with(alloc, "size", -5)), "byte 100: APPEND: trace entry 0: size: an int, not an integer from 0"},
		{"a size beyond any device", entry(with(alloc, "size", int64(1)<<50)), "byte 104: APPEND: trace entry 0: size: 1125899906842624 bytes is more than any device has"},
		{"a time of another kind", entry(with(alloc, "time_us", "x")), "byte 111: APPEND: trace entry 0: time_us: a str, not a time"},
		{"a time beyond time", entry(with(alloc, "time_us", int64(1)<<60)), "byte 117: APPEND: trace entry 0: time_us: 1152921504606846976 µs is no time"},
		{"frames of another kind", entry(with(alloc, "frames", 7)), "byte 108: APPEND: trace entry 0: frames: an int, not a list of frames"},
		{"a frame of another kind", entry(with(alloc, "frames", l(7))), "byte 111: APPEND: trace entry 0: frames: frame 0: an int, not a dictionary"},
		{"settings of another kind", pickled(t, d("segments", l(), "allocator_settings", l())), "allocator_settings: a list, not a dictionary"},
		{"a setting of another kind", pickled(t, d("segments", l(), "allocator_settings", d("expandable_segments", "x"))), "allocator_settings: expandable_segments: a str where a boolean belongs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := importers.Import(strings.NewReader(c.in), importers.Options{})
			if err == nil || err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for name, in := range map[string]string{
		"snapshot": pickled(t, d("segments", l(goodSegment()))), "script": strings.Repeat("a 1 1\n", 100),
		"rmm":        "Time,Action,Pointer,Size,Stream\n" + strings.Repeat("10:00:00:000000,allocate,0x10,1,0\n", 10),
		"operations": strings.Repeat(`{"op":"e"}`+"\n", 100), "text": "# gpubench trace 1\n" + strings.Repeat("trim\n", 100),
	} {
		_, err := importers.Import(strings.NewReader(zipped(t, in)), importers.Options{Limits: pickle.Limits{Bytes: 100}})
		if !errors.Is(err, pickle.ErrLimit) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDevices(t *testing.T) {
	in := pickled(t, l(goodSegment(), with(goodSegment(), "device", 2)))
	two, five := 2, 5
	res, err := importers.Import(strings.NewReader(in), importers.Options{Device: &two})
	if err != nil || len(res.Devices) != 1 || res.Devices[0].Trace.Meta.Device != 2 {
		t.Errorf("device 2: %v, %v", res, err)
	}
	_, err = importers.Import(strings.NewReader(in), importers.Options{Device: &five})
	if !errors.Is(err, importers.ErrNoDevice) || err.Error() != "no such device in the file: asked for 5, it has [0 2]" {
		t.Errorf("device 5: %v", err)
	}
}

// TestFiles goes through the file system: titles, our own two forms, and traces streamed to disk.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "small.txt.gz")
	if err := os.WriteFile(path, []byte(zipped(t, "# cap=4096\na 0 512\nf 0\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.bin")
	res, err := importers.ImportFile(path, importers.Options{Builder: func() (*trace.Builder, error) { return trace.CreateFile(out) }})
	if err != nil {
		t.Fatal(err)
	}
	if m := res.Devices[0].Trace.Meta; m.Title != "small" || m.CapacityBytes != 4096 || res.Format != importers.FormatScript {
		t.Errorf("meta %+v, format %s", m, res.Format)
	}
	bin, err := importers.ImportFile(out, importers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := bin.Devices[0].Facts; bin.Format != importers.FormatBinary || f.Allocs != 1 || f.Frees != 1 || f.LiveBytesMax != 512 {
		t.Errorf("%s: %+v", bin.Format, f)
	}
	var text bytes.Buffer
	if err := trace.Format(&text, bin.Devices[0].Trace); err != nil {
		t.Fatal(err)
	}
	again, err := importers.Import(&text, importers.Options{})
	if err != nil || again.Format != importers.FormatText || again.Devices[0].Facts.Allocs != 1 {
		t.Errorf("%v %v", again, err)
	}
	if err := bin.Close(); err != nil {
		t.Error(err)
	}
	for bad, want := range map[string]string{dir: dir + ": it is a directory", path + "x": "open " + path + "x: no such file or directory"} {
		if _, err := importers.ImportFile(bad, importers.Options{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := importers.Import(strings.NewReader("# gpubench trace 1\nfree h1\n"), importers.Options{}); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("text: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeftOut: what is no device memory is counted, and what is nothing leaves nothing.
func TestLeftOut(t *testing.T) {
	in := pickled(t, d("segments", l(d("address", 1, "total_size", 0, "blocks", l()), goodSegment()), "device_traces", l(),
		"host_traces", l(l(d("action", "alloc"), d("action", "alloc")), d("action", "free"))))
	res, err := importers.Import(strings.NewReader(in), importers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := res.Devices[0].Trace.Meta
	if m.Skipped != 3 || len(m.Warnings) != 1 || m.Warnings[0] != "skipped: 3 entries of pinned host memory" || res.Devices[0].Facts.Segments != 1 {
		t.Errorf("%+v, %d segments", m, res.Devices[0].Facts.Segments)
	}
}

// fataler is what the helpers need of a test.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// TestSharedTrace: one list of entries may stand for two devices; an entry may be listed twice.
func TestSharedTrace(t *testing.T) {
	e := d("action", "alloc", "addr", 4096, "size", 1000, "stream", 0, "frames", l(d("name", strings.Repeat("template", 40), "filename", "??", "line", 0)))
	list := l(e, d("action", "free_requested", "addr", 4096, "size", 1000, "stream", 0), d("action", "free_completed", "addr", 4096, "size", 1000, "stream", 0), e)
	for _, key := range []string{"device_traces", "elsewhere"} {
		top := d(key, l(list, list))
		if key != "device_traces" { // the same lists, first met where they are not streamed
			top = d(key, l(list, list), "device_traces", l(list, list))
		}
		res, err := importers.Import(strings.NewReader(pickled(t, top)), importers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Devices) != 2 {
			t.Fatalf("%s: %d devices", key, len(res.Devices))
		}
		for _, im := range res.Devices {
			if im.Facts.Allocs != 2 || im.Facts.Frees != 1 || len(im.Trace.Events) != 3 || len(im.Trace.Strings) != 2 {
				t.Errorf("%s: %+v, strings %q", key, im.Facts, im.Trace.Strings)
			}
		}
	}
}

// TestLongLines: a line may be longer than the read buffer, but not without end.
func TestLongLines(t *testing.T) {
	head := "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\n"
	row := "Alloc,0,0x10,0,512,1,2,1,0.5,0.6,0.1,"
	res, err := importers.Import(strings.NewReader(head+row+strings.Repeat("x", 200_000)+"\n"+row+"y\n"), importers.Options{})
	if err != nil || res.Devices[0].Facts.Allocs != 2 {
		t.Errorf("%v %v", res, err)
	}
	_, err = importers.Import(strings.NewReader(head+row+strings.Repeat("x", 2_000_000)), importers.Options{})
	if err == nil || err.Error() != "line 2: longer than 1048576 bytes" {
		t.Errorf("%v", err)
	}
}
