// Package ideal is the reference device: a budget of memory and first-fit addresses, nothing else. The recorded decisions of
// real allocators were made over exactly this device, so a strategy that equals them must be run over it.
//
// # Rules
//
//   - One physical budget. Malloc and Create charge their size rounded up to a page of 2 MiB; what exceeds the budget is out
//     of memory. MemInfo reports the budget less the charges.
//   - Malloc addresses: first fit over the live mallocs from 0, in pages: the lowest gap that is large enough. Without
//     Config.Contiguous addresses go as far as needed (2^44); with it the end must lie within the budget, and Malloc fails
//     when no gap is left although the budget would allow it.
//   - Config.Packed gives addresses (and charges) by 256 bytes instead of pages: successive mallocs touch.
//     Config.ExactCharge keeps addresses by page and charges by 256 bytes.
//   - Virtual reservations lie in a range of their own from 2^44, first fit, in pages. Physical memory made by Create stays
//     charged until it is released and no longer mapped. One physical memory may be mapped at several addresses.
//   - Events complete at once until SetManualEvents(true). Then an event completes when Complete names its stream, or when
//     the host waits for it, for a later event of its stream, for its stream, or for the device. StreamWait orders work on
//     the device and completes nothing: what has completed is stated by the trace alone.
//   - Host memory lies in a range of its own from 2^63, first fit by 256 bytes, without a budget. Copies between ranges that are not
//     handed out are not told from others: there are no bytes.
//   - Calls cost no time. The clock moves only by AdvanceNs.
//
// # Structure and complexity
//
// Address ranges are blocks.Space: Malloc, Free, Reserve and Unreserve are O(log n). Mappings are looked up by their first
// address in O(1); each reservation has a bitmap of its mapped pages. Nothing allocates once the tables have grown to the
// number of live objects.
package ideal
