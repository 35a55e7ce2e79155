package importers

import (
	"fmt"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/trace/pickle"
)

// Sizes of PyTorch's CUDA caching allocator (c10/core/AllocatorConfig.h in 2.14, CUDACachingAllocator.cpp before).
const (
	minBlockBytes     = 512      // kMinBlockSize: rounding unit and smallest block
	smallBytes        = 1 << 20  // kSmallSize: a rounded size up to this comes from the small pool
	smallSegmentBytes = 2 << 20  // kSmallBuffer
	largeSegmentBytes = 20 << 20 // kLargeBuffer, the default of large_segment_size_mb
)

// roundEntries is the length of the table of power-of-two divisions: 1 MiB to 32 GiB.
const roundEntries = 16

// allocatorRules are the settings under which a snapshot was recorded, as far as they decide the layout of blocks.
type allocatorRules struct {
	divisions    [roundEntries]uint64
	maxSplit     uint64 // bytes; the largest uint64 = unlimited
	gcThreshold  float64
	expandable   bool
	largeSegment uint64
}

func defaultRules() allocatorRules {
	return allocatorRules{maxSplit: ^uint64(0), largeSegment: largeSegmentBytes}
}

// readSettings reads the dictionary allocator_settings (PyTorch 2.2 and later): the rules, and every setting as text.
func readSettings(h *pickle.Heap, v pickle.Value, given bool) (allocatorRules, map[string]string, error) {
	r := defaultRules()
	if !given || h.Kind(v) == pickle.KindNone {
		return r, nil, nil
	}
	if k := h.Kind(v); k != pickle.KindDict {
		return r, nil, fmt.Errorf("allocator_settings: %s, not a dictionary", k.A())
	}
	settings := map[string]string{}
	for i := range h.Len(v) {
		key, val := h.Pair(v, i)
		name, ok := h.Text(key)
		if !ok || name == "" || strings.Contains(name, "=") {
			continue
		}
		name = strings.ToValidUTF8(name, "�")
		if name == "roundup_power2_divisions" && h.Kind(val) == pickle.KindDict {
			if s := r.readDivisions(h, val); s != "" {
				settings[name] = s
			}
			continue
		}
		if s, ok := scalarText(h, val); ok {
			settings[name] = s
		}
	}
	d := &dict{h: h, v: v}
	if raw, ok := h.Lookup(v, "max_split_size"); ok {
		if x, ok := h.Uint(raw); ok {
			r.maxSplit = x
		}
	}
	if raw, ok := h.Lookup(v, "garbage_collection_threshold"); ok {
		r.gcThreshold, _ = h.Float(raw)
	}
	r.expandable = d.bool("expandable_segments")
	if conf, ok := d.text("PYTORCH_CUDA_ALLOC_CONF"); ok {
		r.readConf(conf)
	}
	if d.err != nil {
		return r, nil, fmt.Errorf("allocator_settings: %w", d.err)
	}
	return r, settings, nil
}

// readConf takes from the settings string what the dictionary does not hold.
func (r *allocatorRules) readConf(conf string) {
	for _, part := range strings.Split(conf, ",") {
		key, val, _ := strings.Cut(part, ":")
		if strings.TrimSpace(key) == "large_segment_size_mb" {
			if mb, err := strconv.ParseUint(strings.TrimSpace(val), 10, 24); err == nil && mb > 0 {
				r.largeSegment = mb << 20
			}
		}
	}
}

// readDivisions fills the table of power-of-two divisions and returns it in the form of the settings string.
func (r *allocatorRules) readDivisions(h *pickle.Heap, v pickle.Value) string {
	any := false
	var parts []string
	for i := range r.divisions {
		key := strconv.Itoa(1 << i)
		if raw, ok := h.Lookup(v, key); ok {
			r.divisions[i], _ = h.Uint(raw)
		}
		any = any || r.divisions[i] != 0
		parts = append(parts, key+":"+strconv.FormatUint(r.divisions[i], 10))
	}
	if !any {
		return ""
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func scalarText(h *pickle.Heap, v pickle.Value) (string, bool) {
	switch h.Kind(v) {
	case pickle.KindString:
		s, _ := h.Text(v)
		return strings.ToValidUTF8(s, "�"), true
	case pickle.KindBool:
		b, _ := h.Bool(v)
		return map[bool]string{true: "True", false: "False"}[b], true
	case pickle.KindInt:
		if x, ok := h.Int(v); ok {
			return strconv.FormatInt(x, 10), true
		}
		x, _ := h.Uint(v)
		return strconv.FormatUint(x, 10), true
	case pickle.KindFloat:
		f, _ := h.Float(v)
		return strconv.FormatFloat(f, 'g', -1, 64), true
	}
	return "", false
}

// round returns the size of block that a request of n bytes asks for (round_size, roundup_power2_next_division).
func (r *allocatorRules) round(n uint64) uint64 {
	if n < minBlockBytes {
		return minBlockBytes
	}
	log := bits.Len64(n) - 1
	if d := r.divisions[min(max(log-20, 0), roundEntries-1)]; d > 1 && n > minBlockBytes*d {
		p := uint64(1) << log
		if n == p {
			return n
		}
		step := p >> (bits.Len64(d) - 1)
		if step == 0 {
			return 2 * p
		}
		if rounded := n &^ (step - 1); rounded != n {
			return rounded + step
		}
		return n
	}
	return (n + minBlockBytes - 1) &^ (minBlockBytes - 1)
}

// splits says whether a block with rest bytes beyond a request of s (rounded) is split (should_split).
func (r *allocatorRules) splits(s, rest uint64, small bool) bool {
	if small || r.expandable {
		return rest >= minBlockBytes
	}
	return s < r.maxSplit && rest > smallBytes
}

// releasesWaiting says whether memory is given back inside an allocation only after the allocator has waited for all
// pending blocks: true unless garbage collection or a split limit can release blocks before that.
func (r *allocatorRules) releasesWaiting() bool {
	return r.gcThreshold == 0 && r.maxSplit == ^uint64(0)
}

// sortedKeys returns the keys of a count in order.
func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
