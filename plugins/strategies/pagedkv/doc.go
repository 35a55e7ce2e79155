// Package pagedkv is the block manager of vLLM (vllm/v1/core/block_pool.py, kv_cache_utils.py), which keeps the keys and values of
// attention in pages: PagedAttention (Kwon et al., SOSP 2023).
//
// # Policy
//
// The memory is cut into pages of page_bytes. (The original calls them blocks: 2 × layers × heads × head size × bytes × 16 tokens; for an
// 8 B model in 16 bits that is the 2 MiB that are the default.) Page 0 is the null block and never handed out.
//
//   - A request of n bytes takes ceil(n / page_bytes) pages from the head of the free queue, and fails, taking none, when there are not so many.
//     The pages need not be adjacent: what follows the first run goes to the call log as extents.
//   - Every page counts its users. A free takes one from each page of the block, the last first; a page without users joins the tail of the queue. So the least
//     recently used page is taken next, and among pages freed together the end of a sequence before its beginning.
//   - With prefix_cache requests of one tag are taken for sequences that begin alike. A full page is remembered by tag and position; a later
//     request of the tag shares the pages that are remembered, from the first on, as long as there are any, also those in the free queue, which leave it (a touch). A
//     page that is taken from the head of the queue for something else is forgotten (evicted).
//
// A demanded alignment above page_bytes is refused. The memory of streams and their pending frees is that of package arena.
//
// # Structure
//
// An array of pages with the links of the queue; a pool of holdings, each a page of a block, linked by block and by page; a hash
// table from tag and position to page.
//
// # Invariants
//
// A page is in the queue exactly if nobody uses it. A remembered page holds what was remembered. The number of users of a page is the length of its
// list of holdings.
//
// # Complexity
//
// O(pages of the request) for allocation and free, plus the users of each page at a free. Nothing allocates in the steady state.
//
// # Known weak cases
//
// There is no external fragmentation at all; the cost is inside: a request of one byte takes a page. Blocks scatter over the
// memory, which only programs with paged kernels can use.
package pagedkv
