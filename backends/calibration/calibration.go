// Package calibration measures what the calls of a device cost: the parameters of the model's cost figures, and more.
//
// Every figure is a median of single calls with the interval in which the true median lies with 95 % confidence, by order
// statistics (no assumption about the distribution). Times are the device's own where it knows them, a model's clock where it
// has one, else the calibrated counter around the call less its own cost. First touch and synchronisation are figures of their
// own and in no other. Everything is given back, also after a call that fails; what a device does not have is not measured and
// a warning says so.
//
// Rates come from one large block, so that the fixed cost of a call vanishes in them; the block is at most a quarter of
// what is free, and less where that would take long.
package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/clock"
	"github.com/gpubench/gpubench/trace"
)

// Toucher is implemented by devices that can write their memory and wait for it.
type Toucher interface {
	Touch(addr, size uint64, value byte) trace.CallStatus
}

// Copier is implemented by devices that copy between device and pinned host memory.
type Copier interface {
	HostMalloc(size uint64) (addr uint64, st trace.CallStatus)
	HostFree(addr uint64) trace.CallStatus
	CopyIn(device, host, size uint64) trace.CallStatus
	CopyOut(host, device, size uint64) trace.CallStatus
	Copy(to, from, size uint64) trace.CallStatus
}

// callTimer is implemented by devices that know the own time of their last call.
type callTimer interface{ LastCallNs() uint64 }

const (
	// DefaultSamples is how many calls make a figure: with 31 the interval spans the 10th to the 22nd.
	DefaultSamples = 31
	// DefaultBytesMax bounds the blocks: 1 GiB is written in milliseconds and large enough for a rate.
	DefaultBytesMax = 1 << 30
	// shareOfFree is the part of the free memory that a block may be as large as: 1/4.
	shareOfFree = 4
	// samplesMin is the smallest number of samples with an interval of 95 % at all: 2 × 2⁻⁶ = 3.1 %.
	samplesMin = 6
)

// Errors, for errors.Is.
var (
	ErrSamples = errors.New("too few samples")
	ErrCall    = errors.New("a device call failed")
)

// Options bound the measurement.
type Options struct {
	Samples  int    // 0: DefaultSamples
	BytesMax uint64 // 0: DefaultBytesMax
}

// Figure is one measured figure.
type Figure struct {
	Name      string  `json:"name"`                 // with its unit last
	Cost      string  `json:"cost,omitempty"`       // the parameter of the cost model that it is
	SizeBytes uint64  `json:"size_bytes,omitempty"` // of the block
	Median    float64 `json:"median"`
	Low       float64 `json:"low"` // the true median lies in [Low, High] with 95 % confidence
	High      float64 `json:"high"`
	Samples   int     `json:"samples"`
}

// Report is what was measured.
type Report struct {
	Device     string   `json:"device"`
	TotalBytes uint64   `json:"total_bytes"`
	PageBytes  uint64   `json:"page_bytes"`
	Modelled   bool     `json:"modelled_time"`
	Clock      string   `json:"clock"`
	Figures    []Figure `json:"figures"`
	Warnings   []string `json:"warnings,omitempty"`
}

// meter times calls and collects figures.
type meter struct {
	d       backends.Device
	info    backends.Info
	timer   callTimer
	clock   clock.Info
	samples int
	report  Report
	series  map[string][]float64
	order   []string
	meta    map[string]Figure
}

// Measure measures what d has.
func Measure(d backends.Device, o Options) (*Report, error) {
	if o.Samples == 0 {
		o.Samples = DefaultSamples
	}
	if o.Samples < samplesMin {
		return nil, fmt.Errorf("%w: %d; an interval of 95 %% needs %d", ErrSamples, o.Samples, samplesMin)
	}
	if o.BytesMax == 0 {
		o.BytesMax = DefaultBytesMax
	}
	m := &meter{d: d, info: d.Info(), clock: clock.Calibrated(), samples: o.Samples, series: map[string][]float64{}, meta: map[string]Figure{}}
	if t, ok := d.(callTimer); ok {
		m.timer = t
	}
	m.report = Report{Device: m.info.Name, TotalBytes: m.info.TotalBytes, PageBytes: m.info.PageBytes, Modelled: m.info.ModelledTime, Clock: m.clock.Source.String()}
	free, _ := d.MemInfo()
	largest := min(o.BytesMax, free/shareOfFree) / m.info.PageBytes * m.info.PageBytes
	if largest == 0 {
		return nil, fmt.Errorf("%w: only %d bytes are free", ErrCall, free)
	}
	for _, part := range []func(uint64) error{m.malloc, m.virtual, m.streams, m.touch, m.copies} {
		if err := part(largest); err != nil {
			return nil, err
		}
	}
	m.finish()
	return &m.report, nil
}

// time makes one call and adds its nanoseconds to the series.
func (m *meter) time(f Figure, call func() trace.CallStatus) error {
	st, ns := m.call(call)
	if st != trace.CallOK {
		return fmt.Errorf("%w: %s of %d bytes: %w", ErrCall, f.Name, f.SizeBytes, st.Err())
	}
	m.add(f, ns)
	return nil
}

func (m *meter) call(call func() trace.CallStatus) (trace.CallStatus, float64) {
	before, start := m.d.NowNs(), clock.Ticks()
	st := call()
	ticks := clock.Ticks() - start
	switch {
	case m.timer != nil:
		return st, float64(m.timer.LastCallNs())
	case m.info.ModelledTime:
		return st, float64(m.d.NowNs() - before)
	}
	return st, float64(m.clock.Ns(ticks - min(ticks, m.clock.ReadCostTicks())))
}

func (m *meter) add(f Figure, v float64) {
	key := fmt.Sprintf("%s/%d", f.Name, f.SizeBytes)
	if _, ok := m.meta[key]; !ok {
		m.meta[key] = f
		m.order = append(m.order, key)
	}
	m.series[key] = append(m.series[key], v)
}

// rate turns the time of a call on size bytes into bytes a second.
func (m *meter) rate(f Figure, call func() trace.CallStatus) error {
	st, ns := m.call(call)
	if st != trace.CallOK {
		return fmt.Errorf("%w: %s of %d bytes: %w", ErrCall, f.Name, f.SizeBytes, st.Err())
	}
	if ns > 0 {
		m.add(f, float64(f.SizeBytes)/ns*1e9)
	}
	return nil
}

func (m *meter) warn(format string, args ...any) {
	m.report.Warnings = append(m.report.Warnings, fmt.Sprintf(format, args...))
}

func (m *meter) finish() {
	for _, key := range m.order {
		f := m.meta[key]
		f.Median, f.Low, f.High = MedianInterval(m.series[key])
		f.Samples = len(m.series[key])
		m.report.Figures = append(m.report.Figures, f)
	}
	if m.info.ModelledTime {
		m.warn("the times are a model's: this shows what it was told, not hardware")
	}
}

// MedianInterval returns the median of v and the interval of 95 % confidence for the true one: the k-th smallest and largest
// value, with the largest k for which the binomial distribution of n throws of a coin gives P(fewer than k heads) ≤ 2.5 %
// (order statistics; Conover, Practical Nonparametric Statistics, 3.2). With fewer than 6 values it is all of them.
func MedianInterval(v []float64) (median, low, high float64) {
	n := len(v)
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	median = s[n/2]
	if n%2 == 0 {
		median = (s[n/2-1] + s[n/2]) / 2
	}
	k := 0
	p := math.Pow(0.5, float64(n)) // P(0 heads)
	for tail := p; tail <= 0.025 && k < n/2; {
		k++
		p *= float64(n-k+1) / float64(k)
		tail += p
	}
	k = max(k, 1)
	return median, s[k-1], s[n-k]
}
