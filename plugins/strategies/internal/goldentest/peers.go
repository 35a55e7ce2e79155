package goldentest

import (
	"regexp"
	"strings"
)

// Peer says how the strategy that stands for a recorded allocator is set up.
type Peer struct {
	Strategy string // sdk.Description.Name
	Options  string // JSON
	// Packed makes the device hand out addresses without gaps (ideal.Config.Packed), as the recorder of this peer did.
	Packed bool
	// ExactCharge makes the device charge by 256 bytes (ideal.Config.ExactCharge), as the recorder of RMM did.
	ExactCharge bool
	// DeviceBytes is the size of the device; 0: the capacity of the script, in whole pages.
	DeviceBytes uint64
}

// suffix of the files of recorded outcomes.
const suffix = ".jsonl.gz"

// Peers maps the PEER part of a recording's name to the strategy that must decide alike.
var Peers = map[string]Peer{
	"ref-first-fit": {Strategy: "first-fit"},
	"ref-best-fit":  {Strategy: "best-fit"},
	"ref-next-fit":  {Strategy: "next-fit"},
	"ref-worst-fit": {Strategy: "worst-fit"},
	"ref-buddy":     {Strategy: "buddy"},

	"vma-tlsf":           {Strategy: "tlsf"},
	"vma-tlsf-minmemory": {Strategy: "tlsf", Options: `{"mode": "min-memory"}`},
	"vma-tlsf-mintime":   {Strategy: "tlsf", Options: `{"mode": "min-time"}`},
	"vma-tlsf-minoffset": {Strategy: "tlsf", Options: `{"mode": "min-offset"}`},

	"mattconte-tlsf":   {Strategy: "mattconte-tlsf", Options: `{"align_bytes": 8}`},
	"offset-allocator": {Strategy: "offset-allocator", Options: `{"max_nodes": 2097152}`},

	"rmm-pool-half": {Strategy: "rmm-pool", Options: `{"initial_fraction": 0.5, "maximum_fraction": 1}`, ExactCharge: true},
	"rmm-pool-full": {Strategy: "rmm-pool", Options: `{"initial_fraction": 1, "maximum_fraction": 1}`, ExactCharge: true},
	"rmm-pool-grow": {Strategy: "rmm-pool", Options: `{"initial_fraction": 0}`, ExactCharge: true},
	"rmm-arena":     {Strategy: "rmm-arena", Options: `{"arena_fraction": 1}`, ExactCharge: true},

	"bfc-nogrow":        {Strategy: "bfc", Options: `{"allow_growth": false}`},
	"bfc-grow":          {Strategy: "bfc", Options: `{"allow_growth": true}`},
	"bfc-grow-coalesce": {Strategy: "bfc", Options: `{"allow_growth": true, "coalesce_regions": true}`, Packed: true},
	"bfc-grow-gc":       {Strategy: "bfc", Options: `{"allow_growth": true, "garbage_collection": true}`},
}

// families are the peers whose names carry numbers: the recordings of any of them are understood.
var families = []struct {
	name *regexp.Regexp
	peer Peer // options with $1, $2 for the numbers
}{
	{regexp.MustCompile(`^rmm-binning-(\d+)-(\d+)$`), Peer{Strategy: "rmm-binning", ExactCharge: true,
		Options: `{"min_exponent": $1, "max_exponent": $2, "initial_fraction": 0.5, "maximum_fraction": 1}`}},
	{regexp.MustCompile(`^mattconte-tlsf-align(\d+)$`), Peer{Strategy: "mattconte-tlsf", Options: `{"align_bytes": $1}`}},
	{regexp.MustCompile(`^bfc-nogrow-split(\d+)$`), Peer{Strategy: "bfc", Options: `{"allow_growth": false, "split_limit_bytes": $1}`}},
}

// PeerOf returns the set-up of a peer by its name; false when no strategy stands for it.
func PeerOf(name string) (Peer, bool) {
	if p, ok := Peers[name]; ok {
		return p, true
	}
	for _, f := range families {
		if f.name.MatchString(name) {
			p := f.peer
			p.Options = f.name.ReplaceAllString(name, p.Options)
			return p, true
		}
	}
	return Peer{}, false
}

// SplitName splits the name of a recording, PEER.TRACE.jsonl.gz, into its parts; false when it has not that form.
func SplitName(name string) (peer, traceName string, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(name, ".")
}

// Of returns a function that reports whether a file is a recording of a peer of the strategy.
func Of(strategy string) func(name string) bool {
	return func(name string) bool {
		peer, _, ok := SplitName(name)
		p, known := PeerOf(peer)
		return ok && known && p.Strategy == strategy
	}
}
