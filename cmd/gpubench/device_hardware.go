package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpubench/gpubench/configs"
	"github.com/gpubench/gpubench/harness"
	"github.com/gpubench/gpubench/plugins/host"
)

// stopPlugin bounds the end of a plugin that was only asked something.
const stopPlugin = 5 * time.Second

// hardwareDevice is the device of a case on a backend that is hardware: what the backend says it is, with as much memory as
// it may take. For models, and for plugins that have no telemetry, it is model unchanged.
func hardwareDevice(ctx context.Context, backend string, options map[string]any, model *configs.Device) (*configs.Device, error) {
	p, err := newLauncher(ctx, backend)
	if err != nil || p.Backend.Path == "" {
		return model, err
	}
	raw := []byte("{}")
	if len(options) > 0 {
		if raw, err = json.Marshal(options); err != nil {
			return nil, fmt.Errorf("options of backend %s: %w", backend, err)
		}
	}
	pl, err := host.Start(ctx, host.Spec{Path: p.Backend.Path, SHA256: p.Backend.SHA256})
	if err != nil {
		return nil, ownWords(err)
	}
	defer stopQuietly(pl)
	if len(pl.Describe().GetTelemetry()) == 0 {
		return model, nil
	}
	info, err := pl.OpenDevice(ctx, host.FusedDevice{Backend: backend, OptionsJSON: string(raw)}, "", noSlot)
	if err != nil {
		return nil, ownWords(err)
	}
	if _, err := pl.CloseDevice(ctx); err != nil {
		return nil, ownWords(err)
	}
	device := *model
	device.Name, device.Title, device.CapacityBytes = info.GetName(), info.GetName(), info.GetTotalBytes()
	return &device, nil
}

// noSlot opens a device that is called by messages.
const noSlot = -1

func stopQuietly(p *host.Plugin) {
	ctx, cancel := context.WithTimeout(context.Background(), stopPlugin)
	defer cancel()
	_ = p.Stop(ctx)
}

// ownWords returns what a plugin said of the machine, without the words around it: "the CUDA driver is not here: …" says all.
func ownWords(err error) error {
	var a *host.Answer
	if errors.As(err, &a) {
		return errors.New(a.Message)
	}
	return err
}

// telemetryPlugin finds the executable that serves telemetry: one of its own, or the backend's.
func telemetryPlugin() (harness.Executable, error) {
	for _, c := range []struct {
		kind host.Kind
		name string
	}{{host.KindTelemetry, "nvml"}, {host.KindBackend, "cuda"}} {
		f, err := host.Find(c.kind, c.name, host.Places())
		if err == nil {
			return harness.Executable{Path: f.Path, SHA256: f.SHA256}, nil
		}
		if !errors.Is(err, host.ErrNotFound) {
			return harness.Executable{}, err
		}
	}
	return harness.Executable{}, fmt.Errorf("no telemetry: gpubench-backend-cuda is not found beside gpubench, in $%s or in the user's plugins; build it with: "+
		"go build -ldflags '-extldflags=-Wl,-z,lazy' ./cmd/gpubench-backend-cuda", host.PathEnv)
}

// startTelemetry starts that executable; the caller stops it.
func startTelemetry(ctx context.Context) (*host.Plugin, error) {
	e, err := telemetryPlugin()
	if err != nil {
		return nil, usageError(err)
	}
	p, err := host.Start(ctx, host.Spec{Path: e.Path, SHA256: e.SHA256})
	if err != nil {
		return nil, withCode(codePluginFault, err)
	}
	return p, nil
}
