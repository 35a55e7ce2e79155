// Streams, events and stream-ordered pools.
#define _GNU_SOURCE
#include "standin.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A finished hold lets through what was issued under it.
static int complete(uint64_t done_at) { return done_at == FOREVER ? !S.hold : now_ns() >= done_at; }

uint64_t done_time(struct stream *s) {
	if (S.hold) return FOREVER;
	uint64_t t = now_ns();
	if (s->busy_until != FOREVER && s->busy_until > t) t = s->busy_until;
	return t + S.delay_ns;
}

// wait_until waits without the lock, so that other threads and the one that ends a hold can go on.
void wait_until(uint64_t *done_at) {
	uint64_t t = *done_at;
	while (!complete(t)) {
		pthread_mutex_unlock(&S.lock);
		usleep(20);
		pthread_mutex_lock(&S.lock);
	}
}

struct stream *stream_of(void *h, int device) {
	if (!h || h == (void *)1) return &S.device[device].legacy;
	for (struct stream *s = S.streams; s; s = s->next)
		if (s == h) return s;
	return NULL;
}

static struct event *event_of(void *h) {
	for (struct event *e = S.events; e; e = e->next)
		if (e == h) return e;
	return NULL;
}

int cuStreamCreate(struct stream **out, unsigned flags) {
	BEGIN_CTX("cuStreamCreate");
	if (flags > 1) END(INVALID_VALUE);
	struct stream *s = calloc(1, sizeof *s);
	s->device = ctx->device;
	s->next = S.streams;
	S.streams = *out = s;
	END(OK);
}

int cuStreamDestroy_v2(struct stream *h) {
	BEGIN_CTX("cuStreamDestroy_v2");
	(void)ctx;
	for (struct stream **q = &S.streams; *q; q = &(*q)->next)
		if (*q == h) {
			*q = h->next;
			free(h);
			END(OK);
		}
	END(INVALID_HANDLE);
}

int cuStreamSynchronize(void *h) {
	BEGIN_CTX("cuStreamSynchronize");
	struct stream *s = stream_of(h, ctx->device);
	if (!s) END(INVALID_HANDLE);
	wait_until(&s->busy_until);
	pool_release_unused(ctx->device, 0);
	END(OK);
}

int cuStreamQuery(void *h) {
	BEGIN_CTX("cuStreamQuery");
	struct stream *s = stream_of(h, ctx->device);
	if (!s) END(INVALID_HANDLE);
	END(complete(s->busy_until) ? OK : NOT_READY);
}

int cuStreamWaitEvent(void *h, void *event, unsigned flags) {
	BEGIN_CTX("cuStreamWaitEvent");
	struct stream *s = stream_of(h, ctx->device);
	struct event *e = event_of(event);
	if (!s || !e) END(INVALID_HANDLE);
	if (flags) END(INVALID_VALUE);
	if (e->done_at > s->busy_until) s->busy_until = e->done_at;
	END(OK);
}

int cuCtxSynchronize(void) {
	BEGIN_CTX("cuCtxSynchronize");
	wait_until(&S.device[ctx->device].legacy.busy_until);
	for (struct stream *s = S.streams; s; s = s->next)
		if (s->device == ctx->device) wait_until(&s->busy_until);
	pool_release_unused(ctx->device, 0);
	END(OK);
}

int cuEventCreate(struct event **out, unsigned flags) {
	BEGIN_CTX("cuEventCreate");
	(void)ctx;
	if (flags > 7) END(INVALID_VALUE);
	struct event *e = calloc(1, sizeof *e);
	e->next = S.events;
	S.events = *out = e;
	END(OK);
}

int cuEventDestroy_v2(struct event *h) {
	BEGIN_CTX("cuEventDestroy_v2");
	(void)ctx;
	for (struct event **q = &S.events; *q; q = &(*q)->next)
		if (*q == h) {
			*q = h->next;
			free(h);
			END(OK);
		}
	END(INVALID_HANDLE);
}

int cuEventRecord(void *event, void *h) {
	BEGIN_CTX("cuEventRecord");
	struct event *e = event_of(event);
	struct stream *s = stream_of(h, ctx->device);
	if (!e || !s) END(INVALID_HANDLE);
	s->busy_until = e->done_at = done_time(s);
	END(OK);
}

int cuEventQuery(void *event) {
	BEGIN_CTX("cuEventQuery");
	(void)ctx;
	struct event *e = event_of(event);
	if (!e) END(INVALID_HANDLE);
	END(complete(e->done_at) ? OK : NOT_READY);
}

int cuEventSynchronize(void *event) {
	BEGIN_CTX("cuEventSynchronize");
	struct event *e = event_of(event);
	if (!e) END(INVALID_HANDLE);
	wait_until(&e->done_at);
	pool_release_unused(ctx->device, 0);
	END(OK);
}

struct pool_props { int type, handle_types, location_type, location_id; void *security; size_t max; unsigned short usage; unsigned char reserved[54]; };
_Static_assert(sizeof(struct pool_props) == 88, "CUmemPoolProps has 88 bytes");

int cuDeviceGetDefaultMemPool(struct pool **out, int device) {
	BEGIN("cuDeviceGetDefaultMemPool");
	if (!S.pools) END(NOT_SUPPORTED);
	if (device < 0 || device >= S.devices) END(INVALID_DEVICE);
	*out = &S.device[device].pool;
	END(OK);
}

int cuMemPoolCreate(struct pool **out, const struct pool_props *p) {
	BEGIN_CTX("cuMemPoolCreate");
	if (!S.pools) END(NOT_SUPPORTED);
	if (p->type != 1 || p->location_type != 1) END(INVALID_VALUE);
	struct pool *q = calloc(1, sizeof *q);
	q->device = ctx->device;
	q->next = S.pool_list;
	S.pool_list = *out = q;
	END(OK);
}

static struct pool *pool_of(void *h) {
	for (int i = 0; i < S.devices; i++)
		if (h == &S.device[i].pool) return h;
	for (struct pool *p = S.pool_list; p; p = p->next)
		if (p == h) return p;
	return NULL;
}

// shrink gives cached memory back, complete work only, until at most keep bytes are reserved.
static void shrink(struct pool *p, uint64_t keep) {
	for (struct cached **q = &p->cache; *q;) {
		struct cached *c = *q;
		if (p->reserved <= keep || !complete(c->done_at)) {
			q = &c->next;
			continue;
		}
		*q = c->next;
		p->reserved -= c->size;
		give_pages(find_at(&S.ranges, c->addr));
		free(c);
	}
}

void pool_release_unused(int device, int wait) {
	(void)wait;
	shrink(&S.device[device].pool, S.device[device].pool.threshold);
	for (struct pool *p = S.pool_list; p; p = p->next)
		if (p->device == device) shrink(p, p->threshold);
}

int cuMemPoolDestroy(struct pool *h) {
	BEGIN_CTX("cuMemPoolDestroy");
	(void)ctx;
	for (struct pool **q = &S.pool_list; *q; q = &(*q)->next) {
		if (*q != h) continue;
		for (struct cached *c = h->cache; c; c = c->next) wait_until(&c->done_at);
		shrink(h, 0);
		*q = h->next;
		free(h);
		END(OK);
	}
	END(INVALID_VALUE);
}

// Numbers of CUmemPool_attribute.
enum { REUSE_FIRST = 1, REUSE_LAST = 3, THRESHOLD = 4, RESERVED_NOW = 5, RESERVED_HIGH = 6, USED_NOW = 7, USED_HIGH = 8 };

int cuMemPoolSetAttribute(struct pool *h, int attribute, void *value) {
	BEGIN("cuMemPoolSetAttribute");
	struct pool *p = pool_of(h);
	if (!p) END(INVALID_VALUE);
	if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) p->flags[attribute] = (uint64_t)*(int *)value;
	else if (attribute == THRESHOLD) p->threshold = *(uint64_t *)value;
	else if (attribute == RESERVED_HIGH && *(uint64_t *)value == 0) p->reserved_high = p->reserved;
	else if (attribute == USED_HIGH && *(uint64_t *)value == 0) p->used_high = p->used;
	else END(INVALID_VALUE);
	END(OK);
}

int cuMemPoolGetAttribute(struct pool *h, int attribute, void *value) {
	BEGIN("cuMemPoolGetAttribute");
	struct pool *p = pool_of(h);
	if (!p) END(INVALID_VALUE);
	switch (attribute) {
	case 1: case 2: case 3: *(int *)value = (int)p->flags[attribute]; END(OK);
	case THRESHOLD: *(uint64_t *)value = p->threshold; END(OK);
	case RESERVED_NOW: *(uint64_t *)value = p->reserved; END(OK);
	case RESERVED_HIGH: *(uint64_t *)value = p->reserved_high; END(OK);
	case USED_NOW: *(uint64_t *)value = p->used; END(OK);
	case USED_HIGH: *(uint64_t *)value = p->used_high; END(OK);
	}
	END(INVALID_VALUE);
}

int cuMemPoolTrimTo(struct pool *h, size_t keep) {
	BEGIN("cuMemPoolTrimTo");
	struct pool *p = pool_of(h);
	if (!p) END(INVALID_VALUE);
	shrink(p, keep);
	END(OK);
}

// from_cache takes a cached block of exactly this size: freed on the same stream, or whose work is complete.
static int from_cache(struct pool *p, struct stream *s, uint64_t size, ptr *out) {
	for (struct cached **q = &p->cache; *q; q = &(*q)->next) {
		struct cached *c = *q;
		if (c->size != size || (c->stream != s && !complete(c->done_at))) continue;
		*q = c->next;
		*out = c->addr;
		free(c);
		return 1;
	}
	return 0;
}

static int pool_alloc(ptr *out, size_t size, struct pool *p, struct stream *s) {
	if (size == 0) return INVALID_VALUE;
	if (size > S.device[p->device].total) return OUT_OF_MEMORY;
	uint64_t n = (size + PAGE - 1) / PAGE * PAGE;
	if (!from_cache(p, s, n, out)) {
		int r = take_pages(p->device, n, POOLED, out);
		if (r == OUT_OF_MEMORY) {
			shrink(p, 0);
			r = take_pages(p->device, n, POOLED, out);
		}
		if (r != OK) return r;
		find_at(&S.ranges, *out)->pool = p;
		p->reserved += n;
		if (p->reserved > p->reserved_high) p->reserved_high = p->reserved;
	}
	p->used += n;
	if (p->used > p->used_high) p->used_high = p->used;
	return OK;
}

int cuMemAllocFromPoolAsync(ptr *out, size_t size, void *pool, void *stream) {
	BEGIN_CTX("cuMemAllocFromPoolAsync");
	if (!S.pools) END(NOT_SUPPORTED);
	struct pool *p = pool_of(pool);
	struct stream *s = stream_of(stream, ctx->device);
	if (!p) END(INVALID_VALUE);
	if (!s) END(INVALID_HANDLE);
	END(pool_alloc(out, size, p, s));
}

int cuMemAllocAsync(ptr *out, size_t size, void *stream) {
	BEGIN_CTX("cuMemAllocAsync");
	if (!S.pools) END(NOT_SUPPORTED);
	struct stream *s = stream_of(stream, ctx->device);
	if (!s) END(INVALID_HANDLE);
	END(pool_alloc(out, size, &S.device[ctx->device].pool, s));
}

int cuMemFreeAsync(ptr addr, void *stream) {
	BEGIN_CTX("cuMemFreeAsync");
	struct stream *s = stream_of(stream, ctx->device);
	if (!s) END(INVALID_HANDLE);
	struct range *r = find_at(&S.ranges, addr);
	if (!r || r->kind != POOLED) END(INVALID_VALUE);
	struct pool *p = r->pool;
	for (struct cached *c = p->cache; c; c = c->next)
		if (c->addr == addr) END(INVALID_VALUE);
	struct cached *c = malloc(sizeof *c);
	*c = (struct cached){.addr = addr, .size = r->size, .done_at = s->busy_until = done_time(s), .stream = s, .next = p->cache};
	p->cache = c;
	p->used -= r->size;
	END(OK);
}
