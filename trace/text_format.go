package trace

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Format writes a trace in the canonical text form: Parse gives back an equal trace (see Canonical), and a canonical text
// is written as it was read. A trace whose records are not legal yields ErrFormat and nothing is written.
func Format(w io.Writer, t *Trace) error {
	if err := t.checkRecords(); err != nil {
		return err
	}
	bw := bufio.NewWriterSize(w, readBufferBytes)
	f := formatter{t: t, lastNs: -1}
	bw.Write(f.state(f.header(nil)))
	var line []byte
	for i := range t.Events {
		line = f.event(line[:0], uint64(i))
		if _, err := bw.Write(line); err != nil {
			return err
		}
	}
	if _, err := bw.Write(f.segmentEvents(nil, uint64(len(t.Events)))); err != nil {
		return err
	}
	return bw.Flush()
}

// AppendEvent appends the text of event i of a checked trace without its time, for messages: "free h3".
func (t *Trace) AppendEvent(p []byte, i uint64) []byte {
	f := formatter{t: t}
	return f.words(p, &t.Events[i])
}

type formatter struct {
	t      *Trace
	lastNs int64
	segs   int
}

func (f *formatter) header(p []byte) []byte {
	m := &f.t.Meta
	p = append(p, textVersionLine...)
	p = appendWord(append(p, "\n# source "...), m.Source)
	p = strconv.AppendFloat(append(p, "  covers "...), m.CoversPercent, 'g', -1, 64)
	p = strconv.AppendInt(append(p, "%  device "...), int64(m.Device), 10)
	if m.CapacityBytes != 0 {
		p = AppendSize(append(p, "  capacity "...), m.CapacityBytes)
	}
	p = append(p, '\n')
	if m.Title != "" {
		p = append(appendRest(append(p, "# title "...), m.Title), '\n')
	}
	for _, k := range slices.Sorted(maps.Keys(m.Settings)) {
		p = append(appendWord(append(p, "# setting "...), k), '=')
		p = append(appendWord(p, m.Settings[k]), '\n')
	}
	for _, w := range m.Warnings {
		p = append(appendRest(append(p, "# warning "...), w), '\n')
	}
	if m.Skipped != 0 {
		p = append(strconv.AppendUint(append(p, "# skipped "...), m.Skipped, 10), '\n')
	}
	return p
}

func (f *formatter) state(p []byte) []byte {
	if f.t.Start == nil {
		return p
	}
	p = append(p, "state\n"...)
	for i := range f.t.Start.Segments {
		seg := &f.t.Start.Segments[i]
		p = strconv.AppendUint(append(p, "segment 0x"...), seg.Addr, 16)
		p = AppendSize(append(p, ' '), seg.Bytes)
		p = f.streamPool(p, seg.Stream, seg.Pool)
		if seg.Small {
			p = append(p, " small"...)
		}
		if seg.Expandable {
			p = append(p, " expandable"...)
		}
		p = append(p, '\n')
		for j := range seg.Blocks {
			p = appendBlock(p, &seg.Blocks[j])
		}
	}
	return append(p, "end\n"...)
}

func appendBlock(p []byte, b *StateBlock) []byte {
	p = append(p, "  block"...)
	usual := b.Bytes
	switch {
	case b.Pending:
		p = append(p, " pending"...)
	case b.Handle == 0:
		p = append(p, " free"...)
		usual = 0
	}
	if b.Handle != 0 {
		p = appendHandle(append(p, ' '), b.Handle)
	}
	p = AppendSize(append(p, ' '), b.Bytes)
	if b.RequestedBytes != usual {
		p = AppendSize(append(p, " requested="...), b.RequestedBytes)
	}
	return append(p, '\n')
}

func (f *formatter) streamPool(p []byte, stream, pool uint16) []byte {
	if stream != DefaultStream {
		p = strconv.AppendUint(append(p, " stream="...), f.t.Streams[stream], 10)
	}
	if pool != DefaultPool {
		p = appendWord(append(p, " pool="...), f.t.Pools[pool])
	}
	return p
}

func appendHandle(p []byte, h Handle) []byte {
	return strconv.AppendUint(append(p, 'h'), uint64(h), 10)
}

// segmentEvents appends the segment events that happened during event i.
func (f *formatter) segmentEvents(p []byte, i uint64) []byte {
	for ; f.segs < len(f.t.SegmentEvents) && f.t.SegmentEvents[f.segs].Event == i; f.segs++ {
		s := &f.t.SegmentEvents[f.segs]
		p = append(append(p, "-> segment "...), s.Kind.String()...)
		p = strconv.AppendUint(append(p, " addr=0x"...), s.Addr, 16)
		p = AppendSize(append(p, " bytes="...), s.Bytes)
		p = append(f.streamPool(p, s.Stream, DefaultPool), '\n')
	}
	return p
}

// event appends the line of event i.
func (f *formatter) event(p []byte, i uint64) []byte {
	p = f.segmentEvents(p, i)
	p = f.words(p, &f.t.Events[i])
	if len(f.t.TimesNs) > 0 && f.t.TimesNs[i] != f.lastNs {
		f.lastNs = f.t.TimesNs[i]
		p = AppendTime(append(p, " @"...), f.lastNs)
	}
	if len(f.t.Recorded) > 0 && f.t.Recorded[i].Seen != 0 {
		r := &f.t.Recorded[i]
		if r.Status == StatusFailed {
			p = append(p, " -> failed"...)
		} else {
			p = strconv.AppendUint(append(p, " -> addr=0x"...), r.Addr, 16)
			if r.Granted != 0 {
				p = AppendSize(append(p, " granted="...), r.Granted)
			}
		}
	}
	return append(p, '\n')
}

// words appends an event without time and answer.
func (f *formatter) words(p []byte, ev *Event) []byte {
	t := f.t
	var x Extra
	if ev.Flags&FlagExtra != 0 {
		x = t.Extras[ev.Aux]
	} else if ev.Kind.takesTag() {
		x.Tag = ev.Aux
	}
	if ev.Kind.TakesMemory() {
		p = append(appendHandle(p, ev.Handle), " = "...)
	}
	p = append(p, ev.Kind.String()...)
	switch ev.Kind {
	case KindAlloc:
		p = AppendSize(append(p, ' '), ev.Size)
	case KindRealloc:
		p = appendHandle(append(p, ' '), x.Handle2)
		p = AppendSize(append(p, ' '), ev.Size)
	case KindFree, KindFreeWrong, KindUse, KindTouch, KindPrefetch:
		p = appendHandle(append(p, ' '), ev.Handle)
	}
	switch ev.Kind {
	case KindAlloc, KindRealloc:
		p = f.streamPool(p, ev.Stream, ev.Pool)
		if ev.AlignLog2 != 0 {
			p = AppendSize(append(p, " align="...), 1<<ev.AlignLog2)
		}
	case KindFree:
		if ev.Flags&FlagStream != 0 {
			p = f.stream(p, ev.Stream)
		}
	case KindUse:
		p = f.stream(p, ev.Stream)
	case KindTouch:
		p = f.touch(p, ev, &x)
	default:
		p = f.others(p, ev)
	}
	if x.Thread != 0 {
		p = strconv.AppendUint(append(p, " thread="...), uint64(x.Thread-1), 10)
	}
	if x.Tag != 0 {
		p = strconv.AppendQuote(append(p, " tag="...), t.Strings[x.Tag])
	}
	return p
}

func (f *formatter) stream(p []byte, s uint16) []byte {
	return strconv.AppendUint(append(p, " stream="...), f.t.Streams[s], 10)
}

func (f *formatter) touch(p []byte, ev *Event, x *Extra) []byte {
	p = append(append(p, " by="...), placeNames[x.Arg]...)
	if x.Offset != 0 {
		p = AppendSize(append(p, " offset="...), x.Offset)
	}
	p = AppendSize(append(p, " length="...), ev.Size)
	if ev.Flags&FlagWrite != 0 {
		p = append(p, " write"...)
	}
	return p
}

var placeNames = [...]string{PlaceGPU: "gpu", PlaceCPU: "cpu"}

// others appends the arguments of the kinds without attributes.
func (f *formatter) others(p []byte, ev *Event) []byte {
	t := f.t
	switch ev.Kind {
	case KindWait:
		p = strconv.AppendUint(append(f.stream(p, ev.Stream), " on="...), t.Streams[ev.Aux], 10)
	case KindComplete, KindSync:
		if ev.Flags&FlagAll == 0 {
			p = f.stream(p, ev.Stream)
		}
	case KindMark:
		p = appendWord(append(p, ' '), t.Strings[ev.Aux])
		p = strconv.AppendUint(append(p, '='), ev.Size, 10)
	case KindPoolBegin, KindPoolEnd, KindPoolRelease:
		p = appendWord(append(p, ' '), t.Pools[ev.Pool])
	case KindSet:
		key, val := cutSetting(t.Strings[ev.Aux])
		p = append(appendWord(append(p, ' '), key), '=')
		p = appendWord(p, val)
	case KindEvents:
		if ev.Size == 1 {
			return append(p, " manual"...)
		}
		p = append(p, " immediate"...)
	case KindStreamDestroy:
		p = strconv.AppendUint(append(p, ' '), t.Streams[ev.Stream], 10)
	case KindCheckpoint, KindRestore:
		p = appendWord(append(p, ' '), t.Strings[ev.Aux])
	case KindFailNext:
		p = strconv.AppendUint(append(p, " device="...), ev.Size, 10)
	case KindPrefetch:
		p = append(append(p, " to="...), placeNames[ev.Aux]...)
	}
	return p
}
