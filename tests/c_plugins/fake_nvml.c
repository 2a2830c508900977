/* The part of NVML that the program calls, for the one device of fake_cuda.c. It is busy for 60 and 80
 * percent of the time in turns, and 640 MiB of its memory are in use. */
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static int device;
EXPORTED int nvmlInit_v2(void) { return 0; }
EXPORTED const char* nvmlErrorString(int status) { return status == 6 ? "Not Found" : "Unknown Error"; }
EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
  if (strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") != 0) return 6;
  return *out = &device, 0;
}

struct utilization {
  unsigned gpu, memory;
};
EXPORTED int nvmlDeviceGetUtilizationRates(void* of, struct utilization* out) {
  static unsigned last = 80;
  if (of != &device) return 2;
  last = out->gpu = 140 - last;
  out->memory = 10;
  return 0;
}

struct memory {
  unsigned long long total, unused, used;
};
EXPORTED int nvmlDeviceGetMemoryInfo(void* of, struct memory* out) {
  if (of != &device) return 2;
  out->total = 1ULL << 30;
  out->used = 640ULL << 20;
  out->unused = out->total - out->used;
  return 0;
}
