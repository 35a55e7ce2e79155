package pytorch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// ErrSettings marks every complaint about a settings string: a bad option.
var ErrSettings error = settingsError{}

type settingsError struct{}

func (settingsError) Error() string { return "PYTORCH_CUDA_ALLOC_CONF" }
func (settingsError) Unwrap() error { return sdk.ErrOptions }

// The settings that the parsers know, and the tokens around them.
const (
	keyMaxSplit          = "max_split_size_mb"
	keyNonSplitRounding  = "max_non_split_rounding_mb"
	keyGC                = "garbage_collection_threshold"
	keyRoundup           = "roundup_power2_divisions"
	keyExpandable        = "expandable_segments"
	keyPinnedBackground  = "pinned_use_background_threads"
	keyBackend           = "backend"
	keyReleaseLockCUDA   = "release_lock_on_cudamalloc"
	keyReleaseLockHIP    = "release_lock_on_hipmalloc"
	keyPinnedRegister    = "pinned_use_cuda_host_register"
	keyPinnedRegisterHIP = "pinned_use_hip_host_register"
	keyPinnedThreads     = "pinned_num_register_threads"
	keyPinnedReserve     = "pinned_reserve_segment_size_mb"
	keyPinnedMaxCache    = "pinned_max_cachesize_mb"
	keyGraphReuse        = "graph_capture_record_stream_reuse"
	keyFraction          = "per_process_memory_fraction"
	keyLargeSegment      = "large_segment_size_mb"
	keyThrowOnOOM        = "throw_on_cudamalloc_oom"

	tokColon, tokComma, tokOpen, tokClose, tokBeyond = ":", ",", "[", "]", ">"
)

// lex cuts a settings string into tokens: `,` `:` `[` `]` stand alone, white space is dropped (only the blank up to 2.8).
func lex(s string, blanksOnly bool) []string {
	var toks []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			toks = append(toks, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == ',' || ch == ':' || ch == '[' || ch == ']':
			flush()
			toks = append(toks, s[i:i+1])
		case ch == ' ', !blanksOnly && ch >= '\t' && ch <= '\r':
		default:
			word.WriteByte(ch)
		}
	}
	flush()
	return toks
}

// scanner walks over the tokens of one string. A complaint names the key, the token and its number.
type scanner struct {
	toks   []string
	i      int
	strict bool // separators must be right
	key    string
}

func (s *scanner) errorf(format string, args ...any) error {
	where := fmt.Sprintf("token %d", s.i+1)
	if s.i >= len(s.toks) {
		where = "end of string"
	}
	if s.key != "" {
		where += ", " + s.key
	}
	return fmt.Errorf("%w: %s: %s", ErrSettings, where, fmt.Sprintf(format, args...))
}

// at returns token j or "" beyond the end.
func (s *scanner) at(j int) string {
	if j < len(s.toks) {
		return s.toks[j]
	}
	return ""
}

// separator steps on to the next token, which ought to be want. Since 2.9 the comparison has no consequence
// (ConfigTokenizer::checkToken returns a bool that no caller looks at); only a missing token is an error.
func (s *scanner) separator(want string) error {
	s.i++
	if s.i >= len(s.toks) {
		return s.errorf("%q expected", want)
	}
	if s.strict && s.toks[s.i] != want {
		return s.errorf("%q expected, found %q", want, s.toks[s.i])
	}
	return nil
}

// value steps on to the next token and returns it.
func (s *scanner) value() (string, error) {
	s.i++
	if s.i >= len(s.toks) {
		return "", s.errorf("a value expected")
	}
	return s.toks[s.i], nil
}

// keyed is separator(":") and then value.
func (s *scanner) keyed() (string, error) {
	if err := s.separator(tokColon); err != nil {
		return "", err
	}
	return s.value()
}

func (s *scanner) boolean() (bool, error) {
	v, err := s.keyed()
	if err != nil {
		return false, err
	}
	switch v {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	return false, s.errorf("True or False expected, found %q", v)
}

// integer reads v as std::stoull does, or as std::stoi converted to size_t under the rules of 2.8 and before: leading
// digits count, what follows is ignored, a minus sign wraps around.
func (s *scanner) integer(v string) (uint64, error) {
	digits := strings.TrimLeft(v, "+-")
	signs := v[:len(v)-len(digits)]
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	if end == 0 || len(signs) > 1 {
		return 0, s.errorf("a whole number expected, found %q", v)
	}
	n, err := strconv.ParseUint(digits[:end], 10, 64)
	negative := signs == "-"
	if s.strict && (n > 1<<31 || n == 1<<31 && !negative) {
		err = strconv.ErrRange
	}
	if err != nil {
		return 0, s.errorf("%q is out of range", v)
	}
	if negative {
		n = -n
	}
	return n, nil
}

// real reads v as std::stod does: the longest prefix that is a number.
func (s *scanner) real(v string) (float64, error) {
	for end := len(v); end > 0; end-- {
		prefix := v[:end]
		if strings.ContainsRune(prefix, '_') {
			continue
		}
		f, err := strconv.ParseFloat(prefix, 64)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, strconv.ErrRange) {
			return 0, s.errorf("%q is out of range", v)
		}
		lower := strings.ToLower(prefix)
		if strings.Contains(lower, "0x") && !strings.Contains(lower, "p") {
			if f, err = strconv.ParseFloat(prefix+"p0", 64); err == nil {
				return f, nil
			}
		}
	}
	return 0, s.errorf("a number expected, found %q", v)
}

// skip passes over the value of a key that another pass reads (ConfigTokenizer::skipKey).
func (s *scanner) skip() error {
	v, err := s.keyed()
	if err != nil || v != tokOpen {
		return err
	}
	for s.i++; s.i < len(s.toks); s.i++ {
		if s.toks[s.i] == tokClose {
			return nil
		}
	}
	return s.errorf("%q expected", tokClose)
}
