package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/internal/streams"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

const (
	// shareOfAvailable is the part of the available memory that the device may be as large as: 1/2.
	shareOfAvailable = 2
	// checkBytes is the size from which on a call looks at the memory that is available now; below it the look would
	// cost more than the call.
	checkBytes = 64 << 20
	// reserveBytes is what a call must leave available.
	reserveBytes = 512 << 20
	// defaultBytes is the size of the device when none is given and as much is available.
	defaultBytes = 4 << 30
	// maxRequestBytes bounds one call, so that rounding up cannot overflow.
	maxRequestBytes = 1 << 46
)

// ErrTooLarge says that a device was asked for that would endanger the machine.
var ErrTooLarge = errors.New("more than half of the memory that is available")

// Config says how large the device is.
type Config struct {
	TotalBytes uint64 // 0: 4 GiB, or half of what is available if that is less
	// Lazy leaves pages untouched until the program touches them: calls get cheaper, memory comes later.
	Lazy bool
}

// Device implements backends.Device, VirtualMemory, Streams, StreamControl and Resetter. Make one with New and Close it.
type Device struct {
	streams.Streams
	virtual
	total, charged uint64
	page           uint64
	lazy           bool
	mallocs        map[uint64]uint64 // address -> mapped bytes
}

// New opens the device. ErrTooLarge names the size that would do.
func New(cfg Config) (*Device, error) {
	available, err := availableBytes()
	if err != nil {
		return nil, fmt.Errorf("host device: %w", err)
	}
	safe := available / shareOfAvailable
	total := cfg.TotalBytes
	if total == 0 {
		total = DefaultBytes()
	}
	if total > safe {
		return nil, fmt.Errorf("host device of %d bytes: %w; at most %d bytes", total, ErrTooLarge, safe)
	}
	d := &Device{page: uint64(os.Getpagesize()), lazy: cfg.Lazy, mallocs: map[uint64]uint64{}}
	if d.total = total / d.page * d.page; d.total == 0 {
		return nil, fmt.Errorf("host device of %d bytes: less than one page of %d bytes", total, d.page)
	}
	if err := d.virtual.open(d.total); err != nil {
		return nil, fmt.Errorf("host device: %w", err)
	}
	return d, nil
}

// Info describes the device.
func (d *Device) Info() backends.Info {
	return backends.Info{
		Name: "host", TotalBytes: d.total, PageBytes: d.page, VirtualMemory: true, StreamEvents: true,
		CostSource: "measured: system calls on this machine",
	}
}

// MemInfo returns the size of the device less what is held, and the size.
func (d *Device) MemInfo() (freeBytes, totalBytes uint64) { return d.total - d.charged, d.total }

// charge checks and takes the budget for size bytes and returns them rounded up to pages.
func (d *Device) charge(size uint64) (uint64, trace.CallStatus) {
	if size == 0 {
		return 0, trace.CallInvalidValue
	}
	if size > maxRequestBytes {
		return 0, trace.CallOutOfMemory
	}
	n := (size + d.page - 1) / d.page * d.page
	if n > d.total-d.charged {
		return 0, trace.CallOutOfMemory
	}
	if n >= checkBytes {
		if available, err := availableBytes(); err != nil || available < n+reserveBytes {
			return 0, trace.CallOutOfMemory
		}
	}
	d.charged += n
	return n, trace.CallOK
}

// Malloc maps pages and, unless the device is lazy, has them all present before it returns.
func (d *Device) Malloc(size uint64) (uint64, trace.CallStatus) {
	n, st := d.charge(size)
	if st != trace.CallOK {
		return 0, st
	}
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if !d.lazy {
		flags |= unix.MAP_POPULATE
	}
	addr, err := mmap(0, n, unix.PROT_READ|unix.PROT_WRITE, flags, -1, 0)
	if err != nil {
		d.charged -= n
		return 0, callStatus(err)
	}
	d.mallocs[addr] = n
	return addr, trace.CallOK
}

// Free unmaps what Malloc returned.
func (d *Device) Free(addr uint64) trace.CallStatus {
	n, ok := d.mallocs[addr]
	if !ok {
		return trace.CallInvalidValue
	}
	if err := munmap(addr, n); err != nil {
		return callStatus(err)
	}
	delete(d.mallocs, addr)
	d.charged -= n
	return trace.CallOK
}

// NowNs is the monotonic clock since the process started.
func (d *Device) NowNs() uint64 { return uint64(clock.Monotonic()) }

// Reset gives everything back to the system.
func (d *Device) Reset() {
	for addr := range d.mallocs {
		d.Free(addr)
	}
	d.virtual.reset()
	d.ResetStreams()
	d.charged = 0
}

// Close gives everything back and closes the memory file.
func (d *Device) Close() error {
	d.Reset()
	return d.virtual.close()
}

// callStatus translates an error of a system call.
func callStatus(err error) trace.CallStatus {
	switch {
	case err == nil:
		return trace.CallOK
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENFILE):
		return trace.CallOutOfMemory
	case errors.Is(err, unix.EINVAL):
		return trace.CallInvalidValue
	}
	return trace.CallBroken
}

// mmap is the system call; the memory is the kernel's and unknown to the garbage collector, so addresses are numbers.
func mmap(addr, size uint64, prot, flags, fd int, offset uint64) (uint64, error) {
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(size), uintptr(prot), uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return 0, errno
	}
	return uint64(at), nil
}

func munmap(addr, size uint64) error {
	if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(size), 0); errno != 0 {
		return errno
	}
	return nil
}

func mprotect(addr, size uint64, prot int) error {
	if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, uintptr(addr), uintptr(size), uintptr(prot)); errno != 0 {
		return errno
	}
	return nil
}

var (
	_ backends.Device        = (*Device)(nil)
	_ backends.VirtualMemory = (*Device)(nil)
	_ backends.Streams       = (*Device)(nil)
	_ backends.StreamControl = (*Device)(nil)
	_ backends.Resetter      = (*Device)(nil)
)
