/* A stand-in for NVIDIA's management library, to be loaded as it is: tests copy it beside a file
 * `state` of "key value" lines, which is read anew in each call, so that a test can change what a
 * device says while it is sampled.
 *
 * Keys: `devices`; for device 0 (and `1.KEY` for device 1) `util`, `memory_util`, `memory_used`,
 * `memory_total`, `sm_clock`, `sm_clock_max`, `memory_clock`, `power` (mW), `power_instant` (mW),
 * `energy_step` (mJ that the counter grows by in each reading), `energy_reset` (1: the counter
 * starts again from zero, once), `temp`, `throttle`, `name`, `procs` and `graphics` (both
 * pid:bytes,pid:bytes).
 * `CALL_rc` makes a call fail with that code (3 not supported, 15 lost), `all_rc` makes all of them
 * fail that say something of a device's state. `hang CALL` makes that call wait until the line is
 * gone. Each thread that calls is written to the file `threads`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
enum { DEVICES = 2, TEXT = 4096 };
/* A call that hangs gives up after this many milliseconds: no test waits as long. */
enum { HANG_MS = 120000 };

typedef struct { int index; } Device;
static Device devices[DEVICES] = {{0}, {1}};
static unsigned long long counter[DEVICES];
static int was_reset[DEVICES];

static void beside(char *path, size_t size, const char *name) {
    Dl_info info;
    dladdr((void *)beside, &info);
    snprintf(path, size, "%s", info.dli_fname);
    char *slash = strrchr(path, '/');
    snprintf(slash + 1, size - (size_t)(slash + 1 - path), "%s", name);
}

/* The text of a key, or NULL. The last line with the key counts. */
static char *text_of(const char *key, char *out, size_t size) {
    char path[TEXT], line[TEXT];
    char *found = NULL;
    size_t length = strlen(key);
    beside(path, sizeof path, "state");
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(out, size, "%s", line + length + 1);
            found = out;
        }
    }
    fclose(file);
    return found;
}

static char *device_text(Device *device, const char *key, char *out, size_t size) {
    char own[256];
    snprintf(own, sizeof own, "%d.%s", device->index, key);
    char *text = text_of(own, out, size);
    return text ? text : text_of(key, out, size);
}

static unsigned long long number(Device *device, const char *key, unsigned long long otherwise) {
    char text[256];
    return device_text(device, key, text, sizeof text) ? strtoull(text, NULL, 10) : otherwise;
}

static void note_thread(void) {
    char path[TEXT], name[64] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    beside(path, sizeof path, "threads");
    FILE *file = fopen(path, "a");
    if (!file) return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

/* What a call returns, after it has hung for as long as the state says. */
static int outcome(Device *device, const char *call) {
    char text[256], key[256];
    struct timespec pause = {0, 1000000};
    note_thread();
    for (int waited = 0; waited < HANG_MS; waited++) {
        if (!text_of("hang", text, sizeof text) || strcmp(text, call) != 0) break;
        nanosleep(&pause, NULL);
    }
    snprintf(key, sizeof key, "%s_rc", call);
    return (int)number(device, key, number(device, "all_rc", OK));
}

int nvmlInit_v2(void) { note_thread(); return OK; }
int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    snprintf(out, size, "580.95.05");
    return OK;
}

int nvmlSystemGetCudaDriverVersion(int *out) { *out = 13000; return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }

int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = (unsigned)number(&devices[0], "devices", 1);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if (index >= DEVICES) return INVALID_ARGUMENT;
    note_thread();
    *out = &devices[index];
    return (int)number(&devices[index], "handle_rc", OK);
}

int nvmlDeviceGetName(Device *device, char *out, unsigned size) {
    char text[256];
    char *name = device_text(device, "name", text, sizeof text);
    snprintf(out, size, "%s", name ? name : "Stub GPU");
    return OK;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned size) {
    snprintf(out, size, "GPU-00000000-0000-0000-0000-00000000000%d", device->index);
    return OK;
}

int nvmlDeviceGetVbiosVersion(Device *device, char *out, unsigned size) {
    snprintf(out, size, "1.2.3");
    return outcome(device, "vbios");
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    (void)device;
    *major = 12;
    *minor = 1;
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *out) {
    *out = 300000;
    return outcome(device, "power_limit");
}

int nvmlDeviceGetMaxClockInfo(Device *device, int type, unsigned *out) {
    (void)type;
    *out = (unsigned)number(device, "sm_clock_max", 2400);
    return outcome(device, "max_clock");
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *out) {
    out[0] = (unsigned)number(device, "util", 0);
    out[1] = (unsigned)number(device, "memory_util", 0);
    return outcome(device, "util");
}

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(Device *device, struct memory *out) {
    out->total = number(device, "memory_total", 1ULL << 34);
    out->used = number(device, "memory_used", 1ULL << 30);
    out->reserved = 0;
    out->free = out->total - out->used;
    return outcome(device, "memory");
}

/* Clock domains of nvml.h: 1 is SM, 2 is memory. */
int nvmlDeviceGetClockInfo(Device *device, int type, unsigned *out) {
    *out = (unsigned)number(device, type == 2 ? "memory_clock" : "sm_clock", 1000);
    return outcome(device, type == 2 ? "memory_clock" : "sm_clock");
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) {
    *out = (unsigned)number(device, "power", 10000);
    return outcome(device, "power");
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *out) {
    int rc = outcome(device, "energy");
    if (rc != OK) return rc;
    if (number(device, "energy_reset", 0) && !was_reset[device->index]) {
        was_reset[device->index] = 1;
        counter[device->index] = 0;
    }
    counter[device->index] += number(device, "energy_step", 1000);
    *out = counter[device->index];
    return OK;
}

int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) {
    (void)sensor;
    *out = (unsigned)number(device, "temp", 40);
    return outcome(device, "temp");
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *out) {
    *out = number(device, "throttle", 0);
    return outcome(device, "throttle");
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, rc;
    union { double d; unsigned u; unsigned long long ull; } value;
};
int nvmlDeviceGetFieldValues(Device *device, int count, struct field *fields) {
    for (int i = 0; i < count; i++) {
        fields[i].type = 1; /* unsigned int */
        fields[i].rc = fields[i].id == 186 ? outcome(device, "power_instant") : NOT_SUPPORTED;
        fields[i].value.u = (unsigned)number(device, "power_instant", 10000);
    }
    return OK;
}

struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
static int processes(Device *device, const char *key, unsigned *count, struct process *out) {
    char text[TEXT] = "";
    unsigned found = 0, room = *count;
    int rc = outcome(device, key);
    if (rc != OK) return rc;
    device_text(device, key, text, sizeof text);
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        if (out && found < room) {
            out[found].pid = (unsigned)strtoul(item, NULL, 10);
            char *colon = strchr(item, ':');
            out[found].used = colon ? strtoull(colon + 1, NULL, 10) : ~0ULL;
            out[found].gpu_instance = out[found].compute_instance = ~0U;
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, struct process *out) {
    return processes(device, "procs", count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, struct process *out) {
    return processes(device, "graphics", count, out);
}
