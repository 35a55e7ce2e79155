// Package importers turns recordings made by other programs into traces: PyTorch memory snapshots in every form (pickle of
// any protocol, or JSON), RMM logs, allocation scripts, operations as JSON lines, and the project's own text and binary forms.
// The format is told by content; gzip is undone on the way.
//
// # Rules
//
// Nothing is executed: pickles go through package pickle, which knows no opcode that could. Nothing is dropped silently: a
// record that becomes no event is counted in Meta.Skipped and named in Meta.Warnings. Memory is bounded: text formats are
// read line by line into a trace.Builder, which may write to disk; of a snapshot 32 bytes an entry are kept, because the
// start can only be known from the end. Every error is one line that says where, and what is wrong.
//
// # PyTorch snapshots
//
// A snapshot holds the final state (segments and their blocks) and, for each device, a ring of trace entries that usually
// begins in the middle of a program's life. The conversion (type conversion) walks forward to find the blocks that were
// live at the start, rewinds the segments from the end to the start, places those blocks in them, and then plays the
// recording block by block while it emits the events: every allocation must lie at the beginning of a free block of its
// segment, every free must name a live block, every segment given back must be wholly free, and the end must be the recorded
// final state, block for block. When all of that holds, Facts.Proven is set, and the rebuilt start is the true one in all
// that matters; otherwise Facts.Inconsistent says what contradicts what, and the warnings of the trace repeat it.
//
// What a snapshot does not say, and what is done about it:
//
//   - The real size of a block that was live at the start and died later: the rounded request, plus slack of up to 1 MiB where
//     the rest could not have been a free block, or where a later allocation shows it (type conversion, settle).
//   - Which other stream used a block whose free completes late: a stand-in stream of its own, so that it can complete at
//     exactly the recorded moment. Events are then manual.
//   - Whether memory given back inside an allocation was preceded by waiting for pending blocks: yes, unless garbage
//     collection or a split limit was set; the strategy waits itself then, and the completion is emitted after it.
//   - explicit empty_cache: memory given back and not followed, within a millisecond, by memory being taken or by a
//     failure is a trim. Segment events of an allocation that first gave memory back begin with SegmentFree, which tells
//     the recorded backend that the driver had refused before.
//   - The pool of an entry before PyTorch 2.14: that of the segment at its address.
//   - Stacks: the three most telling frames of an allocation become its tag; file names without their folders.
//
// # Complexity and weak case
//
// Linear in the entries, O(1) an entry, except for segments: a change of the set of segments costs O(number of segments),
// and mapping pages behind an expandable segment walks its blocks. A program that maps and unmaps all the time with many
// thousand live blocks is slow to import, not wrong.
package importers
