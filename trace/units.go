package trace

import (
	"fmt"
	"math/bits"
	"strconv"
)

// sizeUnits are the units of sizes, largest first. Only powers of 1024: the kB and MB of other tools mean now one thing
// and now another, so they are refused with a hint.
var sizeUnits = []struct {
	name string
	log2 uint
}{{"EiB", 60}, {"PiB", 50}, {"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}

// AppendSize appends a size in its canonical form: the largest binary unit of which it is a whole multiple, else plain
// bytes. 2097152 is 2MiB, 655360 is 640KiB, 1000 is 1000.
func AppendSize(p []byte, n uint64) []byte {
	if n != 0 {
		for _, u := range sizeUnits[:6] {
			if uint(bits.TrailingZeros64(n)) >= u.log2 {
				return append(strconv.AppendUint(p, n>>u.log2, 10), u.name...)
			}
		}
	}
	return strconv.AppendUint(p, n, 10)
}

// FormatSize is AppendSize as a string.
func FormatSize(n uint64) string { return string(AppendSize(nil, n)) }

// ParseSize reads a size: plain bytes (2097152, 0x200000) or a decimal number with a unit B, KiB, MiB, GiB, TiB, PiB or
// EiB (2MiB, 1.5GiB). It must come to a whole number of bytes below 2^64.
func ParseSize(s string) (uint64, error) { return parseSize([]byte(s)) }

func parseSize(s []byte) (uint64, error) {
	n, frac, digits, rest, err := scanDecimal(s)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", s, err)
	}
	if len(rest) == 0 && digits == 0 {
		return n, nil
	}
	for _, u := range sizeUnits {
		if string(rest) != u.name {
			continue
		}
		hi, lo := bits.Mul64(n, 1<<u.log2)
		fhi, flo := bits.Mul64(frac, 1<<u.log2)
		whole, rem := bits.Div64(fhi, flo, pow10[digits]) // frac < 10^digits, hence fhi < divisor
		sum, carry := bits.Add64(lo, whole, 0)
		if hi != 0 || carry != 0 {
			return 0, fmt.Errorf("size %q: 2^64 bytes or more", s)
		}
		if rem != 0 {
			return 0, fmt.Errorf("size %q: not a whole number of bytes", s)
		}
		return sum, nil
	}
	switch string(rest) {
	case "":
		return 0, fmt.Errorf("size %q: a fraction needs a unit such as MiB", s)
	case "K", "KB", "kB", "kb", "k", "kib", "Kib":
		return 0, fmt.Errorf("size %q: unknown unit %q; write KiB (1024 bytes)", s, rest)
	case "M", "MB", "mb", "m", "mib", "Mib":
		return 0, fmt.Errorf("size %q: unknown unit %q; write MiB (1024 KiB)", s, rest)
	case "G", "GB", "gb", "g", "gib", "Gib":
		return 0, fmt.Errorf("size %q: unknown unit %q; write GiB (1024 MiB)", s, rest)
	}
	return 0, fmt.Errorf("size %q: unknown unit %q; the units are B, KiB, MiB, GiB, TiB, PiB, EiB", s, rest)
}

// maxFractionDigits keeps a fraction below 2^64.
const maxFractionDigits = 18

var pow10 = func() (p [maxFractionDigits + 1]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// scanDecimal reads digits with an optional fraction, or a hexadecimal number, from the front of s.
func scanDecimal(s []byte) (n, frac uint64, digits int, rest []byte, err error) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		n, err = strconv.ParseUint(string(s[2:]), 16, 64)
		if err != nil {
			return 0, 0, 0, nil, fmt.Errorf("not a hexadecimal number below 2^64")
		}
		return n, 0, 0, nil, nil
	}
	i := 0
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(s[i]-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, 0, 0, nil, fmt.Errorf("2^64 or more")
		}
		n = sum
	}
	if i == 0 {
		return 0, 0, 0, nil, fmt.Errorf("not a number")
	}
	if i < len(s) && s[i] == '.' {
		start := i + 1
		for i = start; i < len(s) && s[i]-'0' <= 9; i++ {
			if i-start >= maxFractionDigits {
				return 0, 0, 0, nil, fmt.Errorf("more than %d digits after the point", maxFractionDigits)
			}
			frac = 10*frac + uint64(s[i]-'0')
		}
		if digits = i - start; digits == 0 {
			return 0, 0, 0, nil, fmt.Errorf("no digit after the point")
		}
	}
	return n, frac, digits, s[i:], nil
}

// timeUnits are the units of times, largest first.
var timeUnits = []struct {
	name   string
	ns     uint64
	digits int // decimal digits of ns after the leading 1
}{{"s", 1e9, 9}, {"ms", 1e6, 6}, {"us", 1e3, 3}, {"ns", 1, 0}}

// AppendTime appends a time in ns in its canonical form: the largest unit that it reaches, exact, without trailing zeros:
// 12500000 is 12.5ms.
func AppendTime(p []byte, ns int64) []byte {
	n := uint64(ns)
	for _, u := range timeUnits {
		if n < u.ns && u.ns > 1 {
			continue
		}
		p = strconv.AppendUint(p, n/u.ns, 10)
		if frac := n % u.ns; frac != 0 {
			at := len(p)
			p = strconv.AppendUint(p, u.ns+frac, 10) // 1ddd…: as many digits as the unit has
			p[at] = '.'
			for p[len(p)-1] == '0' {
				p = p[:len(p)-1]
			}
		}
		return append(p, u.name...)
	}
	return p
}

// parseTime reads a time with its unit into ns.
func parseTime(s []byte) (int64, error) {
	n, frac, digits, rest, err := scanDecimal(s)
	if err != nil {
		return 0, fmt.Errorf("time %q: %w", s, err)
	}
	if string(rest) == "µs" {
		rest = []byte("us")
	}
	for _, u := range timeUnits {
		if string(rest) != u.name {
			continue
		}
		hi, lo := bits.Mul64(n, u.ns)
		fhi, flo := bits.Mul64(frac, u.ns)
		whole, rem := bits.Div64(fhi, flo, pow10[digits])
		sum, carry := bits.Add64(lo, whole, 0)
		if hi != 0 || carry != 0 || sum > 1<<63-1 {
			return 0, fmt.Errorf("time %q: 2^63 ns or more", s)
		}
		if rem != 0 {
			return 0, fmt.Errorf("time %q: not a whole number of ns", s)
		}
		return int64(sum), nil
	}
	return 0, fmt.Errorf("time %q: unknown unit %q; write for example @12.5ms (s, ms, us or ns)", s, rest)
}
