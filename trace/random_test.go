package trace_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/gpubench/gpubench/trace"
)

// names that need quotes, and names that do not.
var someNames = []string{"iteration", "layer.0", "a b", `q"uote`, "ü", "tab\there", "#hash", "->", "@x", "0:1", "h1", "\xff\x00", "-", "x=y", "back\\slash", "free"}

// drawTrace makes a random legal trace of up to n events through the builder.
func drawTrace(t *rapid.T, b *trace.Builder, n int) trace.Meta {
	program := rapid.Bool().Draw(t, "program")
	timed, seen := rapid.Bool().Draw(t, "timed"), rapid.Bool().Draw(t, "seen")
	var live, dead []trace.Handle
	next := trace.Handle(1)
	if rapid.Bool().Draw(t, "state") {
		st := drawState(t, b, &next, &live, &dead)
		if err := b.Start(st); err != nil {
			t.Fatal(err)
		}
	}
	ns := int64(0)
	ops := rapid.IntRange(0, n).Draw(t, "ops")
	var saved []string
	savedLive := map[string][]trace.Handle{}
	for range ops {
		if timed && rapid.Bool().Draw(t, "tick") {
			ns += rapid.Int64Range(0, 1<<rapid.IntRange(0, 40).Draw(t, "log")).Draw(t, "dt")
			b.At(ns)
		}
		if seen && rapid.Bool().Draw(t, "saw") {
			b.Saw(rapid.Uint64().Draw(t, "addr"), rapid.Uint64Range(0, 4096).Draw(t, "granted"), rapid.Bool().Draw(t, "failed"))
		}
		if seen && rapid.IntRange(0, 9).Draw(t, "segment") == 0 {
			if err := b.SawSegment(trace.SegmentEventKind(rapid.IntRange(1, 4).Draw(t, "sk")), rapid.Uint64().Draw(t, "sa"), drawSize(t), drawStream(t, b)); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		switch k := trace.Kind(rapid.IntRange(1, trace.KindCount-1).Draw(t, "kind")); {
		case k == trace.KindRealloc && len(live) > 0:
			i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
			err = b.Realloc(next, live[i], drawSize(t), drawArgs(t, b))
			dead = append(dead, live[i])
			live[i] = next
			next += trace.Handle(rapid.IntRange(1, 3).Draw(t, "step"))
		case k == trace.KindFree && len(live) > 0:
			i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
			a := trace.FreeArgs{Thread: drawThread(t), Tag: drawTag(t, b)}
			if rapid.Bool().Draw(t, "onstream") {
				a.OnStream, a.Stream = true, drawStream(t, b)
			}
			err = b.Free(live[i], a)
			dead = append(dead, live[i])
			live = append(live[:i], live[i+1:]...)
		case k == trace.KindFreeWrong && program:
			h := next + 1000
			if len(dead) > 0 {
				h = dead[rapid.IntRange(0, len(dead)-1).Draw(t, "i")]
			}
			err = b.FreeWrong(h)
		case k.NamesHandle() && k != trace.KindFreeWrong && len(live) > 0 && k != trace.KindAlloc:
			err = drawOnHandle(t, b, k, live[rapid.IntRange(0, len(live)-1).Draw(t, "i")])
		case k == trace.KindReset:
			err = b.Reset()
			dead, live = append(dead, live...), nil
		case k == trace.KindCheckpoint:
			name := rapid.SampledFrom(someNames).Draw(t, "name")
			err = b.Checkpoint(name)
			saved = append(saved, name)
			savedLive[name] = append([]trace.Handle(nil), live...)
		case k == trace.KindRestore && len(saved) > 0:
			name := rapid.SampledFrom(saved).Draw(t, "name")
			err = b.Restore(name)
			live = append([]trace.Handle(nil), savedLive[name]...)
			dead = nil // some of them live again; simply draw no wrong free of them
		case k.NamesHandle() || k == trace.KindRestore:
			err = b.Alloc(next, drawSize(t), drawArgs(t, b))
			live = append(live, next)
			next += trace.Handle(rapid.IntRange(1, 3).Draw(t, "step"))
		default:
			err = drawPlain(t, b, k)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen && rapid.Bool().Draw(t, "last segment") {
		if err := b.SawSegment(trace.SegmentFree, 1, 2, 0); err != nil {
			t.Fatal(err)
		}
	}
	return drawMeta(t, program)
}

func drawMeta(t *rapid.T, program bool) trace.Meta {
	m := trace.Meta{Source: trace.SourceProgram, CoversPercent: rapid.Float64Range(0, 100).Draw(t, "covers")}
	if !program {
		m.Source = rapid.SampledFrom([]string{"text", "rmm-csv", "odd source"}).Draw(t, "source")
	}
	m.Device = rapid.IntRange(0, 8).Draw(t, "device")
	m.CapacityBytes = drawSize(t)
	for _, k := range rapid.SliceOfN(rapid.SampledFrom([]string{"A_B", "a b", "ü"}), 0, 3).Draw(t, "settings") {
		if m.Settings == nil {
			m.Settings = map[string]string{}
		}
		m.Settings[k] = rapid.SampledFrom([]string{"", "x", "a:1,b:2", "a=b", " "}).Draw(t, "value")
	}
	m.Title = rapid.SampledFrom([]string{"", "plain words", " lead", `"quoted"`, "two\nlines"}).Draw(t, "title")
	if rapid.Bool().Draw(t, "warn") {
		m.Warnings = []string{rapid.StringN(0, 20, 60).Draw(t, "warning"), "12 events lost"}
		m.Skipped = rapid.Uint64Range(0, 5).Draw(t, "skipped")
	}
	return m
}

func drawSize(t *rapid.T) uint64 {
	return rapid.Uint64Range(0, 1<<rapid.IntRange(0, 40).Draw(t, "log")).Draw(t, "size") << rapid.SampledFrom([]int{0, 10, 20}).Draw(t, "shift")
}

func drawStream(t *rapid.T, b *trace.Builder) uint16 {
	return b.Stream(rapid.SampledFrom([]uint64{0, 1, 7, 94838223}).Draw(t, "stream"))
}

func drawPool(t *rapid.T, b *trace.Builder) uint16 {
	return b.Pool(rapid.SampledFrom([]string{"", "1", "0:1", "3:0", "named pool", "p"}).Draw(t, "pool"))
}

func drawTag(t *rapid.T, b *trace.Builder) uint32 {
	return b.String(rapid.SampledFrom(append([]string{""}, someNames...)).Draw(t, "tag"))
}

func drawThread(t *rapid.T) uint32 { return uint32(rapid.IntRange(0, 3).Draw(t, "thread")) }

func drawArgs(t *rapid.T, b *trace.Builder) trace.AllocArgs {
	a := trace.AllocArgs{Stream: drawStream(t, b), Pool: drawPool(t, b), Thread: drawThread(t), Tag: drawTag(t, b)}
	if rapid.Bool().Draw(t, "aligned") {
		a.Align = 1 << rapid.IntRange(1, 63).Draw(t, "align")
	}
	return a
}

func drawOnHandle(t *rapid.T, b *trace.Builder, k trace.Kind, h trace.Handle) error {
	switch k {
	case trace.KindTouch:
		return b.Touch(h, trace.TouchArgs{By: trace.Place(rapid.IntRange(0, 1).Draw(t, "by")), Offset: drawSize(t), Length: drawSize(t),
			Write: rapid.Bool().Draw(t, "write"), Thread: drawThread(t), Tag: drawTag(t, b)})
	case trace.KindPrefetch:
		return b.Prefetch(h, trace.Place(rapid.IntRange(0, 1).Draw(t, "to")))
	}
	return b.UseBy(h, drawStream(t, b), drawThread(t), drawTag(t, b))
}

func drawPlain(t *rapid.T, b *trace.Builder, k trace.Kind) error {
	one := rapid.Bool().Draw(t, "one")
	switch k {
	case trace.KindWait:
		return b.Wait(drawStream(t, b), drawStream(t, b))
	case trace.KindComplete:
		if one {
			return b.Complete(drawStream(t, b))
		}
		return b.CompleteAll()
	case trace.KindSync:
		if one {
			return b.Sync(drawStream(t, b))
		}
		return b.SyncAll()
	case trace.KindTrim:
		return b.Trim()
	case trace.KindMark:
		return b.Mark(rapid.SampledFrom(someNames).Draw(t, "mark"), rapid.Uint64().Draw(t, "value"))
	case trace.KindPoolBegin:
		return b.PoolBegin(drawPool(t, b))
	case trace.KindPoolEnd:
		return b.PoolEnd(drawPool(t, b))
	case trace.KindPoolRelease:
		return b.PoolRelease(drawPool(t, b))
	case trace.KindSet:
		return b.Set(rapid.SampledFrom([]string{"k", "a b", "ü"}).Draw(t, "key"), rapid.SampledFrom(append([]string{""}, someNames...)).Draw(t, "value"))
	case trace.KindEvents:
		return b.Events(one)
	case trace.KindStreamDestroy:
		return b.StreamDestroy(drawStream(t, b))
	case trace.KindDefragment:
		return b.Defragment()
	case trace.KindFailNext:
		return b.FailNext(rapid.Uint64Range(1, 9).Draw(t, "k"))
	case trace.KindFreeWrong: // not in a recording
		return b.Trim()
	}
	return fmt.Errorf("no such kind %s", k)
}

func drawState(t *rapid.T, b *trace.Builder, next *trace.Handle, live, dead *[]trace.Handle) *trace.State {
	st := new(trace.State)
	at := uint64(0x7f0000000000)
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		seg := trace.StateSegment{Addr: at, Stream: drawStream(t, b), Pool: drawPool(t, b),
			Small: rapid.Bool().Draw(t, "small"), Expandable: rapid.Bool().Draw(t, "expandable")}
		for range rapid.IntRange(0, 4).Draw(t, "blocks") {
			blk := trace.StateBlock{Addr: at, Bytes: rapid.Uint64Range(1, 1<<22).Draw(t, "bytes")}
			at += blk.Bytes
			switch rapid.IntRange(0, 3).Draw(t, "state of block") {
			case 0:
				blk.Handle = *next
				*live = append(*live, blk.Handle)
				*next++
			case 1:
				blk.Pending = true
				if rapid.Bool().Draw(t, "named") {
					blk.Handle = *next
					*next++
				}
			}
			if rapid.Bool().Draw(t, "exact") && (blk.Handle != 0 || blk.Pending) {
				blk.RequestedBytes = blk.Bytes
			} else {
				blk.RequestedBytes = rapid.Uint64Range(0, blk.Bytes).Draw(t, "requested")
			}
			seg.Blocks = append(seg.Blocks, blk)
			seg.Bytes += blk.Bytes
		}
		at += rapid.Uint64Range(0, 4096).Draw(t, "gap")
		st.Segments = append(st.Segments, seg)
	}
	return st
}
