package importers_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
	"github.com/gpubench/gpubench/trace/importers"
	"github.com/gpubench/gpubench/trace/pickle"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

// fuzzLimits keep one input from costing more than a moment.
var fuzzLimits = pickle.Limits{Bytes: 1 << 20, Depth: 50, MemoEntries: 1 << 16, StringBytes: 1 << 12, TextBytes: 1 << 20, Values: 1 << 16}

// check holds for every input: a legal trace that can be written and read again, or one line.
func check(t *testing.T, in []byte, format importers.Format) {
	res, err := importers.Import(bytes.NewReader(in), importers.Options{Format: format, Limits: fuzzLimits})
	if err != nil {
		if strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("more than one line: %q", err)
		}
		return
	}
	for _, im := range res.Devices {
		if err := trace.Validate(im.Trace); err != nil {
			t.Errorf("an illegal trace: %v", err)
		}
		var text bytes.Buffer
		if err := trace.Format(&text, im.Trace); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		back, err := trace.Parse(&text, "text")
		if err != nil {
			t.Fatalf("cannot be read again: %v", err)
		}
		if trace.Hash(back) != trace.Hash(im.Trace) {
			t.Error("the text form loses something")
		}
		if f := &im.Facts; f.Proven && len(f.Inconsistent) > 0 {
			t.Errorf("proven and inconsistent: %v", f.Inconsistent)
		}
	}
}

func FuzzRMM(f *testing.F) {
	f.Add([]byte("Thread,Time,Action,Pointer,Size,Stream\n1,09:14:07.000120,allocate,0x7f2a40000000,1048576,0\n1,09:14:07.000121,free,0x7f2a40000000,1048576,0x1\n"))
	f.Add([]byte("Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\nRealloc,1,0x10,0,512,1,2,1,0.5,0.6,0.1,a\n"))
	f.Fuzz(func(t *testing.T, in []byte) { check(t, in, importers.FormatRMM) })
}

func FuzzScript(f *testing.F) {
	f.Add([]byte("# cap=1024 name=x\na 0 512 1\nf 0 2\n"))
	f.Fuzz(func(t *testing.T, in []byte) { check(t, in, importers.FormatScript) })
}

func FuzzOperations(f *testing.F) {
	f.Add([]byte(`{"name":"x","total":1,"conf":"","ops":1}` + "\n" + `{"op":"a","id":1,"size":1,"ok":1,"addr":0,"bsize":512,"ev":[["malloc",0,1]]}` + "\n" + `{"op":"b","pool":1}`))
	f.Add([]byte(`{"op":"m","manual":1}` + "\n" + `{"op":"w","stream":-1}` + "\n" + `{"op":"F","fraction":0.5}` + "\n" + `{"op":"c","conf":"a:b"}`))
	f.Fuzz(func(t *testing.T, in []byte) { check(t, in, importers.FormatOperations) })
}

func FuzzDetectAndImport(f *testing.F) {
	f.Add([]byte("\x80\x04}."))
	f.Add([]byte("# gpubench trace 1\nh1 = alloc 1\n"))
	f.Add([]byte("(Vdevice_traces\n((}Vaction\np1\nValloc\nsVframes\np2\n(lp3\nVaddr\nI1\nssp4\ng4\nllVsegments\n(ld."))
	f.Add([]byte(`{"device_traces":[[{"action":"alloc","addr":1,"size":2,"frames":[{"name":"f","filename":"x.py","line":3}]}]],"segments":[]}`))
	f.Fuzz(func(t *testing.T, in []byte) { check(t, in, "") })
}

// FuzzSnapshot makes well-formed snapshots of arbitrary entries and segments, so that the fuzzer reaches the conversion and
// not only the reader.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte{0, 1, 4, 1, 4, 2, 1, 4, 3, 1, 4, 5, 1, 4}, []byte{1, 4, 1})
	f.Add([]byte{4, 1, 4, 1, 1, 2, 1, 3, 2, 2, 1, 2, 6, 9, 9, 7, 9, 9, 8, 4, 4}, []byte{1, 2, 1, 3, 1, 2})
	names := []string{"segment_alloc", "alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "segment_free", "oom", "snapshot", "what"}
	f.Fuzz(func(t *testing.T, entries, blocks []byte) {
		list := pickletest.L()
		for i := 0; i+2 < len(entries); i += 3 {
			name := names[int(entries[i])%len(names)]
			size := int64(entries[i+2]) * 131072
			if strings.HasPrefix(name, "segment") {
				size = int64(entries[i+2]) << 21
			}
			list.Items = append(list.Items, d("action", name, "addr", int64(entries[i+1])<<19, "size", size, "stream", int(entries[i+2]&3), "time_us", i*i%77))
		}
		segs := pickletest.L()
		at := int64(0)
		for i := 0; i+2 < len(blocks); i += 3 {
			state := []string{"inactive", "active_allocated", "active_pending_free"}[blocks[i]%3]
			size := int64(blocks[i+1])<<19 + 512
			seg := d("device", 0, "address", at, "total_size", 2*size, "stream", 0, "segment_type", "large", "is_expandable", blocks[i+2]&1 == 1,
				"blocks", l(d("size", size, "requested_size", size-7, "state", state), d("size", size, "state", "inactive")))
			segs.Items = append(segs.Items, seg)
			at += 2*size + int64(blocks[i+2]&2)<<20
		}
		settings := d("expandable_segments", len(blocks)%2 == 1, "max_split_size", len(entries)%5-1)
		check(t, []byte(pickled(t, d("segments", segs, "device_traces", l(list), "allocator_settings", settings))), importers.FormatSnapshotPickle)
	})
}
