package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/trace"
)

// Backend is something that opens devices.
type Backend struct {
	Name         string
	Version      string
	Summary      string          // one line
	Options      json.RawMessage // JSON Schema of the options object; empty = no options
	Capabilities []Capability    // what a device of it can have

	// Open opens a device of totalBytes. t is the trace of the case, nil for programs: backends that answer from a recording
	// need it. options were checked against Options; decode them with DecodeOptions.
	Open func(options json.RawMessage, totalBytes uint64, t *trace.Trace) (backends.Device, error)
}

// Telemetry watches hardware.
type Telemetry struct {
	Name    string
	Version string
	Summary string

	// Fingerprint lists the devices and how they are set up.
	Fingerprint func(ctx context.Context) ([]HardwareDevice, error)
	// Watch sends samples of the devices (by index; none = all), one at each interval, until ctx ends or send fails.
	Watch func(ctx context.Context, intervalMs uint32, devices []uint32, send func(HardwareSample) error) error
}

// HardwareDevice is one device as telemetry sees it.
type HardwareDevice struct {
	Index uint32
	UUID  string
	Name  string
	Facts map[string]string
}

// HardwareSample is one look at a device. What the card does not report is absent from Values, not zero.
type HardwareSample struct {
	Device uint32
	UnixNs int64
	Values map[string]float64 // name with its unit last
}

// Executable is all that one plugin executable serves.
type Executable struct {
	Name       string // as in describe; usually the file name
	Version    string
	Strategies []Description
	Backends   []Backend
	Telemetry  []Telemetry
}

// strategy returns the description with the name.
func (e *Executable) strategy(name string) (*Description, error) {
	var names []string
	for i := range e.Strategies {
		if e.Strategies[i].Name == name {
			return &e.Strategies[i], nil
		}
		names = append(names, e.Strategies[i].Name)
	}
	return nil, unknown("strategy", name, names)
}

func (e *Executable) backend(name string) (*Backend, error) {
	var names []string
	for i := range e.Backends {
		if e.Backends[i].Name == name {
			return &e.Backends[i], nil
		}
		names = append(names, e.Backends[i].Name)
	}
	return nil, unknown("backend", name, names)
}

func unknown(what, name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: no %s %q (this executable serves none)", ErrUnknown, what, name)
	}
	return fmt.Errorf("%w: no %s %q (there are %s)", ErrUnknown, what, name, strings.Join(names, ", "))
}

// check finds the mistakes of a plugin author that would only show late.
func (e *Executable) check() error {
	seen := map[string]bool{}
	one := func(what, name string, schema json.RawMessage, opens bool) error {
		switch {
		case name == "":
			return fmt.Errorf("a %s without a name", what)
		case seen[what+name]:
			return fmt.Errorf("two of %s %q", what, name)
		case !opens:
			return fmt.Errorf("%s %q has no function that opens it", what, name)
		}
		seen[what+name] = true
		if _, err := compileSchema(schema); err != nil {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
		return nil
	}
	for i := range e.Strategies {
		s := &e.Strategies[i]
		if err := one("strategy", s.Name, s.Options, s.New != nil); err != nil {
			return err
		}
	}
	for i := range e.Backends {
		b := &e.Backends[i]
		if err := one("backend", b.Name, b.Options, b.Open != nil); err != nil {
			return err
		}
	}
	for i := range e.Telemetry {
		t := &e.Telemetry[i]
		if err := one("telemetry", t.Name, nil, t.Fingerprint != nil && t.Watch != nil); err != nil {
			return err
		}
	}
	return nil
}
