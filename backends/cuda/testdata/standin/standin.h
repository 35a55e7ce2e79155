// The stand-in's own declarations: what its files share. See README.md.
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

// Numbers of CUresult (CUDA driver API reference, "CUresult").
enum {
	OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
};

#define MAX_DEVICES 8
#define PAGE (2ull << 20)
#define SMALL_GRANULE 512
#define FOREVER UINT64_MAX

typedef unsigned long long ptr; // CUdeviceptr

// What a range of addresses is.
enum kind { DEVICE = 1, SLAB, SMALL, PINNED, MANAGED, POOLED, RESERVED, MAPPED };

struct range {
	ptr addr;
	uint64_t size;
	enum kind kind;
	int device;
	uint64_t phys;  // MAPPED: physical memory
	int accessible; // MAPPED
	uint64_t live;  // SLAB: live small blocks
	ptr slab;       // SMALL
	struct pool *pool; // POOLED
};

// Ranges are sorted by address. Reservations lie in a table of their own, since mappings lie inside them.
struct table {
	struct range *at;
	size_t n, cap;
};

struct phys {
	uint64_t id, size, offset, maps;
	int device, released;
	struct phys *next;
};

struct context { int device; struct context *next; };
struct stream { uint64_t busy_until; struct stream *next; int device; };
struct event { uint64_t done_at; struct event *next; };

struct cached { ptr addr; uint64_t size, done_at; struct stream *stream; struct cached *next; };
struct pool {
	int device, is_default;
	uint64_t reserved, reserved_high, used, used_high, threshold, flags[4];
	struct cached *cache;
	struct pool *next;
};

struct device {
	uint64_t total, used;
	int file; // memory file behind physical memory
	uint64_t file_end;
	struct stream legacy; // the default stream
	struct pool pool;
	ptr slab;
	uint64_t slab_used;
};

struct state {
	pthread_mutex_t lock;
	int initialised, devices, vmm, pools, managed, mig, hold;
	uint64_t delay_ns;
	struct device device[MAX_DEVICES];
	struct table ranges, reservations;
	struct phys *phys;
	struct context *contexts;
	struct stream *streams;
	struct event *events;
	struct pool *pool_list;
	uint64_t next_phys, pinned;
};
extern struct state S;

// enter counts the call and plays the faults; its result, unless 0, is the call's answer. It takes the lock; leave gives it back.
int enter(const char *name);
int leave(int result);
// current is the context of the calling thread, NULL if there is none or it was destroyed.
struct context *current(void);

uint64_t now_ns(void);
struct range *find(struct table *t, ptr addr);    // the range that holds addr
struct range *find_at(struct table *t, ptr addr); // the range that begins at addr
struct range *insert(struct table *t, struct range r);
void erase(struct table *t, struct range *r);
int charge(int device, uint64_t size);
void *sparse(uint64_t size);
void drop_device(int device); // everything that belongs to contexts of the device
void pool_release_unused(int device, int wait);
int take_pages(int device, uint64_t size, enum kind kind, ptr *out);
void give_pages(struct range *r);
struct stream *stream_of(void *h, int device);
uint64_t done_time(struct stream *s);
void wait_until(uint64_t *done_at);
int accessible(ptr addr, uint64_t size);

#define BEGIN(name) \
	do { int r_ = enter(name); if (r_ != OK) return leave(r_); } while (0)
#define BEGIN_CTX(name) \
	BEGIN(name); \
	struct context *ctx = current(); \
	if (!ctx) return leave(S.initialised ? INVALID_CONTEXT : NOT_INITIALIZED)
#define END(result) return leave(result)

#endif
