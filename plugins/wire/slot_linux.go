package wire

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The futex operations used, without FUTEX_PRIVATE_FLAG since two processes share the word (futex(2)).
const (
	futexOpWait = 0
	futexOpWake = 1
	wakeAll     = 1<<31 - 1
)

// futexWait sleeps until the word is woken, unless it differs from seen already. It may return early for any reason.
func futexWait(word *uint32, seen uint32, timeoutNs int64) {
	limit := unix.NsecToTimespec(timeoutNs)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(seen), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// futexWake wakes everybody who sleeps on the word.
func futexWake(word *uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, wakeAll, 0, 0, 0)
}

// CreateSlot makes a slot in a memory file: the harness's side. The file goes to both processes as an inherited
// descriptor; the slot that is returned serves to Abort it when one of them dies. Both must be closed.
func CreateSlot() (*os.File, *Slot, error) {
	f, err := newMemoryFile("gpubench-slot", SlotBytes)
	if err != nil {
		return nil, nil, err
	}
	memory, err := mapFile(f, SlotBytes)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	initSlot(memory)
	return f, attachSlot(memory, unix.Munmap), nil
}

// MapSlot maps the slot in f, for either side. f may be closed afterwards.
func MapSlot(f *os.File) (*Slot, error) {
	memory, err := mapFile(f, SlotBytes)
	if err != nil {
		return nil, err
	}
	if err := checkSlot(memory); err != nil {
		return nil, errors.Join(err, unix.Munmap(memory))
	}
	return attachSlot(memory, unix.Munmap), nil
}
