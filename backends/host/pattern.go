package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// ErrNotHeld says that a range is not accessible memory of the device.
var ErrNotHeld = errors.New("not accessible memory of this device")

// Fill writes a pattern that depends on the seed and the position into [addr, addr+size).
func (d *Device) Fill(addr, size, seed uint64) error {
	bytes, err := d.bytes(addr, size)
	if err != nil {
		return err
	}
	var word [8]byte
	for i := range bytes {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], pattern(seed, uint64(i)/8))
		}
		bytes[i] = word[i%8]
	}
	return nil
}

// Check returns the offset of the first byte of [addr, addr+size) that is not what Fill wrote with this seed; intact is true when
// there is none.
func (d *Device) Check(addr, size, seed uint64) (firstBad uint64, intact bool, err error) {
	bytes, err := d.bytes(addr, size)
	if err != nil {
		return 0, false, err
	}
	var word [8]byte
	for i := range bytes {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], pattern(seed, uint64(i)/8))
		}
		if bytes[i] != word[i%8] {
			return uint64(i), false, nil
		}
	}
	return 0, true, nil
}

// pattern is SplitMix64 (Steele, Lea, Flood 2014) of seed and position.
func pattern(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// bytes returns the memory of a range after checking that it is held and accessible.
func (d *Device) bytes(addr, size uint64) ([]byte, error) {
	for at, left := addr, size; left > 0; {
		n := d.accessible(at)
		if n == 0 {
			return nil, fmt.Errorf("[%#x, %#x): %w (from %#x on)", addr, addr+size, ErrNotHeld, at)
		}
		n = min(n, left)
		at += n
		left -= n
	}
	if size == 0 {
		return nil, nil
	}
	// The address is a number that the kernel gave us for memory outside the Go heap; the garbage collector neither moves
	// nor frees it.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), size), nil
}

// accessible returns how many accessible bytes of the device follow at addr in one piece.
func (d *Device) accessible(addr uint64) uint64 {
	for at, n := range d.mallocs {
		if addr >= at && addr-at < n {
			return n - (addr - at)
		}
	}
	for at, m := range d.maps {
		if m.accessible && addr >= at && addr-at < m.bytes {
			return m.bytes - (addr - at)
		}
	}
	return 0
}
