// Package recorded is a device that answers with the addresses a recording saw. A strategy that decides like the recorded
// program asks for the same memory at the same events, gets the same addresses, and so must place every block where the
// recording has it: that is how a copy of a real allocator is checked against a real recording.
//
// # What it answers
//
// The recording knows, for each event, which memory was taken from the device and given back during it
// (trace.SegmentEvents). The replay loop names the event (BeginEvent), then the calls of the strategy are matched with what the
// recording saw during that event and is not used up yet:
//
//   - Malloc(n): if the recording next took a segment of n bytes, its address. If it next gave memory back, the real device must have refused
//     at this point, so the answer is out of memory. If the event is recorded as failed and nothing is left, likewise.
//   - Create is answered in the same way, ahead of a recorded mapping; Reserve is put where the recording next mapped; Map and Unmap
//     must lie within what the recording mapped and unmapped, in any pieces.
//   - Free of what is held gives it back in any order.
//
// A recording without segment events (a log of a program that calls the device for every allocation) serves the strategy
// `direct`: Malloc during event i answers the address recorded for event i, if it asks for about as many bytes. If such a
// recording begins with segments, its device was never called, and every Malloc is a mismatch.
//
// # Mismatches
//
// Anything else is a Mismatch: the call answers CallInvalidValue (Free and Unmap of what is held still give it back, since a
// strategy must be able to close), and the mismatch is kept with its event and what the recording has instead. After the
// last event giving back is closing and no mismatch.
//
// Structure: a cursor into the segment events, which are in order of their events; for each, the bytes not used up yet.
// Every call looks at the segment events of one event only, a handful.
package recorded
