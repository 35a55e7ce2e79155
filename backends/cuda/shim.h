//go:build cgo && linux

// The C side of the cuda backend: what Go calls. See doc.go.
#ifndef GPUBENCH_CUDA_SHIM_H
#define GPUBENCH_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

// Answers of the shim beside CUresult, whose values are not negative.
enum { GB_OK = 0, GB_NOT_SUPPORTED = 801, GB_HUNG = -1, GB_LOST = -2 };

// Kinds of calls, as they are counted. They follow trace.CallKind where that has one.
enum gb_kind {
	GB_MALLOC = 1, GB_FREE, GB_RESERVE, GB_UNRESERVE, GB_CREATE, GB_RELEASE, GB_MAP, GB_UNMAP, GB_SET_ACCESS, GB_EVENT_RECORD,
	GB_EVENT_QUERY, GB_EVENT_WAIT, GB_STREAM_WAIT, GB_STREAM_SYNC, GB_DEVICE_SYNC, GB_MEM_INFO, GB_HOST_MALLOC, GB_HOST_FREE,
	GB_COPY, GB_MANAGED, GB_TOUCH, GB_SETUP, GB_KINDS
};

// Sources of ticks: those of package clock.
enum { GB_TICKS_MONOTONIC = 1, GB_TICKS_TSC = 2, GB_TICKS_CNTVCT = 3 };

struct gb_count { uint64_t calls, ticks; };

// The part of a device that Go reads after a call.
struct gb_shared {
	uint64_t out, out2;    // what the call answered
	uint64_t ticks;        // the driver's own time in the last call
	int32_t result;        // CUresult of the last call that reached the driver
	int32_t lost;          // not 0: nothing reaches the driver any more
	struct gb_count count[GB_KINDS];
	char text[256];        // name of a device
	unsigned char uuid[16];
};

struct gb_dev;

// gb_open loads the library and returns a device without a context; NULL: text says why. Nothing of it is ever unloaded.
struct gb_dev *gb_open(const char *library, int tick_source, uint64_t deadline_ns, char *text, size_t n);
struct gb_shared *gb_shared_of(struct gb_dev *d);
void gb_set_deadline(struct gb_dev *d, uint64_t ns);
// gb_close ends the watchdog and frees d, unless a call of it never came back.
void gb_close(struct gb_dev *d);

int gb_init(struct gb_dev *d);
int gb_version(struct gb_dev *d);
int gb_count_devices(struct gb_dev *d);
int gb_name(struct gb_dev *d, int ordinal);
int gb_uuid(struct gb_dev *d, int ordinal);
int gb_total(struct gb_dev *d, int ordinal);
int gb_attribute(struct gb_dev *d, int attribute, int ordinal);
const char *gb_error_name(struct gb_dev *d, int result);
int gb_context(struct gb_dev *d, int ordinal);
int gb_context_destroy(struct gb_dev *d);

int gb_mem_info(struct gb_dev *d);
int gb_malloc(struct gb_dev *d, uint64_t size);
int gb_free(struct gb_dev *d, uint64_t addr);
int gb_managed(struct gb_dev *d, uint64_t size);
int gb_host_malloc(struct gb_dev *d, uint64_t size);
int gb_host_pointer(struct gb_dev *d, uint64_t addr);
int gb_host_free(struct gb_dev *d, uint64_t addr);

int gb_granularity(struct gb_dev *d, int ordinal);
int gb_reserve(struct gb_dev *d, uint64_t size);
int gb_unreserve(struct gb_dev *d, uint64_t addr, uint64_t size);
int gb_create(struct gb_dev *d, uint64_t size, int ordinal);
int gb_release(struct gb_dev *d, uint64_t handle);
int gb_map(struct gb_dev *d, uint64_t addr, uint64_t size, uint64_t handle);
int gb_unmap(struct gb_dev *d, uint64_t addr, uint64_t size);
int gb_set_access(struct gb_dev *d, uint64_t addr, uint64_t size, int ordinal);

int gb_stream_create(struct gb_dev *d);
int gb_stream_destroy(struct gb_dev *d, uint64_t stream);
int gb_stream_sync(struct gb_dev *d, uint64_t stream);
int gb_stream_wait(struct gb_dev *d, uint64_t stream, uint64_t event);
int gb_event_create(struct gb_dev *d);
int gb_event_destroy(struct gb_dev *d, uint64_t event);
int gb_event_record(struct gb_dev *d, uint64_t event, uint64_t stream);
int gb_event_query(struct gb_dev *d, uint64_t event);
int gb_event_wait(struct gb_dev *d, uint64_t event);
int gb_device_sync(struct gb_dev *d);

int gb_pool_create(struct gb_dev *d, int ordinal);
int gb_pool_destroy(struct gb_dev *d, uint64_t pool);
int gb_pool_set(struct gb_dev *d, uint64_t pool, int attribute, uint64_t value, int wide);
int gb_pool_get(struct gb_dev *d, uint64_t pool, int attribute, int wide);
int gb_pool_trim(struct gb_dev *d, uint64_t pool, uint64_t keep);
int gb_pool_malloc(struct gb_dev *d, uint64_t size, uint64_t pool, uint64_t stream);
int gb_pool_free(struct gb_dev *d, uint64_t addr, uint64_t stream);

int gb_memset8(struct gb_dev *d, uint64_t addr, uint8_t value, uint64_t n);
int gb_memset32(struct gb_dev *d, uint64_t addr, uint32_t value, uint64_t words);
int gb_memset_async(struct gb_dev *d, uint64_t addr, uint8_t value, uint64_t n, uint64_t stream);
int gb_copy_in(struct gb_dev *d, uint64_t to, const void *from, uint64_t n);
int gb_copy_out(struct gb_dev *d, void *to, uint64_t from, uint64_t n);
int gb_copy_device(struct gb_dev *d, uint64_t to, uint64_t from, uint64_t n);
// gb_copy_host copies to or from pinned memory, whose address is a number.
int gb_copy_host(struct gb_dev *d, uint64_t device, uint64_t host, uint64_t n, int out);
// gb_check copies n bytes at addr back and compares them with a repeated 32-bit word; out is the offset of the first byte
// that differs, n if none does.
int gb_check(struct gb_dev *d, uint64_t addr, uint32_t word, uint64_t n);

// For the benchmark of the overhead: n calls of cuMemGetInfo made bare, and made as gb_mem_info makes them.
int gb_bench_bare(struct gb_dev *d, uint64_t n);
int gb_bench_guarded(struct gb_dev *d, uint64_t n);

#endif
