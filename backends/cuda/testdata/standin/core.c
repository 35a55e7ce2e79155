// Set-up, faults, devices and contexts.
#define _GNU_SOURCE
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct state S = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define MAX_FAULTS 32
enum fault_kind { FAIL, SLOW, HANG };
static struct fault { enum fault_kind kind; char name[40]; uint64_t nth, arg; } faults[MAX_FAULTS];
static int n_faults;
#define MAX_NAMES 96
static struct { char name[40]; uint64_t count; } names[MAX_NAMES];
static uint64_t calls_total, lost_at;
static int configured;

uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t number(const char *s) {
	char *end;
	uint64_t v = strtoull(s, &end, 10);
	switch (*end) {
	case 'K': return v << 10;
	case 'M': return v << 20;
	case 'G': return v << 30;
	}
	return v;
}

static void add_fault(enum fault_kind kind, char *spec) {
	struct fault f = {.kind = kind, .nth = 1};
	char *save = NULL, *name = strtok_r(spec, ":", &save), *nth = strtok_r(NULL, ":", &save), *arg = strtok_r(NULL, ":", &save);
	if (!name || n_faults == MAX_FAULTS) return;
	snprintf(f.name, sizeof f.name, "%s", name);
	if (nth) f.nth = number(nth);
	if (arg) f.arg = number(arg);
	faults[n_faults++] = f;
}

static void forget(void) {
	for (int i = 0; i < MAX_DEVICES; i++) {
		drop_device(i);
		if (S.device[i].file > 0) close(S.device[i].file);
	}
	free(S.ranges.at);
	free(S.reservations.at);
	memset(&S, 0, sizeof S);
	memset(names, 0, sizeof names);
	n_faults = 0;
	calls_total = lost_at = 0;
	pthread_mutex_init(&S.lock, NULL);
}

// standin_configure forgets everything, also a lock that a hung call holds, and reads a new set-up.
void standin_configure(const char *text) {
	forget();
	uint64_t memory = 256ull << 20;
	S.devices = S.vmm = S.pools = S.managed = 1;
	char *copy = strdup(text ? text : ""), *save = NULL;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *v = strchr(w, '=');
		if (!v) continue;
		*v++ = 0;
		if (!strcmp(w, "devices")) S.devices = (int)number(v);
		else if (!strcmp(w, "memory")) memory = number(v);
		else if (!strcmp(w, "mig")) S.mig = (int)number(v);
		else if (!strcmp(w, "vmm")) S.vmm = (int)number(v);
		else if (!strcmp(w, "pools")) S.pools = (int)number(v);
		else if (!strcmp(w, "managed")) S.managed = (int)number(v);
		else if (!strcmp(w, "delay_us")) S.delay_ns = number(v) * 1000;
		else if (!strcmp(w, "hold")) S.hold = (int)number(v);
		else if (!strcmp(w, "lost")) lost_at = number(v);
		else if (!strcmp(w, "fail")) add_fault(FAIL, v);
		else if (!strcmp(w, "slow")) add_fault(SLOW, v);
		else if (!strcmp(w, "hang")) add_fault(HANG, v);
	}
	free(copy);
	if (S.devices > MAX_DEVICES) S.devices = MAX_DEVICES;
	for (int i = 0; i < S.devices; i++) {
		S.device[i].total = memory;
		S.device[i].file = memfd_create("standin", MFD_CLOEXEC);
		S.device[i].pool.device = i;
		S.device[i].pool.is_default = 1;
		S.device[i].legacy.device = i;
	}
	configured = 1;
}

uint64_t standin_calls(const char *name) {
	if (!strcmp(name, "any")) return calls_total;
	for (int i = 0; i < MAX_NAMES && names[i].name[0]; i++)
		if (!strcmp(names[i].name, name)) return names[i].count;
	return 0;
}

void standin_hold(int on) { S.hold = on; }

static uint64_t count(const char *name) {
	for (int i = 0; i < MAX_NAMES; i++) {
		if (!names[i].name[0]) snprintf(names[i].name, sizeof names[i].name, "%s", name);
		if (!strcmp(names[i].name, name)) return ++names[i].count;
	}
	return 0;
}

int enter(const char *name) {
	pthread_mutex_lock(&S.lock);
	if (!configured) {
		pthread_mutex_unlock(&S.lock);
		standin_configure(getenv("CUDA_STANDIN"));
		pthread_mutex_lock(&S.lock);
	}
	uint64_t nth = count(name);
	calls_total++;
	if (lost_at && calls_total >= lost_at) return LAUNCH_FAILED;
	for (int i = 0; i < n_faults; i++) {
		struct fault *f = &faults[i];
		uint64_t k = !strcmp(f->name, "any") ? calls_total : !strcmp(f->name, name) ? nth : 0;
		if (k == 0) continue;
		if (f->kind == FAIL && k == f->nth) return (int)f->arg;
		if (f->kind == SLOW && k >= f->nth) {
			for (uint64_t end = now_ns() + f->arg * 1000; now_ns() < end;) usleep(20);
		}
		if (f->kind == HANG && k == f->nth)
			for (;;) pause();
	}
	return OK;
}

int leave(int result) {
	pthread_mutex_unlock(&S.lock);
	return result;
}

static __thread struct context *thread_context;

struct context *current(void) {
	for (struct context *c = S.contexts; c; c = c->next)
		if (c == thread_context) return c;
	return NULL;
}

int cuInit(unsigned flags) {
	BEGIN("cuInit");
	if (flags) END(INVALID_VALUE);
	if (S.devices == 0) END(NO_DEVICE);
	S.initialised = 1;
	END(OK);
}

int cuDriverGetVersion(int *v) {
	BEGIN("cuDriverGetVersion");
	*v = 13000;
	END(OK);
}

// visible applies CUDA_VISIBLE_DEVICES as the driver does: numbers or beginnings of UUIDs; the first that does not exist ends
// the list.
static void uuid_text(int dev, char out[48]);
static int visible(int list[MAX_DEVICES]) {
	const char *env = getenv("CUDA_VISIBLE_DEVICES");
	int n = 0;
	if (!env) {
		for (; n < S.devices; n++) list[n] = n;
		return n;
	}
	char *copy = strdup(env), *save = NULL;
	for (char *w = strtok_r(copy, ",", &save); w && n < MAX_DEVICES; w = strtok_r(NULL, ",", &save)) {
		int found = -1;
		for (int i = 0; i < S.devices; i++) {
			char u[48];
			uuid_text(i, u);
			if (w[0] >= '0' && w[0] <= '9' ? atoi(w) == i : !strncmp(u, w, strlen(w))) found = i;
		}
		if (found < 0) break;
		list[n++] = found;
	}
	free(copy);
	return n;
}

static int real_device(int dev) {
	int list[MAX_DEVICES], n = visible(list);
	return dev < 0 || dev >= n ? -1 : list[dev];
}

int cuDeviceGetCount(int *n) {
	BEGIN("cuDeviceGetCount");
	if (!S.initialised) END(NOT_INITIALIZED);
	int list[MAX_DEVICES];
	*n = visible(list);
	END(OK);
}

int cuDeviceGet(int *dev, int ordinal) {
	BEGIN("cuDeviceGet");
	if (!S.initialised) END(NOT_INITIALIZED);
	if (real_device(ordinal) < 0) END(INVALID_DEVICE);
	*dev = ordinal;
	END(OK);
}

int cuDeviceGetName(char *name, int len, int dev) {
	BEGIN("cuDeviceGetName");
	int r = real_device(dev);
	if (r < 0) END(INVALID_DEVICE);
	snprintf(name, (size_t)len, S.mig && r == 0 ? "Stand-in MIG 1g" : "Stand-in GPU");
	END(OK);
}

static void uuid_bytes(int dev, unsigned char b[16]) {
	for (int i = 0; i < 16; i++) b[i] = (unsigned char)(0x10 * (dev + 1) + i);
}

static void uuid_text(int dev, char out[48]) {
	unsigned char b[16];
	uuid_bytes(dev, b);
	int n = sprintf(out, "%s", S.mig && dev == 0 ? "MIG-" : "GPU-");
	for (int i = 0; i < 16; i++) n += sprintf(out + n, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int dev) {
	BEGIN("cuDeviceGetUuid_v2");
	int r = real_device(dev);
	if (r < 0) END(INVALID_DEVICE);
	uuid_bytes(r, uuid);
	END(OK);
}

int cuDeviceTotalMem_v2(size_t *total, int dev) {
	BEGIN("cuDeviceTotalMem_v2");
	int r = real_device(dev);
	if (r < 0) END(INVALID_DEVICE);
	*total = S.device[r].total;
	END(OK);
}

// Numbers of CUdevice_attribute.
enum { CC_MAJOR = 75, CC_MINOR = 76, MANAGED_MEMORY = 83, VMM_SUPPORTED = 102, POOLS_SUPPORTED = 115, INTEGRATED = 18, MIG_MODE = 31 };

int cuDeviceGetAttribute(int *v, int attribute, int dev) {
	BEGIN("cuDeviceGetAttribute");
	if (real_device(dev) < 0) END(INVALID_DEVICE);
	switch (attribute) {
	case CC_MAJOR: *v = 9; END(OK);
	case CC_MINOR: *v = 0; END(OK);
	case MANAGED_MEMORY: *v = S.managed; END(OK);
	case VMM_SUPPORTED: *v = S.vmm; END(OK);
	case POOLS_SUPPORTED: *v = S.pools; END(OK);
	case INTEGRATED: *v = 0; END(OK);
	}
	END(INVALID_VALUE);
}

int cuCtxCreate_v2(struct context **out, unsigned flags, int dev) {
	(void)flags;
	BEGIN("cuCtxCreate_v2");
	if (!S.initialised) END(NOT_INITIALIZED);
	int r = real_device(dev);
	if (r < 0) END(INVALID_DEVICE);
	struct context *c = calloc(1, sizeof *c);
	c->device = r;
	c->next = S.contexts;
	S.contexts = thread_context = *out = c;
	END(OK);
}

int cuCtxDestroy_v2(struct context *c) {
	BEGIN("cuCtxDestroy_v2");
	for (struct context **p = &S.contexts; *p; p = &(*p)->next) {
		if (*p != c) continue;
		*p = c->next;
		int device = c->device, others = 0;
		free(c);
		for (struct context *o = S.contexts; o; o = o->next) others |= o->device == device;
		if (!others) drop_device(device);
		END(OK);
	}
	END(INVALID_CONTEXT);
}

int cuCtxSetCurrent(struct context *c) {
	BEGIN("cuCtxSetCurrent");
	thread_context = c;
	if (c && !current()) END(INVALID_CONTEXT);
	END(OK);
}

int cuCtxGetCurrent(struct context **c) {
	BEGIN("cuCtxGetCurrent");
	*c = current();
	END(OK);
}

int cuGetErrorName(int error, const char **name) {
	static const struct { int code; const char *name; } known[] = {
		{0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
		{46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
		{201, "CUDA_ERROR_INVALID_CONTEXT"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
		{600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
		{800, "CUDA_ERROR_NOT_PERMITTED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
		{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {999, "CUDA_ERROR_UNKNOWN"}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].code == error) {
			*name = known[i].name;
			return OK;
		}
	*name = NULL;
	return INVALID_VALUE;
}
