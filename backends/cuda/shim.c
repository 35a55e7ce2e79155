//go:build cgo && linux

// Loading, the watchdog, and the calls that need no context.
#define _GNU_SOURCE
#include "shim_internal.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread struct gb_dev *gb_thread_device;
__thread uint64_t gb_thread_context;

// The signal that takes a thread out of a call. The C library keeps the first few real-time signals for itself and debuggers
// like the last; Go has a handler for every signal, which is replaced for this one.
static int give_up_signal(void) { return SIGRTMAX - 3; }

static void on_give_up(int signal) {
	(void)signal;
	struct gb_dev *d = gb_thread_device;
	if (!d || !pthread_equal(d->thread, pthread_self())) return;
	uint64_t seq = atomic_load_explicit(&d->sequence, memory_order_acquire);
	if ((seq & 1) && seq == atomic_load_explicit(&d->abandon, memory_order_acquire)) siglongjmp(d->back, 1);
}

// watch looks at the call in flight several times a deadline; one that it sees in all of a deadline is given up. The signal
// does not reach a thread in uninterruptible sleep: then it is sent again, and the supervisor of the process is what helps.
static void *watch(void *p) {
	struct gb_dev *d = p;
	uint64_t seen = 0, since = 0;
	while (!atomic_load(&d->ending)) {
		uint64_t deadline = atomic_load(&d->deadline_ns), nap = deadline / 8;
		if (nap < 1000000) nap = 1000000;
		if (nap > 50000000) nap = 50000000;
		struct timespec t = {(time_t)(nap / 1000000000u), (long)(nap % 1000000000u)}, now;
		nanosleep(&t, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		uint64_t seq = atomic_load_explicit(&d->sequence, memory_order_acquire);
		if (!(seq & 1) || seq != seen) {
			seen = seq;
			since = ns;
			continue;
		}
		if (ns - since < deadline) continue;
		atomic_store_explicit(&d->abandon, seq, memory_order_release);
		pthread_kill(d->thread, give_up_signal());
	}
	return NULL;
}

int gb_gave_up(struct gb_dev *d, enum gb_kind kind) {
	gb_thread_device = NULL;
	atomic_store_explicit(&d->sequence, atomic_load(&d->sequence) + 1, memory_order_release);
	d->shared.lost = 1;
	d->shared.ticks = 0;
	d->shared.count[kind].calls++;
	return GB_HUNG;
}

static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static void install_handler(void) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = on_give_up;
	// On the alternative stack, as Go wants it; not deferred, because a jump out of the handler does not restore the mask.
	a.sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART;
	sigaction(give_up_signal(), &a, NULL);
}

struct gb_dev *gb_open(const char *library, int tick_source, uint64_t deadline_ns, char *text, size_t n) {
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(text, n, "%s", dlerror());
		return NULL;
	}
	struct gb_dev *d = calloc(1, sizeof *d);
	if (!d) {
		snprintf(text, n, "out of memory");
		return NULL;
	}
#define GB_LOAD(name, args) *(void **)&d->api.name = dlsym(lib, #name);
	GB_FUNCTIONS(GB_LOAD)
#undef GB_LOAD
	if (!d->api.cuInit || !d->api.cuCtxCreate_v2 || !d->api.cuMemAlloc_v2) {
		snprintf(text, n, "%s: it has no cuInit, cuCtxCreate_v2 or cuMemAlloc_v2", library);
		free(d);
		return NULL;
	}
	d->tick_source = tick_source;
	d->deadline_ns = deadline_ns;
	pthread_once(&handler_once, install_handler);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); // the watchdog takes no signals of the process
	int r = pthread_create(&d->watchdog, NULL, watch, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		snprintf(text, n, "no thread for the watchdog: %s", strerror(r));
		free(d);
		return NULL;
	}
	return d;
}

struct gb_shared *gb_shared_of(struct gb_dev *d) { return &d->shared; }

void gb_set_deadline(struct gb_dev *d, uint64_t ns) { atomic_store(&d->deadline_ns, ns); }

void gb_close(struct gb_dev *d) {
	atomic_store(&d->ending, 1);
	pthread_join(d->watchdog, NULL);
	if (gb_thread_device == d) gb_thread_device = NULL;
	if (d->shared.lost) return; // the driver may still write into it
	free(d->staging);
	free(d);
}

int gb_init(struct gb_dev *d) {
	GB_TIMED(d, GB_SETUP, cuInit, 0);
	return GB_OK;
}

int gb_version(struct gb_dev *d) {
	GB_TIMED(d, GB_SETUP, cuDriverGetVersion, &d->number);
	d->shared.out = (uint64_t)d->number;
	return GB_OK;
}

int gb_count_devices(struct gb_dev *d) {
	GB_TIMED(d, GB_SETUP, cuDeviceGetCount, &d->number);
	d->shared.out = (uint64_t)d->number;
	return GB_OK;
}

int gb_name(struct gb_dev *d, int ordinal) {
	GB_TIMED(d, GB_SETUP, cuDeviceGetName, d->shared.text, (int)sizeof d->shared.text - 1, ordinal);
	return GB_OK;
}

int gb_uuid(struct gb_dev *d, int ordinal) {
	GB_TIMED(d, GB_SETUP, cuDeviceGetUuid_v2, d->shared.uuid, ordinal);
	return GB_OK;
}

int gb_total(struct gb_dev *d, int ordinal) {
	GB_TIMED(d, GB_SETUP, cuDeviceTotalMem_v2, &d->size[0], ordinal);
	d->shared.out = d->size[0];
	return GB_OK;
}

int gb_attribute(struct gb_dev *d, int attribute, int ordinal) {
	GB_TIMED(d, GB_SETUP, cuDeviceGetAttribute, &d->number, attribute, ordinal);
	d->shared.out = (uint64_t)d->number;
	return GB_OK;
}

const char *gb_error_name(struct gb_dev *d, int result) {
	const char *name = NULL;
	if (d->shared.lost && result >= 0 && !gb_sticky(result)) return NULL;
	if (!d->api.cuGetErrorName || d->api.cuGetErrorName(result, &name)) return NULL;
	return name;
}

static _Atomic uint64_t next_serial = 1;

int gb_context(struct gb_dev *d, int ordinal) {
	GB_TIMED(d, GB_SETUP, cuCtxCreate_v2, &d->object, 0, ordinal);
	d->ctx = d->object;
	d->serial = atomic_fetch_add(&next_serial, 1);
	gb_thread_context = d->serial; // a new context is current on the thread that made it
	return GB_OK;
}

int gb_make_current(struct gb_dev *d) {
	GB_TIMED(d, GB_SETUP, cuCtxSetCurrent, d->ctx);
	gb_thread_context = d->serial;
	return GB_OK;
}

int gb_context_destroy(struct gb_dev *d) {
	if (!d->ctx) return GB_OK;
	GB_CURRENT(d);
	GB_TIMED(d, GB_SETUP, cuCtxDestroy_v2, d->ctx);
	d->ctx = NULL;
	gb_thread_context = 0;
	return GB_OK;
}
