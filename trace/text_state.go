package trace

// beginState opens the state section:
//
//	state
//	segment 0x7f0000000000 20MiB stream=7 pool=0:1 small expandable
//	  block h1 2MiB requested=2000000
//	  block pending h2 512
//	  block free 18873856
//	end
//
// Blocks follow one another without a gap, so they need no address. A live block was requested as large as it is unless
// requested= says otherwise.
func (p *parser) beginState() error {
	if err := p.end(); err != nil {
		return err
	}
	if p.b.began || p.b.Len() > 0 {
		return syntaxf("the state section comes once, before the first event")
	}
	p.state = new(State)
	p.section = sectionState
	return nil
}

func (p *parser) stateLine(t token) error {
	if !t.eq && !t.quoted {
		switch string(t.key) {
		case "segment":
			return p.segmentLine()
		case "block":
			return p.blockLine()
		case "end":
			if err := p.end(); err != nil {
				return err
			}
			p.section = sectionBody
			return p.b.Start(p.state)
		}
	}
	return syntaxf("found %q in the state section: its lines are segment, block and end", t.key)
}

func (p *parser) segmentLine() error {
	if len(p.state.Segments) >= MaxSegments {
		return limitError("MaxSegments", MaxSegments)
	}
	var seg StateSegment
	w, err := p.word("the address of the segment")
	if err != nil {
		return err
	}
	if seg.Addr, err = number(w, "address"); err != nil {
		return err
	}
	if w, err = p.word("the size of the segment"); err != nil {
		return err
	}
	if seg.Bytes, err = parseSize(w); err != nil {
		return syntaxf("%v", err)
	}
	for {
		t, ok, err := p.lex.next()
		if err != nil {
			return lexError(err)
		}
		if !ok {
			break
		}
		switch key := string(t.key); {
		case t.eq && key == "stream":
			n, err := number(t.val, "stream")
			if err != nil {
				return err
			}
			seg.Stream = p.b.Stream(n)
		case t.eq && key == "pool":
			seg.Pool = p.b.poolBytes(t.val)
		case !t.eq && key == "small":
			seg.Small = true
		case !t.eq && key == "expandable":
			seg.Expandable = true
		default:
			return syntaxf("segment takes no %q: after its size may stand stream=, pool=, small, expandable", key)
		}
	}
	p.state.Segments = append(p.state.Segments, seg)
	return nil
}

func (p *parser) blockLine() error {
	if len(p.state.Segments) == 0 {
		return syntaxf("a block needs a segment line before it")
	}
	seg := &p.state.Segments[len(p.state.Segments)-1]
	var blk StateBlock
	w, err := p.word("h1, free or pending")
	if err != nil {
		return err
	}
	if string(w) == "pending" {
		blk.Pending = true
		if w, err = p.word("the size of the block"); err != nil {
			return err
		}
	}
	free := string(w) == "free" && !blk.Pending
	if len(w) > 0 && w[0] == 'h' {
		if blk.Handle, err = parseHandle(w); err != nil {
			return err
		}
	}
	if free || blk.Handle != 0 {
		if w, err = p.word("the size of the block"); err != nil {
			return err
		}
	} else if !blk.Pending {
		return syntaxf("block %q: write block h1 SIZE, block free SIZE or block pending [h1] SIZE", w)
	}
	if blk.Bytes, err = parseSize(w); err != nil {
		return syntaxf("%v", err)
	}
	if !free {
		blk.RequestedBytes = blk.Bytes
	}
	t, ok, err := p.lex.next()
	if err != nil {
		return lexError(err)
	}
	if ok {
		if string(t.key) != "requested" || !t.eq {
			return syntaxf("block takes no %q: after its size may stand requested=SIZE", t.key)
		}
		if blk.RequestedBytes, err = sizeArgument(t); err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
	}
	blk.Addr = seg.Addr
	if n := len(seg.Blocks); n > 0 {
		blk.Addr = seg.Blocks[n-1].Addr + seg.Blocks[n-1].Bytes
	}
	seg.Blocks = append(seg.Blocks, blk)
	if p.blocks++; p.blocks > MaxBlocks {
		return limitError("MaxBlocks", MaxBlocks)
	}
	return nil
}
