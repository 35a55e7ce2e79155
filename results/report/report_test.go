package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/gpubench/gpubench/ledger"
	"github.com/gpubench/gpubench/results"
)

// island returns the data of a written page.
func island(t *testing.T, page string) map[string]any {
	t.Helper()
	_, rest, ok := strings.Cut(page, "window.gpubenchData = ")
	if !ok {
		t.Fatal("the page has no data")
	}
	raw, _, _ := strings.Cut(rest, ";</script>")
	var v map[string]any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("the data are no JSON: %v", err)
	}
	return v
}

func input(curves func(string) (*results.Curves, error)) Input {
	run := &results.Run{ID: "r", Traces: []results.TraceFacts{{Name: "t", SHA256: strings.Repeat("0", 64)}},
		Cases: []results.Case{{ID: "c000", Label: "tlsf", Scope: results.ScopeDevice}, {ID: "c001", Label: "tlsf", Control: true}}}
	return Input{Run: run, Ranking: results.Rank(run, nil, nil), Curves: curves}
}

func TestPageIsOneFileThatAsksNothingOfTheNetwork(t *testing.T) {
	in := input(func(string) (*results.Curves, error) { return nil, fs.ErrNotExist })
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"src=\"http", "href=\"http", "url(http", "<link", "import("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	data := island(t, page)
	if cases := data["cases"].([]any); len(cases) != 1 {
		t.Errorf("%d cases: the control must not be shown as one", len(cases))
	}
}

func TestNamesFromRecordingsAreNoMarkup(t *testing.T) {
	const evil = "</script><script>alert(1)</script>"
	in := input(func(string) (*results.Curves, error) {
		return &results.Curves{Strings: []string{"", evil}, Picture: &ledger.Picture{Events: 9, Rects: []ledger.PictureRect{{Addr: 1 << 63, Bytes: 5, Last: 9, Handle: 1, Tag: 1}}}}, nil
	})
	in.Run.Traces[0].Name = evil
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), evil) {
		t.Fatal("a tag of a recording ended the script element")
	}
	p := island(t, b.String())["cases"].([]any)[0].(map[string]any)["picture"].(map[string]any)
	if p["tags"].([]any)[1] != evil || p["addr"].([]any)[0] != "9223372036854775808" {
		t.Errorf("picture %v", p)
	}
}

func TestThinnedSeriesKeepsPeaks(t *testing.T) {
	s := &ledger.Series{EventsPerPoint: 10}
	for i := range 2500 {
		p := ledger.SeriesPoint{First: uint64(10 * i), LiveBytesMin: 50, LiveBytesMax: 100}
		if i == 1234 {
			p.LiveBytesMax, p.LiveBytesMin = 999, 1
		}
		s.Points = append(s.Points, p)
	}
	c := columns(s)
	// 2,500 points in steps of 3 are 834 dots of 30 events; point 1234 lies in dot 411.
	if len(c.Event) != 834 || c.EventsPerDot != 30 || c.LiveMax[411] != 999 || c.LiveMin[411] != 1 || c.LiveMax[410] != 100 || c.Event[411] != 12330 {
		t.Errorf("%d dots of %d events; dot 411: %d to %d at %d", len(c.Event), c.EventsPerDot, c.LiveMin[411], c.LiveMax[411], c.Event[411])
	}
}

func TestCurvesThatCannotBeReadAreNamed(t *testing.T) {
	in := input(func(string) (*results.Curves, error) { return nil, errors.New("gzip: invalid header") })
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	notes := island(t, b.String())["notes"].([]any)
	if len(notes) != 1 || !strings.Contains(notes[0].(string), "the curves of tlsf at device cannot be shown: gzip: invalid header") {
		t.Errorf("notes %v", notes)
	}
}
