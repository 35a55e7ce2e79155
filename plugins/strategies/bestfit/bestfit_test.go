package bestfit

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) { goldentest.Invariants(t, Description(), "") }

func TestInvariantsGrow(t *testing.T) {
	goldentest.InvariantsBetween(t, Description(), `{"grow": true, "segment_bytes": 3000000}`, 8192, 65536)
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
