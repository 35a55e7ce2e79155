package pytorch

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// describeSettings prints what differs from the defaults.
func describeSettings(c settings) string {
	var out []string
	d := defaultSettings()
	add := func(differs bool, format string, args ...any) {
		if differs {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(c.maxSplitBytes != d.maxSplitBytes, "max split %d MiB", c.maxSplitBytes/miB)
	add(c.nonSplitRoundingBytes != d.nonSplitRoundingBytes, "non-split rounding %d MiB", c.nonSplitRoundingBytes/miB)
	add(c.gcThreshold != 0, "gc %v", c.gcThreshold)
	add(c.roundup != d.roundup, "roundup %v on=%v", c.roundup, c.roundupOn)
	add(c.expandable, "expandable")
	add(c.largeSegmentBytes != d.largeSegmentBytes, "large segment %d MiB", c.largeSegmentBytes/miB)
	add(c.memoryFraction != 1, "fraction %v", c.memoryFraction)
	add(c.refuseBeforeMalloc, "refuse before malloc")
	if len(out) == 0 {
		return "defaults"
	}
	return strings.Join(out, "; ")
}

// TestSettings reads the strings of testdata/settings.txt one after the other, each on top of the settings before it
// unless the case says fresh.
func TestSettings(t *testing.T) {
	c := defaultSettings()
	datadriven.RunTest(t, "testdata/settings.txt", func(t *testing.T, d *datadriven.TestData) string {
		version := ""
		if d.HasArg("version") {
			d.ScanArgs(t, "version", &version)
		}
		r, err := rulesOf(Version(version), d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		if d.Cmd == "fresh" {
			c = defaultSettings()
		}
		next, err := parseSettings(&r, c, d.Input)
		if err != nil {
			if !errors.Is(err, ErrSettings) || !reflect.DeepEqual(next, c) {
				t.Fatalf("%s: error %v does not wrap ErrSettings, or settings changed", d.Pos, err)
			}
			return err.Error() + "\n"
		}
		c = next
		return fmt.Sprintf("%s: %s\n", r.version, describeSettings(c))
	})
}

// TestRoundSize checks sizes worked out by hand from the rule in roundSize.
func TestRoundSize(t *testing.T) {
	four := defaultSettings()
	for i := range four.roundup {
		four.roundup[i] = 4
	}
	four.roundupOn = true
	plain := defaultSettings()
	for _, c := range []struct {
		cfg     *settings
		n, want uint64
	}{
		{&plain, 1, 512}, {&plain, 511, 512}, {&plain, 512, 512}, {&plain, 513, 1024}, {&plain, 1<<20 + 1, 1<<20 + 512},
		{&four, 1, 512},
		{&four, 2048, 2048},     // 512 · 4 is not exceeded: plain rounding
		{&four, 2049, 2560},     // between 2048 and 4096, steps of 512
		{&four, 4096, 4096},     // a power of two stays
		{&four, 5000, 5120},     // steps of 1024 from 4096
		{&four, 6145, 7168},     // 4096 + 2·1024 = 6144 is just too small
		{&four, 7169, 8192},     // the last step ends at the next power of two
		{&four, 40e6, 41943040}, // 2^25 = 33554432, step 8388608: 33554432 + 8388608
	} {
		if got := c.cfg.roundSize(c.n); got != c.want {
			t.Errorf("round(%d) with %d divisions = %d, want %d", c.n, c.cfg.roundup[0], got, c.want)
		}
	}
	for _, c := range []struct{ size, want uint64 }{
		{512, 2 * miB}, {1 * miB, 2 * miB}, {1*miB + 512, 20 * miB}, {10*miB - 512, 20 * miB}, {10 * miB, 10 * miB}, {10*miB + 512, 12 * miB},
	} {
		if got := plain.segmentSize(c.size); got != c.want {
			t.Errorf("segment for %d = %d, want %d", c.size, got, c.want)
		}
	}
}

// FuzzSettings: no string makes a parser panic or leaves the settings outside their domains.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"", "max_split_size_mb:128,expandable_segments:True", "roundup_power2_divisions:[256:1,512:2,>:4]",
		"roundup_power2_divisions:8", "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5", "backend:native",
		"max_split_size_mb:-1", "max_split_size_mb=20", "a:[", "roundup_power2_divisions:[", "large_segment_size_mb:64,max_split_size_mb:64",
		"pinned_num_register_threads:8,release_lock_on_cudamalloc:True", ",,::[[]]", "garbage_collection_threshold:0x1p-2"} {
		for v := range 4 {
			f.Add(s, uint8(v))
		}
	}
	versions := []Version{VersionAuto, Version26, Version211, Version214}
	f.Fuzz(func(t *testing.T, conf string, v uint8) {
		r, err := rulesOf(versions[int(v)%len(versions)], conf)
		if err != nil {
			t.Fatal(err)
		}
		before := defaultSettings()
		c, err := parseSettings(&r, before, conf)
		if err != nil {
			if !reflect.DeepEqual(c, before) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: settings changed, or more than one line: %v", conf, err)
			}
			return
		}
		if c.maxSplitBytes < minLargeAlloc || c.nonSplitRoundingBytes < minLargeAlloc || c.largeSegmentBytes <= minLargeAlloc ||
			c.gcThreshold < 0 || c.gcThreshold >= 1 || c.memoryFraction < 0 || c.memoryFraction > 1 {
			t.Fatalf("%q gave %+v", conf, c)
		}
		for _, d := range c.roundup {
			if d&(d-1) != 0 {
				t.Fatalf("%q gave divisions %v", conf, c.roundup)
			}
		}
		for _, n := range []uint64{1, 512, 513, 1 << 20, 3<<20 + 7, 1<<59 + 1} {
			if s := c.roundSize(n); s < n || s%minBlockBytes != 0 || c.segmentSize(s) < s {
				t.Fatalf("%q rounds %d to %d in a segment of %d", conf, n, s, c.segmentSize(s))
			}
		}
	})
}

// TestConfOf: what a snapshot says beyond the settings string is added to it.
func TestConfOf(t *testing.T) {
	for _, c := range []struct {
		recorded map[string]string
		want     string
	}{
		{map[string]string{}, ""},
		{map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": "True"}, "expandable_segments:True"},
		{map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": "True", "max_split_size": "-1", "garbage_collection_threshold": "0"},
			"expandable_segments:True"},
		{map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:4", "max_split_size": "134217728", "garbage_collection_threshold": "0.8"},
			"roundup_power2_divisions:4,max_split_size_mb:128,garbage_collection_threshold:0.8"},
	} {
		if got := ConfOf(c.recorded); got != c.want {
			t.Errorf("%v: %q, want %q", c.recorded, got, c.want)
		}
	}
}
