//go:build cgo && linux

package cuda

/*
#cgo CFLAGS: -O2 -std=gnu11
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// Numbers of CUdevice_attribute (CUDA driver API reference).
const (
	attributeIntegrated = 18
	attributeCCMajor    = 75
	attributeCCMinor    = 76
	attributeManaged    = 83
	attributeVMM        = 102
	attributePools      = 115
)

// Numbers of CUresult that opening tells apart.
const (
	resultNoDevice       = 100
	resultDriverMismatch = 803
)

// driver is a loaded library with the state of one device.
type driver struct {
	c      *C.struct_gb_dev
	shared *C.struct_gb_shared
	clock  clock.Info
}

func loadDriver(library string, deadline time.Duration) (*driver, error) {
	info := clock.Calibrated()
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var text [512]C.char
	c := C.gb_open(path, C.int(info.Source), C.uint64_t(deadline), &text[0], C.size_t(len(text)))
	if c == nil {
		return nil, fmt.Errorf("%w: %s; install NVIDIA's driver, or use the model: --backend pmm", ErrNoDriver, C.GoString(&text[0]))
	}
	return &driver{c: c, shared: C.gb_shared_of(c), clock: info}, nil
}

// open is cuInit and the number of visible devices.
func (d *driver) open() (count int, err error) {
	if r := C.gb_init(d.c); r != C.GB_OK {
		switch d.shared.result {
		case resultNoDevice:
			return 0, fmt.Errorf("%w: the driver is installed and sees none (cuInit: %s); check nvidia-smi and CUDA_VISIBLE_DEVICES", ErrNoDevice, d.name(r))
		case resultDriverMismatch:
			return 0, fmt.Errorf("%w: cuInit: %s: libcuda and the kernel's driver have different versions; restart the machine", ErrDriver, d.name(r))
		}
		return 0, d.failed("cuInit", r)
	}
	if r := C.gb_count_devices(d.c); r != C.GB_OK {
		return 0, d.failed("cuDeviceGetCount", r)
	}
	if d.shared.out == 0 {
		return 0, fmt.Errorf("%w: the driver sees none; check CUDA_VISIBLE_DEVICES", ErrNoDevice)
	}
	return int(d.shared.out), nil
}

// failed makes the error of a call of opening.
func (d *driver) failed(call string, r C.int) error {
	if r == C.GB_HUNG {
		return fmt.Errorf("%w: %s", ErrHung, call)
	}
	return fmt.Errorf("%w: %s answered %s", ErrDriver, call, d.name(r))
}

// name names the result of the last call.
func (d *driver) name(r C.int) string {
	if r >= 0 || r == C.GB_LOST {
		r = d.shared.result
		if n := C.gb_error_name(d.c, r); n != nil {
			return fmt.Sprintf("%s (%d)", C.GoString(n), int(r))
		}
	}
	return fmt.Sprintf("error %d", int(r))
}

func (d *driver) close() { C.gb_close(d.c) }

// status translates an answer of the shim.
func status(r C.int) trace.CallStatus {
	switch r {
	case C.GB_OK:
		return trace.CallOK
	case C.GB_HUNG:
		return trace.CallHung
	case C.GB_LOST:
		return trace.CallDeviceLost
	}
	return statusOf(int(r))
}

// statusOf translates a CUresult that is neither success nor the end of the device.
func statusOf(result int) trace.CallStatus {
	switch result {
	case 2: // CUDA_ERROR_OUT_OF_MEMORY
		return trace.CallOutOfMemory
	case 1, 101, 201, 400, 708: // INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, INVALID_HANDLE, PRIMARY_CONTEXT_ACTIVE
		return trace.CallInvalidValue
	case 800, 801: // NOT_PERMITTED, NOT_SUPPORTED
		return trace.CallNotSupported
	case 600: // NOT_READY
		return trace.CallNotReady
	}
	return trace.CallBroken
}

// Identity is what the driver says of a device.
type Identity struct {
	Index        int    `json:"index"` // among the visible devices
	UUID         string `json:"uuid"`  // GPU-… or MIG-…
	Name         string `json:"name"`
	Capability   string `json:"compute_capability"`
	TotalBytes   uint64 `json:"total_bytes"`
	Integrated   bool   `json:"integrated"` // shares its memory with the host
	VirtualMem   bool   `json:"virtual_memory"`
	Pools        bool   `json:"pools"`
	Managed      bool   `json:"managed"`
	DriverNumber int    `json:"cuda_driver"` // 13000 is CUDA 13.0
}

func (d *driver) identity(i int) (Identity, error) {
	id := Identity{Index: i}
	c := C.int(i)
	for _, step := range []struct {
		call string
		do   func() C.int
	}{
		{"cuDriverGetVersion", func() C.int { return C.gb_version(d.c) }},
		{"cuDeviceGetName", func() C.int { id.DriverNumber = int(d.shared.out); return C.gb_name(d.c, c) }},
		{"cuDeviceTotalMem", func() C.int { id.Name = C.GoString(&d.shared.text[0]); return C.gb_total(d.c, c) }},
		{"cuDeviceGetUuid", func() C.int { id.TotalBytes = uint64(d.shared.out); return C.gb_uuid(d.c, c) }},
	} {
		if r := step.do(); r != C.GB_OK {
			return id, d.failed(step.call, r)
		}
	}
	id.UUID = uuidText(C.GoBytes(unsafe.Pointer(&d.shared.uuid[0]), 16), id.Name)
	id.Capability = fmt.Sprintf("%d.%d", d.attribute(attributeCCMajor, i), d.attribute(attributeCCMinor, i))
	id.Integrated = d.attribute(attributeIntegrated, i) == 1
	id.VirtualMem = d.attribute(attributeVMM, i) == 1
	id.Pools = d.attribute(attributePools, i) == 1
	id.Managed = d.attribute(attributeManaged, i) == 1
	return id, nil
}

// attribute is 0 for one that the driver does not know.
func (d *driver) attribute(attribute, i int) int {
	if C.gb_attribute(d.c, C.int(attribute), C.int(i)) != C.GB_OK {
		return 0
	}
	return int(d.shared.out)
}

// uuidText writes a UUID as nvidia-smi does. The driver gives the bytes only; the name of a MIG instance contains the word.
func uuidText(b []byte, name string) string {
	h := hex.EncodeToString(b)
	prefix := "GPU-"
	if strings.Contains(name+" ", " MIG ") {
		prefix = "MIG-"
	}
	return prefix + strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// choose finds the device that which names among count.
func (d *driver) choose(which string, count int) (Identity, error) {
	if i, err := strconv.Atoi(which); err == nil || which == "" {
		if i < 0 || i >= count {
			return Identity{}, fmt.Errorf("%w: %d; the driver shows %d, numbered from 0 (CUDA_VISIBLE_DEVICES renumbers them)", ErrUnknown, i, count)
		}
		return d.identity(i)
	}
	var found []Identity
	var all []string
	for i := range count {
		id, err := d.identity(i)
		if err != nil {
			return id, err
		}
		all = append(all, id.UUID)
		if bare := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(which), "gpu-"), "mig-"); bare != "" && strings.HasPrefix(id.UUID[len("GPU-"):], bare) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		return Identity{}, fmt.Errorf("%w: %q names %d devices; there are %s", ErrUnknown, which, len(found), strings.Join(all, ", "))
	}
	return found[0], nil
}

// List returns the visible devices.
func List(library string) ([]Identity, error) {
	if library == "" {
		library = Library
	}
	d, err := loadDriver(library, OpenDeadline)
	if err != nil {
		return nil, err
	}
	defer d.close()
	n, err := d.open()
	if err != nil {
		return nil, err
	}
	var list []Identity
	for i := range n {
		id, err := d.identity(i)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}
