package fuzz

import (
	"context"
	"testing"

	"github.com/gpubench/gpubench/plugins/sdk"
	"github.com/gpubench/gpubench/plugins/strategies"
)

func builtin(t testing.TB, name string) *Target {
	t.Helper()
	for _, d := range strategies.Builtin() {
		if d.Name == name {
			return target(t, d)
		}
	}
	t.Fatalf("no strategy %s", name)
	return nil
}

func target(t testing.TB, d sdk.Description) *Target {
	t.Helper()
	tg, err := NewTarget(d.Name, d)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

func TestCampaignFindsTheCanary(t *testing.T) {
	dir := t.TempDir()
	r, err := Run(context.Background(), builtin(t, "canary-overlap"), Options{Seed: 1, Programs: 4000, UntilFinding: true, Findings: dir, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	for _, f := range r.Findings {
		t.Log(f.Title, f.Events, f.Reliability, f.ShrinkRuns, f.Breach)
	}
}
