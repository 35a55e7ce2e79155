// Command faulty is a plugin that misbehaves in the way its own name says: gpubench-strategy-crash kills itself at allocation 10,
// -panic panics there, -hang stops answering, -stop stops its process, -lie hands the same address out twice, -bomb fills
// memory, -fork leaves a child behind that ignores SIGTERM.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/trace"
)

// faultAt is the allocation, counted from 1, at which the fault happens.
const faultAt = 10

type faulty struct {
	mode   string
	env    *sdk.Env
	arena  uint64
	next   uint64
	allocs int
	hoard  [][]byte
}

func (f *faulty) Alloc(r *sdk.Request, b *sdk.Block) trace.Status {
	f.allocs++
	if f.allocs == faultAt {
		f.misbehave()
	}
	b.Addr, b.Size = f.next, (r.Size+511)&^511
	if f.mode != "lie" || f.allocs != faultAt {
		f.next += b.Size
	}
	return trace.StatusOK
}

func (f *faulty) misbehave() {
	switch f.mode {
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "panic":
		panic("this strategy is broken")
	case "hang":
		time.Sleep(time.Hour)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour)
	case "bomb":
		for {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			f.hoard = append(f.hoard, b)
		}
	case "fork":
		_ = exec.Command("sh", "-c", "trap '' TERM; sleep 1000").Start()
	}
}

func (f *faulty) Free(*sdk.Block, sdk.Stream) trace.Status { return trace.StatusOK }
func (f *faulty) Close() error                             { return f.env.Device.Free(f.arena).Err() }

func main() {
	mode := strings.TrimPrefix(filepath.Base(os.Args[0]), "gpubench-strategy-")
	sdk.Serve(sdk.Executable{Name: "faulty", Version: "1", Strategies: []sdk.Description{{
		Name: mode, Version: "1", Summary: "misbehaves: " + mode, Options: []byte(`{"type":"object"}`), Alignment: 1,
		New: func(env *sdk.Env) (sdk.Strategy, error) {
			addr, st := env.Device.Malloc(env.CapacityBytes)
			if st != trace.CallOK {
				return nil, fmt.Errorf("no arena: %w", st.Err())
			}
			return &faulty{mode: mode, env: env, arena: addr, next: addr}, nil
		},
	}}})
}
