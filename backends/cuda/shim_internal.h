//go:build cgo && linux

// What the C files of the shim share: the table of functions, the device, and the macro that every call goes through.
#ifndef GPUBENCH_CUDA_SHIM_INTERNAL_H
#define GPUBENCH_CUDA_SHIM_INTERNAL_H

#include "shim.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <time.h>

typedef unsigned long long gb_ptr; // CUdeviceptr

// Layouts of the driver API (CUDA driver API reference: CUmemAllocationProp, CUmemAccessDesc, CUmemPoolProps).
struct gb_location { int type, id; };
struct gb_prop { int type, handle_types; struct gb_location location; void *win32; unsigned char flags[8]; };
struct gb_access { struct gb_location location; int flags; };
struct gb_pool_props { int type, handle_types; struct gb_location location; void *security; size_t max; unsigned short usage; unsigned char reserved[54]; };
_Static_assert(sizeof(struct gb_prop) == 32 && sizeof(struct gb_access) == 12 && sizeof(struct gb_pool_props) == 88, "layout of the driver API");

enum { GB_PINNED = 1, GB_ON_DEVICE = 1, GB_READ_WRITE = 3, GB_NON_BLOCKING = 1, GB_DISABLE_TIMING = 2, GB_ATTACH_GLOBAL = 1, GB_DEVICEMAP = 2 };

// The functions of the driver, by the names that it exports. A function that is missing answers "not supported".
#define GB_FUNCTIONS(X) \
	X(cuInit, (unsigned)) X(cuDriverGetVersion, (int *)) X(cuDeviceGetCount, (int *)) X(cuDeviceGetName, (char *, int, int)) \
	X(cuDeviceGetUuid_v2, (unsigned char *, int)) X(cuDeviceTotalMem_v2, (size_t *, int)) X(cuDeviceGetAttribute, (int *, int, int)) \
	X(cuGetErrorName, (int, const char **)) \
	X(cuCtxCreate_v2, (void **, unsigned, int)) X(cuCtxDestroy_v2, (void *)) X(cuCtxSetCurrent, (void *)) X(cuCtxSynchronize, (void)) \
	X(cuMemGetInfo_v2, (size_t *, size_t *)) X(cuMemAlloc_v2, (gb_ptr *, size_t)) X(cuMemFree_v2, (gb_ptr)) \
	X(cuMemAllocManaged, (gb_ptr *, size_t, unsigned)) X(cuMemHostAlloc, (void **, size_t, unsigned)) X(cuMemFreeHost, (void *)) \
	X(cuMemHostGetDevicePointer_v2, (gb_ptr *, void *, unsigned)) \
	X(cuMemGetAllocationGranularity, (size_t *, const struct gb_prop *, int)) \
	X(cuMemAddressReserve, (gb_ptr *, size_t, size_t, gb_ptr, unsigned long long)) X(cuMemAddressFree, (gb_ptr, size_t)) \
	X(cuMemCreate, (unsigned long long *, size_t, const struct gb_prop *, unsigned long long)) X(cuMemRelease, (unsigned long long)) \
	X(cuMemMap, (gb_ptr, size_t, size_t, unsigned long long, unsigned long long)) X(cuMemUnmap, (gb_ptr, size_t)) \
	X(cuMemSetAccess, (gb_ptr, size_t, const struct gb_access *, size_t)) \
	X(cuStreamCreate, (void **, unsigned)) X(cuStreamDestroy_v2, (void *)) X(cuStreamSynchronize, (void *)) \
	X(cuStreamWaitEvent, (void *, void *, unsigned)) \
	X(cuEventCreate, (void **, unsigned)) X(cuEventDestroy_v2, (void *)) X(cuEventRecord, (void *, void *)) X(cuEventQuery, (void *)) \
	X(cuEventSynchronize, (void *)) \
	X(cuMemPoolCreate, (void **, const struct gb_pool_props *)) X(cuMemPoolDestroy, (void *)) X(cuMemPoolSetAttribute, (void *, int, void *)) \
	X(cuMemPoolGetAttribute, (void *, int, void *)) X(cuMemPoolTrimTo, (void *, size_t)) \
	X(cuMemAllocFromPoolAsync, (gb_ptr *, size_t, void *, void *)) X(cuMemFreeAsync, (gb_ptr, void *)) \
	X(cuMemsetD8_v2, (gb_ptr, unsigned char, size_t)) X(cuMemsetD32_v2, (gb_ptr, unsigned, size_t)) \
	X(cuMemsetD8Async, (gb_ptr, unsigned char, size_t, void *)) \
	X(cuMemcpyHtoD_v2, (gb_ptr, const void *, size_t)) X(cuMemcpyDtoH_v2, (void *, gb_ptr, size_t)) X(cuMemcpyDtoD_v2, (gb_ptr, gb_ptr, size_t))

struct gb_api {
#define GB_FIELD(name, args) int (*name) args;
	GB_FUNCTIONS(GB_FIELD)
#undef GB_FIELD
};

struct gb_dev {
	struct gb_shared shared;
	struct gb_api api;
	void *ctx;
	uint64_t serial; // of the context; unique in the process
	int tick_source;
	_Atomic uint64_t deadline_ns;
	_Atomic uint64_t sequence; // odd while a call is in the driver
	_Atomic uint64_t abandon;  // the sequence number of the call to give up
	pthread_t thread;          // that makes the call
	sigjmp_buf back;           // to where the call was made
	pthread_t watchdog;
	_Atomic int ending;
	// Places for the driver's answers: a call that is given up may still write to them.
	gb_ptr ptr;
	size_t size[2];
	void *object;
	int number;
	unsigned long long handle;
	uint64_t value;
	uint32_t *staging;
};

// The device whose call this thread is in, for the signal handler, and the context that is current on it.
extern __thread struct gb_dev *gb_thread_device;
extern __thread uint64_t gb_thread_context;

static inline uint64_t gb_ticks(const struct gb_dev *d) {
#if defined(__x86_64__)
	if (d->tick_source == GB_TICKS_TSC) {
		uint32_t lo, hi;
		__asm__ volatile("lfence\n\trdtsc" : "=a"(lo), "=d"(hi)::"memory");
		return (uint64_t)hi << 32 | lo;
	}
#elif defined(__aarch64__)
	if (d->tick_source == GB_TICKS_CNTVCT) {
		uint64_t t;
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(t)::"memory");
		return t;
	}
#endif
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// gb_sticky are the answers after which a context answers nothing else (CUDA driver API reference, CUresult: "the process must
// be terminated and relaunched"), and those that say that the device or the driver is gone.
static inline int gb_sticky(int r) {
	switch (r) {
	case 4: case 46: case 214: case 220: case 700: case 702: case 709: case 710: case 714: case 715: case 716: case 717: case 718: case 719: case 721:
		return 1;
	}
	return 0;
}

static inline int gb_account(struct gb_dev *d, enum gb_kind kind, int r, uint64_t ticks) {
	d->shared.ticks = ticks;
	d->shared.result = r;
	d->shared.count[kind].calls++;
	d->shared.count[kind].ticks += ticks;
	if (gb_sticky(r)) {
		d->shared.lost = 1;
		return GB_LOST;
	}
	return r;
}

int gb_make_current(struct gb_dev *d);
int gb_gave_up(struct gb_dev *d, enum gb_kind kind);

// GB_TIMED makes one call of the driver: on the caller's thread, with its context current, timed, counted, and under the
// deadline. Nothing is stored between sigsetjmp and the call that is used after a jump.
#define GB_TIMED(d, kind, fn, ...)                                                                       \
	do {                                                                                                 \
		if ((d)->shared.lost) return GB_LOST;                                                            \
		if (!(d)->api.fn) return (d)->shared.result = GB_NOT_SUPPORTED;                                  \
		(d)->thread = pthread_self();                                                                    \
		gb_thread_device = (d);                                                                          \
		if (__builtin_expect(sigsetjmp((d)->back, 0), 0)) return gb_gave_up((d), (kind));                \
		uint64_t seq_ = atomic_load_explicit(&(d)->sequence, memory_order_relaxed);                      \
		atomic_store_explicit(&(d)->sequence, seq_ + 1, memory_order_release);                           \
		uint64_t start_ = gb_ticks(d);                                                                   \
		int r_ = (d)->api.fn(__VA_ARGS__);                                                               \
		uint64_t end_ = gb_ticks(d);                                                                     \
		atomic_store_explicit(&(d)->sequence, seq_ + 2, memory_order_release);                           \
		int answer_ = gb_account((d), (kind), r_, end_ - start_);                                        \
		if (answer_ != GB_OK) return answer_;                                                            \
	} while (0)

// GB_CURRENT makes the device's context current on this thread; a context is made current once a thread.
#define GB_CURRENT(d)                                                            \
	do {                                                                         \
		if (__builtin_expect(gb_thread_context != (d)->serial, 0)) {             \
			int c_ = gb_make_current(d);                                         \
			if (c_ != GB_OK) return c_;                                          \
		}                                                                        \
	} while (0)

#endif
