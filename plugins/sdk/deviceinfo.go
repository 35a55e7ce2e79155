package sdk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gpubench/gpubench/backends"
	pluginv1 "github.com/gpubench/gpubench/plugins/proto/gpubench/plugin/v1"
	"github.com/gpubench/gpubench/plugins/wire"
)

func deviceInfo(d backends.Device) *pluginv1.DeviceInfo {
	i := d.Info()
	return &pluginv1.DeviceInfo{
		Name: i.Name, TotalBytes: i.TotalBytes, PageBytes: i.PageBytes, AddrLimit: i.AddrLimit, Deterministic: i.Deterministic,
		ModelledTime: i.ModelledTime, UncalibratedTime: i.UncalibratedTime, CostSource: i.CostSource, Capabilities: words(DeviceCapabilities(d)),
	}
}

func fromDeviceInfo(i *pluginv1.DeviceInfo) (backends.Info, []Capability) {
	info := backends.Info{
		Name: i.GetName(), TotalBytes: i.GetTotalBytes(), PageBytes: i.GetPageBytes(), AddrLimit: i.GetAddrLimit(), Deterministic: i.GetDeterministic(),
		ModelledTime: i.GetModelledTime(), UncalibratedTime: i.GetUncalibratedTime(), CostSource: i.GetCostSource(),
	}
	var caps []Capability
	for _, c := range i.GetCapabilities() {
		if slices.Contains(deviceCapabilities, Capability(c)) {
			caps = append(caps, Capability(c))
		}
	}
	return info, caps
}

// rpcDeadline bounds one device call by RPC: longer than any call of a real driver that still returns.
const rpcDeadline = 60 * time.Second

// rpcCaller carries device calls as unary RPCs: the fallback of the slot.
type rpcCaller struct {
	conn   *grpc.ClientConn
	client pluginv1.DeviceClient
	call   pluginv1.DeviceCall
}

func dialDevice(target string) (*rpcCaller, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("%w: remote device at %s: %w", ErrRequest, target, err)
	}
	return &rpcCaller{conn: conn, client: pluginv1.NewDeviceClient(conn)}, nil
}

// Call implements caller.
func (r *rpcCaller) Call(q *wire.Request, a *wire.Answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), rpcDeadline)
	defer cancel()
	r.call.Reset()
	r.call.Op, r.call.Stream, r.call.Addr, r.call.Size, r.call.Aux = uint32(q.Op), q.Stream, q.Addr, q.Size, q.Aux
	resp, err := r.client.Call(ctx, &r.call)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", wire.ErrSlotHung, err)
		}
		return err
	}
	*a = wire.Answer{Status: resp.GetStatus(), Value0: resp.GetValue0(), Value1: resp.GetValue1(), NowNs: resp.GetNowNs(), SpentNs: resp.GetSpentNs()}
	return nil
}

func (r *rpcCaller) Close() error { return r.conn.Close() }
