package pickle_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/trace/pickle"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

// small are limits that a test can pass without writing gigabytes.
var small = pickle.Limits{Bytes: 4096, Depth: 20, MemoEntries: 100, StringBytes: 1000, TextBytes: 2000, Values: 200}

// Every broken, hostile or oversized pickle gets exactly one line, which says where and what.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("N", 201)
	for _, c := range []struct {
		name, in, want string
		is             error
	}{
		{"empty", "", "byte 0: opcode 0x00: file ends early at byte 0", pickle.ErrTruncated},
		{"no STOP", "N", "byte 1: NONE: file ends early at byte 1", pickle.ErrTruncated},
		{"cut in a string", "\x80\x04\x8c\x05ab", "byte 2: SHORT_BINUNICODE: file ends early at byte 6", pickle.ErrTruncated},
		{"cut in a number", "\x80\x02J\x01", "byte 2: BININT: file ends early at byte 4", pickle.ErrTruncated},
		{"cut in a line", "I12", "byte 0: INT: file ends early at byte 3", pickle.ErrTruncated},
		{"GLOBAL", "\x80\x02cos\nsystem\n.", "byte 2: GLOBAL: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"STACK_GLOBAL", "\x80\x04\x8c\x02os\x8c\x06system\x93.", "byte 14: STACK_GLOBAL: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"REDUCE", "N)R.", "byte 2: REDUCE: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"INST", "(ios\nsystem\n.", "byte 1: INST: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"BUILD", "}}b.", "byte 2: BUILD: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"NEWOBJ", "N)\x81.", "byte 2: NEWOBJ: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"PERSID", "Pid\n.", "byte 0: PERSID: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"EXT1", "\x80\x02\x82\x01.", "byte 2: EXT1: refused: it would import or run code; a memory snapshot holds plain data only", pickle.ErrRefused},
		{"BINBYTES", "B\x01\x00\x00\x00a.", "byte 0: BINBYTES: refused: no memory snapshot contains it", pickle.ErrRefused},
		{"DUP", "N2.", "byte 1: DUP: refused: no memory snapshot contains it", pickle.ErrRefused},
		{"no opcode", "\x80\x02\xff.", "byte 2: opcode 0xff: malformed: no such opcode: not a pickle, or damaged", pickle.ErrMalformed},
		{"protocol 6", "\x80\x06N.", "byte 0: PROTO: malformed: protocol 6; 0 to 5 are known", pickle.ErrMalformed},
		{"STOP on nothing", ".", "byte 0: STOP: malformed: STOP with 0 objects and 0 marks on the stack", pickle.ErrMalformed},
		{"STOP with a mark", "N(.", "byte 2: STOP: malformed: STOP with 1 objects and 1 marks on the stack", pickle.ErrMalformed},
		{"APPENDS without a mark", "]Ne.", "byte 2: APPENDS: malformed: no MARK on the stack", pickle.ErrMalformed},
		{"APPEND to a dict", "}Na.", "byte 2: APPEND: malformed: a dict where a list belongs", pickle.ErrMalformed},
		{"SETITEM on a list", "]NNs.", "byte 3: SETITEM: malformed: a list where a dict belongs", pickle.ErrMalformed},
		{"SETITEMS below the mark", "}(N(NNu.", "byte 6: SETITEMS: malformed: None where a dict belongs", pickle.ErrMalformed},
		{"APPEND below the mark", "](Na.", "byte 3: APPEND: malformed: 2 objects needed, 1 on the stack", pickle.ErrMalformed},
		{"odd pairs", "}(NNNu.", "byte 5: SETITEMS: malformed: a key without a value", pickle.ErrMalformed},
		{"a dict as a key", "}}Ns.", "byte 3: SETITEM: malformed: a dict as a key", pickle.ErrMalformed},
		{"TUPLE3 of two", "NN\x87.", "byte 2: TUPLE3: malformed: 3 objects needed, 2 on the stack", pickle.ErrMalformed},
		{"POP of nothing", "0.", "byte 0: POP: malformed: 1 objects needed, 0 on the stack", pickle.ErrMalformed},
		{"MEMOIZE of nothing", "\x94.", "byte 0: MEMOIZE: malformed: 1 objects needed, 0 on the stack", pickle.ErrMalformed},
		{"GET of nothing", "h\x05.", "byte 0: BINGET: malformed: memo entry 5 was never set", pickle.ErrMalformed},
		{"GET of no number", "gx\n.", `byte 0: GET: malformed: memo index "x"`, pickle.ErrMalformed},
		{"INT of no number", "I1x\n.", `byte 0: INT: malformed: integer "1x"`, pickle.ErrMalformed},
		{"FLOAT of no number", "Fx\n.", `byte 0: FLOAT: malformed: float "x"`, pickle.ErrMalformed},
		{"string without quotes", "Sabc\n.", `byte 0: STRING: malformed: string "abc" is not quoted`, pickle.ErrMalformed},
		{"escape cut off", "V\\u12\n.", `byte 0: UNICODE: malformed: escape in string "\\u12"`, pickle.ErrMalformed},
		{"integer of 10 bytes", "\x8a\x0a0123456789.", "byte 0: LONG1: limit exceeded: more than 9 bytes in an integer", pickle.ErrLimit},
		{"negative length", "\x8b\xff\xff\xff\xff.", "byte 0: LONG4: limit exceeded: more than 9 bytes in an integer", pickle.ErrLimit},
		{"integer of 65 bits", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "byte 0: LONG1: malformed: an integer outside 64 bits", pickle.ErrMalformed},
		{"huge string", "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", "byte 0: BINUNICODE8: limit exceeded: more than 1000 bytes in one string", pickle.ErrLimit},
		{"huge line", "V" + strings.Repeat("x", 1001) + "\n.", "byte 0: UNICODE: limit exceeded: more than 1000 bytes in one string or number", pickle.ErrLimit},
		{"huge frame", "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff", "byte 2: FRAME: limit exceeded: more than 4096 bytes in a frame", pickle.ErrLimit},
		{"huge file", strings.Repeat("N0", 2100), "byte 0: opcode 0x00: limit exceeded: more than 4096 bytes of input", pickle.ErrLimit},
		{"deep marks", strings.Repeat("(", 21), "byte 20: MARK: limit exceeded: more than 20 nested containers", pickle.ErrLimit},
		{"deep tuples", ")" + strings.Repeat("\x85", 21) + ".", "byte 21: TUPLE1: limit exceeded: more than 20 nested containers", pickle.ErrLimit},
		{"many values", "(" + long, "byte 201: NONE: limit exceeded: more than 200 values on the stack", pickle.ErrLimit},
		{"many kept values", "](" + long[:150] + "e(" + long[:100] + "e.", "byte 254: APPENDS: limit exceeded: more than 200 values held at once", pickle.ErrLimit},
		{"memo index", "Np100\n.", "byte 1: PUT: limit exceeded: more than 100 memo entries", pickle.ErrLimit},
		{"many strings", texts(300), "byte 1836: BINUNICODE: limit exceeded: more than 2000 bytes of distinct strings", pickle.ErrLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _, err := pickle.Read(strings.NewReader(c.in), pickle.Options{Limits: small})
			if err == nil {
				t.Fatal("it was read")
			}
			if h != nil {
				t.Error("a heap came with the error")
			}
			if got := err.Error(); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("it is not %v", c.is)
			}
		})
	}
}

// texts is a pickle of n-byte strings, each pushed and popped.
func texts(n int) string {
	var b strings.Builder
	for c := byte('a'); c < 'i'; c++ {
		b.WriteString("X" + string([]byte{byte(n), byte(n >> 8), 0, 0}) + strings.Repeat(string(c), n) + "0")
	}
	return b.String()
}

// Nothing that the sink has seen can be changed behind its back.
func TestChangesAfterTheSink(t *testing.T) {
	head := "}Vdevice_traces\np0\n(lp1\n(lp2\n" // a dict, the key, the outer and the inner list
	for _, c := range []struct{ name, in, want string }{
		{"SETITEM on a consumed entry", "}p3\nVn\nI1\nsag3\nVn\nI2\ns", "byte 50: SETITEM: changed too late"},
		{"APPEND to a consumed list", "}p3\nVframes\n(lp4\nsag4\nI1\na", "byte 54: APPEND: changed too late"},
		{"an entry as a key", "}p3\naVx\n}g3\nI1\ns", "byte 44: SETITEM: malformed: a consumed object as a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := pickle.Read(strings.NewReader(head+c.in), pickle.Options{StreamKey: "device_traces", Sink: &counter{}})
			if err == nil || err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
	// Behind one MARK an entry is consumed when the next begins; taking it off the stack again is too late.
	marked := "}X\x0d\x00\x00\x00device_traces]]("
	for _, c := range []struct{ name, in, want string }{
		{"POP", "}}00", "byte 25: POP: changed too late"},
		{"POP_MARK", "}}1", "byte 24: POP_MARK: changed too late"},
		{"TUPLE", "}}t", "byte 24: TUPLE: changed too late"},
		{"MEMOIZE", "}}0\x94", "byte 25: MEMOIZE: changed too late"},
		{"SETITEMS", "}}u", "byte 24: SETITEMS: malformed: a list where a dict belongs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := pickle.Read(strings.NewReader(marked+c.in), pickle.Options{StreamKey: "device_traces", Sink: &counter{}})
			if err == nil || err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	in := ` { "device_traces" : [ [ {"n":1, "frames":[{"name":"f"}]}, {"n":-2.5} ], [], [7] ],` + "\n" +
		`"s": ["a\"\u00e9\ud83d\ude00", "π", ""], "w": [true,false,null,NaN,-Infinity,18446744073709551615], "o": {} } `
	c := &counter{}
	h, v, err := pickle.ReadJSON(strings.NewReader(in), pickle.Options{StreamKey: "device_traces", Sink: c})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"device_traces": [run(0: 2), [], run(1: 1)], "s": ["a\"é😀", "π", ""], "w": [True, False, None, NaN, -Inf, 18446744073709551615], "o": {}}`
	if got := dump(h, v); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got, want := strings.Join(c.seen, " "), `0:{"n": 1, "frames": [{"name": "f"}]} 0:{"n": -2.5} 1:7`; got != want {
		t.Errorf("the sink saw %s, want %s", got, want)
	}
}

func TestJSONRefusals(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "byte 0: JSON: file ends early at byte 0"},
		{`{"a":`, "byte 5: JSON: file ends early at byte 5"},
		{`{"a" 1}`, `byte 5: JSON: malformed: '1' where ':' belongs`},
		{`{a:1}`, `byte 1: JSON: malformed: 'a' where a key belongs`},
		{`[1 2]`, `byte 3: JSON: malformed: '2' where ',' belongs`},
		{`[1,]`, `byte 3: JSON: malformed: ']' where a value belongs`},
		{`[1]]`, `byte 3: JSON: malformed: ']' after the end of the object`},
		{`[tru]`, `byte 4: JSON: malformed: number "tru"`},
		{`["a`, "byte 3: JSON: file ends early at byte 3"},
		{`["\x"]`, `byte 5: JSON: malformed: string "\"\\x\""`},
		{`[1e999]`, `byte 6: JSON: malformed: number "1e999"`},
		{strings.Repeat("[", 30), "byte 21: JSON: limit exceeded: more than 20 nested containers"},
		{`["` + strings.Repeat("x", 1000), "byte 1002: JSON: limit exceeded: more than 1000 bytes in one string"},
		{"[" + strings.Repeat("1,", 300), "byte 402: JSON: limit exceeded: more than 200 values held at once"},
	} {
		_, _, err := pickle.ReadJSON(strings.NewReader(c.in), pickle.Options{Limits: small})
		if err == nil || err.Error() != c.want {
			t.Errorf("%.20s\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

func FuzzPickle(f *testing.F) {
	for protocol := range 6 {
		var buf bytes.Buffer
		if err := pickletest.Write(&buf, d("device_traces", l(l(d("n", 1, "frames", l(d("name", "f"))), d("n", 2)), l()), "x", sample()), protocol, pickletest.CPython); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Add([]byte("}X\x0d\x00\x00\x00device_traces]](}}00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &looker{}
		limits := pickle.Limits{Bytes: 1 << 20, Depth: 50, MemoEntries: 1 << 16, StringBytes: 1 << 16, TextBytes: 1 << 20, Values: 1 << 16}
		h, v, err := pickle.Read(bytes.NewReader(in), pickle.Options{StreamKey: "device_traces", Sink: c, Limits: limits})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		walkDepth(h, v, 0)
		if again, v2, err := pickle.Read(bytes.NewReader(in), pickle.Options{Limits: limits}); err != nil || again.Kind(v2) != h.Kind(v) && h.Kind(v) != pickle.KindToken {
			t.Errorf("without a sink: %v", err)
		}
	})
}

// walkDepth visits what a caller may visit; a list may hold itself, so the depth is bounded.
func walkDepth(h *pickle.Heap, v pickle.Value, depth int) {
	if depth > 6 {
		return
	}
	_, streamed := h.Run(v)
	for i := range min(h.Len(v), 8) {
		switch {
		case streamed:
		case h.Kind(v) == pickle.KindDict:
			k, x := h.Pair(v, i)
			walkDepth(h, k, depth+1)
			walkDepth(h, x, depth+1)
		default:
			walkDepth(h, h.Item(v, i), depth+1)
		}
	}
}

// looker is a sink that visits its items as far as a list that may hold itself allows.
type looker struct{ n uint64 }

func (s *looker) Item(h *pickle.Heap, _ int, item pickle.Value) (uint64, error) {
	walkDepth(h, item, 0)
	if f, ok := h.Lookup(item, "frames"); ok {
		h.Replace(f, 7)
	}
	s.n++
	return s.n, nil
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"device_traces":[[{"n":1}],[]],"x":["a\u00e9",1.5,true,null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, v, err := pickle.ReadJSON(bytes.NewReader(in), pickle.Options{StreamKey: "device_traces", Sink: &counter{}, Limits: small})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		walkDepth(h, v, 0)
	})
}
