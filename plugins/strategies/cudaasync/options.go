package cudaasync

import (
	"fmt"
	"strconv"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/arena"
	"github.com/gpubench/gpubench/trace"
)

// Name is the name of the strategy.
const Name = "cuda-async"

const (
	// UnitBytes is what requests are rounded up to; a guess.
	UnitBytes = 512
	// DefaultSegmentBytes is the size of the pool's backing segments in practice; a guess.
	DefaultSegmentBytes = 32 << 20
)

// Options are the attributes of the pool, named as in cudaMemPoolAttr.
type Options struct {
	FollowEventDependencies   bool   `json:"reuse_follow_event_dependencies"`
	AllowOpportunistic        bool   `json:"reuse_allow_opportunistic"`
	AllowInternalDependencies bool   `json:"reuse_allow_internal_dependencies"`
	ReleaseThreshold          uint64 `json:"release_threshold"`
	SegmentBytes              uint64 `json:"segment_bytes"`
}

// Description describes the strategy; its New opens it.
func Description() sdk.Description {
	return sdk.Description{
		Name:    Name,
		Version: "1",
		Summary: "CUDA's stream-ordered pool by its documented reuse rules; where blocks lie is a guess",
		Promises: []sdk.Promise{
			sdk.PromiseReclaims, sdk.PromiseBoundedMetadata, sdk.PromiseDeterministic, sdk.PromiseStreamSafe,
		},
		Deviations: []sdk.Deviation{
			{ID: "cuda-async-placement", Section: "CUDA Programming Guide, Stream-Ordered Memory Allocator",
				Text: "Placement, segment size and rounding of the real allocator are not documented; these are guesses."},
			{ID: "cuda-async-no-remap", Section: "rapidsai/rmm issue 1245",
				Text: "A request fails while free bytes of several segments would add up to it: pages are not remapped, and segments of other sizes are not given back for it."},
		},
		Options: arena.ObjectSchema(
			`"reuse_follow_event_dependencies":{"type":"boolean","default":true,"description":"cudaMemPoolReuseFollowEventDependencies"}`,
			`"reuse_allow_opportunistic":{"type":"boolean","default":true,"description":"cudaMemPoolReuseAllowOpportunistic"}`,
			`"reuse_allow_internal_dependencies":{"type":"boolean","default":true,"description":"cudaMemPoolReuseAllowInternalDependencies"}`,
			`"release_threshold":{"type":"integer","minimum":0,"default":0,"description":"cudaMemPoolAttrReleaseThreshold, bytes"}`,
			`"segment_bytes":{"type":"integer","minimum":2097152,"default":33554432,"description":"backing taken from the device at a time"}`,
		),
		Alignment: UnitBytes,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			opt := Options{FollowEventDependencies: true, AllowOpportunistic: true, AllowInternalDependencies: true, SegmentBytes: DefaultSegmentBytes}
			if err := sdk.DecodeOptions(env.Options, &opt); err != nil {
				return nil, err
			}
			if opt.SegmentBytes == 0 {
				return nil, fmt.Errorf("%s: option segment_bytes is 0; give the size of a segment", Name)
			}
			return newPool(env, opt), nil
		},
	}
}

// Set changes an attribute of the pool.
func (p *Pool) Set(key, value string) trace.Status {
	if key == "release_threshold" {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return trace.StatusInvalid
		}
		p.opt.ReleaseThreshold = n
		return trace.StatusOK
	}
	var flag *bool
	switch key {
	case "reuse_follow_event_dependencies":
		flag = &p.opt.FollowEventDependencies
	case "reuse_allow_opportunistic":
		flag = &p.opt.AllowOpportunistic
	case "reuse_allow_internal_dependencies":
		flag = &p.opt.AllowInternalDependencies
	default:
		return trace.StatusUnsupported
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return trace.StatusInvalid
	}
	*flag = on
	return trace.StatusOK
}
