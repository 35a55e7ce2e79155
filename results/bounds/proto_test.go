package bounds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestProtoDFS(t *testing.T) {
	names := "A,B,C,D,E,F,G,H,I,J,K"
	if v := os.Getenv("INST"); v != "" {
		names = v
	}
	for _, name := range strings.Split(names, ",") {
		p, err := newProblem(load(t, name))
		if err != nil {
			t.Fatal(err)
		}
		cap := int32(1048576 / p.unit)
		r := rand.New(rand.NewPCG(1, 2))
		s := newSearch(p, cap)
		start := cpu()
		var total int64
		round := 0
		solved := ""
		budget := int64(2000)
		for cpu()-start < 15 && solved == "" {
			e := [3]float64{1, 1, 1}
			kind := round % 4
			switch {
			case round < 4:
			default:
				for k := range e {
					e[k] = r.Float64() * 2
				}
			}
			key := make([]float64, p.n)
			for i := range key {
				w, z := float64(p.to[i]-p.from[i]), float64(p.size[i])
				switch kind {
				case 0:
					key[i] = w*1e9 + w*z
				case 1:
					key[i] = w * z
				case 2:
					key[i] = z
				default:
					key[i] = e[0]*math.Log(w) + e[1]*math.Log(z)
				}
				if round >= 4 {
					if kind == 3 {
						key[i] += r.Float64()
					} else {
						key[i] *= 1 + .3*r.Float64()
					}
				}
			}
			ord := make([]int32, p.n)
			for i := range ord {
				ord[i] = int32(i)
			}
			slices.SortFunc(ord, func(a, b int32) int {
				if key[a] > key[b] {
					return -1
				}
				return 1
			})
			for k, i := range ord {
				s.rank[i] = int32(k)
			}
			v := s.run(budget)
			total += s.nodes
			if v != stopped {
				solved = fmt.Sprint("verdict ", v, " kind ", kind, " round ", round)
			}
			round++
			if round%8 == 0 {
				budget = budget * 3 / 2
			}
		}
		fmt.Printf("%s lb=%d nodes=%d rounds=%d in %.2fs: %s\n", name, p.lower, total, round, cpu()-start, solved)
	}
}

func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
