package pytorch

import (
	"fmt"
	"math"
	"math/bits"
)

// parseSettings reads a settings string the way the given version does (AcceleratorAllocatorConfig::parseArgs and
// CUDAAllocatorConfig::parseArgs) on top of the settings in force: max_split_size, the round-up table and the garbage
// collection threshold fall back to their defaults, everything else that the string does not name stays. An error
// leaves prev in force as a whole; the original keeps what it had read up to the mistake.
func parseSettings(r *rules, prev settings, conf string) (settings, error) {
	c := prev
	c.text = conf
	c.maxSplitBytes = unlimited
	c.roundup = [roundupIntervals]uint64{}
	c.gcThreshold = 0
	toks := lex(conf, r.strictSeparators)
	if r.hasLargeSegment {
		if err := c.parseLargeSegment(toks); err != nil {
			return prev, err
		}
		c.nonSplitRoundingBytes = c.largeSegmentBytes
	}
	passes := []func(*settings, *rules, *scanner) (known bool, err error){(*settings).commonKey, (*settings).cudaKey}
	if r.strictSeparators { // one parser for all keys
		passes = []func(*settings, *rules, *scanner) (bool, error){(*settings).anyKey}
	}
	for _, pass := range passes {
		if err := c.parsePass(r, toks, pass); err != nil {
			return prev, err
		}
	}
	c.roundupOn = false
	for _, d := range c.roundup {
		c.roundupOn = c.roundupOn || d > 1
	}
	return c, nil
}

// parsePass goes once over the tokens. A key that the pass does not read is skipped if another one knows it.
func (c *settings) parsePass(r *rules, toks []string, read func(*settings, *rules, *scanner) (bool, error)) error {
	s := &scanner{toks: toks, strict: r.strictSeparators}
	for ; s.i < len(toks); s.i++ {
		s.key = toks[s.i]
		known, err := read(c, r, s)
		if err == nil && !known {
			if !r.knows(s.key) {
				key := s.key
				s.key = ""
				return s.errorf("no setting %q in PyTorch %s", key, r.version)
			}
			err = s.skip()
		}
		if err != nil {
			return err
		}
		s.key = ""
		if s.i+1 < len(toks) {
			if err := s.separator(tokComma); err != nil {
				return err
			}
		}
	}
	return nil
}

// knows reports whether the version has the setting at all.
func (r *rules) knows(key string) bool {
	switch key {
	case keyMaxSplit, keyNonSplitRounding, keyGC, keyRoundup, keyExpandable, keyPinnedBackground, keyBackend,
		keyReleaseLockCUDA, keyReleaseLockHIP, keyPinnedRegister, keyPinnedRegisterHIP, keyPinnedThreads:
		return true
	case keyFraction, keyPinnedReserve:
		return r.hasFractionKey
	case keyGraphReuse:
		return r.hasGraphReuse
	case keyLargeSegment, keyThrowOnOOM, keyPinnedMaxCache:
		return r.hasLargeSegment
	}
	return false
}

// parseLargeSegment finds large_segment_size_mb wherever it stands: the other sizes are checked against it.
func (c *settings) parseLargeSegment(toks []string) error {
	s := &scanner{toks: toks}
	for ; s.i < len(toks); s.i++ {
		if toks[s.i] != keyLargeSegment {
			continue
		}
		s.key = keyLargeSegment
		n, err := s.mebibytes(minLargeSegmentMiB)
		if err != nil {
			return err
		}
		c.largeSegmentBytes = n
	}
	return nil
}

// mebibytes reads the value of a size setting, at least atLeast MiB, and returns bytes.
func (s *scanner) mebibytes(atLeast uint64) (uint64, error) {
	v, err := s.keyed()
	if err != nil {
		return 0, err
	}
	n, err := s.integer(v)
	if err != nil {
		return 0, err
	}
	if n < atLeast {
		return 0, s.errorf("%s is too small, at least %d MiB", v, atLeast)
	}
	return min(n, math.MaxUint64/miB) * miB, nil
}

// anyKey reads every key, as the one parser up to 2.8 does.
func (c *settings) anyKey(r *rules, s *scanner) (bool, error) {
	known, err := c.commonKey(r, s)
	if known || err != nil {
		return known, err
	}
	return c.cudaKey(r, s)
}

// commonKey reads the keys of AcceleratorAllocatorConfig.
func (c *settings) commonKey(r *rules, s *scanner) (known bool, err error) {
	switch s.key {
	case keyMaxSplit:
		c.maxSplitBytes, err = s.mebibytes(c.largeSegmentBytes / miB)
	case keyNonSplitRounding:
		c.nonSplitRoundingBytes, err = s.mebibytes(c.largeSegmentBytes / miB)
	case keyGC:
		c.gcThreshold, err = s.share(false)
	case keyRoundup:
		err = c.parseRoundup(r, s)
	case keyExpandable:
		c.expandable, err = s.boolean()
	case keyPinnedBackground:
		_, err = s.boolean()
	default:
		return false, nil
	}
	return true, err
}

// share reads a number between 0 and 1, the ends included or not.
func (s *scanner) share(ends bool) (float64, error) {
	v, err := s.keyed()
	if err != nil {
		return 0, err
	}
	f, err := s.real(v)
	if err != nil {
		return 0, err
	}
	if f > 0 && f < 1 || ends && (f == 0 || f == 1) {
		return f, nil
	}
	if ends {
		return 0, s.errorf("%s is not in [0, 1]", v)
	}
	return 0, s.errorf("%s is not in (0, 1)", v)
}

// cudaKey reads the keys of CUDAAllocatorConfig.
func (c *settings) cudaKey(r *rules, s *scanner) (known bool, err error) {
	if !r.knows(s.key) {
		return false, nil
	}
	switch s.key {
	case keyBackend:
		err = s.backend()
	case keyReleaseLockCUDA, keyReleaseLockHIP, keyPinnedRegister, keyPinnedRegisterHIP, keyGraphReuse:
		_, err = s.boolean()
	case keyThrowOnOOM:
		c.refuseBeforeMalloc, err = s.boolean()
	case keyFraction:
		c.memoryFraction, err = s.share(true)
	case keyPinnedThreads:
		err = s.pinnedThreads()
	case keyPinnedReserve:
		var n uint64
		if n, err = s.count(); err == nil && n == 0 {
			err = s.errorf("must be greater than 0")
		}
	case keyPinnedMaxCache:
		var n uint64
		if n, err = s.count(); err == nil && int64(n) < -1 {
			err = s.errorf("must be -1 or more")
		}
	default:
		return false, nil
	}
	return true, err
}

func (s *scanner) count() (uint64, error) {
	v, err := s.keyed()
	if err != nil {
		return 0, err
	}
	return s.integer(v)
}

// backend accepts the native allocator only; the other one decides nothing here.
func (s *scanner) backend() error {
	v, err := s.keyed()
	switch {
	case err != nil:
		return err
	case v == "native":
		return nil
	case v == "cudaMallocAsync":
		return s.errorf("cudaMallocAsync bypasses this allocator: use the strategy cuda-async")
	}
	return s.errorf("native or cudaMallocAsync expected, found %q", v)
}

func (s *scanner) pinnedThreads() error {
	n, err := s.count()
	if err == nil && (bits.OnesCount64(n) != 1 || n > maxPinnedThreads) {
		err = s.errorf("%d is not a power of two up to %d", n, maxPinnedThreads)
	}
	return err
}

// parseRoundup reads roundup_power2_divisions: one power of two for all sizes, or a list [MiB:divisions,…,>:divisions].
func (c *settings) parseRoundup(r *rules, s *scanner) error {
	v, err := s.keyed()
	if err != nil {
		return err
	}
	if v != tokOpen {
		d, err := s.integer(v)
		if err != nil {
			return err
		}
		if bits.OnesCount64(d) != 1 {
			return s.errorf("%s is not a power of two", v)
		}
		for i := range c.roundup {
			c.roundup[i] = d
		}
		return nil
	}
	first, last := true, 0
	for {
		s.i++
		if s.i >= len(s.toks) {
			return s.errorf("%q expected", tokClose)
		}
		if s.toks[s.i] == tokClose {
			return nil
		}
		isTail := s.toks[s.i] == tokBeyond
		if last, err = c.roundupEntry(r, s, first, last); err != nil {
			return err
		}
		first = first && isTail
		if s.i+1 >= len(s.toks) {
			s.i++
			return s.errorf("%q expected", tokClose)
		}
		if s.at(s.i+1) != tokClose {
			if err := s.separator(tokComma); err != nil {
				return err
			}
		}
	}
}

// roundupEntry reads one boundary:divisions of the list. The first boundary also fills everything below it; intervals
// between two boundaries keep 0; ">" fills what lies above the last boundary.
func (c *settings) roundupEntry(r *rules, s *scanner, first bool, last int) (int, error) {
	boundary := s.toks[s.i]
	d, err := s.count()
	if err != nil {
		return last, err
	}
	if d&(d-1) != 0 {
		return last, s.errorf("%d divisions: 0 or a power of two expected", d)
	}
	if boundary == tokBeyond {
		from := last + 1
		if r.tailIncludesLast {
			from = last
		}
		for i := from; i < roundupIntervals; i++ {
			c.roundup[i] = d
		}
		return last, nil
	}
	b, err := s.integer(boundary)
	if err != nil {
		return last, err
	}
	if bits.OnesCount64(b) != 1 {
		return last, s.errorf("boundary %s MiB is not a power of two", boundary)
	}
	last = min(bits.Len64(b)-1, roundupIntervals-1)
	if first {
		for i := 0; i < last; i++ {
			c.roundup[i] = d
		}
	}
	c.roundup[last] = d
	return last, nil
}

// String shows the settings for messages.
func (c *settings) String() string { return fmt.Sprintf("%q", c.text) }
