package slab

import "math/bits"

const (
	minClassLog2 = 8
	maxClassLog2 = 20
	// MinClassBytes is the smallest size class.
	MinClassBytes = 1 << minClassLog2
	// MaxClassBytes is the largest size class; larger requests go to the backing.
	MaxClassBytes = 1 << maxClassLog2
	stepsLog2     = 2 // four classes a doubling
	numClasses    = (maxClassLog2-minClassLog2)<<stepsLog2 + 1
	// MinSlabBytes is the size of the slabs of small classes: a page of the device.
	MinSlabBytes = 2 << 20
	// minBlocks is the number of blocks that a slab holds at least.
	minBlocks = 8
)

// classOf returns the smallest class of at least size bytes, which is at most MaxClassBytes.
func classOf(size uint64) int {
	if size <= MinClassBytes {
		return 0
	}
	top := bits.Len64(size-1) - 1 // size lies in (1<<top, 2<<top]
	step := (size - 1) >> (top - stepsLog2) & (1<<stepsLog2 - 1)
	return (top-minClassLog2)<<stepsLog2 + int(step) + 1
}

// classBytes returns the size of the blocks of a class.
func classBytes(class int) uint64 {
	base := uint64(1) << (minClassLog2 + class>>stepsLog2)
	return base + base>>stepsLog2*uint64(class&(1<<stepsLog2-1))
}

// slabBytes returns the size of the slabs of a class.
func slabBytes(class int) uint64 { return max(MinSlabBytes, minBlocks*classBytes(class)) }
