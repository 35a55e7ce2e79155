// Device, pinned and managed memory; memset and copies.
#define _GNU_SOURCE
#include "standin.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// position is the index of the first range whose address is greater than addr.
static size_t position(struct table *t, ptr addr) {
	size_t lo = 0, hi = t->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (t->at[mid].addr <= addr) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

struct range *find(struct table *t, ptr addr) {
	size_t i = position(t, addr);
	if (i == 0) return NULL;
	struct range *r = &t->at[i - 1];
	return addr - r->addr < r->size ? r : NULL;
}

struct range *find_at(struct table *t, ptr addr) {
	struct range *r = find(t, addr);
	return r && r->addr == addr ? r : NULL;
}

struct range *insert(struct table *t, struct range r) {
	size_t i = position(t, r.addr);
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->at = realloc(t->at, t->cap * sizeof *t->at);
	}
	memmove(&t->at[i + 1], &t->at[i], (t->n - i) * sizeof *t->at);
	t->at[i] = r;
	t->n++;
	return &t->at[i];
}

void erase(struct table *t, struct range *r) {
	size_t i = (size_t)(r - t->at);
	memmove(r, r + 1, (t->n - i - 1) * sizeof *r);
	t->n--;
}

int charge(int device, uint64_t size) {
	struct device *d = &S.device[device];
	if (size > d->total - d->used) return OUT_OF_MEMORY;
	d->used += size;
	return OK;
}

// sparse returns untouched zero memory on a boundary of PAGE.
void *sparse(uint64_t size) {
	char *p = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return NULL;
	char *at = (char *)(((uintptr_t)p + PAGE - 1) / PAGE * PAGE);
	if (at > p) munmap(p, (size_t)(at - p));
	char *end = p + size + PAGE;
	if (end > at + size) munmap(at + size, (size_t)(end - at - size));
	return at;
}

// take_pages takes size bytes, a multiple of PAGE, from the budget and the address space.
int take_pages(int device, uint64_t size, enum kind kind, ptr *out) {
	int r = charge(device, size);
	if (r != OK) return r;
	void *p = sparse(size);
	if (!p) {
		S.device[device].used -= size;
		return OUT_OF_MEMORY;
	}
	*out = (ptr)(uintptr_t)p;
	insert(&S.ranges, (struct range){.addr = *out, .size = size, .kind = kind, .device = device});
	return OK;
}

void give_pages(struct range *r) {
	munmap((void *)(uintptr_t)r->addr, r->size);
	if (r->kind == PINNED) S.pinned -= r->size;
	else S.device[r->device].used -= r->size;
	erase(&S.ranges, r);
}

// Blocks up to half a page come out of slabs of one page, as the driver does it: many share 2 MiB.
static int take_small(int device, uint64_t size, ptr *out) {
	struct device *d = &S.device[device];
	size = (size + SMALL_GRANULE - 1) / SMALL_GRANULE * SMALL_GRANULE;
	if (!d->slab || d->slab_used + size > PAGE) {
		ptr slab;
		int r = take_pages(device, PAGE, SLAB, &slab);
		if (r != OK) return r;
		d->slab = slab;
		d->slab_used = 0;
	}
	*out = d->slab + d->slab_used;
	d->slab_used += size;
	// A slab is kept in the table of reservations, where small blocks do not lie over it.
	struct range *s = find_at(&S.reservations, d->slab);
	if (!s) {
		struct range *page = find_at(&S.ranges, d->slab), copy = *page;
		erase(&S.ranges, page);
		s = insert(&S.reservations, copy);
	}
	s->live++;
	insert(&S.ranges, (struct range){.addr = *out, .size = size, .kind = SMALL, .device = device, .slab = s->addr});
	return OK;
}

static void give_small(struct range *r) {
	struct range *s = find_at(&S.reservations, r->slab);
	erase(&S.ranges, r);
	if (--s->live > 0) return;
	struct device *d = &S.device[s->device];
	if (d->slab == s->addr) d->slab = 0;
	munmap((void *)(uintptr_t)s->addr, s->size);
	d->used -= s->size;
	erase(&S.reservations, s);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
	BEGIN_CTX("cuMemGetInfo_v2");
	struct device *d = &S.device[ctx->device];
	*total = d->total;
	*free_bytes = d->total - d->used;
	END(OK);
}

int cuMemAlloc_v2(ptr *out, size_t size) {
	BEGIN_CTX("cuMemAlloc_v2");
	if (size == 0) END(INVALID_VALUE);
	if (size > S.device[ctx->device].total) END(OUT_OF_MEMORY);
	if (size <= PAGE / 2) END(take_small(ctx->device, size, out));
	END(take_pages(ctx->device, (size + PAGE - 1) / PAGE * PAGE, DEVICE, out));
}

int cuMemFree_v2(ptr addr) {
	BEGIN_CTX("cuMemFree_v2");
	struct range *r = find_at(&S.ranges, addr);
	if (!r || r->kind == PINNED || r->kind == MAPPED || r->kind == POOLED) END(INVALID_VALUE);
	if (r->kind == SMALL) give_small(r);
	else give_pages(r);
	END(OK);
}

int cuMemAllocManaged(ptr *out, size_t size, unsigned flags) {
	BEGIN_CTX("cuMemAllocManaged");
	if (!S.managed) END(NOT_SUPPORTED);
	if (size == 0 || flags != 1) END(INVALID_VALUE);
	END(take_pages(ctx->device, (size + PAGE - 1) / PAGE * PAGE, MANAGED, out));
}

int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
	(void)flags;
	BEGIN_CTX("cuMemHostAlloc");
	if (size == 0) END(INVALID_VALUE);
	size = (size + PAGE - 1) / PAGE * PAGE;
	if (!(*out = sparse(size))) END(OUT_OF_MEMORY);
	S.pinned += size;
	insert(&S.ranges, (struct range){.addr = (ptr)(uintptr_t)*out, .size = size, .kind = PINNED, .device = ctx->device});
	END(OK);
}

int cuMemFreeHost(void *p) {
	BEGIN_CTX("cuMemFreeHost");
	struct range *r = find_at(&S.ranges, (ptr)(uintptr_t)p);
	if (!r || r->kind != PINNED) END(INVALID_VALUE);
	give_pages(r);
	END(OK);
}

int cuMemHostGetDevicePointer_v2(ptr *out, void *p, unsigned flags) {
	BEGIN_CTX("cuMemHostGetDevicePointer_v2");
	struct range *r = find(&S.ranges, (ptr)(uintptr_t)p);
	if (!r || r->kind != PINNED || flags) END(INVALID_VALUE);
	*out = (ptr)(uintptr_t)p;
	END(OK);
}

// accessible reports whether every byte is held and may be read and written.
int accessible(ptr addr, uint64_t size) {
	while (size > 0) {
		struct range *r = find(&S.ranges, addr);
		if (!r || (r->kind == MAPPED && !r->accessible)) return 0;
		uint64_t n = r->size - (addr - r->addr);
		if (n >= size) return 1;
		addr += n;
		size -= n;
	}
	return 1;
}

int cuMemsetD8_v2(ptr addr, unsigned char v, size_t n) {
	BEGIN_CTX("cuMemsetD8_v2");
	if (!accessible(addr, n)) END(INVALID_VALUE);
	memset((void *)(uintptr_t)addr, v, n);
	END(OK);
}

int cuMemsetD32_v2(ptr addr, unsigned v, size_t n) {
	BEGIN_CTX("cuMemsetD32_v2");
	if (addr % 4 || !accessible(addr, 4 * n)) END(INVALID_VALUE);
	uint32_t *p = (uint32_t *)(uintptr_t)addr;
	for (size_t i = 0; i < n; i++) p[i] = v;
	END(OK);
}

int cuMemsetD8Async(ptr addr, unsigned char v, size_t n, void *stream) {
	BEGIN_CTX("cuMemsetD8Async");
	struct stream *s = stream_of(stream, ctx->device);
	if (!s) END(INVALID_HANDLE);
	if (!accessible(addr, n)) END(INVALID_VALUE);
	memset((void *)(uintptr_t)addr, v, n);
	s->busy_until = done_time(s);
	END(OK);
}

int cuMemcpyHtoD_v2(ptr to, const void *from, size_t n) {
	BEGIN_CTX("cuMemcpyHtoD_v2");
	if (!accessible(to, n)) END(INVALID_VALUE);
	memcpy((void *)(uintptr_t)to, from, n);
	END(OK);
}

int cuMemcpyDtoH_v2(void *to, ptr from, size_t n) {
	BEGIN_CTX("cuMemcpyDtoH_v2");
	if (!accessible(from, n)) END(INVALID_VALUE);
	memcpy(to, (void *)(uintptr_t)from, n);
	END(OK);
}

int cuMemcpyDtoD_v2(ptr to, ptr from, size_t n) {
	BEGIN_CTX("cuMemcpyDtoD_v2");
	if (!accessible(to, n) || !accessible(from, n)) END(INVALID_VALUE);
	memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
	END(OK);
}

uint64_t standin_held(void) {
	uint64_t n = S.pinned;
	for (int i = 0; i < S.devices; i++) n += S.device[i].used;
	return n;
}
