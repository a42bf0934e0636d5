/* A stand-in for the CUDA driver: one device whose copies take as long as they would at a given
 * rate (100 GB/s moved in each direction). The file `counts` beside it, written when a context is
 * released, says whether everything was freed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101 };
#define BYTES_PER_SECOND 100e9

static int buffers, events, contexts;
static double seconds;
static double stamps[16];
static int event_count;

int cuInit(unsigned flags) { return flags ? INVALID_DEVICE : OK; }
int cuDeviceGetCount(int *count) { *count = 1; return OK; }
int cuDeviceGet(int *device, int index) { *device = index; return index == 0 ? OK : INVALID_DEVICE; }
int cuDeviceGetName(char *out, int size, int device) {
    (void)device;
    snprintf(out, (size_t)size, "Stub CUDA device");
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    *context = &contexts;
    contexts++;
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    char path[4096];
    Dl_info info;
    (void)device;
    contexts--;
    dladdr((void *)cuInit, &info);
    snprintf(path, sizeof path, "%s", info.dli_fname);
    snprintf(strrchr(path, '/') + 1, 16, "counts");
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%d %d %d", buffers, events, contexts);
        fclose(file);
    }
    return OK;
}
int cuCtxSetCurrent(void *context) { return context == &contexts ? OK : INVALID_DEVICE; }
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    *pointer = 4096 + bytes;
    buffers++;
    return OK;
}
int cuMemFree_v2(unsigned long long pointer) { (void)pointer; buffers--; return OK; }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
    (void)stream;
    if (!to || !from) return OUT_OF_MEMORY;
    seconds += (double)bytes / BYTES_PER_SECOND;
    return OK;
}
int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = &stamps[event_count++];
    events++;
    return OK;
}
int cuEventDestroy_v2(void *event) { (void)event; events--; return OK; }
int cuEventRecord(void *event, void *stream) {
    (void)stream;
    *(double *)event = seconds;
    return OK;
}
int cuEventSynchronize(void *event) { (void)event; return OK; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    *milliseconds = (float)((*(double *)end - *(double *)start) * 1e3);
    return OK;
}
