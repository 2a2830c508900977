/* The data of the linear_regression task: points that a formula yields. */
#include <stdlib.h>

#include "linear_regression.h"

/* Uniform in [-1, 1), a pure function of its arguments. */
static double formula(uint64_t split, uint64_t id, uint64_t column) {
  uint64_t z = (split * 0x9e3779b97f4a7c15u) ^ (id * 0xbf58476d1ce4e5b9u) ^ (column * 0x94d049bb133111ebu);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (double)(z >> 11) / 4503599627370496.0 - 1.0; /* 53 bits over 2^52 */
}

/* What training should find: weights 1, -2, 3, ... over F, bias 0.5. */
static double true_weight(const pl_task* self, int64_t j) {
  return (j % 2 ? -1.0 : 1.0) * (double)(j + 1) / (double)self->features;
}

static void fill_sample(const pl_task* self, uint64_t split, uint64_t id, float* x, float* y) {
  double sum = 0.5 + self->noise * formula(split, id, (uint64_t)self->features);
  int64_t j;
  for (j = 0; j < self->features; ++j) {
    x[j] = (float)formula(split, id, (uint64_t)j);
    sum += true_weight(self, j) * (double)x[j];
  }
  *y = (float)sum;
}

void batch_free(pl_task* self, pl_batch* batch) {
  (void)self;
  if (!batch) return;
  free(batch->ids);
  free(batch->x);
  free(batch->y);
  free(batch);
}

pl_error* load(pl_task* self, const pl_load_args* raw, pl_batch** out) {
  pl_load_args args;
  uint64_t i;
  pl_batch* batch;
  pl_error* error =
      receive_args(self->host, &args, sizeof args, offsetof(pl_load_args, reserved), raw, "pl_load_args");
  if (error) return error;
  if (args.split >= SPLITS)
    return fail(self->host, PL_ERROR_UNSUPPORTED, "load: split %u is unknown", (unsigned)args.split);
  for (i = 0; i < args.count; ++i)
    if (args.ids[i] >= (uint64_t)self->samples[args.split])
      return fail(self->host, PL_ERROR_FAILED, "load: sample %llu of a split that has %lld",
                  (unsigned long long)args.ids[i], (long long)self->samples[args.split]);
  batch = (pl_batch*)calloc(1, sizeof *batch);
  if (!batch) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "load: no memory for a batch");
  batch->count = args.count;
  batch->ids = (uint64_t*)malloc((args.count + 1) * sizeof *batch->ids);
  batch->x = (float*)malloc((args.count * (uint64_t)self->features + 1) * sizeof *batch->x);
  batch->y = (float*)malloc((args.count + 1) * sizeof *batch->y);
  if (!batch->ids || !batch->x || !batch->y) {
    batch_free(self, batch);
    return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "load: no memory for %llu samples",
                (unsigned long long)args.count);
  }
  for (i = 0; i < args.count; ++i) {
    batch->ids[i] = args.ids[i];
    fill_sample(self, args.split, args.ids[i], batch->x + i * (uint64_t)self->features, batch->y + i);
  }
  *out = batch;
  return NULL;
}

pl_error* batch_info(pl_task* self, const pl_batch* batch, pl_batch_info* out) {
  pl_batch_info info = {sizeof info, 0, 0, 0, 0, 0};
  (void)self;
  info.weight = (double)batch->count;
  info.samples = batch->count;
  info.positions = batch->count;
  give(out, &info, sizeof info);
  return NULL;
}

pl_error* sample_count(pl_task* self, uint32_t split, uint64_t* out) {
  *out = split < SPLITS ? (uint64_t)self->samples[split] : 0;
  return NULL;
}

pl_str data_fingerprint(pl_task* self) { return make_str(self->fingerprint); }

pl_error* sample_name(pl_task* self, uint32_t split, uint64_t id, pl_str* out) {
  if (split >= SPLITS || id >= (uint64_t)self->samples[split])
    return fail(self->host, PL_ERROR_FAILED, "sample_name: there is no sample %llu in split %u",
                (unsigned long long)id, (unsigned)split);
  *out = make_str(self->names[split][id]);
  return NULL;
}
