package ledger

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpubench/gpubench/trace"
)

// The tests in testdata read like traces with their outcomes:
//
//	check align=256            settings of the Config, then one line an event or call:
//	open malloc addr=0 size=1MiB
//	alloc h1 size=100 -> ok addr=0 granted=256
//	  unmap addr=0 size=2MiB   (indented: a call of the event above)
//	free h1 -> ok
//	----
//	clean                      or the violations, one a line
//
// "map" prints the address maps too, "report" the fields of Exact named in the first line.

var eventKinds = map[string]trace.Kind{"alloc": trace.KindAlloc, "free": trace.KindFree, "free!": trace.KindFreeWrong,
	"realloc": trace.KindRealloc, "use": trace.KindUse, "wait": trace.KindWait, "complete": trace.KindComplete, "sync": trace.KindSync,
	"trim": trace.KindTrim, "mark": trace.KindMark, "events": trace.KindEvents, "stream-destroy": trace.KindStreamDestroy, "reset": trace.KindReset,
	"checkpoint": trace.KindCheckpoint, "restore": trace.KindRestore, "defragment": trace.KindDefragment, "touch": trace.KindTouch}

var statusesByName = func() map[string]trace.Status {
	m := map[string]trace.Status{}
	for s := trace.StatusOK; s <= trace.StatusError; s++ {
		m[s.String()] = s
	}
	return m
}()

// textScript is a parsed test.
type textScript struct {
	script
	extras []trace.Extra
	slots  map[uint64]uint32
}

func number(t testing.TB, s string) uint64 {
	mult := uint64(1)
	for suffix, m := range map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if strings.HasSuffix(s, suffix) {
			s, mult = strings.TrimSuffix(s, suffix), m
		}
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatalf("number %q: %v", s, err)
	}
	return n * mult
}

// args splits "a=1 b=2" and the handles.
func args(t testing.TB, words []string) (handles []uint64, kv map[string]uint64) {
	kv = map[string]uint64{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			kv[k] = number(t, v)
		} else if h, ok := strings.CutPrefix(w, "h"); ok {
			handles = append(handles, number(t, h))
		} else {
			kv[w] = 1
		}
	}
	return handles, kv
}

func (s *textScript) slot(h uint64) uint32 {
	if _, ok := s.slots[h]; !ok {
		s.slots[h] = uint32(len(s.slots))
	}
	return s.slots[h]
}

func (s *textScript) line(t testing.TB, line string) {
	words := strings.Fields(line)
	pseudo := map[string]uint64{"open": trace.EventOpen, "restoring": trace.EventRestore, "close": trace.EventClose}
	if e, ok := pseudo[words[0]]; ok {
		s.call(t, words[1:], e)
		return
	}
	if line[0] == ' ' {
		s.call(t, words, uint64(len(s.events)-1))
		s.outcomes[len(s.outcomes)-1].Calls++
		return
	}
	left, right, ok := strings.Cut(line, "->")
	kind, known := eventKinds[words[0]]
	if !known {
		t.Fatalf("unknown event %q", line)
	}
	h, kv := args(t, strings.Fields(left)[1:])
	ev := trace.Event{Kind: kind, Size: kv["size"], Stream: uint16(kv["stream"]), AlignLog2: uint8(kv["align"]), Aux: uint32(kv["on"] + kv["name"])}
	if kv["all"] != 0 {
		ev.Flags |= trace.FlagAll
	}
	if kv["freed-on-given"] != 0 {
		ev.Flags |= trace.FlagStream
	}
	if len(h) > 0 {
		ev.Handle, ev.Slot = trace.Handle(h[0]), s.slot(h[0])
	}
	if kind == trace.KindRealloc {
		ev.Flags |= trace.FlagExtra
		ev.Aux = uint32(len(s.extras))
		s.extras = append(s.extras, trace.Extra{Handle2: trace.Handle(h[1]), Slot2: s.slot(h[1])})
	}
	o := trace.Outcome{}
	if ok {
		r := strings.Fields(right)
		st, found := statusesByName[r[0]]
		if !found {
			t.Fatalf("unknown status %q", line)
		}
		_, kv := args(t, r[1:])
		o = trace.Outcome{Status: st, Addr: kv["addr"], Granted: kv["granted"], PolicyTicks: uint32(kv["ticks"])}
	}
	s.events, s.outcomes = append(s.events, ev), append(s.outcomes, o)
	if at, ok := kv["at"]; ok {
		s.times = append(s.times, int64(at))
	}
}

func (s *textScript) call(t testing.TB, words []string, event uint64) {
	kind := trace.CallNone
	for k, n := range callNames {
		if n == words[0] {
			kind = k
		}
	}
	if kind == trace.CallNone {
		t.Fatalf("unknown call %q", words[0])
	}
	_, kv := args(t, words[1:])
	s.calls = append(s.calls, trace.Call{Event: event, Kind: kind, Status: trace.CallStatus(kv["status"]), Stream: uint32(kv["stream"]),
		Addr: kv["addr"], Size: kv["size"], Aux: kv["aux"]})
}

func runText(t testing.TB, d *datadriven.TestData) *Ledger {
	s := &textScript{slots: map[uint64]uint32{}}
	for _, line := range strings.Split(d.Input, "\n") {
		if line, _, _ = strings.Cut(line, " #"); strings.TrimSpace(line) != "" {
			s.line(t, line)
		}
	}
	cfg := Config{Extras: s.extras, Strings: []string{"", "one", "two"}}
	closed := false
	for _, a := range d.CmdArgs {
		v := uint64(0)
		if len(a.Vals) > 0 && a.Key != "show" {
			v = number(t, a.Vals[0])
		}
		switch a.Key {
		case "align":
			cfg.AlignmentBytes = v
		case "total":
			cfg.DeviceTotalBytes = v
		case "page":
			cfg.DevicePageBytes = v
		case "limit":
			cfg.LimitBytes = v
		case "exact-info":
			cfg.MemInfoExact = true
		case "ignore-streams":
			cfg.IgnoreStreams = true
		case "hostages":
			cfg.Hostages = true
		case "closed":
			closed = true
		case "show":
		default:
			d.Fatalf(t.(*testing.T), "unknown setting %s", a.Key)
		}
	}
	l := New(cfg)
	if err := l.Feed(0, s.events, s.times, s.outcomes, s.calls); err != nil {
		t.Fatal(err)
	}
	if closed {
		l.Closed()
	}
	return l
}

func violationText(r *Report, maps bool) string {
	if len(r.Exact.Violations) == 0 {
		return "clean\n"
	}
	var b strings.Builder
	for _, v := range r.Exact.Violations {
		fmt.Fprintln(&b, v)
		if maps {
			b.WriteString(v.Map)
		}
	}
	return b.String()
}

// TestText runs the data-driven tests: every check fires and does not fire, and metrics have the values worked out in the
// comments.
func TestText(t *testing.T) {
	datadriven.Walk(t, "testdata/text", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r := runText(t, d).Finish()
			switch d.Cmd {
			case "check", "map":
				return violationText(&r, d.Cmd == "map")
			case "report":
				whole, err := json.Marshal(r.Exact)
				if err != nil {
					t.Fatal(err)
				}
				var fields map[string]json.RawMessage
				if err := json.Unmarshal(whole, &fields); err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				for _, a := range d.CmdArgs {
					if a.Key == "show" {
						for _, f := range a.Vals {
							fmt.Fprintf(&b, "%s: %s\n", f, fields[f])
						}
					}
				}
				return b.String()
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}
