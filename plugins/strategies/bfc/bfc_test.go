package bfc

import (
	"testing"

	"github.com/gpubench/gpubench/plugins/strategies/internal/goldentest"
)

func TestGolden(t *testing.T) { goldentest.Run(t, Description()) }

func TestInvariants(t *testing.T) {
	for _, options := range []string{
		`{}`, `{"allow_growth": true}`, `{"allow_growth": true, "coalesce_regions": true, "garbage_collection": true, "split_limit_bytes": 1024}`,
	} {
		t.Run(options, func(t *testing.T) { goldentest.Invariants(t, Description(), options) })
	}
}

func BenchmarkReplay(b *testing.B) { goldentest.BenchAll(b, Description(), "") }
