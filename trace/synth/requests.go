package synth

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits of a list of requests.
const (
	MaxRequests = 10_000_000
	// MaxTokens bounds the prompt and the answer of one request.
	MaxTokens = 1 << 24
)

// ErrRequests is the reason for which a list of requests is refused.
var ErrRequests = errors.New("illegal list of LLM requests")

// ReadRequests reads a list of LLM requests as published by Azure (AzurePublicDataset, AzureLLMInferenceTrace): CSV with a
// header line and the columns TIMESTAMP ("2023-11-16 18:17:03.9799600"), ContextTokens, GeneratedTokens, in any order;
// other columns are ignored. A timestamp may also be a number of seconds. Requests must be in order of arrival; times are
// counted from the first. Errors name the line.
func ReadRequests(r io.Reader) ([]Request, error) {
	c := csv.NewReader(bufio.NewReader(r))
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: no header: %w", ErrRequests, err)
	}
	var col [3]int
	for i, name := range []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"} {
		col[i] = -1
		for j, h := range head {
			if strings.EqualFold(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")), name) {
				col[i] = j
			}
		}
		if col[i] < 0 {
			return nil, fmt.Errorf("%w: line 1: no column %s; the columns are TIMESTAMP, ContextTokens, GeneratedTokens", ErrRequests, name)
		}
	}
	list := []Request{}
	first, last := int64(0), int64(0)
	for {
		rec, err := c.Read()
		if err == io.EOF {
			return list, nil
		}
		line, _ := c.FieldPos(0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequests, err)
		}
		if len(list) >= MaxRequests {
			return nil, fmt.Errorf("%w: line %d: more than MaxRequests = %d", ErrRequests, line, MaxRequests)
		}
		ns, err := timestamp(rec[col[0]])
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrRequests, line, err)
		}
		if len(list) == 0 {
			first, last = ns, ns
		}
		if ns < last {
			return nil, fmt.Errorf("%w: line %d: it arrives %v before the request above it: sort the file by time", ErrRequests, line, time.Duration(last-ns))
		}
		last = ns
		q := Request{ArrivalNs: ns - first}
		for i, p := range []*uint64{&q.Context, &q.Generated} {
			n, err := strconv.ParseUint(strings.TrimSpace(rec[col[i+1]]), 10, 64)
			if err != nil || n > MaxTokens {
				return nil, fmt.Errorf("%w: line %d: %q is no number of tokens up to MaxTokens = %d", ErrRequests, line, rec[col[i+1]], MaxTokens)
			}
			*p = n
		}
		list = append(list, q)
	}
}

// timestamp reads a point in time as ns.
func timestamp(s string) (int64, error) {
	s = strings.TrimSpace(s)
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixNano(), nil
		}
	}
	whole, frac, _ := strings.Cut(s, ".")
	if n, err := strconv.ParseUint(whole, 10, 32); err == nil && len(frac) <= 9 {
		f, err := strconv.ParseUint(frac+"000000000"[len(frac):], 10, 32)
		if err == nil {
			return int64(n)*1e9 + int64(f), nil
		}
	}
	return 0, fmt.Errorf("timestamp %q: write 2006-01-02 15:04:05.9999999 or seconds", s)
}
