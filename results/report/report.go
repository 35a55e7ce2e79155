package report

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
)

//go:embed assets
var assets embed.FS

// maxPoints and maxRects bound what a page shows of one case: more cannot be told apart on a screen, and a page of many
// strategies must stay small enough to mail.
const (
	maxPoints = 1_000
	maxRects  = 4_000
)

// Input is what a report is made from.
type Input struct {
	Run     *results.Run
	Trials  []results.Trial
	Ranking *results.Ranking
	// Curves returns what was kept of a trial; fs.ErrNotExist when nothing was.
	Curves func(trialID string) (*results.Curves, error)
}

// page is the data island.
type page struct {
	Run     *results.Run     `json:"run"`
	Ranking *results.Ranking `json:"ranking"`
	Cases   []caseData       `json:"cases"`
	Notes   []string         `json:"notes"` // curves that could not be read
}

// caseData is one case of the page: its curves in columns.
type caseData struct {
	ID       string         `json:"id"`
	Trace    int            `json:"trace"`
	Label    string         `json:"label"`
	Scope    results.Scope  `json:"scope"`
	Capacity uint64         `json:"capacity_bytes"`
	Series   *seriesColumns `json:"series,omitempty"`
	Picture  *picture       `json:"picture,omitempty"`
	Latency  []distribution `json:"latency,omitempty"`
}

type seriesColumns struct {
	Event        []uint64  `json:"event"`
	LiveMin      []uint64  `json:"live_min"`
	LiveMax      []uint64  `json:"live_max"`
	ReservedMin  []uint64  `json:"reserved_min"`
	ReservedMax  []uint64  `json:"reserved_max"`
	DeviceMin    []uint64  `json:"device_min"`
	DeviceMax    []uint64  `json:"device_max"`
	ExternalMin  []float64 `json:"external_min"`
	ExternalMax  []float64 `json:"external_max"`
	EventsPerDot uint64    `json:"events_per_point"`
}

type picture struct {
	Events  uint64   `json:"events"`
	Addr    []string `json:"addr"` // decimal: a 64-bit address does not fit a JavaScript number
	Bytes   []uint64 `json:"bytes"`
	First   []uint64 `json:"first"`
	Last    []uint64 `json:"last"`
	Handle  []uint64 `json:"handle"` // 0 = a segment
	Tag     []uint32 `json:"tag"`
	Tags    []string `json:"tags"`
	Dropped uint64   `json:"dropped"`
}

type distribution struct {
	What    string    `json:"what"`
	LowNs   []float64 `json:"low_ns"`
	HighNs  []float64 `json:"high_ns"`
	Count   []uint64  `json:"count"`
	Samples uint64    `json:"samples"`
}

// Write writes the page.
func Write(w io.Writer, in Input) error {
	p := page{Run: in.Run, Ranking: in.Ranking, Cases: []caseData{}, Notes: []string{}}
	for i := range in.Run.Cases {
		c := &in.Run.Cases[i]
		if c.Control {
			continue
		}
		d, err := makeCase(in, c)
		if err != nil {
			p.Notes = append(p.Notes, fmt.Sprintf("the curves of %s at %s cannot be shown: %v", c.Label, c.Scope, err))
		}
		p.Cases = append(p.Cases, d)
	}
	data, err := json.Marshal(&p) // escapes <, > and &, so it cannot end the script element
	if err != nil {
		return err
	}
	view := struct {
		Title                string
		CSS, VendorCSS       template.CSS
		Script, VendorScript template.JS
		Data                 template.JS
	}{Title: "gpubench: " + in.Run.ID, Data: template.JS(data)}
	view.CSS, view.VendorCSS = template.CSS(asset("report.css")), template.CSS(asset("vendor/uPlot.min.css"))
	view.Script, view.VendorScript = template.JS(asset("report.js")), template.JS(asset("vendor/uPlot.iife.min.js"))
	t, err := template.New("report").Parse(asset("report.html"))
	if err != nil {
		return err
	}
	return t.Execute(w, &view)
}

func asset(name string) string {
	raw, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // embedded at build time: absent only if the build is broken
	}
	return string(raw)
}

func makeCase(in Input, c *results.Case) (caseData, error) {
	d := caseData{ID: c.ID, Trace: c.Trace, Label: c.Label, Scope: c.Scope, Capacity: c.CapacityBytes}
	for i := range in.Trials {
		t := &in.Trials[i]
		if t.Case == c.ID && t.Timed != nil {
			d.Latency = append(d.Latency, distributionOf("policy", &t.Timed.Policy.All))
			break
		}
	}
	curves, err := in.Curves(results.Unit{Case: c.ID, Number: 1}.TrialID())
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if curves.Series != nil {
		d.Series = columns(curves.Series)
	}
	if curves.Picture != nil {
		d.Picture = pictureOf(curves)
	}
	return d, nil
}

func distributionOf(what string, l *ledger.Latency) distribution {
	d := distribution{What: what, Samples: l.Samples}
	for _, b := range l.Buckets {
		d.LowNs, d.HighNs, d.Count = append(d.LowNs, b.LowNs), append(d.HighNs, b.HighNs), append(d.Count, b.Count)
	}
	return d
}

// columns thins a series to maxPoints, keeping minima and maxima.
func columns(s *ledger.Series) *seriesColumns {
	step := (len(s.Points) + maxPoints - 1) / maxPoints
	step = max(step, 1)
	c := &seriesColumns{EventsPerDot: s.EventsPerPoint * uint64(step)}
	for i := 0; i < len(s.Points); i += step {
		p := s.Points[i]
		for _, q := range s.Points[i+1 : min(i+step, len(s.Points))] {
			p.LiveBytesMin, p.LiveBytesMax = min(p.LiveBytesMin, q.LiveBytesMin), max(p.LiveBytesMax, q.LiveBytesMax)
			p.ReservedBytesMin, p.ReservedBytesMax = min(p.ReservedBytesMin, q.ReservedBytesMin), max(p.ReservedBytesMax, q.ReservedBytesMax)
			p.DeviceBytesMin, p.DeviceBytesMax = min(p.DeviceBytesMin, q.DeviceBytesMin), max(p.DeviceBytesMax, q.DeviceBytesMax)
			p.ExternalMin, p.ExternalMax = min(p.ExternalMin, q.ExternalMin), max(p.ExternalMax, q.ExternalMax)
		}
		c.Event = append(c.Event, p.First)
		c.LiveMin, c.LiveMax = append(c.LiveMin, p.LiveBytesMin), append(c.LiveMax, p.LiveBytesMax)
		c.ReservedMin, c.ReservedMax = append(c.ReservedMin, p.ReservedBytesMin), append(c.ReservedMax, p.ReservedBytesMax)
		c.DeviceMin, c.DeviceMax = append(c.DeviceMin, p.DeviceBytesMin), append(c.DeviceMax, p.DeviceBytesMax)
		c.ExternalMin, c.ExternalMax = append(c.ExternalMin, p.ExternalMin), append(c.ExternalMax, p.ExternalMax)
	}
	return c
}

// pictureOf keeps the first maxRects rectangles (the ledger gives segments first, then the largest by area) and only the
// tags they use.
func pictureOf(curves *results.Curves) *picture {
	src := curves.Picture
	p := &picture{Events: src.Events, Dropped: src.Dropped, Tags: []string{""}}
	index := map[uint32]uint32{0: 0}
	for i, r := range src.Rects {
		if i == maxRects {
			p.Dropped += uint64(len(src.Rects) - maxRects)
			break
		}
		tag, ok := index[r.Tag]
		if !ok && int(r.Tag) < len(curves.Strings) {
			tag = uint32(len(p.Tags))
			index[r.Tag] = tag
			p.Tags = append(p.Tags, curves.Strings[r.Tag])
		}
		p.Addr, p.Bytes = append(p.Addr, fmt.Sprint(r.Addr)), append(p.Bytes, r.Bytes)
		p.First, p.Last = append(p.First, r.First), append(p.Last, r.Last)
		p.Handle, p.Tag = append(p.Handle, r.Handle), append(p.Tag, tag)
	}
	return p
}
