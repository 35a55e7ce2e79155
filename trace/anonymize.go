package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
)

// AnonymizeOptions choose what Anonymize hides.
type AnonymizeOptions struct {
	// Key is mixed into the pseudonyms. With one that stays secret nobody can confirm a guessed name; the same key gives
	// the same pseudonym to the same name in every trace, so that traces stay comparable.
	Key []byte
	// SizeQuantumBytes, when not 0, rounds every size up to a multiple of itself, a power of two. Recorded answers and
	// the start state's requested sizes no longer fit then: the answers are dropped, with a warning.
	SizeQuantumBytes uint64
}

// Anonymize returns the trace in memory with names that tell nothing. See AnonymizeInto.
func Anonymize(t *Trace, o AnonymizeOptions) (*Trace, error) {
	b := NewBuilder()
	meta, err := AnonymizeInto(b, t, o)
	if err != nil {
		return nil, err
	}
	return b.Finish(meta)
}

// AnonymizeInto adds the events of a valid trace to a builder with every name replaced by a pseudonym, and returns the
// Meta to finish it with.
//
// Replaced: tags (stack frames, source paths), keys of marks, names of checkpoints and of pools other than PyTorch's
// number pairs, handles of streams (by small numbers in order of first use), values of settings that hold a path, the
// title, the text of warnings. Kept: order, sizes unless a quantum is given, times, handles, threads, addresses,
// allocator settings.
func AnonymizeInto(b *Builder, t *Trace, o AnonymizeOptions) (Meta, error) {
	q := o.SizeQuantumBytes
	if q&(q-1) != 0 {
		return Meta{}, fmt.Errorf("%w: the size quantum %d is not a power of two", ErrArgument, q)
	}
	a := &anonymizer{o: o}
	view, err := a.view(t)
	if err != nil {
		return Meta{}, err
	}
	if err := copyInto(b, view, 0, uint64(len(t.Events))); err != nil {
		return Meta{}, err
	}
	return view.Meta, nil
}

// anonymizer makes pseudonyms.
type anonymizer struct{ o AnonymizeOptions }

// pseudonymDigits are enough that two of 2^24 names collide with a probability of 2^-13.
const pseudonymDigits = 15

func (a *anonymizer) name(class, s string) string {
	if s == "" {
		return ""
	}
	mac := hmac.New(sha256.New, a.o.Key)
	fmt.Fprintf(mac, "%s\x00%s", class, s)
	return class + "-" + hex.EncodeToString(mac.Sum(nil))[:pseudonymDigits]
}

// setting keeps "KEY=VALUE" unless the value looks like a path, an address or a sentence.
func (a *anonymizer) setting(value string) string {
	if strings.ContainsAny(value, `/\@ ~`) {
		return a.name("value", value)
	}
	return value
}

// view returns the trace with other tables; only with a quantum the events are copied.
func (a *anonymizer) view(t *Trace) (*Trace, error) {
	v := *t
	v.Streams = make([]uint64, len(t.Streams))
	for i := range v.Streams {
		v.Streams[i] = uint64(i)
	}
	v.Pools = make([]string, len(t.Pools))
	for i, p := range t.Pools {
		if v.Pools[i] = p; !isNumberPair(p) {
			v.Pools[i] = a.name("pool", p)
		}
	}
	v.Strings = make([]string, len(t.Strings))
	class := stringClasses(t)
	for i, s := range t.Strings {
		switch class[i] {
		case KindSet:
			key, value := cutSetting(s)
			v.Strings[i] = key + "=" + a.setting(value)
		case KindMark:
			v.Strings[i] = a.name("mark", s)
		case KindCheckpoint:
			v.Strings[i] = a.name("checkpoint", s)
		default:
			v.Strings[i] = a.name("tag", s)
		}
	}
	v.Meta = a.meta(&t.Meta)
	if a.o.SizeQuantumBytes > 1 {
		if err := a.round(&v); err != nil {
			return nil, err
		}
	}
	return &v, nil
}

func isNumberPair(s string) bool {
	a, b, ok := strings.Cut(s, ":")
	return ok && strings.Trim(a, "0123456789") == "" && strings.Trim(b, "0123456789") == ""
}

// stringClasses says what each string is used for: a setting before a mark before a checkpoint before a tag. One string
// used as two things keeps the first, which is harmless: its pseudonym is of that class everywhere.
func stringClasses(t *Trace) []Kind {
	class := make([]Kind, len(t.Strings))
	for i := range t.Events {
		ev := &t.Events[i]
		switch ev.Kind {
		case KindSet:
			class[ev.Aux] = KindSet
		case KindMark:
			if class[ev.Aux] != KindSet {
				class[ev.Aux] = KindMark
			}
		case KindCheckpoint, KindRestore:
			if class[ev.Aux] == KindNone {
				class[ev.Aux] = KindCheckpoint
			}
		}
	}
	return class
}

func (a *anonymizer) meta(m *Meta) Meta {
	n := *m
	n.Title = a.name("title", m.Title)
	n.Warnings = nil
	for _, w := range m.Warnings {
		n.Warnings = append(n.Warnings, a.name("warning", w))
	}
	if len(m.Settings) > 0 {
		n.Settings = make(map[string]string, len(m.Settings))
		for k, v := range m.Settings {
			n.Settings[k] = a.setting(v)
		}
	}
	return n
}

// round rounds the sizes up.
func (a *anonymizer) round(v *Trace) error {
	q := a.o.SizeQuantumBytes
	up := func(n uint64) (uint64, error) {
		r, carry := bits.Add64(n, q-1, 0)
		if carry != 0 {
			return 0, fmt.Errorf("%w: size %d rounded up to a multiple of %d passes 2^64", ErrArgument, n, q)
		}
		return r &^ (q - 1), nil
	}
	events := append([]Event(nil), v.Events...)
	for i := range events {
		if ev := &events[i]; ev.Kind.TakesMemory() {
			n, err := up(ev.Size)
			if err != nil {
				return &EventError{Event: uint64(i), Kind: ev.Kind, Handle: ev.Handle, Err: err}
			}
			ev.Size = n
		}
	}
	v.Events = events
	if len(v.Recorded) > 0 {
		v.Recorded = nil
		v.Meta.Warnings = append(v.Meta.Warnings, "anonymized: sizes are rounded, so the recorded answers were dropped")
	}
	if v.Start == nil {
		return nil
	}
	st := &State{Segments: append([]StateSegment(nil), v.Start.Segments...)}
	for i := range st.Segments {
		seg := &st.Segments[i]
		seg.Blocks = append([]StateBlock(nil), seg.Blocks...)
		for j := range seg.Blocks {
			blk := &seg.Blocks[j]
			n, err := up(blk.RequestedBytes)
			if err != nil || n > blk.Bytes {
				n = blk.Bytes // a block cannot be asked for more than it holds
			}
			if blk.Handle != 0 || blk.Pending {
				blk.RequestedBytes = n
			}
		}
	}
	v.Start = st
	return nil
}
