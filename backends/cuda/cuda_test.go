//go:build cgo && linux

package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/internal/standin"
	"github.com/gpubench/gpubench/trace"
)

const mib = 1 << 20

var (
	buildOnce sync.Once
	library   *standin.Library
	buildDir  string
)

func TestMain(m *testing.M) {
	code := m.Run()
	if buildDir != "" {
		_ = os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

// driverWith returns the stand-in, set up anew. When the test ends nothing may be held any more.
func driverWith(t testing.TB, words string) *standin.Library {
	t.Helper()
	buildOnce.Do(func() {
		dir, err := os.MkdirTemp("", "standin-")
		if err != nil {
			t.Fatal(err)
		}
		buildDir = dir
		library = standin.Load(t, standin.Build(t, dir))
	})
	if library == nil {
		t.Skip("no stand-in: see the first test")
	}
	library.Configure(words)
	return library
}

// open opens a device on the stand-in and checks at the end that closing it gives everything back, unless it was lost.
func open(t testing.TB, words string, cfg Config) (*Device, *standin.Library) {
	t.Helper()
	lib := driverWith(t, words)
	cfg.Library = lib.Path
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lost := d.Lost()
		lib.Hold(false)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if !lost && (lib.Held() != 0 || lib.Objects() != 0) {
			t.Errorf("after Close %d bytes and %d objects are held", lib.Held(), lib.Objects())
		}
	})
	return d, lib
}

func want(t testing.TB, what string, got, want trace.CallStatus) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: status %d, want %d", what, got, want)
	}
}

func TestDeviceMemory(t *testing.T) {
	d, lib := open(t, "memory=64M", Config{Share: 1})
	i := d.Info()
	if i.TotalBytes != 64*mib || i.PageBytes != 2*mib || !i.VirtualMemory || !i.StreamEvents || i.Name != "Stand-in GPU" || i.ModelledTime {
		t.Fatalf("info %+v", i)
	}
	_, st := d.Malloc(0)
	want(t, "nothing", st, trace.CallInvalidValue)
	var addrs []uint64
	for range 32 { // 32 blocks of 2 MiB are all there is
		addr, st := d.Malloc(2 * mib)
		want(t, "malloc", st, trace.CallOK)
		if addr%256 != 0 {
			t.Fatalf("address %#x is not aligned to 256", addr)
		}
		addrs = append(addrs, addr)
	}
	if free, total := d.MemInfo(); free != 0 || total != 64*mib {
		t.Fatalf("%d of %d bytes free", free, total)
	}
	_, st = d.Malloc(1)
	want(t, "one byte too many", st, trace.CallOutOfMemory)
	want(t, "free", d.Free(addrs[7]), trace.CallOK)
	want(t, "free twice", d.Free(addrs[7]), trace.CallInvalidValue)
	want(t, "free inside", d.Free(addrs[6]+256), trace.CallInvalidValue)
	_, st = d.Malloc(2*mib + 1)
	want(t, "one byte more than is free", st, trace.CallOutOfMemory)
	_, st = d.Malloc(2 * mib)
	want(t, "what is free exactly", st, trace.CallOK)
	if n := lib.Calls("cuMemAlloc_v2"); n != 33 {
		t.Errorf("%d calls reached the driver, want 33: those beyond the share do not", n)
	}
	d.Reset()
	if lib.Held() != 0 {
		t.Errorf("%d bytes held after Reset", lib.Held())
	}
}

func TestDriverOutOfMemoryAtTheByte(t *testing.T) {
	// Someone else holds 24 MiB of 64: the share was computed before, so the driver is what refuses.
	d, _ := open(t, "memory=64M", Config{Share: 1})
	other, err := Open(Config{Library: library.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, st := other.Malloc(24 * mib); st != trace.CallOK {
		t.Fatal(st)
	}
	_, st := d.Malloc(40*mib + 1)
	want(t, "a byte more than the driver has", st, trace.CallOutOfMemory)
	if free, _ := d.MemInfo(); free != 40*mib {
		t.Errorf("%d bytes free, want the 40 MiB that the driver has", free)
	}
	_, st = d.Malloc(40 * mib)
	want(t, "all that the driver has", st, trace.CallOK)
}

func TestSmallBlocksShareAPage(t *testing.T) {
	d, lib := open(t, "memory=4M", Config{Share: 1})
	a, _ := d.Malloc(100)
	b, _ := d.Malloc(100)
	if b-a != 512 || lib.Held() != 2*mib {
		t.Errorf("distance %d, %d bytes held: want 512 and one page of 2 MiB", b-a, lib.Held())
	}
}

func TestVirtualMemory(t *testing.T) {
	d, lib := open(t, "memory=16M", Config{Share: 1})
	base, st := d.Reserve(63 * mib) // rounded up to 64
	want(t, "reserve", st, trace.CallOK)
	a, st := d.Create(4 * mib)
	want(t, "create", st, trace.CallOK)
	b, st := d.Create(12 * mib)
	want(t, "create", st, trace.CallOK)
	_, st = d.Create(2 * mib)
	want(t, "create beyond the share", st, trace.CallOutOfMemory)
	_, st = d.Create(mib)
	want(t, "create half a page", st, trace.CallInvalidValue)
	want(t, "map", d.Map(base, 4*mib, a), trace.CallOK)
	want(t, "map over a mapping", d.Map(base+2*mib, 12*mib, b), trace.CallInvalidValue)
	want(t, "map outside", d.Map(base+60*mib, 12*mib, b), trace.CallInvalidValue)
	want(t, "map a part", d.Map(base+8*mib, 2*mib, b), trace.CallInvalidValue)
	want(t, "fill without access", d.Fill(base, 4*mib, 1), trace.CallInvalidValue)
	want(t, "access", d.SetAccess(base, 4*mib), trace.CallOK)
	want(t, "fill", d.Fill(base, 4*mib, 1), trace.CallOK)
	want(t, "map the same elsewhere", d.Map(base+32*mib, 4*mib, a), trace.CallOK)
	want(t, "access", d.SetAccess(base+32*mib, 4*mib), trace.CallOK)
	if bad, intact, st := d.Check(base+32*mib, 4*mib, 1); st != trace.CallOK || !intact {
		t.Errorf("the second view differs at %d (%d)", bad, st)
	}
	want(t, "release while mapped", d.Release(a), trace.CallOK)
	want(t, "release twice", d.Release(a), trace.CallInvalidValue)
	if free, _ := d.MemInfo(); free != 0 {
		t.Errorf("%d bytes free while both memories are held", free)
	}
	want(t, "unmap half", d.Unmap(base, 2*mib), trace.CallInvalidValue)
	want(t, "unreserve while mapped", d.Unreserve(base, 63*mib), trace.CallInvalidValue)
	want(t, "unmap", d.Unmap(base, 4*mib), trace.CallOK)
	want(t, "unmap the second", d.Unmap(base+32*mib, 4*mib), trace.CallOK)
	if free, _ := d.MemInfo(); free != 4*mib || lib.Held() != 12*mib {
		t.Errorf("%d bytes free and %d held; the first memory is gone", free, lib.Held())
	}
	want(t, "release", d.Release(b), trace.CallOK)
	want(t, "unreserve", d.Unreserve(base, 63*mib), trace.CallOK)
}

func TestStreamsAndEvents(t *testing.T) {
	d, lib := open(t, "memory=16M,hold=1", Config{})
	addr, st := d.Malloc(2 * mib)
	want(t, "malloc", st, trace.CallOK)
	want(t, "work on stream 1", d.TouchAsync(addr, 2*mib, 7, 1), trace.CallOK)
	e := d.Record(1)
	if e == 0 || d.Query(e) {
		t.Fatalf("event %d: the work is held back, it cannot have completed", e)
	}
	d.StreamWait(2, e) // stream 2 now waits for stream 1
	f := d.Record(2)
	if d.Query(f) {
		t.Fatal("an event behind another stream's work has completed before it")
	}
	lib.Hold(false)
	d.Wait(f)
	if !d.Query(e) || !d.Query(f) {
		t.Fatal("after the wait both have completed")
	}
	d.Drop(e)
	if !d.Query(e) {
		t.Error("an event that was dropped counts as complete")
	}
	if g := d.Record(1); uint32(g) != uint32(e) || g == e {
		t.Errorf("event %#x after dropping %#x: the driver's event is used again under another name", g, e)
	}
	if n := lib.Calls("cuEventCreate"); n != 2 {
		t.Errorf("%d events were made, want 2", n)
	}
	d.SyncStream(1)
	d.SyncDevice()
}

func TestPools(t *testing.T) {
	d, lib := open(t, "memory=16M,hold=1", Config{Share: 1})
	a, st := d.AllocAsync(3*mib, 1) // the stand-in's pools take whole pages: 4 MiB
	want(t, "alloc", st, trace.CallOK)
	want(t, "free on stream 1", d.FreeAsync(a, 1), trace.CallOK)
	b, st := d.AllocAsync(3*mib, 2)
	want(t, "alloc on stream 2", st, trace.CallOK)
	if a == b {
		t.Error("stream 2 got memory whose free on stream 1 has not completed")
	}
	c, _ := d.AllocAsync(3*mib, 1)
	if a != c {
		t.Error("stream 1 did not get its own memory back")
	}
	for _, x := range []struct {
		a    PoolAttribute
		want uint64
	}{{PoolUsedBytes, 8 * mib}, {PoolReservedBytes, 8 * mib}, {PoolUsedMax, 8 * mib}, {PoolThreshold, 0}} {
		if v, st := d.PoolAttribute(x.a); st != trace.CallOK || v != x.want {
			t.Errorf("attribute %d is %d (%d), want %d", x.a, v, st, x.want)
		}
	}
	want(t, "threshold", d.SetPoolAttribute(PoolThreshold, 16*mib), trace.CallOK)
	want(t, "no reuse", d.SetPoolAttribute(PoolOpportunistic, 1), trace.CallOK)
	if v, _ := d.PoolAttribute(PoolOpportunistic); v != 1 {
		t.Errorf("the attribute is %d, want 1", v)
	}
	want(t, "set what is only read", d.SetPoolAttribute(PoolUsedBytes, 1), trace.CallInvalidValue)
	lib.Hold(false)
	want(t, "free", d.FreeAsync(b, 2), trace.CallOK)
	want(t, "free", d.FreeAsync(c, 1), trace.CallOK)
	want(t, "free twice", d.FreeAsync(c, 1), trace.CallInvalidValue)
	d.SyncDevice()
	if lib.Held() != 8*mib {
		t.Errorf("%d bytes held, want the 8 MiB below the threshold", lib.Held())
	}
	want(t, "trim", d.PoolTrim(4*mib), trace.CallOK)
	if lib.Held() != 4*mib {
		t.Errorf("%d bytes held after a trim to 4 MiB", lib.Held())
	}
	want(t, "trim", d.PoolTrim(0), trace.CallOK)
	if v, _ := d.PoolAttribute(PoolReservedBytes); v != 0 {
		t.Errorf("%d bytes reserved after a trim to nothing", v)
	}
}

func TestKindsOfMemory(t *testing.T) {
	for _, m := range []Memory{MemoryPool, MemoryPinned, MemoryManaged} {
		t.Run(string(m), func(t *testing.T) {
			d, lib := open(t, "memory=16M", Config{Memory: m, AllowManaged: true, Share: 1})
			a, st := d.Malloc(4 * mib)
			want(t, "malloc", st, trace.CallOK)
			want(t, "fill", d.Fill(a, 4*mib, 3), trace.CallOK)
			if _, intact, _ := d.Check(a, 4*mib, 3); !intact {
				t.Error("the contents changed")
			}
			_, st = d.Malloc(12*mib + 1)
			want(t, "a byte too many", st, trace.CallOutOfMemory)
			want(t, "free", d.Free(a), trace.CallOK)
			want(t, "free twice", d.Free(a), trace.CallInvalidValue)
			if m != MemoryPool && lib.Held() != 0 {
				t.Errorf("%d bytes held", lib.Held())
			}
		})
	}
}

func TestManagedNeverMoreThanFree(t *testing.T) {
	d, _ := open(t, "memory=16M", Config{Memory: MemoryManaged, AllowManaged: true, Share: 1})
	other, err := Open(Config{Library: library.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, st := other.Malloc(8 * mib); st != trace.CallOK {
		t.Fatal(st)
	}
	_, st := d.Malloc(8*mib + 1)
	want(t, "more than is free", st, trace.CallOutOfMemory)
	if n := library.Calls("cuMemAllocManaged"); n != 0 {
		t.Errorf("the driver was asked %d times; it would have said yes", n)
	}
	if _, err := Open(Config{Library: library.Path, Memory: MemoryManaged}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("managed memory without the option: %v", err)
	}
}

func TestCanary(t *testing.T) {
	d, _ := open(t, "memory=16M", Config{})
	a, _ := d.Malloc(3*mib + 7)
	want(t, "fill", d.Fill(a, 3*mib+7, 9), trace.CallOK)
	for _, at := range []uint64{0, 1, mib - 1, mib, 2*mib + 4, 3*mib + 3, 3*mib + 6} {
		want(t, "damage", d.Touch(a+at, 1, byte(word(9)>>(8*(at%4)))+1), trace.CallOK)
		if bad, intact, st := d.Check(a, 3*mib+7, 9); intact || bad != at || st != trace.CallOK {
			t.Errorf("damage at %d was seen at %d (%v)", at, bad, intact)
		}
		want(t, "fill", d.Fill(a, 3*mib+7, 9), trace.CallOK)
	}
	if _, intact, _ := d.Check(a, 3*mib+7, 9); !intact {
		t.Error("undamaged memory does not check")
	}
	want(t, "outside", d.Fill(a+64*mib, 4, 1), trace.CallInvalidValue)
}

func TestCanaryOfEveryBlock(t *testing.T) {
	d, lib := open(t, "memory=16M", Config{Canary: true})
	a, st := d.Malloc(mib + 3)
	want(t, "malloc", st, trace.CallOK)
	b, _ := d.Malloc(mib)
	want(t, "free of an untouched block", d.Free(b), trace.CallOK)
	want(t, "someone writes into the other", d.Touch(a+mib+2, 1, byte(word(a)>>16)+1), trace.CallOK)
	want(t, "free", d.Free(a), trace.CallBroken)
	if lib.Held() != 0 {
		t.Errorf("%d bytes held: a damaged block is given back all the same", lib.Held())
	}
}

func TestEveryErrorCode(t *testing.T) {
	codes := []struct {
		code int
		want trace.CallStatus
		lost bool
	}{
		{1, trace.CallInvalidValue, false}, {2, trace.CallOutOfMemory, false}, {4, trace.CallDeviceLost, true}, {46, trace.CallDeviceLost, true},
		{201, trace.CallInvalidValue, false}, {214, trace.CallDeviceLost, true}, {400, trace.CallInvalidValue, false}, {600, trace.CallNotReady, false},
		{700, trace.CallDeviceLost, true}, {702, trace.CallDeviceLost, true}, {709, trace.CallDeviceLost, true}, {719, trace.CallDeviceLost, true},
		{800, trace.CallNotSupported, false}, {801, trace.CallNotSupported, false}, {999, trace.CallBroken, false},
	}
	for _, c := range codes {
		t.Run(strconv.Itoa(c.code), func(t *testing.T) {
			d, lib := open(t, "memory=16M,fail=cuMemAlloc_v2:2:"+strconv.Itoa(c.code), Config{Share: 1})
			a, st := d.Malloc(mib)
			want(t, "first", st, trace.CallOK)
			_, st = d.Malloc(mib)
			want(t, "error "+strconv.Itoa(c.code), st, c.want)
			if d.Lost() != c.lost {
				t.Errorf("error %d: lost is %v", c.code, d.Lost())
			}
			before := lib.Calls("any")
			third := trace.CallOK
			if c.lost {
				third = trace.CallDeviceLost
			}
			_, st = d.Malloc(mib)
			want(t, "third", st, third)
			want(t, "free", d.Free(a), third)
			if c.lost && lib.Calls("any") != before {
				t.Errorf("error %d: the driver was called after the device was lost", c.code)
			}
		})
	}
}

// Every call that a strategy can make fails once at its k-th call, and leaves no trace in the books.
func TestFaultAtTheKthCall(t *testing.T) {
	for _, name := range []string{"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess"} {
		for k := 1; k <= 3; k++ {
			t.Run(name+strconv.Itoa(k), func(t *testing.T) {
				d, lib := open(t, "memory=64M,fail="+name+":"+strconv.Itoa(k)+":2", Config{Share: 1})
				failures := 0
				count := func(st trace.CallStatus) bool {
					if st == trace.CallOutOfMemory {
						failures++
					}
					return st == trace.CallOK
				}
				for range 3 {
					if a, st := d.Malloc(4 * mib); count(st) {
						count(d.Free(a))
					}
					base, st := d.Reserve(4 * mib)
					ok := count(st)
					if id, st := d.Create(4 * mib); count(st) {
						if ok && count(d.Map(base, 4*mib, id)) {
							count(d.SetAccess(base, 4*mib))
							count(d.Unmap(base, 4*mib))
						}
						count(d.Release(id))
					}
					if ok {
						count(d.Unreserve(base, 4*mib))
					}
				}
				if failures != 1 {
					t.Errorf("%s failed %d times at call %d, want once", name, failures, k)
				}
				d.Reset()
				if lib.Held() != 0 {
					t.Errorf("%s, call %d: %d bytes held after Reset", name, k, lib.Held())
				}
				if free, total := d.MemInfo(); free != total {
					t.Errorf("%s, call %d: the books hold %d bytes", name, k, total-free)
				}
			})
		}
	}
}

func TestHungCallIsAbandoned(t *testing.T) {
	d, lib := open(t, "memory=16M,hang=cuMemFree_v2:2", Config{CallDeadline: 50 * time.Millisecond})
	a, _ := d.Malloc(mib)
	b, _ := d.Malloc(mib)
	want(t, "first free", d.Free(a), trace.CallOK)
	began := time.Now()
	want(t, "the call that hangs", d.Free(b), trace.CallHung)
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("given up after %v, before the deadline", took)
	}
	// The driver's lock is held for ever: everything else must answer without it.
	before := lib.Calls("any")
	_, st := d.Malloc(mib)
	want(t, "malloc afterwards", st, trace.CallDeviceLost)
	_, st = d.Reserve(2 * mib)
	want(t, "reserve afterwards", st, trace.CallDeviceLost)
	_, st = d.Create(2 * mib)
	want(t, "create afterwards", st, trace.CallDeviceLost)
	if !d.Query(d.Record(1)) {
		t.Error("an event of a lost device counts as complete")
	}
	d.SyncDevice()
	if lib.Calls("any") != before {
		t.Error("the driver was called after a call hung")
	}
}

func TestHungOpening(t *testing.T) {
	lib := driverWith(t, "hang=cuCtxCreate_v2:1")
	if _, err := Open(Config{Library: lib.Path, OpenDeadline: 50 * time.Millisecond}); !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "cuCtxCreate") {
		t.Errorf("err = %v", err)
	}
	lib.Configure("")
	d, err := Open(Config{Library: lib.Path}) // the run goes on with another
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestSlowCallIsNotHung(t *testing.T) {
	d, _ := open(t, "memory=16M,slow=cuMemAlloc_v2:1:20000", Config{CallDeadline: 10 * time.Second})
	_, st := d.Malloc(mib)
	want(t, "slow malloc", st, trace.CallOK)
	if ns := d.LastCallNs(); ns < 20e6 {
		t.Errorf("the call took %d ns of the driver, and at least 20 ms were spent there", ns)
	}
}

func TestDeviceLostInTheMiddle(t *testing.T) {
	runtime.LockOSThread() // on another thread the context would first be made current: one call more
	defer runtime.UnlockOSThread()
	lib := driverWith(t, "memory=64M")
	sound, err := Open(Config{Library: lib.Path})
	if err != nil {
		t.Fatal(err)
	}
	opening := int(lib.Calls("any"))
	if err := sound.Close(); err != nil {
		t.Fatal(err)
	}
	for lost := opening + 1; lost < opening+25; lost += 3 {
		d, _ := open(t, "memory=64M,lost="+strconv.Itoa(lost), Config{})
		seen := false
		for range 40 {
			_, st := d.Malloc(mib)
			if seen && st != trace.CallDeviceLost {
				t.Fatalf("lost at call %d: then status %d", lost, st)
			}
			seen = seen || st == trace.CallDeviceLost
		}
		if !seen || !d.Lost() {
			t.Errorf("lost at call %d: not noticed", lost)
		}
	}
}

func TestThreads(t *testing.T) {
	d, _ := open(t, "memory=64M", Config{})
	for range 4 { // every goroutine on a thread of its own; one at a time, as the contract says
		done := make(chan trace.CallStatus)
		go func() {
			_, st := d.Malloc(mib)
			done <- st
		}()
		want(t, "malloc on another thread", <-done, trace.CallOK)
	}
}

func TestChoosingADevice(t *testing.T) {
	lib := driverWith(t, "devices=3,mig=1")
	list, err := List(lib.Path)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if list[0].UUID != "MIG-10111213-1415-1617-1819-1a1b1c1d1e1f" || list[2].UUID != "GPU-30313233-3435-3637-3839-3a3b3c3d3e3f" || list[2].Capability != "9.0" {
		t.Errorf("devices %+v", list)
	}
	for _, c := range []struct {
		which string
		want  int
		err   error
	}{{"", 0, nil}, {"1", 1, nil}, {"3", 0, ErrUnknown}, {"-1", 0, ErrUnknown}, {list[1].UUID, 1, nil}, {"GPU-30", 2, nil},
		{"MIG-1011", 0, nil}, {"GPU-ff", 0, ErrUnknown}, {"GPU-", 0, ErrUnknown}, {"nonsense", 0, ErrUnknown}} {
		d, err := Open(Config{Library: lib.Path, Device: c.which})
		if !errors.Is(err, c.err) {
			t.Errorf("%q: %v, want %v", c.which, err, c.err)
		}
		if err != nil {
			continue
		}
		if d.Identity().Index != c.want {
			t.Errorf("%q opened device %d, want %d", c.which, d.Identity().Index, c.want)
		}
		d.Close()
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "2,0")
	d, err := Open(Config{Library: lib.Path, Device: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if d.Identity().UUID != list[2].UUID {
		t.Errorf("device 0 of CUDA_VISIBLE_DEVICES=2,0 is %s", d.Identity().UUID)
	}
	d.Close()
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	if _, err := Open(Config{Library: lib.Path}); !errors.Is(err, ErrNoDevice) {
		t.Errorf("no visible device: %v", err)
	}
}

func TestWhatIsMissing(t *testing.T) {
	if _, err := Open(Config{Library: filepath.Join(t.TempDir(), "libcuda.so.1")}); !errors.Is(err, ErrNoDriver) || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a library: %v", err)
	}
	lib := driverWith(t, "devices=0")
	if _, err := Open(Config{Library: lib.Path}); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "CUDA_ERROR_NO_DEVICE") {
		t.Errorf("without a device: %v", err)
	}
	lib.Configure("fail=cuInit:1:803")
	if _, err := Open(Config{Library: lib.Path}); !errors.Is(err, ErrDriver) || !strings.Contains(err.Error(), "different versions") {
		t.Errorf("versions that do not fit: %v", err)
	}
	lib.Configure("pools=0,vmm=0,managed=0")
	for _, c := range []Config{{Memory: MemoryPool}, {Memory: MemoryManaged, AllowManaged: true}, {Memory: "paper"}} {
		c.Library = lib.Path
		if _, err := Open(c); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	d, err := Open(Config{Library: lib.Path})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := backends.As[backends.VirtualMemory](d); ok || d.Info().PageBytes != 2*mib {
		t.Errorf("a device without virtual memory management offers it: %+v", d.Info())
	}
	d.Close()
}

func TestShares(t *testing.T) {
	lib := driverWith(t, "memory=100M")
	for _, c := range []struct {
		cfg  Config
		want uint64
		err  error
	}{
		{Config{}, 90 * mib, nil}, {Config{Share: 0.5}, 50 * mib, nil}, {Config{TotalBytes: 40 * mib}, 40 * mib, nil},
		{Config{TotalBytes: 90 * mib}, 90 * mib, nil}, {Config{TotalBytes: 90*mib + 1}, 0, ErrTooLarge}, {Config{Share: 1.5}, 0, ErrTooLarge},
	} {
		c.cfg.Library = lib.Path
		d, err := Open(c.cfg)
		if !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
		if err == nil {
			if d.Info().TotalBytes != c.want {
				t.Errorf("%+v: %d bytes, want %d", c.cfg, d.Info().TotalBytes, c.want)
			}
			d.Close()
		}
	}
	used := func(string) ([]Process, error) { return []Process{{PID: 77, Name: "python"}}, nil }
	if _, err := Open(Config{Library: lib.Path, Users: used}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "77 (python)") {
		t.Errorf("a device in use: %v", err)
	}
	d, err := Open(Config{Library: lib.Path, Users: used, AllowShared: true})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if lib.Held() != 0 || lib.Objects() != 0 {
		t.Errorf("%d bytes and %d objects held", lib.Held(), lib.Objects())
	}
}

func TestCounters(t *testing.T) {
	d, _ := open(t, "memory=16M", Config{})
	for range 3 {
		a, _ := d.Malloc(mib)
		d.Free(a)
	}
	got := map[trace.CallKind]uint64{}
	for _, c := range d.Counters() {
		got[c.Kind] = c.Calls
	}
	if got[trace.CallMalloc] != 3 || got[trace.CallFree] != 3 || got[trace.CallMap] != 0 {
		t.Errorf("counters %v", got)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	d, _ := open(t, "memory=64M", Config{})
	cycle := func() {
		a, _ := d.Malloc(mib)
		e := d.Record(1)
		d.Query(e)
		d.Drop(e)
		d.Free(a)
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("%g allocations a cycle", n)
	}
}

// BenchmarkCall shows what timing, accounting and deadline add to a call: bare is the driver's function called from C, guarded
// the same through the shim, go the whole way from Go.
func BenchmarkCall(b *testing.B) {
	d, _ := open(b, "memory=64M", Config{})
	for _, x := range []struct {
		name string
		f    func(n int) bool
	}{{"bare", d.benchBare}, {"guarded", d.benchGuarded}, {"go", func(n int) bool {
		for range n {
			if _, total := d.MemInfo(); total == 0 {
				return false
			}
		}
		return true
	}}} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			if !x.f(b.N) {
				b.Fatal("a call failed")
			}
		})
	}
}
