// Package synth writes traces of the common shapes of GPU memory traffic from a seed.
//
// A pattern is a function of its parameters and the seed alone: the same three give the same events, byte for byte, on
// every machine and in every release that does not say otherwise. Therefore nothing here rounds floating-point numbers
// whose last bit may depend on the processor: draws are made from PCG-DXSM words by integer arithmetic only (see rng).
//
// The patterns, and what each is hard on:
//
//	training   iterations of forward, backward and optimizer: stack-like lifetimes with long-lived weights; the
//	           sequence length may change from one iteration to the next, which is what breaks exact-size reuse
//	serving    an LLM server: key-value blocks that grow with every generated token and die with their request,
//	           between short-lived activations; requests from a CSV file or from a seeded arrival model
//	powerlaw   churn at a constant number of live blocks, sizes by a power law, lifetimes exponential
//	sawtooth   fills up, drops everything (or most of it), again: caches that never give back show it
//	growing    buffers that are replaced by slightly larger ones (tensors grown by concatenation)
//	streams    blocks used and freed on other streams than their own, with waits and completions
//	pools      private pools that are begun, ended and released while blocks outlive them (graph capture)
//	adversary  combs: fill with one size, free every second block, ask for twice the size and a little more
//
// The sizes of powerlaw follow what the recordings of the classic comparisons use: 256 B to 1 MiB, median about 3 KiB.
// Everything is written through a trace.Builder, so a trace of any length goes to a file in constant memory: a pattern's
// own state is what is live.
//
// Known limits: lifetimes and sizes are independent of each other except in training and serving, and no pattern models
// several processes on one device.
package synth
