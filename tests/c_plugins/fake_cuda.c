/* The part of the CUDA driver's interface that the program calls, over memory of the host. A copy to the host
 * is done two copies later, or when somebody waits for the stream: who reads a scalar too early reads what
 * was there before. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define LATE 2

static int is_hidden(void) {
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  return visible != NULL && *visible == 0;
}

EXPORTED int cuInit(unsigned flags) { return flags != 0 ? 1 : is_hidden() ? 100 : 0; }
EXPORTED int cuDriverGetVersion(int* version) { return *version = 90000, 0; }  // for any LibTorch
EXPORTED int cuDeviceGetCount(int* count) { return *count = 1, 0; }
EXPORTED int cuDeviceGet(int* device, int index) { return *device = index, index == 0 ? 0 : 101; }
EXPORTED int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "fake device", (size_t)size);
  return 0;
}
EXPORTED int cuDeviceGetUuid_v2(char* bytes, int device) {
  int i;
  for (i = 0; i < 16; ++i) bytes[i] = (char)i;
  return device;
}
/* 1 GiB, or as many as FAKE_CUDA_GIB says. */
static size_t total(void) {
  const char* gib = getenv("FAKE_CUDA_GIB");
  return (gib == NULL ? (size_t)1 : (size_t)atoi(gib)) << 30;
}
EXPORTED int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = total(), 0; }
EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : 0; /* compute capability 9.0 */
  return 0;
}

/* Half of the memory is another process's. What is taken once is kept until it is given back. */
static size_t taken;
EXPORTED int cuMemGetInfo_v2(size_t* unused, size_t* all) {
  *unused = total() / 2 - taken;
  *all = total();
  return 0;
}
EXPORTED int fake_cuda_take(size_t bytes) {
  if (bytes > total() / 2) return 2;
  if (bytes > taken) taken = bytes;
  return 0;
}
EXPORTED void fake_cuda_keep(size_t bytes) { taken = bytes; }
EXPORTED int cuGetErrorName(int status, const char** name) { return (void)status, *name = "FAKE_ERROR", 0; }

static int context, stream;
EXPORTED int cuDevicePrimaryCtxRetain(void** out, int device) { return *out = &context, device; }
static __thread void* current;
EXPORTED int cuCtxSetCurrent(void* to) { return current = to, to == &context ? 0 : 1; }
EXPORTED int cuCtxGetCurrent(void** out) { return *out = current, 0; }
EXPORTED int cuStreamCreate(void** out, unsigned flags) { return *out = &stream, flags == 1 ? 0 : 1; }
EXPORTED int cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  (void)flags;
  *out = calloc(1, bytes);
  return *out ? 0 : 2;
}
EXPORTED int cuMemFreeHost(void* memory) { return free(memory), 0; }

static struct copy {
  void* to;
  char bytes[8];
  size_t count;
} under_way[LATE];

static void finish(struct copy* copy) {
  if (copy->to) memcpy(copy->to, copy->bytes, copy->count);
  copy->to = NULL;
}

EXPORTED int cuStreamSynchronize(void* waited_for) {
  int i;
  (void)waited_for;
  for (i = 0; i < LATE; ++i) finish(&under_way[i]);
  return 0;
}

EXPORTED int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t count, void* on) {
  if (on != &stream || count > sizeof under_way[0].bytes) return 1;
  finish(&under_way[0]);
  memmove(under_way, under_way + 1, sizeof under_way - sizeof under_way[0]);
  under_way[LATE - 1].to = to;
  under_way[LATE - 1].count = count;
  memcpy(under_way[LATE - 1].bytes, (const void*)(uintptr_t)from, count);
  return 0;
}
