// Package view draws the model for a terminal: a map of the roots, a table of counts, and the table of states and
// transitions. Output is plain text and depends on the model alone, so that it can stand in tests and documents.
//
// Cost: a visit to every chunk. Known weak case: a device of a thousand roots in use makes a thousand lines.
package view

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gpubench/gpubench/pmm"
)

const (
	frames     = 32 // cells of a root's bar: one 64 KiB frame each
	frameBytes = pmm.RootBytes / frames
)

// Legend explains the cells of Map.
const Legend = "one cell is 64 KiB: # allocated, P pinned, L lazily queued, . free, + mixed; with PMA: blank free, R resource manager, ~ scrubbing"

// Map draws every root: who has it, where it stands for eviction, how it is split, and a bar of 64 KiB cells. Runs of roots
// that are alike and free are one line.
func Map(w io.Writer, m *pmm.Model) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, Legend)
	roots := m.Config().Roots
	for i := 0; i < roots; {
		line := rootLine(m, i)
		j := i + 1
		for j < roots && rootLine(m, j) == line {
			j++
		}
		name := fmt.Sprintf("root %d", i)
		if j > i+1 {
			name = fmt.Sprintf("roots %d-%d", i, j-1)
		}
		fmt.Fprintf(b, "%-12s %s\n", name, line)
		i = j
	}
	return b.Flush()
}

// rootLine describes one root without its number.
func rootLine(m *pmm.Model, root int) string {
	c := m.RootChunk(root)
	in, _ := m.Info(c)
	if in.State == pmm.PMAOwned {
		return strings.TrimRight(fmt.Sprintf("%-6s |%s|", "PMA", pmaBar(m, root)), " ")
	}
	where := ""
	if k, s := m.AllocListOf(in.Addr); s == pmm.OK {
		where = k.String()
	}
	var bar [frames]byte
	sizes := map[uint64]int{}
	m.EachLeaf(c, func(_ pmm.Chunk, l pmm.Info) bool {
		sizes[l.Size]++
		mark := cell(l)
		for f := l.Addr % pmm.RootBytes / frameBytes; f <= (l.Addr%pmm.RootBytes+l.Size-1)/frameBytes; f++ {
			switch bar[f] {
			case 0, mark:
				bar[f] = mark
			default:
				bar[f] = '+'
			}
		}
		return true
	})
	line := fmt.Sprintf("%-6s |%s| %-11s", in.Type, bar[:], in.State)
	if where != "" {
		line += " on " + where + ","
	}
	if in.InEviction {
		line += " in eviction"
	}
	return strings.TrimRight(line+leafList(sizes), " ,")
}

func pmaBar(m *pmm.Model, root int) string {
	free, _, scrubbing := m.Frames().RootState(root)
	var bar [frames]byte
	for f := range bar {
		switch {
		case free>>f&1 == 1:
			bar[f] = ' '
		case scrubbing>>f&1 == 1:
			bar[f] = '~'
		default:
			bar[f] = 'R'
		}
	}
	return string(bar[:])
}

func cell(l pmm.Info) byte {
	switch {
	case l.Lazy:
		return 'L'
	case l.State == pmm.Free:
		return '.'
	case l.State == pmm.TempPinned:
		return 'P'
	}
	return '#'
}

// leafList says how many leaves of each size a split root has.
func leafList(sizes map[uint64]int) string {
	if sizes[pmm.RootBytes] > 0 {
		return ""
	}
	var b strings.Builder
	for size := uint64(pmm.RootBytes) / 2; size > 0; size /= 2 {
		if n := sizes[size]; n > 0 {
			fmt.Fprintf(&b, " %d×%s", n, Bytes(size))
		}
	}
	return b.String()
}

// Bytes formats a size with a binary unit: exactly when it is a multiple of one, else with one decimal.
func Bytes(n uint64) string {
	units := [...]string{"B", "K", "M", "G", "T"}
	u := 0
	for n >= 1024 && n%1024 == 0 && u < len(units)-1 {
		n /= 1024
		u++
	}
	if n >= 1024 && u < len(units)-1 {
		f := float64(n)
		for f >= 1024 && u < len(units)-1 {
			f /= 1024
			u++
		}
		return fmt.Sprintf("%.1f%s", f, units[u])
	}
	return fmt.Sprintf("%d%s", n, units[u])
}

// Stats writes the census: bytes and chunks by state, chunks by size, lists, PMA's frames and the running counts.
func Stats(w io.Writer, m *pmm.Model) error {
	b := bufio.NewWriter(w)
	var c pmm.Census
	m.Census(&c)
	f := m.FragStats()
	fmt.Fprintf(b, "chunks   with PMA %d, free %d, split %d, pinned %d, allocated %d\n", c.Chunks[pmm.PMAOwned],
		c.Chunks[pmm.Free], c.Chunks[pmm.Split], c.Chunks[pmm.TempPinned], c.Chunks[pmm.Allocated])
	fmt.Fprintf(b, "bytes    free %s, pinned %s, allocated %s\n", Bytes(c.Bytes[pmm.Free]), Bytes(c.Bytes[pmm.TempPinned]), Bytes(c.Bytes[pmm.Allocated]))
	for t, sizes := range f.Sizes {
		for _, s := range sizes {
			if s.Free+s.Pinned+s.Allocated > 0 {
				fmt.Fprintf(b, "         %-6s %5s  free %d, pinned %d, allocated %d\n", pmm.Type(t), Bytes(s.Size), s.Free, s.Pinned, s.Allocated)
			}
		}
	}
	for _, l := range c.FreeLists {
		zero := ""
		if l.Zero {
			zero = " zero"
		}
		fmt.Fprintf(b, "list     free %s %s%s: %d\n", l.Type, Bytes(l.Size), zero, l.Len)
	}
	for k, l := range c.AllocLists {
		fmt.Fprintf(b, "list     %s: %d\n", pmm.Mark(k), l.Len)
	}
	fmt.Fprintf(b, "list     lazy-free: %d\n", c.Lazy)
	fmt.Fprintf(b, "roots    pinned %d, in eviction %d\n", c.PinnedRoots, c.InEviction)
	fmt.Fprintf(b, "PMA      frames of 64K: free %d, unpinned %d, pinned %d, scrubbing %d\n", c.FramesFree, c.FramesUnpinned, c.FramesPinned, c.FramesScrubbing)
	s := c.Stats
	fmt.Fprintf(b, "calls    to PMA: alloc %d, free %d, pin %d; waits that blocked %d\n", s.PMAAllocs, s.PMAFrees, s.PMAPins, s.Waits)
	fmt.Fprintf(b, "work     splits %d, merges %d, roots evicted %d, blocks moved out %d, roots handed back %d, scrubbed %s\n",
		s.Splits, s.Merges, s.Evictions, s.BlockEvictions, s.HandBacks, Bytes(s.ScrubbedBytes))
	fmt.Fprintf(b, "fragment external %.1f%%, largest user %s, largest kernel %s (statistics of the model, not of the driver)\n",
		100*f.External, Bytes(f.LargestUser), Bytes(f.LargestKernel))
	return b.Flush()
}

// States writes the table of legal transitions with how often each was taken.
func States(w io.Writer, c *pmm.Coverage) error {
	b := bufio.NewWriter(w)
	met := 0
	fmt.Fprintf(b, "%-12s %-12s %-22s %s\n", "from", "to", "why", "times")
	for _, t := range pmm.Transitions {
		n := c[t.Why][t.From][t.To]
		times := fmt.Sprint(n)
		if n == 0 {
			times = "never"
		} else {
			met++
		}
		fmt.Fprintf(b, "%-12s %-12s %-22s %s\n", t.From, t.To, t.Why, times)
	}
	fmt.Fprintf(b, "%d of %d legal transitions were taken\n", met, len(pmm.Transitions))
	return b.Flush()
}
