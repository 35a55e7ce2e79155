package trace

import "fmt"

// kindNames are the words of the text form.
var kindNames = [kindCount]string{
	KindNone: "none", KindAlloc: "alloc", KindFree: "free", KindFreeWrong: "free!", KindRealloc: "realloc", KindUse: "use",
	KindWait: "wait", KindComplete: "complete", KindSync: "sync", KindTrim: "trim", KindMark: "mark",
	KindPoolBegin: "pool-begin", KindPoolEnd: "pool-end", KindPoolRelease: "pool-release", KindSet: "set",
	KindEvents: "events", KindStreamDestroy: "stream-destroy", KindReset: "reset", KindCheckpoint: "checkpoint",
	KindRestore: "restore", KindDefragment: "defragment", KindFailNext: "fail-next", KindTouch: "touch",
	KindPrefetch: "prefetch",
}

// String returns the word of the text form.
func (k Kind) String() string {
	if k < kindCount {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Valid reports whether k is one of the kinds of the language; KindNone is not.
func (k Kind) Valid() bool { return k > KindNone && k < kindCount }

// KindCount is one more than the largest kind: the length of a table indexed by kind.
const KindCount = int(kindCount)

// takesTag reports whether events of the kind may carry tag= and thread=.
func (k Kind) takesTag() bool {
	switch k {
	case KindAlloc, KindFree, KindRealloc, KindUse, KindTouch:
		return true
	}
	return false
}

// auxIsString reports whether Aux, without FlagExtra, indexes Trace.Strings.
func (k Kind) auxIsString() bool {
	switch k {
	case KindMark, KindSet, KindCheckpoint, KindRestore:
		return true
	}
	return k.takesTag()
}

// usesStream and usesPool say which kinds carry a stream or a pool; the fields are 0 in all others.
func (k Kind) usesStream() bool {
	switch k {
	case KindAlloc, KindFree, KindRealloc, KindUse, KindWait, KindComplete, KindSync, KindStreamDestroy:
		return true
	}
	return false
}

func (k Kind) usesPool() bool {
	switch k {
	case KindAlloc, KindRealloc, KindPoolBegin, KindPoolEnd, KindPoolRelease:
		return true
	}
	return false
}
