package sdk

import (
	"fmt"
	"runtime"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

// describe makes the answer to Describe. Capabilities of a strategy are the interfaces that it implements; to see them it
// is opened once over a device of 1 GiB that does nothing. One that refuses to open so keeps the capabilities that its
// description names.
func (e *Executable) describe() *pluginv1.DescribeResponse {
	d := &pluginv1.DescribeResponse{
		Name: e.Name, Version: e.Version, Protocol: wire.ProtocolVersion, WindowVersion: wire.WindowVersion,
		Build: fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
	for i := range e.Strategies {
		d.Strategies = append(d.Strategies, describeStrategy(&e.Strategies[i]))
	}
	for i := range e.Backends {
		b := &e.Backends[i]
		d.Backends = append(d.Backends, &pluginv1.BackendDescription{Name: b.Name, Version: b.Version, Summary: b.Summary,
			OptionsSchema: string(b.Options), Capabilities: words(b.Capabilities)})
	}
	for i := range e.Telemetry {
		t := &e.Telemetry[i]
		d.Telemetry = append(d.Telemetry, &pluginv1.TelemetryDescription{Name: t.Name, Version: t.Version, Summary: t.Summary})
	}
	return d
}

func describeStrategy(s *Description) *pluginv1.StrategyDescription {
	d := &pluginv1.StrategyDescription{
		Name: s.Name, Version: s.Version, Summary: s.Summary, Arena: s.Arena, Promises: words(s.Promises), WasteFactor: s.WasteFactor,
		OptionsSchema: string(s.Options), AlignmentBytes: s.Alignment, Canary: s.Canary, Capabilities: s.Capabilities,
	}
	for _, v := range s.Deviations {
		d.Deviations = append(d.Deviations, &pluginv1.Deviation{Id: v.ID, Text: v.Text, Section: v.Section})
	}
	if caps, ok := probe(s); ok {
		d.Capabilities = words(caps)
	}
	return d
}

// probe opens the strategy over a device that does nothing.
func probe(s *Description) (caps []Capability, ok bool) {
	info := nullDevice{}.Info()
	opened, err := s.New(&Env{Device: nullDevice{}, CapacityBytes: info.TotalBytes, Options: []byte("{}"), Streams: []uint64{0},
		Pools: []string{"0:0"}, Strings: []string{""}, Log: discardLog{}})
	if err != nil {
		return nil, false
	}
	caps = StrategyCapabilities(opened)
	return caps, opened.Close() == nil
}

func words[T ~string](list []T) []string {
	var out []string
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}
