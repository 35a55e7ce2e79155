package trace

import "bytes"

// statement reads a line of the body whose first token is t.
func (p *parser) statement(t token) error {
	if t.quoted || t.eq {
		if len(t.key) > 1 && t.key[0] == 'h' && !t.quoted {
			return syntaxf("put blanks round the equals sign: %s = alloc SIZE", t.key)
		}
		return syntaxf("found %q where an event is due", t.key)
	}
	if len(t.key) > 1 && t.key[0] == 'h' && t.key[1]-'0' <= 9 {
		return p.definition(t.key)
	}
	switch string(t.key) {
	case "->":
		return p.segmentEvent()
	case "state":
		return p.beginState()
	case "free":
		return p.free()
	case "use", "free!", "touch", "prefetch":
		return p.onHandle(string(t.key))
	case "mark", "set", "checkpoint", "restore":
		return p.named(string(t.key))
	case "alloc", "realloc":
		return syntaxf("%s needs a name for its result: h1 = %s …", t.key, t.key)
	}
	return p.plain(string(t.key))
}

// finishArguments reads the attributes and tells the builder time and answer.
func (p *parser) finishArguments(k Kind, allowed argument) error {
	if err := p.arguments(k, allowed); err != nil {
		return err
	}
	if p.a.have&argTime != 0 {
		p.b.At(p.a.ns)
	}
	if r := &p.a.rec; r.Seen != 0 {
		p.b.Saw(r.Addr, r.Granted, r.Status == StatusFailed)
	}
	return nil
}

// stream returns the index of the stream given, the default stream when none was.
func (p *parser) stream() uint16 {
	if p.a.have&argStream == 0 {
		return DefaultStream
	}
	return p.b.Stream(p.a.stream)
}

func (p *parser) tag() uint32 {
	if len(p.a.tag) == 0 {
		return 0
	}
	return p.b.stringBytes(p.a.tag)
}

// definition reads "h1 = alloc SIZE …" or "h3 = realloc h2 SIZE …".
func (p *parser) definition(name []byte) error {
	h, err := parseHandle(name)
	if err != nil {
		return err
	}
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	if !ok || !t.eq || len(t.key) != 0 || len(t.val) != 0 || t.quoted {
		return syntaxf("after %s must stand = and alloc SIZE or realloc HANDLE SIZE", name)
	}
	verb, err := p.word("alloc or realloc")
	if err != nil {
		return err
	}
	var old Handle
	k := KindAlloc
	switch string(verb) {
	case "alloc":
	case "realloc":
		k = KindRealloc
		if old, err = p.handle(); err != nil {
			return err
		}
	default:
		if near := nearest(string(verb), []string{"alloc", "realloc"}); near != "" {
			return syntaxf("unknown event %q: did you mean %s?", verb, near)
		}
		return syntaxf("after %s = must stand alloc SIZE or realloc HANDLE SIZE, not %q", name, verb)
	}
	w, err := p.word("the size")
	if err != nil {
		return err
	}
	size, err := parseSize(w)
	if err != nil {
		return syntaxf("%v", err)
	}
	if err := p.finishArguments(k, argStream|argPool|argAlign|argThread|argTag); err != nil {
		return err
	}
	args := AllocArgs{Stream: p.stream(), Align: p.a.align, Thread: p.a.thread}
	if p.a.have&argPool != 0 {
		args.Pool = p.b.poolBytes(p.a.pool)
	}
	args.Tag = p.tag()
	if k == KindRealloc {
		return p.b.Realloc(h, old, size, args)
	}
	return p.b.Alloc(h, size, args)
}

func (p *parser) free() error {
	h, err := p.handle()
	if err != nil {
		return err
	}
	if err := p.finishArguments(KindFree, argStream|argThread|argTag); err != nil {
		return err
	}
	a := FreeArgs{OnStream: p.a.have&argStream != 0, Stream: p.stream(), Thread: p.a.thread}
	a.Tag = p.tag()
	return p.b.Free(h, a)
}

// onHandle reads the other events on a handle.
func (p *parser) onHandle(verb string) error {
	h, err := p.handle()
	if err != nil {
		return err
	}
	need := func(have argument, what string) error {
		if p.a.have&have == 0 {
			return syntaxf("%s h%d needs %s", verb, h, what)
		}
		return nil
	}
	switch verb {
	case "use":
		if err := p.finishArguments(KindUse, argStream|argThread|argTag); err != nil {
			return err
		}
		if err := need(argStream, "the stream that uses it: stream=7"); err != nil {
			return err
		}
		s := p.stream()
		return p.b.UseBy(h, s, p.a.thread, p.tag())
	case "free!":
		if !MayFreeWrong(p.meta.Source) {
			return p.b.refuse(KindFreeWrong, h, ErrNotAProgram)
		}
		if err := p.finishArguments(KindFreeWrong, 0); err != nil {
			return err
		}
		return p.b.FreeWrong(h)
	case "touch":
		if err := p.finishArguments(KindTouch, argBy|argOffset|argLength|argWrite|argThread|argTag); err != nil {
			return err
		}
		if err := need(argBy, "the place: by=gpu or by=cpu"); err != nil {
			return err
		}
		if err := need(argLength, "the number of bytes: length=2MiB"); err != nil {
			return err
		}
		return p.b.Touch(h, TouchArgs{By: p.a.by, Offset: p.a.offset, Length: p.a.length, Write: p.a.have&argWrite != 0,
			Thread: p.a.thread, Tag: p.tag()})
	}
	if err := p.finishArguments(KindPrefetch, argTo); err != nil {
		return err
	}
	if err := need(argTo, "the place: to=gpu or to=cpu"); err != nil {
		return err
	}
	return p.b.Prefetch(h, p.a.to)
}

// named reads the events whose argument is a name.
func (p *parser) named(verb string) error {
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	if !ok || len(t.key) == 0 {
		return syntaxf("%s needs a name", verb)
	}
	key := string(t.key)
	val := string(t.val)
	switch verb {
	case "mark":
		n := uint64(0)
		if t.eq {
			if n, err = number(t.val, "the value of mark"); err != nil {
				return err
			}
		}
		if err := p.finishArguments(KindMark, 0); err != nil {
			return err
		}
		return p.b.Mark(key, n)
	case "set":
		if !t.eq {
			return syntaxf("set needs KEY=VALUE")
		}
		if err := p.finishArguments(KindSet, 0); err != nil {
			return err
		}
		return p.b.Set(key, val)
	}
	if t.eq {
		return syntaxf("%s takes one name, found %s=…", verb, t.key)
	}
	if verb == "checkpoint" {
		if err := p.finishArguments(KindCheckpoint, 0); err != nil {
			return err
		}
		return p.b.Checkpoint(key)
	}
	if err := p.finishArguments(KindRestore, 0); err != nil {
		return err
	}
	return p.b.Restore(key)
}

// plain reads the events without a handle or a name.
func (p *parser) plain(verb string) error {
	switch verb {
	case "wait":
		if err := p.finishArguments(KindWait, argStream|argOn); err != nil {
			return err
		}
		if p.a.have&(argStream|argOn) != argStream|argOn {
			return syntaxf("wait needs both streams: wait stream=0 on=7")
		}
		s := p.stream()
		return p.b.Wait(s, p.b.Stream(p.a.on))
	case "complete", "sync":
		return p.streamOrAll(verb)
	case "trim":
		return p.lone(KindTrim, p.b.Trim)
	case "reset":
		return p.lone(KindReset, p.b.Reset)
	case "defragment":
		return p.lone(KindDefragment, p.b.Defragment)
	case "pool-begin", "pool-end", "pool-release":
		return p.pool(verb)
	case "events":
		return p.events()
	case "stream-destroy":
		w, err := p.word("the stream")
		if err != nil {
			return err
		}
		n, err := number(w, "stream")
		if err != nil {
			return err
		}
		return p.lone(KindStreamDestroy, func() error { return p.b.StreamDestroy(p.b.Stream(n)) })
	case "fail-next":
		if err := p.finishArguments(KindFailNext, argDevice); err != nil {
			return err
		}
		if p.a.have&argDevice == 0 || p.a.device == 0 {
			return syntaxf("fail-next needs the number of the device call from 1: fail-next device=2")
		}
		return p.b.FailNext(p.a.device)
	}
	if near := nearest(verb, kindNames[KindAlloc:]); near != "" {
		return syntaxf("unknown event %q: did you mean %s?", verb, near)
	}
	return syntaxf("unknown event %q: a line is for example h1 = alloc 2MiB, free h1, sync or mark iteration=2", verb)
}

func (p *parser) lone(k Kind, add func() error) error {
	if err := p.finishArguments(k, 0); err != nil {
		return err
	}
	return add()
}

func (p *parser) streamOrAll(verb string) error {
	one, all, k := p.b.Sync, p.b.SyncAll, KindSync
	if verb == "complete" {
		one, all, k = p.b.Complete, p.b.CompleteAll, KindComplete
	}
	if err := p.finishArguments(k, argStream); err != nil {
		return err
	}
	if p.a.have&argStream == 0 {
		return all()
	}
	return one(p.stream())
}

// pool reads pool-begin, pool-end and pool-release. pool-end without a name ends the pool begun last.
func (p *parser) pool(verb string) error {
	at := p.lex.i
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	named := ok && !t.eq && len(t.key) > 0 && (t.quoted || t.key[0] != '@' && string(t.key) != "->")
	name := append([]byte(nil), t.key...)
	k := map[string]Kind{"pool-begin": KindPoolBegin, "pool-end": KindPoolEnd, "pool-release": KindPoolRelease}[verb]
	if !named {
		if k != KindPoolEnd {
			return syntaxf("%s needs the pool: %s 0:1", verb, verb)
		}
		p.lex.i = at
	}
	if err := p.finishArguments(k, 0); err != nil {
		return err
	}
	if !named {
		return p.b.PoolEndLast()
	}
	pool := p.b.poolBytes(name)
	switch k {
	case KindPoolBegin:
		return p.b.PoolBegin(pool)
	case KindPoolEnd:
		return p.b.PoolEnd(pool)
	}
	return p.b.PoolRelease(pool)
}

func (p *parser) events() error {
	w, err := p.word("manual or immediate")
	if err != nil {
		return err
	}
	manual := bytes.Equal(w, []byte("manual"))
	if !manual && string(w) != "immediate" {
		return syntaxf("events %q: write events manual or events immediate", w)
	}
	return p.lone(KindEvents, func() error { return p.b.Events(manual) })
}

// segmentEvent reads "-> segment alloc|free|map|unmap addr=0x… bytes=SIZE [stream=7]".
func (p *parser) segmentEvent() error {
	w, err := p.word("segment")
	if err != nil {
		return err
	}
	if string(w) != "segment" {
		return syntaxf("a line that begins with -> says what the recording saw of segments: -> segment alloc addr=0x… bytes=2MiB")
	}
	if w, err = p.word("alloc, free, map or unmap"); err != nil {
		return err
	}
	kind := SegmentEventKind(0)
	for i, name := range segmentEventNames {
		if i > 0 && string(w) == name {
			kind = SegmentEventKind(i)
		}
	}
	if kind == 0 {
		return syntaxf("segment %q: write alloc, free, map or unmap", w)
	}
	var addr, size, stream uint64
	have := map[string]bool{}
	for {
		t, ok, err := p.lex.next()
		if err != nil {
			return lexError(err)
		}
		if !ok {
			break
		}
		key := string(t.key)
		if have[key] {
			return syntaxf("%s is given twice", key)
		}
		have[key] = true
		switch {
		case t.eq && key == "addr":
			addr, err = number(t.val, key)
		case t.eq && key == "bytes":
			size, err = sizeArgument(t)
		case t.eq && key == "stream":
			stream, err = number(t.val, key)
		default:
			err = syntaxf("segment takes no %q: after it may stand addr=, bytes= and stream=", key)
		}
		if err != nil {
			return err
		}
	}
	if !have["addr"] || !have["bytes"] {
		return syntaxf("a segment needs addr=0x… and bytes=SIZE")
	}
	return p.b.SawSegment(kind, addr, size, p.b.Stream(stream))
}
