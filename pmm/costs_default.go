package pmm

// The sources of DefaultCosts.
const (
	srcPMM       = "uvm_pmm_gpu.c of driver 595.45.04 in user space, one core, no locks: "
	srcVAttn     = "vAttention (ASPLOS'25, arXiv 2405.04437) table 3, 2 MiB chunk; GPU not stated there"
	srcTrace     = "HolisticTraceAnalysis tests/data, CUDA runtime events of an A100-PG509-200: "
	srcBede      = "N8-CIR-Bede documentation, nvprof fault groups: "
	srcPascal    = "parallelArchitect/pascal-um-benchmark, GTX 1080, driver 535.274.02: "
	srcRTX2060   = "nvprof listing of an RTX 2060 Max-Q: "
	srcNoFigure  = "no published figure; a guess of the right order"
	srcTLB       = "no published figure; cuMemUnmap, which should contain one, is 11 to 34 us (kvcached bench_vmm, vAttention)"
	srcBandwidth = "no published figure; taken as half the memory bandwidth of an A100-40 (1555 GB/s)"
)

// DefaultCosts are figures published for several devices between 2019 and 2026, each with its source. They describe no one
// device; use the files of a device where there are any. What nobody has published is marked.
func DefaultCosts() Costs {
	guess := func(v int64, source string) Cost { return Cost{v, source, true} }
	from := func(v int64, source string) Cost { return Cost{v, source, false} }
	return Costs{
		AllocNs: from(28, srcPMM+"36 M allocations and frees of 4 KiB a second"),
		FreeNs:  from(28, srcPMM+"36 M allocations and frees of 4 KiB a second"),
		UnpinNs: guess(28, "not measured alone; taken as one visit to the lists"),
		// A pair of a split of 2 MiB to 4 KiB and its merge takes 15.4 us there: 33 splits, 33 merges, 544 children. A cold
		// 4 KiB pair (2 splits, 2 merges, 48 children, 46 list operations) takes 2.1 us. 100 ns a node and 8 ns a child give
		// 15.3 and 2.5.
		SplitNs:      from(100, srcPMM+"0.13 M splits of 2 MiB to 4 KiB and merges a second, shared out over nodes and children"),
		SplitChildNs: from(8, srcPMM+"0.13 M splits of 2 MiB to 4 KiB and merges a second, shared out over nodes and children"),
		MergeNs:      from(100, srcPMM+"0.13 M splits of 2 MiB to 4 KiB and merges a second, shared out over nodes and children"),
		MergeChildNs: from(8, srcPMM+"0.13 M splits of 2 MiB to 4 KiB and merges a second, shared out over nodes and children"),
		PMACallNs:    guess(2_000, srcNoFigure), PMARootNs: guess(50, srcNoFigure), SyncNs: guess(5_000, srcNoFigure),
		EvictRootNs: guess(1_000, srcNoFigure), EvictBlockNs: guess(20_000, srcNoFigure),
		ScrubBytesPerSec:            from(34e9, "derived from 31.2 ms for 1 GiB of pool growth and release on GH200 (vortex-data/vortex PR 7831)"),
		MemsetBytesPerSec:           guess(777e9, srcBandwidth),
		TLBInvalidateNs:             guess(11_000, srcTLB),
		MapPageNs:                   guess(50, srcNoFigure),
		FaultBatchNs:                from(186_000, srcBede+"V100-PCIE-16GB, driver 460.32.03, CUDA 11.2: 358 us a group, 186 us net of copies"),
		FaultNs:                     from(5_800, srcPascal+"5.8 us a fault beyond copy and compute"),
		CPUFaultNs:                  guess(10_000, srcNoFigure),
		MigrateToDeviceBytesPerSec:  from(7.7e9, srcBede+"V100-PCIE, PCIe 3, mean copy 57 KB"),
		MigrateToHostBytesPerSec:    from(12.4e9, "nvprof listing of a GTX 1080, PCIe 3, mean copy 163 KB"),
		PrefetchToDeviceBytesPerSec: from(25e9, "ZaidQureshi/bam issue 54: measured peak, A100, PCIe 4 x16"),
		PrefetchToHostBytesPerSec:   from(25e9, "NVIDIA/nvbandwidth issue 53: about 25 GB/s both ways, A100, PCIe 4"),
		RemoteAccessNs:              guess(1_500, srcNoFigure),
		MallocNs:                    from(405_000, srcTrace+"median of 21 calls of cudaMalloc above 50 us"),
		MallocFreeNs:                from(328_000, srcTrace+"median of 12 calls of cudaFree"),
		ManagedAllocNs:              from(67_000, srcRTX2060+"cudaMallocManaged of 4 MB, context up"),
		ManagedFreeNs:               from(220_000, srcRTX2060+"cudaFree of 4 MB managed, 200 to 240 us"),
		ReserveNs:                   from(2_000, srcVAttn), CreateNs: from(29_000, srcVAttn), MapNs: from(2_000, srcVAttn),
		SetAccessNs: from(38_000, srcVAttn), UnmapNs: from(34_000, srcVAttn), ReleaseNs: from(23_000, srcVAttn),
		AddressFreeNs:        from(1_000, srcVAttn),
		MemInfoNs:            from(6_000, "kvcached benchmarks/bench_alloc, GB10: about 6 us"),
		HostAllocBytesPerSec: from(4.5e9, "ikawrakow/ik_llama.cpp PR 1517: 33.38 GiB in 7956.8 ms, dual RTX 3090 host"),
	}
}
