package pytorch

import "fmt"

// Version names a release of PyTorch whose decisions the strategy copies.
type Version string

// The versions. Auto is 2.11, or 2.14 when the settings string names a setting that appeared after 2.11, so that a string
// copied from a newer program is understood without a second option.
const (
	VersionAuto Version = "auto"
	Version26   Version = "2.6"
	Version211  Version = "2.11"
	Version214  Version = "2.14"
)

// rules is what differs between the versions. One set of booleans instead of comparisons of numbers all over the code.
type rules struct {
	version Version

	// Reading of the settings string. Up to 2.8 one lexer in c10/cuda/CUDAAllocatorConfig.cpp checks every separator and
	// reads integers with stoi; since 2.9 c10/core/AllocatorConfig.cpp drops the result of the separator check, reads with
	// stoull, and a second pass in c10/cuda looks for its own keys.
	strictSeparators bool
	// Up to 2.8 the entry ">" of roundup_power2_divisions also overwrites the last listed boundary
	// (parseRoundUpPower2Divisions fills from last_index instead of last_index + 1).
	tailIncludesLast bool
	hasFractionKey   bool // per_process_memory_fraction
	hasGraphReuse    bool // graph_capture_record_stream_reuse
	hasLargeSegment  bool // large_segment_size_mb, throw_on_cudamalloc_oom, pinned_max_cachesize_mb

	// setMemoryFraction: up to 2.6 a fraction of 1 is a limit too, and the limit is a share of what cudaMemGetInfo calls
	// total; later a fraction of 1 removes the limit, and the share is one of totalGlobalMem.
	fractionOneIsLimit bool
	// release_available_cached_blocks: up to 2.6 the size of a block is read after the block was deleted.
	readsReleasedSize bool
	// release_cached_blocks: up to 2.8 empty_cache inside use_mem_pool looks at that pool only.
	trimsOnlyRoutedPool bool
}

// rulesOf returns the rules of a version; conf decides what "auto" means.
func rulesOf(v Version, conf string) (rules, error) {
	switch v {
	case "", VersionAuto:
		if namesLaterSetting(conf) {
			return rulesOf(Version214, conf)
		}
		return rulesOf(Version211, conf)
	case Version26:
		return rules{version: v, strictSeparators: true, tailIncludesLast: true, fractionOneIsLimit: true,
			readsReleasedSize: true, trimsOnlyRoutedPool: true}, nil
	case Version211:
		return rules{version: v, hasFractionKey: true, hasGraphReuse: true}, nil
	case Version214:
		return rules{version: v, hasFractionKey: true, hasGraphReuse: true, hasLargeSegment: true}, nil
	}
	return rules{}, fmt.Errorf("option version: %q is not one of auto, 2.6, 2.11, 2.14", string(v))
}

// namesLaterSetting reports whether the string has a key that 2.11 does not know and 2.14 does.
func namesLaterSetting(conf string) bool {
	for _, tok := range lex(conf, false) {
		switch tok {
		case keyLargeSegment, keyThrowOnOOM, keyPinnedMaxCache:
			return true
		}
	}
	return false
}
