//go:build cgo && linux

package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/calibration"
	"github.com/gpubench/gpubench/backends/cuda"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// options are the options of the backend.
type options struct {
	Device             string  `json:"device,omitempty"`
	Memory             string  `json:"memory,omitempty"`
	MemoryShare        float64 `json:"memory_share,omitempty"`
	Share              bool    `json:"share,omitempty"`
	AllowManaged       bool    `json:"allow_managed,omitempty"`
	Canary             bool    `json:"canary,omitempty"`
	PoolThresholdBytes uint64  `json:"pool_threshold_bytes,omitempty"`
	CallDeadlineMs     uint32  `json:"call_deadline_ms,omitempty"`
}

const optionsSchema = `{"type":"object","additionalProperties":false,"properties":{
	"device":{"type":"string","description":"index among the visible devices (CUDA_VISIBLE_DEVICES), or a UUID or its beginning; GPU-… or MIG-…"},
	"memory":{"enum":["device","pool","pinned","managed"],"description":"what Malloc takes: cuMemAlloc, a stream-ordered pool, pinned host memory, managed memory"},
	"memory_share":{"type":"number","exclusiveMinimum":0,"maximum":1,"description":"part of the free memory that may be taken; 0.9 by default"},
	"share":{"type":"boolean","description":"use the device although other programs run on it"},
	"allow_managed":{"type":"boolean","description":"allow managed memory, never more than is free"},
	"canary":{"type":"boolean","description":"fill every block and check it when it is freed; for finding faults, not for measuring"},
	"pool_threshold_bytes":{"type":"integer","minimum":0,"description":"unused memory that the pool keeps at a synchronisation"},
	"call_deadline_ms":{"type":"integer","minimum":1,"maximum":60000,"description":"after which a driver call is given up and the device counts as lost; 4000 by default"}}}`

func backend() sdk.Backend {
	return sdk.Backend{
		Name: "cuda", Version: version(), Summary: "NVIDIA hardware through the CUDA driver", Options: json.RawMessage(optionsSchema),
		Capabilities: []sdk.Capability{sdk.CapVirtualMemory, sdk.CapStreams, sdk.CapDeviceReset},
		Open: func(raw json.RawMessage, total uint64, _ *trace.Trace) (backends.Device, error) {
			d, err := openDevice(raw, total)
			if err != nil {
				return nil, &refusal{err}
			}
			return d, nil
		},
	}
}

func openDevice(raw json.RawMessage, total uint64) (*cuda.Device, error) {
	var o options
	if err := sdk.DecodeOptions(raw, &o); err != nil {
		return nil, err
	}
	return cuda.Open(cuda.Config{
		Device: o.Device, TotalBytes: total, Memory: cuda.Memory(o.Memory), Share: o.MemoryShare, AllowShared: o.Share, AllowManaged: o.AllowManaged, Canary: o.Canary,
		PoolThresholdBytes: o.PoolThresholdBytes, CallDeadline: time.Duration(o.CallDeadlineMs) * time.Millisecond, Users: users,
	})
}

// refusal is an error of the machine or the request, not of this plugin: without it "no driver" would read as a defect.
type refusal struct{ error }

// Is makes the contract answer "bad request".
func (r *refusal) Is(target error) bool { return target == sdk.ErrRequest }

// Unwrap returns the error.
func (r *refusal) Unwrap() error { return r.error }

// calibrationDeadline is generous: writing a gigabyte for the first time takes long where the driver makes its pages only then.
const calibrationDeadline = 30 * time.Second

var usersLock sync.Mutex

// users asks NVML who runs on a device. Without NVML nobody is known.
func users(uuid string) ([]cuda.Process, error) {
	usersLock.Lock()
	defer usersLock.Unlock()
	r, err := reader()
	if err != nil {
		return nil, err
	}
	list, err := r.Users(uuid)
	var out []cuda.Process
	for _, p := range list {
		out = append(out, cuda.Process{PID: p.PID, Name: p.Name})
	}
	return out, err
}

// calibrate measures the device and writes the report as JSON.
func calibrate(w io.Writer, raw json.RawMessage) error {
	if err := sdk.CheckOptions(json.RawMessage(optionsSchema), raw); err != nil {
		return err
	}
	d, err := openDevice(raw, 0)
	if err != nil {
		return err
	}
	d.SetCallDeadline(calibrationDeadline)
	report, err := calibration.Measure(d, calibration.Options{})
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(report)
}
