package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/gpubench/gpubench/trace"
)

// Result is what a program did: as many outcomes as it has events, and all call records.
type Result struct {
	Outcomes           []trace.Outcome
	Calls              []trace.Call
	FrequencyHz        uint64 // of the clock of PolicyTicks
	ReadCostMilliticks uint64
}

// AppendResult appends r as raw bytes.
func AppendResult(dst []byte, r *Result) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, ResultMagic)
	dst = le.AppendUint32(dst, ProgramVersion)
	dst = le.AppendUint32(dst, uint32(len(r.Outcomes)))
	dst = le.AppendUint32(dst, uint32(len(r.Calls)))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, r.FrequencyHz)
	dst = le.AppendUint64(dst, r.ReadCostMilliticks)
	dst = append(dst, make([]byte, ResultHeaderBytes-40)...)
	dst = append(dst, bytesOf(r.Outcomes)...)
	return append(dst, bytesOf(r.Calls)...)
}

// DecodeResult reads a result of a program of so many events into r, whose slices it uses again. What the records say is
// the reader's to check.
func DecodeResult(b []byte, events int, r *Result) error {
	le := binary.LittleEndian
	if len(b) < ResultHeaderBytes {
		return fmt.Errorf("%w: %d bytes, its header alone has %d", ErrResult, len(b), ResultHeaderBytes)
	}
	if m, v := le.Uint64(b), le.Uint32(b[8:]); m != ResultMagic || v != ProgramVersion {
		return fmt.Errorf("%w: magic %#x, version %d; want %#x, %d", ErrResult, m, v, ResultMagic, ProgramVersion)
	}
	outcomes, calls := uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))
	if outcomes != uint64(events) {
		return fmt.Errorf("%w: %d outcomes for a program of %d events", ErrResult, outcomes, events)
	}
	if want := ResultHeaderBytes + outcomes*trace.OutcomeBytes + calls*trace.CallBytes; uint64(len(b)) != want {
		return fmt.Errorf("%w: %d bytes, its header describes %d", ErrResult, len(b), want)
	}
	r.FrequencyHz, r.ReadCostMilliticks = le.Uint64(b[24:]), le.Uint64(b[32:])
	r.Outcomes, b = take(r.Outcomes, int(outcomes), b[ResultHeaderBytes:])
	r.Calls, _ = take(r.Calls, int(calls), b)
	return nil
}

// ResultBytes returns the length of r as raw bytes.
func ResultBytes(r *Result) int {
	return ResultHeaderBytes + len(r.Outcomes)*trace.OutcomeBytes + len(r.Calls)*trace.CallBytes
}
