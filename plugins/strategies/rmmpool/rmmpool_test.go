package rmmpool

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	for _, options := range []string{`{}`, `{"initial_fraction": 0}`, `{"initial_fraction": 0.25, "maximum_fraction": 0.75}`} {
		t.Run(options, func(t *testing.T) { goldentest.Invariants(t, Description(), options) })
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
