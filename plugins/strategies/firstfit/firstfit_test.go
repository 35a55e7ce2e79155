package firstfit

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) { goldentest.Invariants(t, Description(), "") }

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
