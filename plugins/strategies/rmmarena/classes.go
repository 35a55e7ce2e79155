package rmmarena

import (
	"math/bits"

	"github.com/gpubench/gpubench/plugins/strategies/internal/rmm"
)

const (
	// linearBytes is the size up to which classes are 256 bytes apart.
	linearBytes = 2048
	// maxClassBytes is the largest class but one, which is the largest number.
	maxClassBytes = 256 << 30
)

// sizeClass is align_to_size_class: the smallest class of at least size bytes. Classes are 256 to 2048 bytes in steps of
// 256, then four a doubling up to 256 GiB; but the third class between 32 and 64 KiB is 54 KiB where the pattern has 56. A
// size above the largest class has the class of the largest number, which nothing can serve.
func sizeClass(size uint64) uint64 {
	switch {
	case size <= linearBytes:
		return rmm.RoundUp(size)
	case size > maxClassBytes:
		return rmm.MaxRequestBytes
	}
	step := uint64(1) << (bits.Len64(size-1) - 3)
	class := (size + step - 1) / step * step
	if class == 56<<10 {
		if class = 54 << 10; size > class {
			class = 64 << 10
		}
	}
	return class
}
