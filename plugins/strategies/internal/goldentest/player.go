package goldentest

import (
	"encoding/json"
	"fmt"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/ideal"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// Player drives one strategy, in process, over an ideal device of a script's capacity, and keeps the live blocks.
type Player struct {
	Strategy sdk.Strategy
	Device   *CountingDevice
	live     []sdk.Block // by id
	placed   []bool
	req      sdk.Request
}

// CountingDevice is the ideal device with a count of the stream waits asked of it.
type CountingDevice struct {
	*ideal.Device
	StreamWaits uint64
}

// StreamWait counts.
func (d *CountingDevice) StreamWait(s backends.Stream, e backends.EventID) {
	d.StreamWaits++
	d.Device.StreamWait(s, e)
}

// NewPlayer opens the strategy with the peer's options and device, for scripts like s.
func NewPlayer(desc sdk.Description, peer Peer, s *Script) (*Player, error) {
	total := (s.CapacityBytes + ideal.PageBytes - 1) / ideal.PageBytes * ideal.PageBytes
	if peer.DeviceBytes != 0 {
		total = peer.DeviceBytes
	}
	dev, err := ideal.New(ideal.Config{TotalBytes: total, Packed: peer.Packed, ExactCharge: peer.ExactCharge})
	if err != nil {
		return nil, err
	}
	p := &Player{Device: &CountingDevice{Device: dev}, live: make([]sdk.Block, s.IDs), placed: make([]bool, s.IDs)}
	env := &sdk.Env{
		Device: p.Device, CapacityBytes: s.CapacityBytes, Options: json.RawMessage(`{}`),
		Streams: make([]uint64, s.Streams), Pools: []string{"0:0"}, Strings: []string{""},
	}
	for i := range env.Streams {
		env.Streams[i] = uint64(i)
	}
	if peer.Options != "" {
		env.Options = json.RawMessage(peer.Options)
	}
	if p.Strategy, err = desc.New(env); err != nil {
		return nil, fmt.Errorf("open %s: %w", desc.Name, err)
	}
	return p, nil
}

// Do executes one operation. A free of an allocation that failed does nothing. The block is the one allocated or freed.
func (p *Player) Do(op *Op) (sdk.Block, trace.Status) {
	b := &p.live[op.ID]
	if op.Free {
		if !p.placed[op.ID] {
			return sdk.Block{}, trace.StatusSkipped
		}
		p.placed[op.ID] = false
		return *b, p.Strategy.Free(b, op.Stream)
	}
	p.req = sdk.Request{Size: op.Size, Stream: op.Stream}
	*b = sdk.Block{}
	st := p.Strategy.Alloc(&p.req, b)
	p.placed[op.ID] = st.Placed()
	return *b, st
}

// FreeAll frees every live block in order of its id and returns how many there were.
func (p *Player) FreeAll() (n int) {
	for id := range p.live {
		if p.placed[id] {
			p.placed[id] = false
			p.Strategy.Free(&p.live[id], 0)
			p.live[id].Size = 0
			n++
		}
	}
	return n
}

// Live calls f for every live block.
func (p *Player) Live(f func(id int, b sdk.Block)) {
	for id, b := range p.live {
		if p.placed[id] {
			f(id, b)
		}
	}
}
