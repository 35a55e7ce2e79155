// Virtual memory management, and what the end of a context frees.
#define _GNU_SOURCE
#include "standin.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct location { int type, id; };
struct prop { int type, handle_types; struct location location; void *win32; unsigned char flags[8]; };
struct access { struct location location; int flags; };
_Static_assert(sizeof(struct prop) == 32, "CUmemAllocationProp has 32 bytes");
_Static_assert(sizeof(struct access) == 12, "CUmemAccessDesc has 12 bytes");

int cuMemGetAllocationGranularity(size_t *out, const struct prop *p, int option) {
	(void)option;
	BEGIN("cuMemGetAllocationGranularity");
	if (!S.vmm) END(NOT_SUPPORTED);
	if (p->type != 1 || p->location.type != 1) END(INVALID_VALUE);
	*out = PAGE;
	END(OK);
}

int cuMemAddressReserve(ptr *out, size_t size, size_t align, ptr hint, unsigned long long flags) {
	(void)hint;
	BEGIN_CTX("cuMemAddressReserve");
	if (!S.vmm) END(NOT_SUPPORTED);
	if (size == 0 || size % PAGE || flags || (align & (align - 1))) END(INVALID_VALUE);
	if (size > 1ull << 44) END(OUT_OF_MEMORY);
	void *p = sparse(size);
	if (!p) END(OUT_OF_MEMORY);
	mprotect(p, size, PROT_NONE);
	*out = (ptr)(uintptr_t)p;
	insert(&S.reservations, (struct range){.addr = *out, .size = size, .kind = RESERVED, .device = ctx->device});
	END(OK);
}

int cuMemAddressFree(ptr addr, size_t size) {
	BEGIN_CTX("cuMemAddressFree");
	struct range *r = find_at(&S.reservations, addr);
	if (!r || r->kind != RESERVED || r->size != size) END(INVALID_VALUE);
	for (size_t i = 0; i < S.ranges.n; i++)
		if (S.ranges.at[i].addr >= addr && S.ranges.at[i].addr < addr + size) END(INVALID_VALUE);
	munmap((void *)(uintptr_t)addr, size);
	erase(&S.reservations, r);
	END(OK);
}

int cuMemCreate(uint64_t *handle, size_t size, const struct prop *p, unsigned long long flags) {
	BEGIN_CTX("cuMemCreate");
	if (!S.vmm) END(NOT_SUPPORTED);
	if (size == 0 || size % PAGE || flags || p->type != 1 || p->location.type != 1) END(INVALID_VALUE);
	int r = charge(ctx->device, size);
	if (r != OK) END(r);
	struct device *d = &S.device[ctx->device];
	struct phys *h = calloc(1, sizeof *h);
	*h = (struct phys){.id = ++S.next_phys, .size = size, .offset = d->file_end, .device = ctx->device, .next = S.phys};
	d->file_end += size;
	if (ftruncate(d->file, (off_t)d->file_end)) {
		free(h);
		d->used -= size;
		END(OUT_OF_MEMORY);
	}
	S.phys = h;
	*handle = h->id;
	END(OK);
}

static struct phys *phys_of(uint64_t id) {
	for (struct phys *p = S.phys; p; p = p->next)
		if (p->id == id) return p;
	return NULL;
}

// settle frees physical memory that was released and is mapped nowhere.
static void settle(struct phys *p) {
	if (!p->released || p->maps) return;
	struct device *d = &S.device[p->device];
	fallocate(d->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset, (off_t)p->size);
	d->used -= p->size;
	for (struct phys **q = &S.phys; *q; q = &(*q)->next)
		if (*q == p) {
			*q = p->next;
			break;
		}
	free(p);
}

int cuMemRelease(uint64_t handle) {
	BEGIN_CTX("cuMemRelease");
	(void)ctx;
	struct phys *p = phys_of(handle);
	if (!p || p->released) END(INVALID_VALUE);
	p->released = 1;
	settle(p);
	END(OK);
}

int cuMemMap(ptr addr, size_t size, size_t offset, uint64_t handle, unsigned long long flags) {
	BEGIN_CTX("cuMemMap");
	struct phys *p = phys_of(handle);
	struct range *v = find(&S.reservations, addr);
	if (!p || p->released || flags || offset || size != p->size || addr % PAGE || !v || v->kind != RESERVED || addr + size > v->addr + v->size) END(INVALID_VALUE);
	for (ptr a = addr; a < addr + size; a += PAGE)
		if (find(&S.ranges, a)) END(INVALID_VALUE);
	void *m = mmap((void *)(uintptr_t)addr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, S.device[p->device].file, (off_t)p->offset);
	if (m == MAP_FAILED) END(OUT_OF_MEMORY);
	p->maps++;
	insert(&S.ranges, (struct range){.addr = addr, .size = size, .kind = MAPPED, .device = ctx->device, .phys = handle});
	END(OK);
}

// whole reports whether [addr, addr+size) is exactly covered by mappings.
static int whole(ptr addr, uint64_t size) {
	ptr a = addr;
	while (a < addr + size) {
		struct range *r = find_at(&S.ranges, a);
		if (!r || r->kind != MAPPED) return 0;
		a += r->size;
	}
	return size > 0 && a == addr + size;
}

static void unmap(struct range *r) {
	struct phys *p = phys_of(r->phys);
	mmap((void *)(uintptr_t)r->addr, r->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	erase(&S.ranges, r);
	p->maps--;
	settle(p);
}

int cuMemUnmap(ptr addr, size_t size) {
	BEGIN_CTX("cuMemUnmap");
	(void)ctx;
	if (!whole(addr, size)) END(INVALID_VALUE);
	for (ptr a = addr; a < addr + size;) {
		struct range *r = find_at(&S.ranges, a);
		a += r->size;
		unmap(r);
	}
	END(OK);
}

int cuMemSetAccess(ptr addr, size_t size, const struct access *a, size_t n) {
	BEGIN_CTX("cuMemSetAccess");
	(void)ctx;
	if (!whole(addr, size) || n != 1 || a->location.type != 1) END(INVALID_VALUE);
	for (ptr at = addr; at < addr + size;) {
		struct range *r = find_at(&S.ranges, at);
		r->accessible = a->flags == 3;
		mprotect((void *)(uintptr_t)r->addr, r->size, r->accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
		at += r->size;
	}
	END(OK);
}

void drop_device(int device) {
	for (size_t i = S.ranges.n; i-- > 0;) {
		struct range *r = &S.ranges.at[i];
		if (r->device != device) continue;
		if (r->kind == MAPPED) unmap(r);
		else if (r->kind == SMALL) erase(&S.ranges, r);
		else give_pages(r);
	}
	for (size_t i = S.reservations.n; i-- > 0;) {
		struct range *r = &S.reservations.at[i];
		if (r->device != device) continue;
		munmap((void *)(uintptr_t)r->addr, r->size);
		if (r->kind == SLAB) S.device[device].used -= r->size;
		erase(&S.reservations, r);
	}
	for (struct phys *p = S.phys, *next; p; p = next) {
		next = p->next;
		if (p->device != device) continue;
		p->released = 1;
		settle(p);
	}
	struct device *d = &S.device[device];
	d->slab = 0;
	for (struct pool *p = &d->pool; p; p = p == &d->pool ? S.pool_list : p->next) {
		if (p->device != device) continue;
		for (struct cached *c = p->cache, *next; c; c = next) {
			next = c->next;
			free(c);
		}
		p->cache = NULL;
		p->reserved = p->used = 0;
	}
	for (struct pool **q = &S.pool_list; *q;) {
		struct pool *p = *q;
		if (p->device != device) {
			q = &p->next;
			continue;
		}
		*q = p->next;
		free(p);
	}
	for (struct stream **q = &S.streams; *q;) {
		struct stream *s = *q;
		if (s->device != device) {
			q = &s->next;
			continue;
		}
		*q = s->next;
		free(s);
	}
	int others = 0;
	for (struct context *c = S.contexts; c; c = c->next) others = 1;
	for (struct event *e; !others && (e = S.events);) {
		S.events = e->next;
		free(e);
	}
}

uint64_t standin_objects(void) {
	uint64_t n = 0;
	for (struct context *c = S.contexts; c; c = c->next) n++;
	for (struct stream *s = S.streams; s; s = s->next) n++;
	for (struct event *e = S.events; e; e = e->next) n++;
	for (struct pool *p = S.pool_list; p; p = p->next) n++;
	for (struct phys *p = S.phys; p; p = p->next) n++;
	return n + S.reservations.n;
}
