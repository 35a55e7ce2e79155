package pickle

import (
	"errors"
	"fmt"
)

// Limits bound what a file can make the reader keep. The zero value of a field stands for the constant of the same name.
type Limits struct {
	Bytes       int64 // DefaultMaxBytes
	Depth       int   // DefaultMaxDepth
	MemoEntries int   // DefaultMaxMemoEntries
	StringBytes int   // DefaultMaxStringBytes
	TextBytes   int64 // DefaultMaxTextBytes
	Values      int   // DefaultMaxValues
}

// The default limits. Passing one is an error that wraps ErrLimit and names it.
const (
	// DefaultMaxBytes bounds the bytes read, after decompression. The largest snapshots known have several GB.
	DefaultMaxBytes = 64 << 30
	// DefaultMaxDepth bounds how deep containers are nested; a snapshot needs 8.
	DefaultMaxDepth = 1000
	// DefaultMaxMemoEntries bounds the memo: 8 bytes each. Two for each trace entry is usual.
	DefaultMaxMemoEntries = 1 << 27
	// DefaultMaxStringBytes bounds one string (and one number in text form).
	DefaultMaxStringBytes = 16 << 20
	// DefaultMaxTextBytes bounds all distinct strings together.
	DefaultMaxTextBytes = 1 << 30
	// DefaultMaxValues bounds the values held at one time by containers and by the stack: 8 bytes each.
	DefaultMaxValues = 1 << 26

	// memoGap bounds how far beyond the highest memo index so far the next one may lie and still be kept in the dense
	// table; maxSparseMemo bounds those beyond it.
	memoGap       = 1 << 16
	maxSparseMemo = 1 << 16
)

func (l Limits) withDefaults() Limits {
	set := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultMaxBytes
	}
	if l.TextBytes == 0 {
		l.TextBytes = DefaultMaxTextBytes
	}
	set(&l.Depth, DefaultMaxDepth)
	set(&l.MemoEntries, DefaultMaxMemoEntries)
	set(&l.StringBytes, DefaultMaxStringBytes)
	set(&l.Values, DefaultMaxValues)
	return l
}

// The reasons for which a file is refused; they come wrapped in an *Error (pickles) or with the offset (JSON).
var (
	ErrRefused   = errors.New("refused")          // an opcode that executes something, or that no plain data needs
	ErrTruncated = errors.New("file ends early")  // the input stopped before the object was complete
	ErrMalformed = errors.New("malformed")        // not a pickle, or a broken one
	ErrLimit     = errors.New("limit exceeded")   // a limit of Limits
	ErrChanged   = errors.New("changed too late") // something that the sink has already seen is changed afterwards
)

// Error says where and why a pickle was refused, in one line.
type Error struct {
	Offset int64 // of the opcode, in bytes from the start of the (decompressed) file
	Op     byte
	Err    error // wraps one of the reasons above, or is the sink's
}

// Error returns one line with the byte offset and the name of the opcode.
func (e *Error) Error() string {
	return fmt.Sprintf("byte %d: %s: %v", e.Offset, opName(e.Op), e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

func overLimit(what string, limit int64) error {
	return fmt.Errorf("%w: more than %d %s", ErrLimit, limit, what)
}
