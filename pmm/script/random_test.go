package script_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/pmm/script"
)

// drawScript writes a random script of the kind that the recordings were made from.
func drawScript(t *rapid.T) string {
	var b strings.Builder
	user := rapid.SampledFrom([]string{"0x211000", "0x210000"}).Draw(t, "user")
	fmt.Fprintf(&b, "# pool=%d batch=%d user=%s kernel=0x1100 kmem=0x211000 scrub=%d oversub=%d\n", rapid.IntRange(1, 6).Draw(t, "pool"),
		rapid.IntRange(0, 3).Draw(t, "batch"), user, rapid.IntRange(0, 1).Draw(t, "scrub"), min(1, rapid.IntRange(0, 4).Draw(t, "oversub")))
	ids := rapid.IntRange(0, 60)
	small := rapid.IntRange(0, 3)
	for range rapid.IntRange(1, 120).Draw(t, "ops") {
		switch rapid.IntRange(0, 19).Draw(t, "op") {
		case 0, 1, 2, 3:
			size := rapid.SampledFrom([]int{4096, 65536, 65536, 2097152, 2097152}).Draw(t, "size")
			fmt.Fprintf(&b, "alloc 0 %d %d %d %d\n", size, small.Draw(t, "flags"), rapid.IntRange(0, 5).Draw(t, "n"), small.Draw(t, "trk")&1)
		case 4:
			size := rapid.SampledFrom([]int{256, 4096, 65536, 2097152}).Draw(t, "ksize")
			fmt.Fprintf(&b, "alloc 1 %d %d %d 0\n", size, small.Draw(t, "flags"), small.Draw(t, "n"))
		case 5, 6, 7:
			fmt.Fprintf(&b, "unpin %d %d\n", ids.Draw(t, "id"), small.Draw(t, "block"))
		case 8, 9, 10:
			fmt.Fprintf(&b, "free %d %d\n", ids.Draw(t, "id"), rapid.IntRange(0, 2).Draw(t, "pend"))
		case 11:
			fmt.Fprintf(&b, "split %d %d\n", ids.Draw(t, "id"), rapid.SampledFrom([]int{256, 4096, 65536}).Draw(t, "to"))
		case 12:
			fmt.Fprintf(&b, "merge %d\n", ids.Draw(t, "id"))
		case 13:
			fmt.Fprintf(&b, "mark %d %d\n", ids.Draw(t, "id"), rapid.IntRange(0, 2).Draw(t, "list"))
		case 14:
			fmt.Fprintf(&b, "evict\nevict_phys %d\n", small.Draw(t, "root"))
		case 15:
			fmt.Fprintf(&b, "pma_alloc %d %d %d\n", rapid.IntRange(1, 40).Draw(t, "pages"), rapid.SampledFrom([]int{16, 21}).Draw(t, "page"), small.Draw(t, "evict")&1)
		case 16:
			fmt.Fprintf(&b, "pma_free %d\npma_evict_range %d %d\n", ids.Draw(t, "id"), small.Draw(t, "first"), small.Draw(t, "last"))
		case 17:
			b.WriteString(rapid.SampledFrom([]string{"release\n", "sync\n", "flush\n", "complete 0\n", "complete 1\n"}).Draw(t, "rest"))
		case 18:
			fmt.Fprintf(&b, "lazyfree %d\nsubchunks %d %d %d\n", ids.Draw(t, "id"), ids.Draw(t, "id"), small.Draw(t, "start"), small.Draw(t, "n"))
		case 19:
			b.WriteString(rapid.SampledFrom([]string{"inject_evict 1 1\n", "inject_pma 1\n", "inject_pin 1\n", "inject_kmem 3\n", "inject_kmem 0\n"}).Draw(t, "inject"))
			fmt.Fprintf(&b, "inject_split %d\n", ids.Draw(t, "id"))
		}
	}
	return b.String()
}

// TestRandomScripts: whatever a script does, every invariant holds after every step, with either rule for lazy frees, and
// the same script gives the same bytes again.
func TestRandomScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawScript(t)
		var first, again bytes.Buffer
		if err := script.Run(strings.NewReader(text), &first, script.Options{Check: true}); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if err := script.Run(strings.NewReader(text), io.Discard, script.Options{Check: true, Lazy: true}); err != nil {
			t.Fatalf("with the list rule after a lazy free: %v\n%s", err, text)
		}
		if err := script.Run(strings.NewReader(text), &again, script.Options{}); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Fatalf("a second run differs: %v\n%s", err, text)
		}
	})
}

// FuzzScript: no script makes the runner panic or breaks an invariant, and a malformed one is one clear line.
func FuzzScript(f *testing.F) {
	for _, name := range []string{"testdata/seed_01.ops", "testdata/seed_16.ops"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b[:2000]))
	}
	f.Add("# pool=1 batch=0 user=0x211000 kernel=0x1100 kmem=0 scrub=0 oversub=0\nalloc 1 256 1 3 0\nfree 1 0\n")
	f.Add("# pool=2 batch=8 user=0x100000 kernel=0x40 kmem=0 scrub=1 oversub=1\nalloc 0 0x100000 1 9 1\nsplit 0 64\n\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := script.Parse(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, script.ErrSyntax) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one clear line: %v", err)
			}
			return
		}
		if s.Config.Roots > 8 || len(s.Ops) > 200 {
			return
		}
		for _, op := range s.Ops {
			if op.Name == "alloc" && op.Args[3] > 100 {
				return // slow, not interesting
			}
		}
		if err := s.Run(io.Discard, script.Options{Check: true}); err != nil {
			t.Fatal(err)
		}
	})
}
