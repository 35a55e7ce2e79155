package plan

import "math"

// hugeTops are the numbers around which sums of sizes wrap or turn negative.
var hugeTops = [...]uint64{math.MaxUint64, math.MaxInt64, 1 << 63, 1 << 62, 1 << 48, 1 << 40, 1 << 32, math.MaxUint32}

// beside are the distances from a boundary: by one, by an alignment, by an alignment and one.
var beside = [...]int64{0, 1, -1, 8, -8, 255, 256, 257, -255, -256, -257, 511, 512, 513, -512}

// drawSize draws a size in one of the ways.
func (g *Generator) drawSize(way sizeWay) uint64 {
	src, m := g.src, &g.plan.Sizes
	top := max(int(m.MaxLog2), 4)
	switch way {
	case wayPalette:
		return g.palette[src.Draw(paletteSizes)]
	case wayClass:
		k := 3 + src.Draw(top-2)
		if src.Draw(4) == 0 && k > 1 {
			return 3 << (k - 2)
		}
		return 1 << k
	case wayBoundary:
		n := uint64(1) << (3 + src.Draw(top-2))
		if src.Draw(4) == 0 {
			n *= uint64(1 + src.Draw(8))
		}
		return besides(n, beside[src.Draw(len(beside))])
	case wayLimit:
		return g.limitSize()
	case wayHuge:
		n := hugeTops[src.Draw(len(hugeTops))]
		switch src.Draw(3) {
		case 0:
			return n - uint64(src.Draw(9))
		case 1:
			return n - max(g.limits.AlignBytes, 1)*uint64(src.Draw(4)) - uint64(src.Draw(2))
		}
		return n + uint64(src.Draw(2))
	case wayUniform:
		if g.plan.Shape == ShapeUniform {
			return 1 + uint64(src.Draw(1<<min(top, 40)))
		}
		return uint64(src.Draw(1 << min(1+src.Draw(top), 40)))
	}
	return [8]uint64{0, 1, 2, 7, 8, 255, 256, 257}[src.Draw(8)]
}

// limitSize is a share of the arena or of the device, or what must be left of the arena, and a little beside.
func (g *Generator) limitSize() uint64 {
	n := g.plan.ArenaBytes
	switch g.src.Draw(4) {
	case 0:
		n = g.plan.DeviceBytes
	case 1:
		if g.bytes < n {
			n -= g.bytes
		}
	}
	n /= uint64(1 + g.src.Draw(8))
	return besides(n, beside[g.src.Draw(len(beside))])
}

// besides returns n + d, or n where that would be below 0.
func besides(n uint64, d int64) uint64 {
	if d < 0 && n < uint64(-d) {
		return n
	}
	return n + uint64(d)
}
