package trace_test

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// benchTrace is a trace as an importer makes it: tags, times, answers, 3,000 live handles.
func benchTrace(b testing.TB, n int) *trace.Trace {
	tb := trace.NewBuilder()
	h, s7, tag := trace.Handle(0), tb.Stream(7), tb.String("model/layer.0:forward")
	for i := range n {
		tb.At(int64(i) * 1717)
		if h > 3000 && i%2 == 1 {
			must(b, tb.Free(h-3000, trace.FreeArgs{}))
			continue
		}
		h++
		tb.Saw(uint64(h)<<9, uint64(h%4096)<<9, false)
		must(b, tb.Alloc(h, uint64(h)%4096*500, trace.AllocArgs{Stream: s7, Tag: tag}))
	}
	tr, err := tb.Finish(trace.Meta{CoversPercent: 100})
	must(b, err)
	return tr
}

const benchEvents = 1_000_000

func events(b *testing.B, n int) {
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkFormat(b *testing.B) {
	tr := benchTrace(b, benchEvents)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		must(b, trace.Format(io.Discard, tr))
	}
	events(b, benchEvents)
}

func BenchmarkParse(b *testing.B) {
	var text bytes.Buffer
	must(b, trace.Format(&text, benchTrace(b, benchEvents)))
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := trace.Parse(bytes.NewReader(text.Bytes()), "bench"); err != nil {
			b.Fatal(err)
		}
	}
	events(b, benchEvents)
}

// BenchmarkParseIntoFile shows bounded memory: bytes per operation do not follow the text.
func BenchmarkParseIntoFile(b *testing.B) {
	var text bytes.Buffer
	must(b, trace.Format(&text, benchTrace(b, benchEvents)))
	path := filepath.Join(b.TempDir(), "t")
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		fb, err := trace.CreateFile(path)
		must(b, err)
		m, err := trace.ParseInto(fb, bytes.NewReader(text.Bytes()), "bench")
		must(b, err)
		_, err = fb.Finish(m)
		must(b, err)
	}
	events(b, benchEvents)
}

// BenchmarkOpen opens a file of 10 million events: the time is one checked pass over it, the heap does not depend on it.
func BenchmarkOpen(b *testing.B) {
	const n = 10_000_000
	path := filepath.Join(b.TempDir(), "t")
	fb, err := trace.CreateFile(path)
	must(b, err)
	churn(fb, n, 3000)
	_, err = fb.Finish(trace.Meta{})
	must(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		_, c, err := trace.Open(path)
		must(b, err)
		must(b, c.Close())
	}
	events(b, n)
}

func BenchmarkHash(b *testing.B) {
	tr := benchTrace(b, benchEvents)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		trace.Hash(tr)
	}
	events(b, benchEvents)
}

func BenchmarkValidate(b *testing.B) {
	tr := benchTrace(b, benchEvents)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		must(b, trace.Validate(tr))
	}
	events(b, benchEvents)
}
