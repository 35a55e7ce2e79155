package tiered

import (
	"errors"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/plugins/strategies/internal/fit"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "tiered"

// ErrHostMemory says that there is nowhere to spill to.
var ErrHostMemory = errors.New("the device has no host memory")

// Options of the strategy.
type Options struct {
	MinSpillBytes uint64 `json:"min_spill_bytes"`
	MaxHostBytes  uint64 `json:"max_host_bytes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "best fit that spills the least recently used blocks to host memory when a request does not fit",
		Arena:   true,
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Options: arena.ObjectSchema(
			`"min_spill_bytes":{"type":"integer","minimum":0,"default":1048576,"description":"smaller blocks are spilled last"}`,
			`"max_host_bytes":{"type":"integer","minimum":0,"default":0,"description":"most bytes in host memory; 0 = no limit"}`,
		),
		Alignment: fit.UnitBytes,
		New:       open,
	}
}

func open(env *sdk.Env) (sdk.Strategy, error) {
	opt := Options{MinSpillBytes: 1 << 20}
	if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
		return nil, err
	}
	host, ok := backends.As[backends.HostMemory](env.Device)
	if !ok {
		return nil, fmt.Errorf("%s: %w to spill to: %s; take a backend that has it, in the same process", Name, ErrHostMemory, env.Device.Info().Name)
	}
	s := &Strategy{dev: env.Device, host: host, log: env.Log, opt: opt, many: len(env.Streams) > 1}
	s.events, _ = backends.As[backends.Streams](env.Device)
	s.held.init(env)
	s.bytes = arena.Limit(env, fit.UnitBytes)
	if s.bytes == 0 {
		return nil, fmt.Errorf("%s: the capacity of %d bytes is less than one unit of %d bytes; give a larger capacity", Name, env.CapacityBytes, fit.UnitBytes)
	}
	addr, st := s.dev.Malloc(s.bytes)
	if st != trace.CallOK {
		return nil, fmt.Errorf("%s: arena of %d bytes from device %s: %w", Name, s.bytes, s.dev.Info().Name, st.Err())
	}
	s.base = addr
	s.heap = fit.New(fit.Best, addr, s.bytes)
	s.reset()
	return s, nil
}
