package trace_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace"
)

// everything has every event kind, every attribute and every header line of the language, in canonical form.
const everything = `# gpubench trace 1
# source program  covers 97.5%  device 1  capacity 24GiB
# title all of it
# setting PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128
# setting threshold="0.5 of all"
# warning the history begins mid-way
# warning " two\nlines"
# skipped 12
state
segment 0x7f0000000000 20MiB stream=7 pool=0:1
  block h1 2MiB requested=2000000
  block pending h2 512
  block pending 512 requested=500
  block free 18431KiB
segment 0x7f0010000000 2MiB small expandable
  block free 2MiB requested=7
end
h3 = alloc 2MiB @12.5ms -> addr=0x7f0000300000 granted=2MiB
h4 = alloc 640KiB stream=7 pool=0:1 align=512 thread=3 tag="model.layer.0"
h5 = alloc 0 -> failed
use h3 stream=7 thread=1 tag="read"
free h1 stream=2 thread=0
wait stream=0 on=7 @13ms
complete stream=7
complete
sync
sync stream=7
trim @1.000000001s
mark iteration=2
mark "two words"=3
-> segment alloc addr=0x7f0020000000 bytes=20MiB stream=7
-> segment map addr=0x7f0030000000 bytes=2MiB
h6 = realloc h3 4MiB stream=7 align=2MiB -> addr=0x0
pool-begin 0:1
pool-end 0:1
pool-release "a pool"
set garbage_collection_threshold=0.8
set empty=""
events manual
events immediate
stream-destroy 7
checkpoint c1
restore c1
defragment
fail-next device=2
touch h4 by=gpu offset=4KiB length=2MiB write thread=9
touch h4 by=cpu length=1
prefetch h4 to=cpu
free! h3
free! h1000
reset
-> segment free addr=0x7f0020000000 bytes=20MiB stream=7
`

func TestEverythingIsCanonical(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(everything), "everything")
	must(t, err)
	var out bytes.Buffer
	must(t, trace.Format(&out, tr))
	if out.String() != everything {
		g, w := strings.Split(out.String(), "\n"), strings.Split(everything, "\n")
		for i := range w {
			if i >= len(g) || g[i] != w[i] {
				t.Fatalf("line %d:\n got %q\nwant %q", i+1, g[i], w[i])
			}
		}
		t.Fatalf("got more:\n%s", out.String())
	}
	seen := map[trace.Kind]bool{}
	for _, ev := range tr.Events {
		seen[ev.Kind] = true
	}
	for k := trace.KindAlloc; int(k) < trace.KindCount; k++ {
		if !seen[k] {
			t.Errorf("the text does not cover %s", k)
		}
	}
	m := tr.Meta
	if m.Device != 1 || m.CapacityBytes != 24<<30 || m.CoversPercent != 97.5 || m.Skipped != 12 || m.Warnings[1] != " two\nlines" ||
		m.Settings["threshold"] != "0.5 of all" || m.Title != "all of it" {
		t.Errorf("meta %+v", m)
	}
	if b := tr.Start.Segments[0].Blocks[1]; b.Addr != 0x7f0000000000+2<<20 || !b.Pending || b.Handle != 2 || b.RequestedBytes != 512 {
		t.Errorf("block %+v", b)
	}
	if tr.TimesNs[0] != 12_500_000 || tr.TimesNs[4] != 12_500_000 || tr.TimesNs[5] != 13_000_000 || tr.TimesNs[len(tr.Events)-1] != 1_000_000_001 {
		t.Errorf("times %v", tr.TimesNs)
	}
}

// TestLooseText: what people write by hand becomes canonical.
func TestLooseText(t *testing.T) {
	const loose = "\ufeff  h1 = alloc 1.5MiB   # a comment\r\n\th2 = alloc 0x10 pool=1 tag=plain align=1KiB\n\n# source of trouble: only a comment here\nmark warm\nfree   h1\nmark it=3\npool-begin 7\npool-end -> failed\nuse h2 @250us stream=0x10"
	const want = `# gpubench trace 1
# source text  covers 100%  device 0
h1 = alloc 1536KiB @0ns
h2 = alloc 16 pool=0:1 align=1KiB tag="plain"
mark warm=0
free h1
mark it=3
pool-begin 0:7
pool-end 0:7 -> failed
use h2 stream=16 @250us
`
	tr, err := trace.Parse(strings.NewReader(loose), "loose")
	must(t, err)
	var out bytes.Buffer
	must(t, trace.Format(&out, tr))
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
