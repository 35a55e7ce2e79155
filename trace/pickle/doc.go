// Package pickle reads Python pickles of plain data, protocols 0 to 5, as a stream, in bounded memory, and without ever
// executing anything. The same reader takes JSON, so that a re-dump of the same object graph looks the same to a caller.
//
// # What it accepts
//
// Dictionaries, lists, tuples, strings, integers of at most 64 bits, floats, booleans and None: everything that a memory
// snapshot of PyTorch is made of. An opcode that would import, call or build something (GLOBAL, REDUCE, INST, BUILD, …), and
// every other opcode outside the plain ones, is refused with its name and byte offset, before anything behind it is read.
//
// # Structure
//
// A Value is one 64-bit word: a kind and either the datum itself (integers of 60 bits, booleans), or the number of an entry
// in a table of the Heap. Strings are interned by content; a dictionary, list or tuple is a node, and the memo of the
// pickle holds Values, so the identity of shared containers is kept and sharing costs eight bytes.
//
// A file of a million trace entries must not become a million dictionaries. Lists directly inside the list at the key
// Options.StreamKey (PyTorch: "device_traces") are therefore streamed: as soon as an item of such a list is complete it is
// shown to the Sink, which answers with a token, a number of its own. The token takes the item's place everywhere (the memo
// keeps eight bytes), and the memory of the item is used again for the next one. A sink may replace parts of an item in the
// same way with Heap.Replace: the importer of PyTorch turns a frame into a frame number and a list of frames into the number
// of a tag. A later GET of something that was replaced yields its token, so an entry that is listed twice is still seen twice.
//
// An item is complete when the next item begins, or when it is appended. So the memory is bounded also for writers that put
// a million items behind one MARK.
//
// # Invariants
//
//   - A node that is neither memoised nor was ever fetched has exactly one owner (no opcode accepted here copies a reference
//     but GET), so it can be recycled when its owner goes.
//   - A node that was fetched, or memoised more than once, is never recycled; it can still be replaced by a token.
//   - Changing something that was already shown to the sink is an error, never silently lost.
//   - Whether a list is streamed is decided once, before its first item, from the stack alone; the caller finds out from
//     Heap.Run, and a list that was not streamed is an ordinary list with the same items.
//
// # Complexity and weak case
//
// Linear in the bytes read; the loop does not allocate once its tables have grown. A pickle whose lists are written by
// MARK … LIST (no common writer does that for lists with items) is read whole instead of streamed. Dictionaries are small
// association lists: Lookup is linear in their length. All tables have limits (Limits), so a hostile file ends in an error
// of one line.
package pickle
