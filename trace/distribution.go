package trace

import "math/bits"

// distribution computes exact figures of the values that each yields, every time the same. Quantiles are found by radix
// selection, sixteen bits a pass, so memory does not depend on the number of values.
func distribution(each func(func(uint64))) Distribution {
	var d Distribution
	var count, sum [65]uint64
	var hi, lo uint64 // 128-bit sum
	d.Min = 1<<64 - 1
	each(func(v uint64) {
		k := bits.Len64(v)
		count[k]++
		sum[k] += v
		var carry uint64
		lo, carry = bits.Add64(lo, v, 0)
		hi += carry
		d.Count++
		d.Min, d.Max = min(d.Min, v), max(d.Max, v)
	})
	if d.Count == 0 {
		return Distribution{}
	}
	d.Mean = (float64(hi)*(1<<64) + float64(lo)) / float64(d.Count)
	for k, n := range count {
		if n > 0 {
			b := Bucket{Count: n, Sum: sum[k]}
			if k > 0 {
				b.From, b.To = 1<<(k-1), 1<<(k-1)+(1<<(k-1)-1)
			}
			d.Histogram = append(d.Histogram, b)
		}
	}
	q := [...]selection{{rank: quantileRank(d.Count, 50)}, {rank: quantileRank(d.Count, 90)}, {rank: quantileRank(d.Count, 99)}}
	for shift := max(0, bits.Len64(d.Max)-1) / 16 * 16; shift >= 0; shift -= 16 {
		for i := range q {
			q[i].counts = make([]uint64, 1<<16)
		}
		each(func(v uint64) {
			for i := range q {
				if v>>(shift+16) == q[i].prefix {
					q[i].counts[v>>shift&0xffff]++
				}
			}
		})
		for i := range q {
			q[i].narrow()
		}
	}
	d.P50, d.P90, d.P99 = q[0].prefix, q[1].prefix, q[2].prefix
	return d
}

// selection narrows down the value of one rank: prefix is its leading bits, rank its place among the values that share them.
type selection struct {
	prefix, rank uint64
	counts       []uint64
}

func (s *selection) narrow() {
	for digit, n := range s.counts {
		if s.rank < n {
			s.prefix = s.prefix<<16 | uint64(digit)
			return
		}
		s.rank -= n
	}
}
