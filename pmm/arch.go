package pmm

import (
	"fmt"
	"strings"
)

// Arch is what a GPU architecture changes in the decisions or the costs of memory management: nothing else is here, and
// from Pascal on the manager itself decides alike on all of them. Maxwell, Pascal and Volta are read from driver 590.48.01,
// the last that has them, the others from 595.45.04 (uvm_<arch>.c and uvm_<arch>_mmu.c).
type Arch struct {
	Name string
	// VABits is the width of a GPU virtual address, Levels the depth of the page table on the way to a 4 KiB page.
	VABits, Levels int
	// PageSizes is the mask of pages the GPU can map, BigPages of them the "big" one (two variants on Maxwell).
	PageSizes, BigPages uint64
	// UserSizes4K and UserSizes64K are the user chunk sizes with host pages of 4 KiB and 64 KiB, KernelSizes the kernel's.
	UserSizes4K, UserSizes64K, KernelSizes uint64
	// ReplayableFaults: without them user memory is never evicted.
	ReplayableFaults bool
	// SysmemLargePages: host memory can be mapped with pages above 4 KiB.
	SysmemLargePages bool
	// TLBRanges is how many ranges one batch of targeted invalidates may hold before it turns into one of everything; 0
	// means that there is no targeted invalidate. Pascal's is a list of pages.
	TLBRanges int
	// AccessCounters can be used by UVM when the resource manager reports their buffers.
	AccessCounters bool
	// MIG: the device can be partitioned.
	MIG bool
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Archs are the architectures in order of age.
var Archs = [...]Arch{
	{
		Name: "Maxwell", VABits: 40, Levels: 2, PageSizes: 4*kib | 64*kib | 128*kib, BigPages: 64*kib | 128*kib,
		UserSizes4K: 4*kib | 64*kib | 128*kib | RootBytes, UserSizes64K: 64*kib | 128*kib | RootBytes,
		KernelSizes: 4*kib | 8*kib | 64*kib | 128*kib | 256*kib | RootBytes,
	},
	modern("Pascal", 49, 5, 4*kib|64*kib|2*mib, 32, false, false),
	modern("Volta", 49, 5, 4*kib|64*kib|2*mib, 8, false, false),
	modern("Turing", 49, 5, 4*kib|64*kib|2*mib, 8, true, false),
	modern("Ampere", 49, 5, 4*kib|64*kib|2*mib|512*mib, 8, true, true),
	modern("Ada", 49, 5, 4*kib|64*kib|2*mib|512*mib, 8, true, true),
	modern("Hopper", 57, 6, 4*kib|64*kib|2*mib|512*mib, 8, true, true),
	modern("Blackwell", 57, 6, 4*kib|64*kib|2*mib|512*mib|256<<30, 8, true, true),
}

// modern fills in what Pascal and all that followed share.
func modern(name string, vaBits, levels int, pages uint64, tlb int, counters, mig bool) Arch {
	return Arch{
		Name: name, VABits: vaBits, Levels: levels, PageSizes: pages, BigPages: 64 * kib, UserSizes4K: UserSizes4K,
		UserSizes64K: UserSizes64K, KernelSizes: KernelSizesPascal, ReplayableFaults: true, SysmemLargePages: true,
		TLBRanges: tlb, AccessCounters: counters, MIG: mig,
	}
}

// ArchByName finds an architecture, whatever the case of its name.
func ArchByName(name string) (Arch, error) {
	names := make([]string, len(Archs))
	for i, a := range Archs {
		if strings.EqualFold(a.Name, name) {
			return a, nil
		}
		names[i] = a.Name
	}
	return Arch{}, fmt.Errorf("pmm: no architecture %q; there are %s", name, strings.Join(names, ", "))
}

// Config is a device of this architecture with the driver's defaults. hostPageBytes is 4 KiB or 64 KiB.
func (a Arch) Config(memoryBytes, hostPageBytes uint64) (Config, error) {
	c := DefaultConfig(memoryBytes)
	switch hostPageBytes {
	case 4 * kib:
		c.UserSizes = a.UserSizes4K
	case 64 * kib:
		c.UserSizes = a.UserSizes64K
	default:
		return Config{}, fmt.Errorf("pmm: host pages of %d bytes: want 4096 or 65536", hostPageBytes)
	}
	c.KernelSizes = a.KernelSizes
	c.NoEviction = !a.ReplayableFaults
	return c, c.Validate()
}
