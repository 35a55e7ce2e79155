package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpubench/gpubench/pmm"
)

// String returns the operation as it stands in a script.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(o.Name)
	for _, a := range o.Args {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatUint(a, 10))
	}
	return b.String()
}

// HeaderLine returns the first line of a script that asks for this configuration.
func HeaderLine(c pmm.Config) string {
	return fmt.Sprintf("# pool=%d batch=%d user=0x%x kernel=0x%x kmem=0x0 scrub=%d oversub=%d",
		c.Roots, c.BatchOrder, c.UserSizes, c.KernelSizes, bit(c.Scrub), bit(c.Oversubscription))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func appendHeader(b []byte, c pmm.Config) []byte {
	return fmt.Appendf(b, `{"config":{"pool_roots":%d,"batch_order":%d,"user_sizes":%d,"kernel_sizes":%d,"scrub":%d,"oversub":%d}}`+"\n",
		c.Roots, c.BatchOrder, c.UserSizes, c.KernelSizes, bit(c.Scrub), bit(c.Oversubscription))
}

func field(b []byte, name string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	return append(b, `":`...)
}

func number(b []byte, name string, v uint64) []byte { return strconv.AppendUint(field(b, name), v, 10) }

func list(b []byte, v []uint64) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, x, 10)
	}
	return append(b, ']')
}

// appendLine formats the outcome of operation i.
func (r *runner) appendLine(b []byte, i int, op Op) []byte {
	o := &r.out
	b = append(b, `{"i":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(field(b, "op"), '"')
	b = append(append(b, op.Name...), '"')
	b = list(field(b, "args"), op.Args)
	b = append(field(b, "status"), '"')
	b = append(append(b, o.status...), '"')
	if len(o.ids) > 0 {
		b = list(field(b, "ids"), o.ids)
	}
	if o.hasAddr {
		b = number(b, "addr", o.addr)
	}
	if o.hasChunk {
		b = number(b, "size", o.info.Size)
		b = append(field(b, "state"), '"')
		b = append(append(b, o.info.State.String()...), '"')
		b = number(b, "zero", uint64(bit(o.info.Zero)))
	}
	if len(o.addrs) > 1 {
		b = list(field(b, "addrs"), o.addrs)
	}
	if o.hasExtra {
		b = number(b, "extra", uint64(o.extra))
	}
	r.m.Census(&r.census)
	b = number(b, "waits", r.census.Stats.Waits)
	b = AppendCensus(field(b, "census"), &r.census)
	return append(b, "}\n"...)
}

// AppendCensus formats a census as in the recordings.
func AppendCensus(b []byte, c *pmm.Census) []byte {
	b = fmt.Appendf(b, `{"chunks":{"pma":%d,"free":%d,"split":%d,"pinned":%d,"alloc":%d}`, c.Chunks[pmm.PMAOwned],
		c.Chunks[pmm.Free], c.Chunks[pmm.Split], c.Chunks[pmm.TempPinned], c.Chunks[pmm.Allocated])
	b = fmt.Appendf(b, `,"bytes":{"free":%d,"pinned":%d,"alloc":%d},"free_lists":{`,
		c.Bytes[pmm.Free], c.Bytes[pmm.TempPinned], c.Bytes[pmm.Allocated])
	for i, l := range c.FreeLists {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"', "UK"[l.Type])
		b = strconv.AppendUint(b, l.Size, 10)
		b = append(b, "nz"[bit(l.Zero)], '"', ':')
		b = listCensus(b, l.ListCensus)
	}
	b = append(b, `},"alloc_lists":{`...)
	for k, l := range c.AllocLists {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), pmm.Mark(k).String()...), `":`...)
		b = listCensus(b, l)
	}
	s := &c.Stats
	return fmt.Appendf(b, `},"lazy":%d,"pinned_roots":%d,"in_eviction":%d,"pma64k":{"free":%d,"unpinned":%d,"pinned":%d},`+
		`"pma_calls":{"alloc":%d,"free":%d,"pin":%d},"scrubbed":%d,"bad":%d}`, c.Lazy, c.PinnedRoots, c.InEviction,
		c.FramesFree, c.FramesUnpinned, c.FramesPinned, s.PMAAllocs, s.PMAFrees, s.PMAPins, s.ScrubbedBytes, c.BadSplits)
}

func listCensus(b []byte, l pmm.ListCensus) []byte {
	return fmt.Appendf(b, `[%d,"%016x"]`, l.Len, l.Hash)
}
