/* A strategy in C99, built from pipeline.h alone: every rank holds all parameters in host memory, gradients
 * are averaged by all-gather and an ordered sum, and SGD updates them. With it the core trains, and is
 * tested, without LibTorch. */
#include "plain_sgd.h"

#include <stdlib.h>

static void destroy(pl_strategy* self) {
  uint64_t i;
  int level;
  for (i = 0; i < self->slot_count; ++i) free(self->slots[i].name);
  for (level = 0; level < TREE_LEVELS; ++level) free(self->tree[level]);
  free(self->slots);
  free(self->value);
  free(self->gradient);
  free(self->momentum);
  free(self);
}

static pl_error* copy_parameters(pl_strategy* self, const pl_strategy_args* args) {
  const uint32_t stride = args->parameter_count ? args->parameters->struct_size : 0;
  uint64_t i;
  uint32_t d;
  self->slots = (slot*)calloc(args->parameter_count + 1, sizeof *self->slots);
  if (!self->slots) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "plain_sgd: no memory");
  for (i = 0; i < args->parameter_count; ++i) {
    const pl_parameter* from = (const pl_parameter*)(const void*)((const char*)args->parameters + i * stride);
    slot* to = &self->slots[i];
    if (from->ndim > MAX_DIMENSIONS)
      return fail(self->host, PL_ERROR_UNSUPPORTED,
                  "plain_sgd: parameter %.*s has %u dimensions, at most %d are possible", (int)from->name.len,
                  from->name.ptr, (unsigned)from->ndim, MAX_DIMENSIONS);
    to->name = (char*)calloc(from->name.len + 1, 1);
    if (!to->name) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "plain_sgd: no memory");
    self->slot_count = i + 1;
    memcpy(to->name, from->name.ptr, from->name.len);
    to->ndim = from->ndim;
    to->flags = from->flags;
    to->lr_multiplier = from->lr_multiplier;
    to->offset = self->total;
    to->count = 1;
    for (d = 0; d < from->ndim; ++d) {
      to->shape[d] = from->shape[d];
      to->count *= (uint64_t)from->shape[d];
    }
    self->total += to->count;
  }
  return NULL;
}

static int is_name(pl_str text, const char* name) {
  return text.len == strlen(name) && memcmp(text.ptr, name, text.len) == 0;
}

static pl_error* check_run(const pl_host* host, const pl_run_info* run) {
  if (run->device.type != COMPUTES_ON)
    return fail(host, PL_ERROR_UNSUPPORTED,
                PLUGIN_NAME " computes on a device of type %d, the run's device has type %d", COMPUTES_ON,
                (int)run->device.type);
  if (!has_its_stream(run))
    return fail(host, PL_ERROR_FAILED, "create: the run's stream is not its device's");
  if (!is_float32(run->parameter_dtype))
    return fail(host, PL_ERROR_UNSUPPORTED,
                "plain_sgd keeps float32 parameters only: set train.precision = \"fp32\"");
  return NULL;
}

/* The momentum is one for all parameters, the decay each one's own. */
static pl_error* take_optimizer(pl_strategy* self, const pl_optimizer* optimizer, uint64_t index,
                                const pl_strategy_args* args) {
  uint64_t i, j;
  if (optimizer->api || !is_name(optimizer->name, "sgd") || (optimizer->flags & ~PL_FLAGS_MAY_IGNORE) != 0)
    return fail(self->host, PL_ERROR_UNSUPPORTED,
                "plain_sgd has one optimizer: set optimizer.kind = \"sgd\"");
  for (i = 0; i < optimizer->option_count; ++i) {
    const pl_number* option = &optimizer->options[i];
    if (is_name(option->name, "momentum"))
      self->momentum_factor = option->value;
    else if (is_name(option->name, "nesterov"))
      self->nesterov = option->value != 0;
    else if (is_name(option->name, "weight_decay"))
      for (j = 0; j < args->parameter_count; ++j) {
        const pl_parameter* parameter = (const pl_parameter*)(const void*)((const char*)args->parameters +
                                                                           j * args->parameters->struct_size);
        if (parameter->optimizer == index) self->slots[j].weight_decay = option->value;
      }
    else
      return fail(self->host, PL_ERROR_UNSUPPORTED, "plain_sgd has no option %.*s", (int)option->name.len,
                  option->name.ptr);
  }
  if (optimizer->option_count != 3)
    return fail(self->host, PL_ERROR_FAILED,
                "plain_sgd: %u options, expected momentum, nesterov and weight_decay",
                (unsigned)optimizer->option_count);
  return NULL;
}

static pl_error* take_optimizers(pl_strategy* self, const pl_strategy_args* args) {
  pl_error* error = NULL;
  uint64_t i;
  for (i = 0; !error && i < args->optimizer_count; ++i)
    error = take_optimizer(
        self,
        (const pl_optimizer*)(const void*)((const char*)args->optimizers + i * args->optimizers->struct_size),
        i, args);
  return error;
}

/* The newest object's context, through which empty_cache() logs. Atomic: in tests threads are ranks. */
static const pl_context* last_context;

static pl_error* create(const pl_host* host, const pl_context* context, const pl_config* config,
                        const pl_strategy_args* raw, pl_strategy** out) {
  static const pl_str kHandOver = STR("hand_over");
  pl_strategy_args args;
  pl_strategy* self;
  pl_error* error =
      receive_args(host, &args, sizeof args, offsetof(pl_strategy_args, reserved), raw, "pl_strategy_args");
  if (error) return error;
  self = (pl_strategy*)calloc(1, sizeof *self);
  if (!self) return fail(host, PL_ERROR_OUT_OF_MEMORY, "plain_sgd: no memory");
  self->host = host;
  self->context = context;
  __atomic_store_n(&last_context, context, __ATOMIC_RELAXED);
  self->communicator = args.communicator;
  error = check_run(host, host->run_info(context));
  if (!error) error = host->config_bool(config, kHandOver, &self->hand_over);
  if (!error) error = copy_parameters(self, &args);
  if (!error) error = take_optimizers(self, &args);
  if (!error) {
    self->value = (float*)calloc(self->total + 1, sizeof(float));
    self->gradient = (float*)calloc(self->total + 1, sizeof(float));
    self->momentum = (float*)calloc(self->total + 1, sizeof(float));
    if (!self->value || !self->gradient || !self->momentum)
      error = fail(host, PL_ERROR_OUT_OF_MEMORY, "plain_sgd: no memory for 3 x %llu floats",
                   (unsigned long long)self->total);
  }
  if (error) {
    destroy(self);
    return error;
  }
  *out = self;
  return NULL;
}

static pl_error* info(pl_strategy* self, pl_strategy_info* out) {
  const pl_dtype float32 = {PL_DTYPE_FLOAT, 32, 1};
  pl_strategy_info value;
  (void)self;
  memset(&value, 0, sizeof value);
  value.micro_batch_order = PL_ORDER_BLOCK;
  value.gradient_dtype = value.reduction_dtype = value.master_dtype = value.optimizer_dtype = float32;
  give(out, &value, sizeof value);
  return NULL;
}

static pl_error* storage(pl_strategy* self, uint64_t index, pl_tensor* value, pl_tensor* grad) {
  slot* s;
  if (index >= self->slot_count)
    return fail(self->host, PL_ERROR_FAILED, "storage: there is no parameter %llu",
                (unsigned long long)index);
  s = &self->slots[index];
  memset(value, 0, sizeof *value);
  value->data = self->value + s->offset;
  value->device.type = COMPUTES_ON;
  value->ndim = (int32_t)s->ndim;
  value->dtype.code = PL_DTYPE_FLOAT;
  value->dtype.bits = 32;
  value->dtype.lanes = 1;
  value->shape = s->shape;
  *grad = *value;
  grad->data = self->hand_over || !(s->flags & PL_PARAMETER_TRAINABLE) ? NULL : self->gradient + s->offset;
  return NULL;
}

static pl_error* memory(pl_strategy* self, pl_memory_visitor visit, void* user) {
  static const pl_str kNames[] = {STR("parameters"), STR("gradients"), STR("momentum")};
  const uint64_t bytes = self->total * sizeof(float);
  uint64_t sums = 1;
  int level;
  pl_error* error = visit(user, kNames[0], bytes);
  for (level = 0; level < TREE_LEVELS; ++level) sums += self->tree[level] ? 1 : 0;
  if (!error) error = visit(user, kNames[1], bytes * sums);
  if (!error) error = visit(user, kNames[2], bytes);
  return error;
}

static const pl_strategy_api kApi = {
    .struct_size = sizeof(pl_strategy_api),
    .create = create,
    .destroy = destroy,
    .info = info,
    .storage = storage,
    .begin_step = begin_step,
    .gradient_ready = gradient_ready,
    .end_micro_batch = end_micro_batch,
    .step = step,
    .collect = collect,
    .load_state = load_state,
    .snapshot = snapshot,
    .snapshot_pieces = snapshot_pieces,
    .snapshot_free = snapshot_free,
    .memory = memory,
};

static pl_error* empty_cache(const pl_host* host, const pl_run_info* info) {
  static const pl_str kLine = STR("plain_sgd: the device's cache is emptied");
  if (info->device.type != COMPUTES_ON) return fail(host, PL_ERROR_FAILED, "plain_sgd: another device");
  host->log(__atomic_load_n(&last_context, __ATOMIC_RELAXED), PL_LOG_INFO, kLine);
  return NULL;
}

static const void* query(pl_str id) {
  static const pl_runtime kRuntime = {sizeof(pl_runtime), 0, NULL, empty_cache, NULL, NULL};
  static const char kId[] = PL_EXTENSION_RUNTIME;
  return id.len == sizeof kId - 1 && memcmp(id.ptr, kId, id.len) == 0 ? &kRuntime : NULL;
}

static const pl_option kOptions[] = {
    {sizeof(pl_option), PL_OPTION_BOOL, PL_OPTION_MAY_CHANGE, 0, STR("hand_over"), STR("false"), STR(""),
     STR("let the task hand gradients over instead of adding to bound ones"), NULL, 0, 0},
};

static const pl_plugin kPlugin = {
    sizeof(pl_plugin),
    PL_ABI_MAJOR,
    PL_ABI_MINOR,
    PL_PLUGIN_STRATEGY,
    STR(PLUGIN_NAME),
    STR("1.0"),
    STR("SGD in host memory, in plain C"),
    STR(""),
    kOptions,
    1,
    &kApi,
    query,
    NULL,
};

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)error;
  return host->abi_major == PL_ABI_MAJOR ? &kPlugin : NULL;
}
