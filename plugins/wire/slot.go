package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/gpubench/gpubench/internal/clock"
)

// Layout of a slot. docs/PLUGINS.md has the same table with every byte.
const (
	SlotMagic   uint64 = 0x544f4c5356454247 // the bytes "GBEVSLOT"
	SlotVersion uint32 = 1
	SlotBytes          = 4096 // one page
)

// Op is a device operation on the remote binding. The numbers are those of the slot and of the protobuf DeviceCall.
type Op uint32

// The operations. Arguments that are not named are 0; answers are a status and two values.
const (
	OpNone         Op = 0
	OpNop          Op = 1  // does nothing: measures the transport
	OpMemInfo      Op = 2  // values: free, total
	OpMalloc       Op = 3  // size; value: address
	OpFree         Op = 4  // addr
	OpReserve      Op = 5  // size; value: address
	OpUnreserve    Op = 6  // addr, size
	OpCreate       Op = 7  // size; value: physical handle
	OpRelease      Op = 8  // aux = physical handle
	OpMap          Op = 9  // addr, size, aux = physical handle
	OpUnmap        Op = 10 // addr, size
	OpSetAccess    Op = 11 // addr, size
	OpEventRecord  Op = 12 // stream; value: event
	OpEventQuery   Op = 13 // aux = event; value: 1 = complete
	OpEventWait    Op = 14 // aux = event
	OpStreamWait   Op = 15 // stream, aux = event
	OpEventDrop    Op = 16 // aux = event
	OpStreamSync   Op = 17 // stream
	OpDeviceSync   Op = 18
	OpNow          Op = 19 // the answer's clock is the answer
	OpManualEvents Op = 20 // aux = 1 manual, 0 immediate
	OpComplete     Op = 21 // stream
	OpCompleteAll  Op = 22
	OpStreamGone   Op = 23 // stream
	OpAdvance      Op = 24 // aux = ns
	OpFailNext     Op = 25 // aux = k
	OpReset        Op = 26
	OpBeginEvent   Op = 27 // aux = index of the event
	OpAdopt        Op = 28 // addr, size
	OpCount        Op = 29
)

// Request is one device call.
type Request struct {
	Op     Op     // byte 128 of the slot
	Stream uint32 // byte 132
	Addr   uint64 // byte 136
	Size   uint64 // byte 144
	Aux    uint64 // byte 152
}

// Answer is what became of it.
type Answer struct {
	Status  uint32 // byte 192: trace.CallStatus
	_       uint32
	Value0  uint64 // byte 200
	Value1  uint64 // byte 208
	NowNs   uint64 // byte 216: the device's clock after the call
	SpentNs uint64 // byte 224: the call's own time on the device's clock
}

// The turns of a slot: whose move it is. The word is a futex.
const (
	turnIdle    uint32 = 0 // nothing was asked, or the answer was taken
	turnAsked   uint32 = 1
	turnAnswer  uint32 = 2
	turnServing uint32 = 3 // the server has taken the request
	turnClosed  uint32 = 4 // for ever
)

type slotPage struct {
	magic   uint64 // byte 0
	version uint32 // byte 8
	bytes   uint32 // byte 12
	_       [48]byte

	turn         uint32 // byte 64
	serverSleeps uint32 // byte 68: the server waits on turn and must be woken
	clientSleeps uint32 // byte 72: the client waits on turn and must be woken
	_            [52]byte

	request Request // byte 128
	_       [32]byte

	answer Answer // byte 192
	_      [SlotBytes - 232]byte
}

const (
	_ = uint(SlotBytes-unsafe.Sizeof(slotPage{})) + uint(unsafe.Sizeof(slotPage{})-SlotBytes)
	_ = uint(unsafe.Offsetof(slotPage{}.answer) - 192)
)

// Errors of a slot, for errors.Is.
var (
	ErrSlot       = errors.New("not a usable slot")
	ErrSlotClosed = errors.New("the other side of the slot is gone")
	ErrSlotHung   = errors.New("no answer from the device")
)

const (
	// spinNs is how long each side looks at the word before it sleeps: about what putting a thread to sleep and waking it
	// costs (2 µs measured), so that spinning at most doubles a wait that had to sleep anyway.
	spinNs = 2000
	// sleepNs bounds one sleep, so that a lost peer is noticed.
	sleepNs = 100_000_000
	// hungSleeps sleeps without an answer, 60 s, are a hung device. The harness notices earlier, by the progress counter.
	hungSleeps = 600
)

// Slot is one side of a slot. A side is used by one goroutine, except Abort.
type Slot struct {
	page    *slotPage
	memory  []byte
	release func([]byte) error
	spin    uint64  // in ticks
	asked   Request // of the call being served; kept here, so that serving allocates nothing
	reply   Answer
}

// NewSlot makes a slot in ordinary memory; both sides use it.
func NewSlot() *Slot {
	words := make([]uint64, SlotBytes/8)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), SlotBytes)
	initSlot(memory)
	return attachSlot(memory, nil)
}

func initSlot(memory []byte) {
	p := (*slotPage)(unsafe.Pointer(&memory[0]))
	p.magic, p.version, p.bytes = SlotMagic, SlotVersion, SlotBytes
}

func attachSlot(memory []byte, release func([]byte) error) *Slot {
	hz := clock.Calibrated().FrequencyHz
	return &Slot{page: (*slotPage)(unsafe.Pointer(&memory[0])), memory: memory, release: release, spin: hz * spinNs / 1e9}
}

func checkSlot(memory []byte) error {
	p := (*slotPage)(unsafe.Pointer(&memory[0]))
	if p.magic != SlotMagic || p.version != SlotVersion || p.bytes != SlotBytes {
		return fmt.Errorf("%w: magic %#x, version %d, %d bytes; want %#x, %d, %d", ErrSlot, p.magic, p.version, p.bytes,
			SlotMagic, SlotVersion, SlotBytes)
	}
	return nil
}

// Call makes one device call and waits for its answer.
func (s *Slot) Call(q *Request, a *Answer) error {
	p := s.page
	p.request = *q
	if !atomic.CompareAndSwapUint32(&p.turn, turnIdle, turnAsked) {
		if atomic.LoadUint32(&p.turn) == turnClosed {
			return ErrSlotClosed
		}
		return fmt.Errorf("%w: a call is in progress", ErrSlot)
	}
	wake(&p.turn, &p.serverSleeps)
	turn := s.await(&p.clientSleeps, func(t uint32) bool { return t == turnAnswer }, hungSleeps)
	switch turn {
	case turnAnswer:
		*a = p.answer
		if atomic.CompareAndSwapUint32(&p.turn, turnAnswer, turnIdle) {
			return nil
		}
		return ErrSlotClosed
	case turnClosed:
		return ErrSlotClosed
	}
	return ErrSlotHung
}

// Serve answers calls until the slot is closed. handle fills the answer; it runs on the caller's goroutine.
func (s *Slot) Serve(handle func(q *Request, a *Answer)) {
	p := s.page
	for {
		if s.await(&p.serverSleeps, func(t uint32) bool { return t == turnAsked }, 0) == turnClosed {
			return
		}
		s.asked = p.request // a copy: the client could go on writing
		if !atomic.CompareAndSwapUint32(&p.turn, turnAsked, turnServing) {
			continue
		}
		s.reply = Answer{}
		handle(&s.asked, &s.reply)
		p.answer = s.reply
		if !atomic.CompareAndSwapUint32(&p.turn, turnServing, turnAnswer) {
			return
		}
		wake(&p.turn, &p.clientSleeps)
	}
}

// await waits until the turn is wanted or the slot is closed: first spinning, then asleep, at most so many sleeps
// (0 = for ever). It returns the turn seen last.
func (s *Slot) await(sleeps *uint32, wanted func(uint32) bool, limit int) uint32 {
	p := s.page
	until := clock.Ticks() + s.spin
	for clock.Ticks() < until {
		if t := atomic.LoadUint32(&p.turn); wanted(t) || t == turnClosed {
			return t
		}
	}
	for n := 0; ; n++ {
		// Both sides store first and look second, and the stores are sequentially consistent, so at least one sees the other.
		atomic.StoreUint32(sleeps, 1)
		t := atomic.LoadUint32(&p.turn)
		if wanted(t) || t == turnClosed || limit != 0 && n == limit {
			atomic.StoreUint32(sleeps, 0)
			return t
		}
		futexWait(&p.turn, t, sleepNs)
		atomic.StoreUint32(sleeps, 0)
	}
}

// wake wakes the other side if it sleeps.
func wake(turn, sleeps *uint32) {
	if atomic.LoadUint32(sleeps) != 0 {
		futexWake(turn)
	}
}

// Abort closes the slot for both sides: calls fail with ErrSlotClosed and Serve returns. It may be called from any goroutine
// or process, also on behalf of a side that has died.
func (s *Slot) Abort() {
	atomic.StoreUint32(&s.page.turn, turnClosed)
	futexWake(&s.page.turn)
}

// Close unmaps the slot. Neither Call nor Serve may be running on this side.
func (s *Slot) Close() error {
	memory, release := s.memory, s.release
	s.memory, s.page = nil, nil
	if memory == nil || release == nil {
		return nil
	}
	return release(memory)
}
