//go:build cgo && linux

// This file builds the stand-in for the CUDA driver library (backends/cuda/testdata/standin) and drives it, for tests.

package standin

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void call_text(void *f, const char *s) { ((void (*)(const char *))f)(s); }
static void call_int(void *f, int v) { ((void (*)(int))f)(v); }
static uint64_t call_get(void *f) { return ((uint64_t(*)(void))f)(); }
static uint64_t call_name(void *f, const char *s) { return ((uint64_t(*)(const char *))f)(s); }
*/
import "C"

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"
)

// Library is the stand-in, loaded in this process.
type Library struct {
	Path   string
	handle unsafe.Pointer
}

// Build compiles the stand-in into dir as libcuda.so.1 and returns its path. It skips the test where there is no C compiler.
func Build(t testing.TB, dir string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc): the stand-in for libcuda cannot be built")
	}
	_, here, _, _ := runtime.Caller(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", "..", "backends", "cuda", "testdata", "standin", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("the sources of the stand-in are not there: %v", err)
	}
	path := filepath.Join(dir, "libcuda.so.1")
	args := append([]string{"-shared", "-fPIC", "-O2", "-pthread", "-Wall", "-Werror", "-o", path}, sources...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("building the stand-in: %v\n%s", err, out)
	}
	return path
}

// Load loads what Build built.
func Load(t testing.TB, path string) *Library {
	t.Helper()
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	h := C.dlopen(c, C.RTLD_NOW)
	if h == nil {
		t.Fatalf("loading the stand-in: %s", C.GoString(C.dlerror()))
	}
	return &Library{Path: path, handle: h}
}

func (l *Library) symbol(name string) unsafe.Pointer {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.dlsym(l.handle, c)
}

// Configure forgets everything and sets the stand-in up: the words of its README.md.
func (l *Library) Configure(words string) {
	c := C.CString(words)
	defer C.free(unsafe.Pointer(c))
	C.call_text(l.symbol("standin_configure"), c)
}

// Hold makes work on streams wait, or lets it go on.
func (l *Library) Hold(on bool) {
	v := C.int(0)
	if on {
		v = 1
	}
	C.call_int(l.symbol("standin_hold"), v)
}

// Held returns the bytes of device and pinned memory that are held.
func (l *Library) Held() uint64 { return uint64(C.call_get(l.symbol("standin_held"))) }

// Objects returns how many contexts, streams, events, pools, reservations and physical memories there are.
func (l *Library) Objects() uint64 { return uint64(C.call_get(l.symbol("standin_objects"))) }

// Calls returns how often the function of that name was called; "any" counts all calls.
func (l *Library) Calls(name string) uint64 {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return uint64(C.call_name(l.symbol("standin_calls"), c))
}
