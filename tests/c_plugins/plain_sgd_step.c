/* One training step of the plain_sgd strategy: sums of gradients in a fixed order, clipping, the update. */
#include <math.h>
#include <stdlib.h>

#include "plain_sgd.h"

pl_error* begin_step(pl_strategy* self, uint64_t micro_batches) {
  if (micro_batches == 0)
    return fail(self->host, PL_ERROR_FAILED, "begin_step: a step needs at least one micro-batch");
  memset(self->gradient, 0, self->total * sizeof(float));
  memset(self->filled, 0, sizeof self->filled);
  self->loss = 0;
  return NULL;
}

static pl_error* add_gradient(pl_strategy* self, const pl_gradient* gradient) {
  const float* data =
      (const float*)(const void*)((const char*)gradient->tensor->data + gradient->tensor->byte_offset);
  const slot* s;
  uint64_t j;
  if (gradient->flags & ~PL_FLAGS_MAY_IGNORE)
    return fail(self->host, PL_ERROR_UNSUPPORTED, "gradient_ready: flags %u are unknown",
                (unsigned)gradient->flags);
  if (gradient->index >= self->slot_count)
    return fail(self->host, PL_ERROR_FAILED, "gradient_ready: there is no parameter %llu",
                (unsigned long long)gradient->index);
  s = &self->slots[gradient->index];
  if (!gradient->owner) return NULL; /* it is in place */
  if (!is_float32(gradient->tensor->dtype))
    return fail(self->host, PL_ERROR_UNSUPPORTED, "gradient_ready: the gradient of %s is not float32",
                s->name);
  for (j = 0; j < s->count; ++j) self->gradient[s->offset + j] += data[j];
  return NULL;
}

pl_error* gradient_ready(pl_strategy* self, const pl_gradient* gradient) {
  pl_error* error = add_gradient(self, gradient);
  if (gradient->owner) gradient->release(gradient->owner);
  return error;
}

/* Adds to the tree as to a binary counter: two sums of 2^k micro-batches make one of 2^(k+1), the earlier one
 * first. */
static pl_error* add_to_tree(pl_strategy* self) {
  int level = 0;
  uint64_t j;
  for (; self->filled[level]; ++level) {
    for (j = 0; j < self->total; ++j) self->gradient[j] = self->tree[level][j] + self->gradient[j];
    self->filled[level] = 0;
  }
  if (!self->tree[level]) self->tree[level] = (float*)malloc((self->total + 1) * sizeof(float));
  if (!self->tree[level])
    return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "end_micro_batch: no memory for a sum of gradients");
  memcpy(self->tree[level], self->gradient, self->total * sizeof(float));
  self->filled[level] = 1;
  memset(self->gradient, 0, self->total * sizeof(float));
  return NULL;
}

static double scalar(const pl_tensor* tensor) {
  const char* data = (const char*)tensor->data + tensor->byte_offset;
  return tensor->dtype.bits == 64 ? *(const double*)(const void*)data
                                  : (double)*(const float*)(const void*)data;
}

pl_error* end_micro_batch(pl_strategy* self, const pl_tensor* loss) {
  if (loss) self->loss += scalar(loss);
  return add_to_tree(self);
}

/* What is left in the tree, smaller sums first, into `gradient`. */
static void fold_tree(pl_strategy* self) {
  int level;
  uint64_t j;
  for (level = 0; level < TREE_LEVELS; ++level)
    if (self->filled[level])
      for (j = 0; j < self->total; ++j) self->gradient[j] = self->tree[level][j] + self->gradient[j];
}

static pl_error* gather(pl_strategy* self, void* mine, void* all, uint64_t count, uint8_t bits) {
  const pl_communicator* c = self->communicator;
  pl_buffer in, out;
  pl_work* work = NULL;
  pl_error* error;
  memset(&in, 0, sizeof in);
  in.struct_size = sizeof in;
  in.data = mine;
  in.count = count;
  in.dtype.code = PL_DTYPE_FLOAT;
  in.dtype.bits = bits;
  in.dtype.lanes = 1;
  in.device.type = COMPUTES_ON;
  in.label.ptr = "gradients";
  in.label.len = strlen(in.label.ptr);
  out = in;
  out.data = all;
  out.count = count * (uint64_t)c->world_size;
  error = c->api->all_gather(c->comm, &in, &out, NULL, &work);
  return error ? error : c->api->wait_host(c->comm, work, 0);
}

/* Adds gradients and losses of all ranks, pairs of neighbours first: the same tree as over micro-batches. */
static pl_error* reduce(pl_strategy* self) {
  const int32_t ranks = self->communicator ? self->communicator->world_size : 1;
  const uint64_t total = self->total;
  float* all;
  double* losses;
  pl_error* error;
  int32_t r, width;
  uint64_t j;
  if (ranks == 1) return NULL;
  all = (float*)malloc((uint64_t)ranks * total * sizeof(float));
  losses = (double*)malloc((uint64_t)ranks * sizeof(double));
  error = all && losses ? gather(self, self->gradient, all, total, 32)
                        : fail(self->host, PL_ERROR_OUT_OF_MEMORY,
                               "step: no memory for the gradients of %d ranks", (int)ranks);
  if (!error) error = gather(self, &self->loss, losses, 1, 64);
  if (!error) {
    for (width = 1; width < ranks; width *= 2)
      for (r = 0; r + width < ranks; r += 2 * width)
        for (j = 0; j < total; ++j) all[(uint64_t)r * total + j] += all[(uint64_t)(r + width) * total + j];
    memcpy(self->gradient, all, total * sizeof(float));
    for (self->loss = 0, r = 0; r < ranks; ++r) self->loss += losses[r];
  }
  free(all);
  free(losses);
  return error;
}

/* SGD as PyTorch defines it. `factor` unscales and clips. */
static void update(pl_strategy* self, const slot* s, const pl_step_args* args, double factor) {
  const double decay = s->weight_decay;
  const double mu = self->momentum_factor;
  uint64_t j;
  if (!(s->flags & PL_PARAMETER_TRAINABLE)) return;
  for (j = s->offset; j < s->offset + s->count; ++j) {
    double direction = (double)self->gradient[j] * factor + decay * (double)self->value[j];
    if (mu != 0) {
      const double velocity = mu * (double)self->momentum[j] + direction;
      self->momentum[j] = (float)velocity;
      direction = self->nesterov ? direction + mu * velocity : velocity;
    }
    self->value[j] -= (float)(args->learning_rate * s->lr_multiplier * direction);
  }
}

pl_error* step(pl_strategy* self, const pl_step_args* raw, uint64_t* ticket) {
  pl_step_args args;
  pl_step_report* report;
  double squares = 0, factor;
  uint64_t j;
  pl_error* error =
      receive_args(self->host, &args, sizeof args, offsetof(pl_step_args, reserved), raw, "pl_step_args");
  if (error) return error;
  fold_tree(self);
  error = reduce(self);
  if (error) return error;

  *ticket = self->tickets++;
  report = &self->reports[*ticket % 2];
  for (j = 0; j < self->total; ++j) squares += (double)self->gradient[j] * (double)self->gradient[j];
  report->grad_norm = sqrt(squares) * args.inverse_scale;
  report->loss_sum = self->loss;
  report->finite = isfinite(report->grad_norm) ? 1 : 0;
  factor = args.inverse_scale;
  if (args.clip_norm > 0) factor *= fmin(1, args.clip_norm / (report->grad_norm + 1e-6));
  if (!report->finite) return NULL;
#if PL_ABI_MINOR >= 7
  for (j = 0; args.clip_value > 0 && j < self->total; ++j) {
    const float limit = (float)(args.clip_value / args.inverse_scale);
    self->gradient[j] = fmaxf(-limit, fminf(limit, self->gradient[j]));
  }
#endif
  for (j = 0; j < self->slot_count; ++j) update(self, &self->slots[j], &args, factor);
  ++self->updates;
  return NULL;
}

#if COMPUTES_ON != PL_DEVICE_CPU
#include <dlfcn.h>
/* The step is done when the device is. */
static void wait_for_device(void) {
  int (*synchronize)(void*) = NULL;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* symbol = driver ? dlsym(driver, "cuStreamSynchronize") : NULL;
  memcpy(&synchronize, &symbol, sizeof synchronize);
  if (synchronize) synchronize(NULL);
}
#else
static void wait_for_device(void) {}
#endif

pl_error* collect(pl_strategy* self, uint64_t ticket, pl_step_report* out) {
  wait_for_device();
  if (ticket >= self->tickets || ticket + 2 < self->tickets)
    return fail(self->host, PL_ERROR_FAILED, "collect: step %llu is not among the last two of %llu",
                (unsigned long long)ticket, (unsigned long long)self->tickets);
  give(out, &self->reports[ticket % 2], sizeof *out);
  return NULL;
}
