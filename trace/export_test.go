package trace

import (
	"encoding/binary"
	"hash/crc32"
)

// Reseal puts right every checksum of a binary file, in place, so that tests reach the checks behind them.
func Reseal(p []byte) {
	if len(p) < headerBytes {
		return
	}
	le := binary.LittleEndian
	n := min(int(le.Uint32(p[36:])), secCount)
	for i := range n {
		e := p[sectionTable+i*sectionEntry:]
		off, size := le.Uint64(e[8:]), le.Uint64(e[16:])
		if off <= uint64(len(p)) && size <= uint64(len(p))-off {
			le.PutUint32(e[4:], crc32.ChecksumIEEE(p[off:off+size]))
		}
	}
	le.PutUint32(p[headerCRC:], crc32.ChecksumIEEE(p[:headerCRC]))
}

// SectionOffset returns where the section of a well-formed file lies, by the name that errors use.
func SectionOffset(p []byte, name string) (offset, bytes int) {
	h, err := decodeHeader(p, uint64(len(p)))
	if err != nil {
		panic(err)
	}
	for _, s := range h.sections {
		if sectionNames[s.kind] == name {
			return int(s.offset), int(s.bytes)
		}
	}
	panic("no section " + name)
}

// SpendLayoutWork counts n slots as looked at.
func (b *Builder) SpendLayoutWork(n uint64) { b.names.work += n }
