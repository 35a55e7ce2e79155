package trace

import (
	"bytes"
	"strconv"
)

// textVersionLine is the first line of the text form.
const textVersionLine = "# gpubench trace 1"

// headerLine reads a line while the header lasts; in is false when the header is over and the line belongs to the body.
// The header is the block of comment lines that begins with textVersionLine; lines in it whose first word is none of the
// header's own are ordinary comments.
func (p *parser) headerLine(s []byte) (in bool, err error) {
	if p.section == sectionFirst {
		if !bytes.HasPrefix(s, []byte("# gpubench trace ")) {
			return false, nil
		}
		if string(s) != textVersionLine {
			return true, syntaxf("%q: this program reads version 1 of the text form (%s)", s, textVersionLine)
		}
		p.section = sectionHeader
		return true, nil
	}
	if len(s) == 0 || s[0] != '#' {
		return false, nil
	}
	s = bytes.TrimLeft(s[1:], " \t")
	first, rest, _ := bytes.Cut(s, []byte(" "))
	rest = bytes.TrimLeft(rest, " \t")
	switch string(first) {
	case "source":
		return true, p.sourceLine(s)
	case "title":
		p.meta.Title, err = restOfLine(rest)
	case "setting":
		return true, p.settingLine(rest)
	case "warning":
		if len(p.meta.Warnings) >= MaxWarnings {
			return true, limitError("MaxWarnings", MaxWarnings)
		}
		var w string
		w, err = restOfLine(rest)
		p.meta.Warnings = append(p.meta.Warnings, w)
	case "skipped":
		p.meta.Skipped, err = number(rest, "skipped")
	}
	return true, err
}

// sourceLine reads "source NAME  covers 100%  device 0  capacity 24GiB": pairs of words in any order.
func (p *parser) sourceLine(s []byte) error {
	l := lexer{s: s}
	for {
		key, ok, err := l.next()
		if err != nil || !ok {
			return lexError(err)
		}
		val, ok, err := l.next()
		if err != nil {
			return lexError(err)
		}
		if !ok || key.eq || val.eq {
			return syntaxf("header: %q needs a value after a blank, as in source rmm-csv  covers 100%%  device 0  capacity 24GiB", key.key)
		}
		switch string(key.key) {
		case "source":
			p.meta.Source = string(val.key)
		case "covers":
			num, found := bytes.CutSuffix(val.key, []byte("%"))
			f, perr := strconv.ParseFloat(string(num), 64)
			if !found || perr != nil || !(f >= 0 && f <= 100) {
				return syntaxf("header: covers %q is no share between 0%% and 100%%", val.key)
			}
			p.meta.CoversPercent = f
		case "device":
			n, err := number(val.key, "device")
			if err != nil || n > 1<<31-1 {
				return syntaxf("header: device %q is no device number", val.key)
			}
			p.meta.Device = int(n)
		case "capacity":
			if p.meta.CapacityBytes, err = parseSize(val.key); err != nil {
				return syntaxf("header: capacity: %v", err)
			}
		default:
			return syntaxf("header: unknown %q: the words are source, covers, device and capacity", key.key)
		}
	}
}

func (p *parser) settingLine(s []byte) error {
	l := lexer{s: s}
	t, ok, err := l.next()
	if err != nil {
		return lexError(err)
	}
	if !ok || !t.eq || len(t.key) == 0 {
		return syntaxf("header: setting needs KEY=VALUE")
	}
	if p.meta.Settings == nil {
		p.meta.Settings = make(map[string]string)
	}
	key := string(t.key)
	if _, twice := p.meta.Settings[key]; twice {
		return syntaxf("header: setting %s is given twice", key)
	}
	if len(p.meta.Settings) >= MaxSettings {
		return limitError("MaxSettings", MaxSettings)
	}
	p.meta.Settings[key] = string(t.val)
	return nil
}

// restOfLine is free text to the end of the line, or one string in quotes.
func restOfLine(s []byte) (string, error) {
	if len(s) == 0 || s[0] != '"' {
		return string(s), nil
	}
	text, err := strconv.Unquote(string(s))
	if err != nil {
		return "", syntaxf("header: %v", errQuote)
	}
	return text, nil
}

// appendRest writes free text so that restOfLine reads it back.
func appendRest(p []byte, s string) []byte {
	quoted := strconv.Quote(s)
	if s == "" || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' || quoted[1:len(quoted)-1] != s {
		return append(p, quoted...)
	}
	return append(p, s...)
}
