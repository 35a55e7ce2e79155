//go:build cgo && linux

// The calls on a context, one function each.
#define _GNU_SOURCE
#include "shim_internal.h"
#include <stdlib.h>
#include <string.h>

// GB_DO is a call that answers nothing but its result; GB_GET one that leaves something in out.
#define GB_DO(d, kind, fn, ...)             \
	GB_CURRENT(d);                          \
	GB_TIMED(d, kind, fn, __VA_ARGS__);     \
	return GB_OK
#define GB_GET(d, kind, what, fn, ...)      \
	GB_CURRENT(d);                          \
	GB_TIMED(d, kind, fn, __VA_ARGS__);     \
	(d)->shared.out = (uint64_t)(what);     \
	return GB_OK

static void *object(uint64_t h) { return (void *)(uintptr_t)h; }

int gb_mem_info(struct gb_dev *d) {
	GB_CURRENT(d);
	GB_TIMED(d, GB_MEM_INFO, cuMemGetInfo_v2, &d->size[0], &d->size[1]);
	d->shared.out = d->size[0];
	d->shared.out2 = d->size[1];
	return GB_OK;
}

int gb_malloc(struct gb_dev *d, uint64_t size) { GB_GET(d, GB_MALLOC, d->ptr, cuMemAlloc_v2, &d->ptr, size); }
int gb_free(struct gb_dev *d, uint64_t addr) { GB_DO(d, GB_FREE, cuMemFree_v2, addr); }
int gb_managed(struct gb_dev *d, uint64_t size) { GB_GET(d, GB_MANAGED, d->ptr, cuMemAllocManaged, &d->ptr, size, GB_ATTACH_GLOBAL); }
int gb_host_malloc(struct gb_dev *d, uint64_t size) { GB_GET(d, GB_HOST_MALLOC, (uintptr_t)d->object, cuMemHostAlloc, &d->object, size, GB_DEVICEMAP); }
int gb_host_pointer(struct gb_dev *d, uint64_t addr) { GB_GET(d, GB_SETUP, d->ptr, cuMemHostGetDevicePointer_v2, &d->ptr, object(addr), 0); }
int gb_host_free(struct gb_dev *d, uint64_t addr) { GB_DO(d, GB_HOST_FREE, cuMemFreeHost, object(addr)); }

static struct gb_prop prop(int ordinal) {
	struct gb_prop p;
	memset(&p, 0, sizeof p);
	p.type = GB_PINNED;
	p.location.type = GB_ON_DEVICE;
	p.location.id = ordinal;
	return p;
}

int gb_granularity(struct gb_dev *d, int ordinal) {
	struct gb_prop p = prop(ordinal);
	GB_GET(d, GB_SETUP, d->size[0], cuMemGetAllocationGranularity, &d->size[0], &p, 0);
}

int gb_reserve(struct gb_dev *d, uint64_t size) { GB_GET(d, GB_RESERVE, d->ptr, cuMemAddressReserve, &d->ptr, size, 0, 0, 0); }
int gb_unreserve(struct gb_dev *d, uint64_t addr, uint64_t size) { GB_DO(d, GB_UNRESERVE, cuMemAddressFree, addr, size); }

int gb_create(struct gb_dev *d, uint64_t size, int ordinal) {
	struct gb_prop p = prop(ordinal);
	GB_GET(d, GB_CREATE, d->handle, cuMemCreate, &d->handle, size, &p, 0);
}

int gb_release(struct gb_dev *d, uint64_t handle) { GB_DO(d, GB_RELEASE, cuMemRelease, handle); }
int gb_map(struct gb_dev *d, uint64_t addr, uint64_t size, uint64_t handle) { GB_DO(d, GB_MAP, cuMemMap, addr, size, 0, handle, 0); }
int gb_unmap(struct gb_dev *d, uint64_t addr, uint64_t size) { GB_DO(d, GB_UNMAP, cuMemUnmap, addr, size); }

int gb_set_access(struct gb_dev *d, uint64_t addr, uint64_t size, int ordinal) {
	struct gb_access a = {{GB_ON_DEVICE, ordinal}, GB_READ_WRITE};
	GB_DO(d, GB_SET_ACCESS, cuMemSetAccess, addr, size, &a, 1);
}

int gb_stream_create(struct gb_dev *d) { GB_GET(d, GB_SETUP, (uintptr_t)d->object, cuStreamCreate, &d->object, GB_NON_BLOCKING); }
int gb_stream_destroy(struct gb_dev *d, uint64_t s) { GB_DO(d, GB_SETUP, cuStreamDestroy_v2, object(s)); }
int gb_stream_sync(struct gb_dev *d, uint64_t s) { GB_DO(d, GB_STREAM_SYNC, cuStreamSynchronize, object(s)); }
int gb_stream_wait(struct gb_dev *d, uint64_t s, uint64_t e) { GB_DO(d, GB_STREAM_WAIT, cuStreamWaitEvent, object(s), object(e), 0); }
int gb_event_create(struct gb_dev *d) { GB_GET(d, GB_SETUP, (uintptr_t)d->object, cuEventCreate, &d->object, GB_DISABLE_TIMING); }
int gb_event_destroy(struct gb_dev *d, uint64_t e) { GB_DO(d, GB_SETUP, cuEventDestroy_v2, object(e)); }
int gb_event_record(struct gb_dev *d, uint64_t e, uint64_t s) { GB_DO(d, GB_EVENT_RECORD, cuEventRecord, object(e), object(s)); }
int gb_event_query(struct gb_dev *d, uint64_t e) { GB_DO(d, GB_EVENT_QUERY, cuEventQuery, object(e)); }
int gb_event_wait(struct gb_dev *d, uint64_t e) { GB_DO(d, GB_EVENT_WAIT, cuEventSynchronize, object(e)); }
int gb_device_sync(struct gb_dev *d) {
	GB_CURRENT(d);
	GB_TIMED(d, GB_DEVICE_SYNC, cuCtxSynchronize);
	return GB_OK;
}

int gb_pool_create(struct gb_dev *d, int ordinal) {
	struct gb_pool_props p;
	memset(&p, 0, sizeof p);
	p.type = GB_PINNED;
	p.location.type = GB_ON_DEVICE;
	p.location.id = ordinal;
	GB_GET(d, GB_SETUP, (uintptr_t)d->object, cuMemPoolCreate, &d->object, &p);
}

int gb_pool_destroy(struct gb_dev *d, uint64_t pool) { GB_DO(d, GB_SETUP, cuMemPoolDestroy, object(pool)); }

// Attributes are int or cuuint64_t; wide says which. On a little-endian machine the low half is the int.
int gb_pool_set(struct gb_dev *d, uint64_t pool, int attribute, uint64_t value, int wide) {
	(void)wide;
	d->value = value;
	GB_DO(d, GB_SETUP, cuMemPoolSetAttribute, object(pool), attribute, &d->value);
}

int gb_pool_get(struct gb_dev *d, uint64_t pool, int attribute, int wide) {
	d->value = 0;
	GB_GET(d, GB_SETUP, wide ? d->value : (uint32_t)d->value, cuMemPoolGetAttribute, object(pool), attribute, &d->value);
}

int gb_pool_trim(struct gb_dev *d, uint64_t pool, uint64_t keep) { GB_DO(d, GB_SETUP, cuMemPoolTrimTo, object(pool), keep); }
int gb_pool_malloc(struct gb_dev *d, uint64_t size, uint64_t pool, uint64_t stream) {
	GB_GET(d, GB_MALLOC, d->ptr, cuMemAllocFromPoolAsync, &d->ptr, size, object(pool), object(stream));
}
int gb_pool_free(struct gb_dev *d, uint64_t addr, uint64_t stream) { GB_DO(d, GB_FREE, cuMemFreeAsync, addr, object(stream)); }

int gb_memset8(struct gb_dev *d, uint64_t addr, uint8_t v, uint64_t n) { GB_DO(d, GB_TOUCH, cuMemsetD8_v2, addr, v, n); }
int gb_memset32(struct gb_dev *d, uint64_t addr, uint32_t v, uint64_t words) { GB_DO(d, GB_TOUCH, cuMemsetD32_v2, addr, v, words); }
int gb_memset_async(struct gb_dev *d, uint64_t addr, uint8_t v, uint64_t n, uint64_t s) { GB_DO(d, GB_TOUCH, cuMemsetD8Async, addr, v, n, object(s)); }
int gb_copy_in(struct gb_dev *d, uint64_t to, const void *from, uint64_t n) { GB_DO(d, GB_COPY, cuMemcpyHtoD_v2, to, from, n); }
int gb_copy_out(struct gb_dev *d, void *to, uint64_t from, uint64_t n) { GB_DO(d, GB_COPY, cuMemcpyDtoH_v2, to, from, n); }
int gb_copy_device(struct gb_dev *d, uint64_t to, uint64_t from, uint64_t n) { GB_DO(d, GB_COPY, cuMemcpyDtoD_v2, to, from, n); }

int gb_copy_host(struct gb_dev *d, uint64_t device, uint64_t host, uint64_t n, int out) {
	return out ? gb_copy_out(d, object(host), device, n) : gb_copy_in(d, device, object(host), n);
}

#define STAGING_BYTES (1u << 20)

int gb_check(struct gb_dev *d, uint64_t addr, uint32_t word, uint64_t n) {
	if (!d->staging && !(d->staging = malloc(STAGING_BYTES))) return 2; // CUDA_ERROR_OUT_OF_MEMORY
	for (uint64_t at = 0; at < n; at += STAGING_BYTES) {
		uint64_t m = n - at < STAGING_BYTES ? n - at : STAGING_BYTES;
		int r = gb_copy_out(d, d->staging, addr + at, m);
		if (r != GB_OK) return r;
		const unsigned char *got = (const unsigned char *)d->staging, *want = (const unsigned char *)&word;
		for (uint64_t i = 0; i < m / 4; i++) {
			if (d->staging[i] == word) continue;
			m = 4 * i + 4; // the byte is in here
			break;
		}
		for (uint64_t i = m < 8 ? 0 : (m - 8) / 4 * 4; i < m; i++)
			if (got[i] != want[i % 4]) {
				d->shared.out = at + i;
				return GB_OK;
			}
	}
	d->shared.out = n;
	return GB_OK;
}

int gb_bench_bare(struct gb_dev *d, uint64_t n) {
	GB_CURRENT(d);
	for (uint64_t i = 0; i < n; i++) {
		int r = d->api.cuMemGetInfo_v2(&d->size[0], &d->size[1]);
		if (r) return r;
	}
	return GB_OK;
}

int gb_bench_guarded(struct gb_dev *d, uint64_t n) {
	for (uint64_t i = 0; i < n; i++) {
		int r = gb_mem_info(d);
		if (r) return r;
	}
	return GB_OK;
}
