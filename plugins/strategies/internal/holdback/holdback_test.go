package holdback_test

import (
	"slices"
	"testing"

	"github.com/gpubench/gpubench/backends/ideal"
	_ "github.com/gpubench/gpubench/internal/testflags"
	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies/internal/holdback"
)

// TestHolder: a block used on two other streams waits for both, one used on its own for none; waiting for all frees the rest.
func TestHolder(t *testing.T) {
	dev, err := ideal.New(ideal.Config{TotalBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	dev.SetManualEvents(true)
	h := holdback.New(&sdk.Env{Device: dev})
	var freed []uint32
	free := func(b uint32) { freed = append(freed, b) }
	h.Use(1, 1)
	h.Use(1, 2)
	h.Use(1, 2)
	h.Use(2, 0)
	h.Use(3, 2)
	if !h.Put(1, 0) || h.Put(2, 0) || !h.Put(3, 0) || h.Put(4, 0) || h.Held() != 2 || !h.Holds(1) || h.Holds(2) {
		t.Fatalf("%d held", h.Held())
	}
	dev.Complete(1)
	h.Collect(free)
	if len(freed) != 0 {
		t.Fatalf("freed %v before stream 2 has completed", freed)
	}
	if !h.WaitAll(free) || !slices.Equal(freed, []uint32{1, 3}) || h.Held() != 0 || h.WaitAll(free) {
		t.Fatalf("freed %v, %d held", freed, h.Held())
	}
	if h.Put(1, 0) {
		t.Fatal("the uses of the block's last life hold it")
	}
}
