// Package bounds says how little memory a trace could have needed: what every ranking of strategies is measured against.
//
// # Three figures
//
//   - The maximum live bytes: no allocator, not even one that moves blocks, can do with less.
//   - Greedy by size: with the whole future known and nothing moved, buffers are placed largest first, each at the lowest
//     offset where it overlaps none that lives at the same time. This is what planners of XLA and TFLite do.
//   - The best packing found by search. Packing is NP-hard (dynamic storage allocation, Garey and Johnson SR2); up to about 500 buffers it is
//     often solved to the optimum, else the figure is the best seen within the effort.
//
// The ratio of the best packing to the maximum live bytes is the price of not moving blocks.
//
// # The search
//
// It answers "is there a packing of at most this height?" and follows MiniMalloc (Moffitt, ASPLOS 2023; google/minimalloc src/solver.cc) in its
// ideas: only canonical packings are built, in which buffers are placed in order of their offsets, ties in order of a rank, each as low as those below allow. At each step
// the candidates are tried from the lowest offset up, except those that would begin above the end of another candidate, which would have
// come first (dominance). A buffer that nothing unplaced meets any more has no influence on what fails below it, so its
// siblings are skipped (hatless pruning). Buffers that fall apart into groups without a common moment are solved group by group (temporal decomposition).
//
// Two things go beyond it. In a section of time the unplaced buffers must lie one upon another, so for every offset x, x plus the sizes of those that cannot begin
// below x is at most the height: MiniMalloc checks this for the lowest of them only. And a search that has gone wrong
// early is rarely saved by patience, so instead of doubling the effort of three rankings in turn, six rankings and random variations of them are
// restarted with a slowly growing number of nodes: the running times of such searches are heavy-tailed (Gomes, Selman, Crato and Kautz
// 2000), and short tries beat long ones.
//
// # Structure
//
// Sizes are in units of their greatest common divisor; where the sum of all sizes would not fit 30 bits they are rounded up to coarser units,
// which is reported. Time is cut into sections, one for each maximal set of buffers that live together. A step costs the
// buffers that meet the one placed and the sections these touch; changes are undone from a trail.
//
// Everything is a function of the buffers and the effort in nodes. A clock, where one is wanted, is the caller's, as a function that says stop.
//
// # Known weak cases
//
// Hundreds of buffers that are live together and a height within a percent of the maximum live bytes. Gaps (moments at which a buffer does not
// need its memory) lower the maximum live bytes, but a packing leaves them unused.
package bounds
