package pickle_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"

	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/trace/pickle"
	"github.com/gpubench/gpubench/trace/pickle/pickletest"
)

var (
	d = pickletest.D
	l = pickletest.L
)

// dump writes a value as Python's repr does, with the names of shared containers left out.
func dump(h *pickle.Heap, v pickle.Value) string {
	var parts []string
	switch h.Kind(v) {
	case pickle.KindNone:
		return "None"
	case pickle.KindBool:
		b, _ := h.Bool(v)
		return map[bool]string{true: "True", false: "False"}[b]
	case pickle.KindInt:
		if x, ok := h.Int(v); ok {
			return fmt.Sprint(x)
		}
		x, _ := h.Uint(v)
		return fmt.Sprint(x)
	case pickle.KindFloat:
		f, _ := h.Float(v)
		return fmt.Sprint(f)
	case pickle.KindString:
		s, _ := h.Text(v)
		return fmt.Sprintf("%q", s)
	case pickle.KindToken:
		n, _ := h.Token(v)
		return fmt.Sprintf("token(%d)", n)
	case pickle.KindDict:
		for i := range h.Len(v) {
			k, x := h.Pair(v, i)
			parts = append(parts, dump(h, k)+": "+dump(h, x))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case pickle.KindTuple:
		for i := range h.Len(v) {
			parts = append(parts, dump(h, h.Item(v, i)))
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	if run, ok := h.Run(v); ok {
		return fmt.Sprintf("run(%d: %d)", run, h.Len(v))
	}
	for i := range h.Len(v) {
		parts = append(parts, dump(h, h.Item(v, i)))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// sample holds every kind of value, the borders of every encoding, and sharing.
func sample() any {
	shared := l("shared", d("k", 1))
	return d(
		"none", nil, "yes", true, "no", false,
		"ints", l(0, 1, -1, 255, 256, 65535, 65536, math.MaxInt32, math.MinInt32, int64(math.MaxInt32)+1, int64(math.MinInt32)-1,
			int64(1)<<46, int64(-1)<<46, int64(1)<<59-1, int64(1)<<59, -(int64(1)<<59), -(int64(1)<<59+1),
			int64(math.MaxInt64), int64(math.MinInt64), uint64(1)<<63, uint64(math.MaxUint64)),
		"floats", l(0.0, 0.5, -1.25e300, math.Inf(1)),
		"text", l("", "plain", "π ≠ 3", "a\nb\\u0041\\", "\x00\r\x1a", "😀", strings.Repeat("x", 300)),
		"tuples", l(pickletest.Tuple{}, pickletest.Tuple{1}, pickletest.Tuple{1, 2}, pickletest.Tuple{1, 2, 3}, pickletest.Tuple{1, 2, 3, 4}),
		"empty", l(l(), d()),
		"shared", l(shared, shared),
	)
}

const sampleText = `{"none": None, "yes": True, "no": False, ` +
	`"ints": [0, 1, -1, 255, 256, 65535, 65536, 2147483647, -2147483648, 2147483648, -2147483649, ` +
	`70368744177664, -70368744177664, 576460752303423487, 576460752303423488, -576460752303423488, -576460752303423489, ` +
	`9223372036854775807, -9223372036854775808, 9223372036854775808, 18446744073709551615], ` +
	`"floats": [0, 0.5, -1.25e+300, +Inf], ` +
	`"text": ["", "plain", "π ≠ 3", "a\nb\\u0041\\", "\x00\r\x1a", "😀", "` + "%s" + `"], ` +
	`"tuples": [(), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4)], "empty": [[], {}], ` +
	`"shared": [["shared", {"k": 1}], ["shared", {"k": 1}]]}`

func TestEveryProtocol(t *testing.T) {
	want := fmt.Sprintf(sampleText, strings.Repeat("x", 300))
	for _, style := range []pickletest.Style{pickletest.CPython, pickletest.TorchCPP} {
		for protocol := range 6 {
			var buf bytes.Buffer
			if err := pickletest.Write(&buf, sample(), protocol, style); err != nil {
				t.Fatal(err)
			}
			h, v, err := pickle.Read(&buf, pickle.Options{})
			if err != nil {
				t.Fatalf("protocol %d, style %d: %v", protocol, style, err)
			}
			if got := dump(h, v); got != want {
				t.Errorf("protocol %d, style %d:\n got %s\nwant %s", protocol, style, got, want)
			}
		}
	}
}

// The test writer must not merely agree with the reader: CPython reads what it writes.
func TestWriterAgainstPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here; the other tests do not need it")
	}
	var buf bytes.Buffer
	for protocol := range 6 {
		v := l(protocol, int64(1)<<46, -129, 0.5, "a\nπ😀\\", pickletest.Tuple{1, 2, 3, 4}, d("k", true), nil)
		if err := pickletest.Write(&buf, v, protocol, pickletest.CPython); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-c", "import pickle,sys\nfor i in range(6): print(ascii(pickle.load(sys.stdin.buffer)))")
	cmd.Stdin = &buf
	out, err := cmd.CombinedOutput()
	want := ""
	for protocol := range 6 {
		want += fmt.Sprintf(`[%d, 70368744177664, -129, 0.5, 'a\n\u03c0\U0001f600\\', (1, 2, 3, 4), {'k': True}, None]`+"\n", protocol)
	}
	if err != nil || string(out) != want {
		t.Errorf("%v\n got %s\nwant %s", err, out, want)
	}
}

func TestOpcodesByHand(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"INT true", "I01\n.", "True"},
		{"INT false", "I00\n.", "False"},
		{"INT one", "I1\n.", "1"},
		{"LONG without L", "L-5\n.", "-5"},
		{"LONG1 of no bytes", "\x8a\x00.", "0"},
		{"LONG1 of 9 bytes", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", "18446744073709551615"},
		{"LONG1 sign byte", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff.", "-9223372036854775808"},
		{"LONG4", "\x8b\x02\x00\x00\x00\xff\x7f.", "32767"},
		{"LONG1 negative", "\x8a\x01\xff.", "-1"},
		{"FLOAT", "F-2.5e3\n.", "-2500"},
		{"STRING", `S'it\'s \x41\101\n\q'` + "\n.", `"it's AA\n\\q"`},
		{"STRING double", `S"a"` + "\n.", `"a"`},
		{"UNICODE", `Va\u20ac\U0001f600\x41` + "\n.", `"a€😀\\x41"`},
		{"UNICODE is Latin-1", "V\xe9\n.", `"é"`},
		{"BINUNICODE8", "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", `"hi"`},
		{"DICT", "(Va\nI1\nVb\nI2\nd.", `{"a": 1, "b": 2}`},
		{"LIST", "(I1\nI2\nl.", "[1, 2]"},
		{"TUPLE", "(I1\n(tt.", "(1, ())"},
		{"POP", "I1\nI2\n0.", "1"},
		{"POP of a mark", "I1\n(0.", "1"},
		{"POP_MARK", "I1\n(I2\nI3\n1.", "1"},
		{"PUT and GET", "]p7\ng7\n\x86.", "([], [])"},
		{"PUT far away", "]p99000000\ng99000000\n\x86.", "([], [])"},
		{"key set twice", "}(Va\nI1\nVa\nI2\nu.", `{"a": 1, "a": 2}`},
		{"the rest is ignored", "N.garbage", "None"},
		{"a list in itself", "]q\x00(h\x00I1\ne\x85.", "([…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, v, err := pickle.Read(strings.NewReader(c.in), pickle.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.want, "…") {
				inner := h.Item(h.Item(v, 0), 0)
				if inner != h.Item(v, 0) {
					t.Error("the list is not in itself")
				}
				return
			}
			if got := dump(h, v); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestLookupTakesTheLast(t *testing.T) {
	h, v, err := pickle.Read(strings.NewReader("}(Va\nI1\nVa\nI2\nu."), pickle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := h.Lookup(v, "a")
	if n, _ := h.Int(x); n != 2 {
		t.Errorf("a = %d, want 2", n)
	}
}

// counter is a sink that answers with the number of the item and replaces the list at "frames" by 1000 + its length.
type counter struct {
	seen []string
	fail error
}

func (c *counter) Item(h *pickle.Heap, run int, item pickle.Value) (uint64, error) {
	c.seen = append(c.seen, fmt.Sprintf("%d:%s", run, dump(h, item)))
	if f, ok := h.Lookup(item, "frames"); ok {
		h.Replace(f, uint64(1000+h.Len(f)))
	}
	return uint64(len(c.seen)), c.fail
}

func TestStreaming(t *testing.T) {
	frames := l(d("name", "f"), d("name", "g"))
	entry := d("n", 3, "frames", frames)
	top := d("device_traces", l(
		l(d("n", 1, "frames", frames), d("n", 2, "frames", frames), entry, entry),
		l(),
		l(d("n", 4)),
	), "later", l(frames, entry))
	want := []string{
		`0:{"n": 1, "frames": [{"name": "f"}, {"name": "g"}]}`, `0:{"n": 2, "frames": token(1002)}`,
		`0:{"n": 3, "frames": token(1002)}`, `0:token(3)`, `1:{"n": 4}`,
	}
	for _, style := range []pickletest.Style{pickletest.CPython, pickletest.TorchCPP} {
		for protocol := range 6 {
			var buf bytes.Buffer
			if err := pickletest.Write(&buf, top, protocol, style); err != nil {
				t.Fatal(err)
			}
			c := &counter{}
			h, v, err := pickle.Read(&buf, pickle.Options{StreamKey: "device_traces", Sink: c})
			if err != nil {
				t.Fatalf("protocol %d, style %d: %v", protocol, style, err)
			}
			if got := strings.Join(c.seen, "\n"); got != strings.Join(want, "\n") {
				t.Errorf("protocol %d, style %d: the sink saw\n%s\nwant\n%s", protocol, style, got, strings.Join(want, "\n"))
			}
			if got, want := dump(h, v), `{"device_traces": [run(0: 4), [], run(1: 1)], "later": [token(1002), token(3)]}`; got != want {
				t.Errorf("protocol %d, style %d:\n got %s\nwant %s", protocol, style, got, want)
			}
		}
	}
}

// A writer that builds the lists with MARK … LIST is read whole; nothing is lost.
func TestListsByMarkAreNotStreamed(t *testing.T) {
	in := "}(Vdevice_traces\n((}Vn\nI1\ns}Vn\nI2\nsllu."
	c := &counter{}
	h, v, err := pickle.Read(strings.NewReader(in), pickle.Options{StreamKey: "device_traces", Sink: c})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dump(h, v), `{"device_traces": [[{"n": 1}, {"n": 2}]]}`; got != want || len(c.seen) != 0 {
		t.Errorf("got %s, want %s; sink: %v", got, want, c.seen)
	}
}

func TestSinkErrorEndsReading(t *testing.T) {
	var buf bytes.Buffer
	if err := pickletest.Write(&buf, d("device_traces", l(l(d("n", 1)))), 4, pickletest.CPython); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	_, _, err := pickle.Read(&buf, pickle.Options{StreamKey: "device_traces", Sink: &counter{fail: stop}})
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// Strings longer than the read buffer, and more memo entries than one byte can number.
func TestLongAndMany(t *testing.T) {
	long := strings.Repeat("long ", 30_000)
	list := l()
	for i := range 400 {
		item := d("i", i)
		list.Items = append(list.Items, item, item)
	}
	for _, style := range []pickletest.Style{pickletest.CPython, pickletest.TorchCPP} {
		for protocol := range 6 {
			var buf bytes.Buffer
			if err := pickletest.Write(&buf, d("long", long, "list", list, "big", uint64(math.MaxUint64)), protocol, style); err != nil {
				t.Fatal(err)
			}
			h, v, err := pickle.Read(&buf, pickle.Options{})
			if err != nil {
				t.Fatalf("protocol %d, style %d: %v", protocol, style, err)
			}
			text, _ := h.Lookup(v, "long")
			id, isText := h.StringID(text)
			if s, ok := h.Text(text); !ok || !isText || s != long || h.TextOf(id+1) != long || h.TextOf(0) != "" {
				t.Errorf("protocol %d, style %d: a string of %d bytes", protocol, style, len(s))
			}
			items, _ := h.Lookup(v, "list")
			if h.Len(items) != 800 || h.Runs() != 0 {
				t.Fatalf("protocol %d, style %d: %d items", protocol, style, h.Len(items))
			}
			for i := range 400 {
				first, second := h.Item(items, 2*i), h.Item(items, 2*i+1)
				n, _ := h.Lookup(second, "i")
				if x, ok := h.Int(n); first != second || !ok || x != int64(i) {
					t.Errorf("protocol %d, style %d: item %d is %d, shared %t", protocol, style, i, x, first == second)
				}
			}
			big, _ := h.Lookup(v, "big")
			x, ok := h.Uint(big)
			f, isNumber := h.Float(big)
			if _, fits := h.Int(big); fits || !ok || x != math.MaxUint64 || !isNumber || f != math.MaxUint64 {
				t.Errorf("protocol %d, style %d: big is %d, %g", protocol, style, x, f)
			}
			if _, ok := h.Float(text); ok {
				t.Error("a string is a number")
			}
		}
	}
}
