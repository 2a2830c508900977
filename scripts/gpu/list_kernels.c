/* Loaded into a run by CUDA_INJECTION64_PATH: counts and times the device's kernels, copies and fills by
 * name, with CUPTI's activity records, and writes them to the file that LIST_KERNELS names, one a line:
 * microseconds in all, count, name. "(between)" is the time in which it did none of them. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBuffer = 8 << 20, kNames = 4096 };

static struct {
  char* name;
  unsigned long count;
  unsigned long long nanoseconds;
} rows[kNames];
static size_t row_count;
static size_t dropped;

static void add(const char* name, unsigned long long nanoseconds) {
  size_t i = 0;
  while (i < row_count && strcmp(rows[i].name, name) != 0) ++i;
  if (i == kNames) return (void)++dropped;
  if (i == row_count) rows[row_count++].name = strdup(name);
  ++rows[i].count;
  rows[i].nanoseconds += nanoseconds;
}

static void add_work(const char* name, unsigned long long start, unsigned long long end) {
  static unsigned long long done;
  if (done != 0 && start > done) add("(between)", start - done);
  if (end > done) done = end;
  add(name, end - start);
}

static void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = aligned_alloc(8, kBuffer);
  *size = *buffer ? kBuffer : 0;
  *most_records = 0;
}

/* CUPTI calls it from one thread at a time. */
static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                              size_t valid) {
  CUpti_Activity* record = NULL;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const CUpti_ActivityKernel10* kernel = (const CUpti_ActivityKernel10*)record;
      add_work(kernel->name, kernel->start, kernel->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const CUpti_ActivityMemcpy6* copy = (const CUpti_ActivityMemcpy6*)record;
      add_work("copy", copy->start, copy->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const CUpti_ActivityMemset4* fill = (const CUpti_ActivityMemset4*)record;
      add_work("fill", fill->start, fill->end);
    }
  }
  free(buffer);
  (void)context, (void)stream, (void)size;
}

static void write_rows(void) {
  const char* path = getenv("LIST_KERNELS");
  FILE* file = path ? fopen(path, "w") : NULL;
  cuptiActivityFlushAll(1);
  if (!file) return;
  for (size_t i = 0; i < row_count; ++i)
    fprintf(file, "%.1f %lu %s\n", (double)rows[i].nanoseconds / 1000, rows[i].count, rows[i].name);
  if (dropped) fprintf(file, "0 %zu (of more names than fit)\n", dropped);
  fclose(file);
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  atexit(write_rows);
  return 1;
}
