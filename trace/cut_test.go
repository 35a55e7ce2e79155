package trace_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

// follow calls f before the first event (with -1) and after each with what is live then: handle → requested bytes.
func follow(t *trace.Trace, f func(i int, live map[trace.Handle]uint64)) {
	live := map[trace.Handle]uint64{}
	saved := map[string]map[trace.Handle]uint64{}
	if t.Start != nil {
		for _, seg := range t.Start.Segments {
			for _, b := range seg.Blocks {
				if b.Handle != 0 && !b.Pending {
					live[b.Handle] = b.RequestedBytes
				}
			}
		}
	}
	f(-1, live)
	for i, ev := range t.Events {
		failed := len(t.Recorded) > 0 && t.Recorded[i].Status == trace.StatusFailed
		switch ev.Kind {
		case trace.KindFree:
			delete(live, ev.Handle)
		case trace.KindRealloc:
			delete(live, t.Extras[ev.Aux].Handle2)
			if !failed {
				live[ev.Handle] = ev.Size
			}
		case trace.KindAlloc:
			if !failed {
				live[ev.Handle] = ev.Size
			}
		case trace.KindReset:
			clear(live)
		case trace.KindCheckpoint:
			saved[t.Strings[ev.Aux]] = maps.Clone(live)
		case trace.KindRestore:
			live = maps.Clone(saved[t.Strings[ev.Aux]])
		}
		f(i, live)
	}
}

// TestCutKeepsWhatIsLive: at every event of a cut the same handles with the same sizes are live as in the whole trace.
func TestCutKeepsWhatIsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := trace.NewBuilder()
		tr, err := b.Finish(drawTrace(t, b, 60))
		if err != nil {
			t.Fatal(err)
		}
		n := len(tr.Events)
		from := rapid.IntRange(0, n).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		cut, err := trace.Cut(tr, uint64(from), uint64(to))
		if err != nil {
			if strings.Contains(err.Error(), "restores checkpoint") {
				return
			}
			t.Fatal(err)
		}
		if err := trace.Validate(cut); err != nil {
			t.Fatal(err)
		}
		// Events on handles that failed before the cut are left out, so compare the states after the last of each.
		var want, got []map[trace.Handle]uint64
		keep := func(list *[]map[trace.Handle]uint64) func(int, map[trace.Handle]uint64) {
			return func(_ int, live map[trace.Handle]uint64) {
				c := maps.Clone(live)
				if n := len(*list); n == 0 || !maps.Equal((*list)[n-1], c) {
					*list = append(*list, c)
				}
			}
		}
		kw, kg := keep(&want), keep(&got)
		follow(tr, func(i int, live map[trace.Handle]uint64) {
			if i >= from-1 && i < to {
				kw(i, live)
			}
		})
		follow(cut, func(i int, live map[trace.Handle]uint64) { kg(i, live) })
		// The head of the cut builds up what is live: the states of the whole trace are a tail of the cut's.
		if len(got) < len(want) {
			t.Fatalf("%d states, want %d", len(got), len(want))
		}
		tail := got[len(got)-len(want):]
		for i := range want {
			if !maps.Equal(tail[i], want[i]) {
				t.Fatalf("state %d: got %v, want %v", i, tail[i], want[i])
			}
		}
		var text bytes.Buffer
		if err := trace.Format(&text, cut); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Parse(&text, "cut"); err != nil {
			t.Fatal(err)
		}
	})
}

func format(t testing.TB, tr *trace.Trace) string {
	t.Helper()
	var out bytes.Buffer
	must(t, trace.Format(&out, tr))
	return out.String()
}

const cutText = `# gpubench trace 1
# source rmm-csv  covers 100%  device 0
set threshold=0.5
events manual
-> segment alloc addr=0x200000 bytes=2MiB stream=7
h1 = alloc 500 stream=7 @1ms -> addr=0x200000 granted=512
h2 = alloc 1000 stream=7 -> addr=0x200200 granted=1KiB
h3 = alloc 2MiB @2ms -> addr=0x600000 granted=2MiB
free h1 @3ms
pool-begin 0:4
mark iteration=1 @4ms
free h2
h4 = alloc 100 @6ms -> failed
free h4 @7ms
`

func TestCutWithAddresses(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader(cutText), "t")
	must(t, err)
	from, err := trace.ParseBound(tr, "iteration=1")
	must(t, err)
	to, err := trace.ParseBound(tr, "@7ms")
	must(t, err)
	cut, err := trace.Cut(tr, from, to)
	must(t, err)
	const want = `# gpubench trace 1
# source rmm-csv  covers 0%  device 0
# warning cut: the recording does not show the segments of some blocks: 1 were made up round them, without the free memory they held
# warning cut: 2 handles were live at its start: they are a start state from recorded addresses
# warning cut: events 7 to 10 of 11
state
segment 0x200000 2MiB stream=7 small
  block free 512
  block h2 1KiB requested=1000
  block free 2095616
segment 0x600000 2MiB
  block h3 2MiB
end
set threshold=0.5 @0ns
events manual
pool-begin 0:4
mark iteration=1
free h2
h4 = alloc 100 @2ms -> failed
`
	if got := format(t, cut); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A cut that begins after the failed alloc leaves its free out, and says so.
	cut, err = trace.Cut(tr, 10, 11)
	must(t, err)
	if w := strings.Join(cut.Meta.Warnings, "\n"); !strings.Contains(w, "1 events on handles whose alloc failed before the cut are left out") {
		t.Error(w)
	}
}

func TestCutWithoutAddresses(t *testing.T) {
	tr, err := trace.Parse(strings.NewReader("h1 = alloc 10 stream=7\nh2 = alloc 20\nfree h1\ncheckpoint c\nh3 = realloc h2 30\nrestore c\n"), "t")
	must(t, err)
	cut, err := trace.Cut(tr, 2, 3)
	must(t, err)
	const want = `# gpubench trace 1
# source text  covers 0%  device 0
# warning cut: 2 handles were live at its start: they are ordinary allocs at the head, since their addresses are not known
# warning cut: events 2 to 3 of 6
h1 = alloc 10 stream=7
h2 = alloc 20
free h1
`
	if got := format(t, cut); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := trace.Cut(tr, 4, 6); err == nil || !strings.Contains(err.Error(), `event 5 restores checkpoint "c", which was made before event 4`) {
		t.Error(err)
	}
	if _, err := trace.Cut(tr, 4, 7); !errors.Is(err, trace.ErrArgument) {
		t.Error(err)
	}
	for _, bound := range []string{"x", "@5ms", "7", "iteration=9", "iteration=x"} {
		if _, err := trace.ParseBound(tr, bound); err == nil {
			t.Errorf("bound %q passed", bound)
		}
	}
}

func TestAnonymize(t *testing.T) {
	const secret = `# gpubench trace 1
# source rmm-csv  covers 100%  device 0
# title Project Moon
# setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
# setting LOG=/home/jo/log
# warning lost /home/jo/x
h1 = alloc 1000 stream=94838223 pool="moon pool" tag="/home/jo/moon.py:12" -> addr=0x7000 granted=1KiB
mark moonshot=2
set path=/home/jo
checkpoint moonbase
free h1 tag="/home/jo/moon.py:12"
`
	tr, err := trace.Parse(strings.NewReader(secret), "t")
	must(t, err)
	anon, err := trace.Anonymize(tr, trace.AnonymizeOptions{Key: []byte("k")})
	must(t, err)
	got := format(t, anon)
	for _, word := range []string{"moon", "Moon", "jo", "94838223"} {
		if strings.Contains(got, word) {
			t.Errorf("%q shows:\n%s", word, got)
		}
	}
	for _, word := range []string{"expandable_segments:True", "alloc 1000 stream=1 pool=pool-", "addr=0x7000"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q is lost:\n%s", word, got)
		}
	}
	if tag := anon.Tag(&anon.Events[0]); tag != anon.Tag(&anon.Events[4]) || !strings.HasPrefix(tag, "tag-") {
		t.Errorf("the tag is not stable: %q", tag)
	}
	again, err := trace.Anonymize(tr, trace.AnonymizeOptions{Key: []byte("k")})
	must(t, err)
	other, err := trace.Anonymize(tr, trace.AnonymizeOptions{Key: []byte("other")})
	must(t, err)
	if trace.Hash(again) != trace.Hash(anon) || trace.Hash(other) == trace.Hash(anon) {
		t.Error("pseudonyms must follow the key and nothing else")
	}
	rounded, err := trace.Anonymize(tr, trace.AnonymizeOptions{SizeQuantumBytes: 512})
	must(t, err)
	if rounded.Events[0].Size != 1024 || len(rounded.Recorded) != 0 {
		t.Errorf("size %d, %d answers", rounded.Events[0].Size, len(rounded.Recorded))
	}
}
