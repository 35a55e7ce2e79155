package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var units = []struct {
	suffix string
	factor uint64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads a size such as "24GiB", "81050MiB", "1.5GB" or plain bytes. Binary units end in iB, decimal ones in B.
func ParseBytes(s string) (uint64, error) {
	text := strings.TrimSpace(s)
	factor := uint64(1)
	for _, u := range units {
		if strings.HasSuffix(text, u.suffix) {
			factor, text = u.factor, strings.TrimSpace(strings.TrimSuffix(text, u.suffix))
			break
		}
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		if factor != 0 && n > math.MaxUint64/factor {
			return 0, fmt.Errorf("size %q does not fit in 64 bits", s)
		}
		return n * factor, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || math.IsNaN(f) || f*float64(factor) >= math.MaxUint64 {
		return 0, fmt.Errorf("size %q is not a number of bytes; write for instance 24GiB, 512MiB or 1000000", s)
	}
	return uint64(f * float64(factor)), nil
}
