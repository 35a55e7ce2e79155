package plan

import (
	"github.com/gpubench/gpubench/trace"
)

// Shape is a family of programs. Uniform random programs miss whole families of bugs; each shape is there for the family that it
// finds.
type Shape uint8

// The shapes.
const (
	ShapeMixed    Shape = iota // everything, in the plan's weights
	ShapeStreams               // few sizes, many streams, uses on other streams, completions that come late
	ShapeBoundary              // sizes around powers of two, alignments, the arena; the largest numbers there are
	ShapeCyclic                // the same phase again and again: leaks, stale counters, caches that grow
	ShapePressure              // the arena nearly full all the time; devices that fail
	ShapeWrong                 // frees of what is dead, resets, restores, settings
	ShapeUniform               // sizes drawn evenly and frees at random: what a naive fuzzer does; for comparisons
	shapeCount
)

var shapeNames = [shapeCount]string{"mixed", "streams", "boundary", "cyclic", "pressure", "wrong", "uniform"}

// String returns the word for the shape.
func (s Shape) String() string {
	if s < shapeCount {
		return shapeNames[s]
	}
	return "shape?"
}

// Plan says what the programs of one batch are like. It is filled by Fill, and holds for a strategy that stays open: the sizes of
// device and arena are part of it, because some bugs need an arena that is no power of two.
type Plan struct {
	Shape       Shape
	Weights     [trace.KindCount]uint8 // relative frequency of each kind of event
	Sizes       SizeMix
	LengthMax   int    // events of a program, at most; at least 1
	LiveMax     int    // live handles beyond which frees are preferred
	Streams     int    // streams in use, 1 to StreamsMax
	Pools       int    // pools in use, 1 to PoolsMax
	AlignShare  uint8  // of 256 allocs, those that demand an alignment
	Oldest      uint8  // of 256 frees, those of the oldest block; Newest likewise; the rest at random
	Newest      uint8  //
	DeviceBytes uint64 // size of the device
	ArenaBytes  uint64 // what an arena strategy takes, at most DeviceBytes
	Variant     int    // which of the target's options, 0 = its defaults
}

// SizeMix weighs the ways to draw a size.
type SizeMix struct {
	Palette  uint8 // one of a few sizes of this program
	Class    uint8 // a power of two, or three quarters of one
	Boundary uint8 // a little beside a power of two or a multiple
	Limit    uint8 // a share of the arena, or what must be left of it, and a little beside
	Huge     uint8 // near 2^63, 2^64 and large powers of two
	Uniform  uint8 // evenly up to a random power of two
	Tiny     uint8 // 0, 1, and a few bytes
	MaxLog2  uint8 // powers of two are below this
}

// Limits are what the target can do. Kinds that are not in Kinds are not drawn.
type Limits struct {
	Kinds       [trace.KindCount]bool
	Streams     int // at most StreamsMax
	Pools       int
	LengthMax   int
	Settings    []string // "key=value", for set
	Variants    int      // number of the target's options, 0 = one
	DeviceMin   uint64   // sizes of devices to draw from
	DeviceMax   uint64
	PageBytes   uint64 // devices are multiples of it
	AlignBytes  uint64 // the strategy's own alignment
	AlignMax    uint64 // largest alignment demanded
	UniformOnly bool   // ShapeUniform only: for comparisons
}

// base are the weights of the kinds by shape, before they are varied.
var base = [shapeCount][trace.KindCount]uint8{
	ShapeMixed: {trace.KindAlloc: 100, trace.KindFree: 90, trace.KindRealloc: 8, trace.KindUse: 6, trace.KindWait: 3, trace.KindComplete: 4,
		trace.KindSync: 3, trace.KindTrim: 5, trace.KindPoolBegin: 2, trace.KindPoolEnd: 2, trace.KindPoolRelease: 2, trace.KindSet: 1,
		trace.KindEvents: 3, trace.KindStreamDestroy: 2, trace.KindCheckpoint: 3, trace.KindRestore: 3, trace.KindDefragment: 3,
		trace.KindFailNext: 4, trace.KindFreeWrong: 4, trace.KindReset: 1, trace.KindMark: 1},
	ShapeStreams: {trace.KindAlloc: 80, trace.KindFree: 70, trace.KindUse: 60, trace.KindWait: 15, trace.KindComplete: 25, trace.KindSync: 8,
		trace.KindTrim: 4, trace.KindEvents: 8, trace.KindStreamDestroy: 5, trace.KindFailNext: 2},
	ShapeBoundary: {trace.KindAlloc: 100, trace.KindFree: 70, trace.KindRealloc: 10, trace.KindTrim: 3, trace.KindFreeWrong: 2},
	ShapeCyclic: {trace.KindAlloc: 100, trace.KindFree: 100, trace.KindTrim: 6, trace.KindUse: 6, trace.KindSync: 5, trace.KindRealloc: 4,
		trace.KindCheckpoint: 3, trace.KindRestore: 3, trace.KindFailNext: 3},
	ShapePressure: {trace.KindAlloc: 110, trace.KindFree: 60, trace.KindTrim: 4, trace.KindFailNext: 15, trace.KindRealloc: 5, trace.KindSync: 2,
		trace.KindDefragment: 3, trace.KindSet: 1, trace.KindUse: 3},
	ShapeWrong: {trace.KindAlloc: 90, trace.KindFree: 70, trace.KindFreeWrong: 40, trace.KindReset: 6, trace.KindCheckpoint: 8,
		trace.KindRestore: 8, trace.KindSet: 4, trace.KindTrim: 5, trace.KindPoolBegin: 3, trace.KindPoolEnd: 3, trace.KindPoolRelease: 4,
		trace.KindStreamDestroy: 3, trace.KindFailNext: 5},
	ShapeUniform: {trace.KindAlloc: 100, trace.KindFree: 100, trace.KindTrim: 4},
}

// sizesOf are the size mixes by shape.
var sizesOf = [shapeCount]SizeMix{
	ShapeMixed:    {Palette: 60, Class: 30, Boundary: 40, Limit: 20, Huge: 4, Uniform: 40, Tiny: 6},
	ShapeStreams:  {Palette: 120, Class: 10, Boundary: 5, Uniform: 10},
	ShapeBoundary: {Palette: 20, Class: 40, Boundary: 100, Limit: 50, Huge: 40, Tiny: 10},
	ShapeCyclic:   {Palette: 100, Class: 20, Boundary: 20, Limit: 10, Uniform: 20},
	ShapePressure: {Palette: 60, Class: 20, Boundary: 30, Limit: 60, Uniform: 30},
	ShapeWrong:    {Palette: 80, Class: 20, Boundary: 10, Uniform: 20, Tiny: 5},
	ShapeUniform:  {Uniform: 1},
}
