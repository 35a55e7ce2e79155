package sdk

import (
	"context"

	"google.golang.org/grpc"

	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
)

// telemetryServer serves the telemetry of an executable.
type telemetryServer struct {
	pluginv1.UnimplementedTelemetryServer
	executable *Executable
}

// Fingerprint implements the contract: the devices of all telemetry of the executable, in order.
func (s *telemetryServer) Fingerprint(ctx context.Context, _ *pluginv1.FingerprintRequest) (*pluginv1.FingerprintResponse, error) {
	resp := &pluginv1.FingerprintResponse{}
	for i := range s.executable.Telemetry {
		devices, err := s.executable.Telemetry[i].Fingerprint(ctx)
		if err != nil {
			return nil, answer(err)
		}
		for _, d := range devices {
			resp.Devices = append(resp.Devices, &pluginv1.TelemetryDevice{Index: d.Index, Uuid: d.UUID, Name: d.Name, Facts: d.Facts})
		}
	}
	return resp, nil
}

// Watch implements the contract, with the first telemetry of the executable.
func (s *telemetryServer) Watch(q *pluginv1.WatchRequest, stream grpc.ServerStreamingServer[pluginv1.Sample]) error {
	if len(s.executable.Telemetry) == 0 {
		return answer(unknown("telemetry", "", nil))
	}
	return answer(s.executable.Telemetry[0].Watch(stream.Context(), q.GetIntervalMs(), q.GetDevices(), func(h HardwareSample) error {
		return stream.Send(&pluginv1.Sample{Device: h.Device, UnixNs: h.UnixNs, Values: h.Values})
	}))
}
