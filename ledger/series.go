package ledger

// MaxSeriesPoints bounds the points of a series: two a pixel of a wide screen.
const MaxSeriesPoints = 2000

// seriesBuilder keeps minima and maxima over equal numbers of events. When the points run out, neighbours are joined and
// the width doubles, so the memory is fixed and no extreme is lost.
type seriesBuilder struct {
	width, left uint64
	points      []SeriesPoint
}

func (s *seriesBuilder) ready(cfg *Config) *seriesBuilder {
	if !cfg.Series {
		return nil
	}
	if s == nil {
		s = &seriesBuilder{points: make([]SeriesPoint, 0, MaxSeriesPoints)}
	}
	s.width, s.left, s.points = 1, 0, s.points[:0]
	return s
}

// add takes the state after the event that has just been counted.
func (s *seriesBuilder) add(l *Ledger) {
	if s.left == 0 {
		if len(s.points) == MaxSeriesPoints {
			s.join()
		}
		s.left = s.width
		s.points = append(s.points, SeriesPoint{First: l.n - 1, TimeNs: l.timeNs,
			LiveBytesMin: l.liveBytes, LiveBytesMax: l.liveBytes, ReservedBytesMin: l.dev.held, ReservedBytesMax: l.dev.held,
			DeviceBytesMin: l.obj.charged, DeviceBytesMax: l.obj.charged, ExternalMin: l.external, ExternalMax: l.external})
	}
	s.left--
	p := &s.points[len(s.points)-1]
	p.LiveBytesMin, p.LiveBytesMax = min(p.LiveBytesMin, l.liveBytes), max(p.LiveBytesMax, l.liveBytes)
	p.ReservedBytesMin, p.ReservedBytesMax = min(p.ReservedBytesMin, l.dev.held), max(p.ReservedBytesMax, l.dev.held)
	p.DeviceBytesMin, p.DeviceBytesMax = min(p.DeviceBytesMin, l.obj.charged), max(p.DeviceBytesMax, l.obj.charged)
	if l.external < p.ExternalMin {
		p.ExternalMin = l.external
	}
	if l.external > p.ExternalMax {
		p.ExternalMax = l.external
	}
}

// join halves the points.
func (s *seriesBuilder) join() {
	k := 0
	for i := 0; i+1 < len(s.points); i += 2 {
		a, b := s.points[i], &s.points[i+1]
		a.LiveBytesMin, a.LiveBytesMax = min(a.LiveBytesMin, b.LiveBytesMin), max(a.LiveBytesMax, b.LiveBytesMax)
		a.ReservedBytesMin, a.ReservedBytesMax = min(a.ReservedBytesMin, b.ReservedBytesMin), max(a.ReservedBytesMax, b.ReservedBytesMax)
		a.DeviceBytesMin, a.DeviceBytesMax = min(a.DeviceBytesMin, b.DeviceBytesMin), max(a.DeviceBytesMax, b.DeviceBytesMax)
		a.ExternalMin, a.ExternalMax = min(a.ExternalMin, b.ExternalMin), max(a.ExternalMax, b.ExternalMax)
		s.points[k] = a
		k++
	}
	s.points = s.points[:k]
	s.width *= 2
}

func (s *seriesBuilder) report() *Series {
	return &Series{EventsPerPoint: s.width, Points: append([]SeriesPoint(nil), s.points...)}
}
