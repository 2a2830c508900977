/* The linear_regression task with one mistake in it, which its option `mistake` names: what check-plugin is
 * there to find. Each wraps a slot that is right. */
#define _GNU_SOURCE 1 /* usleep */
#include <unistd.h>

#define pl_plugin_entry entry_of_the_right_one
#define PLUGIN_NAME "mistakes"
#include "linear_regression.c"
#include "linear_regression_data.c"
#include "linear_regression_model.c"
#undef pl_plugin_entry
PL_EXPORT const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error);

/* clang-format off */
#define MISTAKES(X) \
  X(none) X(scale_ignored) X(gradient_overwritten) X(mean_loss) X(wrong_sign) X(lost_gradient) X(doubled_gradient) \
  X(gradient_twice) X(gradient_early) X(gradient_unreported) X(gradient_of_none) X(gradient_of_shape) \
  X(written_behind) X(written_before) X(read_behind) X(training_writes) X(evaluation_writes) X(loss_of_half) \
  X(random_loss) X(last_batch) X(evaluation_remembers) X(training_remembers) X(mean_evaluation) X(doubled_weight) \
  X(weight_of_batch) X(weight_nan) X(weight_negative) X(place_for_id) X(noise_of_place) X(noise_of_batch) \
  X(noise_of_call) X(shared_batch) X(fingerprint_of_call) X(fingerprint_of_object) X(fingerprint_of_process) \
  X(growing_split) X(leaked_batch) X(leaked_step) X(missing_row) X(row_of_place) X(unit_open) X(unit_closed) \
  X(unit_order)
/* clang-format on */

#define MOST 64 /* samples of a batch that goes wrong */
#define NUMBERED(name) name,
#define NAMED(name) STR(#name),
enum { MISTAKES(NUMBERED) COUNT };
static const pl_str kMistakes[] = {MISTAKES(NAMED)};

static int mistake;      /* one of the above; of all objects */
static uint64_t calls;   /* counted by whichever mistake counts */
static uint64_t last_id; /* the first of the batch that was trained last */
static const pl_unit_hooks* real_hooks;
static const pl_gradient_sink* real_sink;

static pl_error* wrong_create(const pl_host* host, const pl_context* context, const pl_config* config,
                              pl_task** out) {
  static const pl_str kKey = STR("mistake");
  pl_str name;
  pl_error* error = host->config_string(config, kKey, &name);
  for (mistake = 0; !error && mistake < COUNT; ++mistake)
    if (kMistakes[mistake].len == name.len && memcmp(kMistakes[mistake].ptr, name.ptr, name.len) == 0) break;
  return error ? error : create(host, context, config, out);
}

/* ------------------------------------------------------------------------------------------------- data */

static pl_error* wrong_count(pl_task* self, uint32_t split, uint64_t* out) {
  pl_error* error = sample_count(self, split, out);
  if (mistake == growing_split) *out += ++calls;
  return error;
}

static pl_str wrong_fingerprint(pl_task* self) {
  static char text[64];
  if (mistake == fingerprint_of_call) snprintf(text, sizeof text, "call %d", (int)++calls);
  if (mistake == fingerprint_of_object) snprintf(text, sizeof text, "object %p", (void*)self);
  if (mistake == fingerprint_of_process) snprintf(text, sizeof text, "process %d", (int)getpid());
  return *text ? make_str(text) : data_fingerprint(self);
}

static pl_error* wrong_load(pl_task* self, const pl_load_args* raw, pl_batch** out) {
  static uint64_t shared[MOST];
  uint64_t places[MOST], *ids = mistake == shared_batch ? shared : places, i;
  pl_load_args args = *raw;
  pl_error* error = load(self, raw, out); /* load() refuses what it must */
  if (error || args.count > MOST) return error;
  if (mistake == place_for_id || mistake == shared_batch) {
    for (i = 0; i < args.count; ++i) ids[i] = mistake == shared_batch ? args.ids[i] : i;
    if (mistake == shared_batch) usleep(2000);
    batch_free(self, *out);
    args.struct_size = sizeof args;
    args.ids = ids;
    error = load(self, &args, out);
    if (!error) memcpy((*out)->ids, raw->ids, args.count * sizeof *raw->ids);
  }
  for (i = 0; !error && i < args.count; ++i) {
    if (mistake == noise_of_place) (*out)->y[i] += (float)i;
    if (mistake == noise_of_batch && args.purpose == PL_PURPOSE_TRAIN) (*out)->y[i] += (float)args.count;
    if (mistake == noise_of_call) (*out)->y[i] += (float)++calls;
  }
  return error;
}

static pl_error* wrong_info(pl_task* self, const pl_batch* batch, pl_batch_info* out) {
  pl_error* error = batch_info(self, batch, out);
  if (mistake == doubled_weight) out->weight *= 2;
  if (mistake == weight_of_batch) out->weight = 1;
  if (mistake == weight_nan) out->weight = NAN;
  if (mistake == weight_negative) out->weight = -1;
  return error;
}

static void wrong_free(pl_task* self, pl_batch* batch) {
  if (mistake != leaked_batch) batch_free(self, batch);
}

/* ------------------------------------------------------------------------------------------------- work */

static float bias_before; /* its gradient */

static pl_error* wrong_ready(void* user, const pl_gradient* gradient) {
  pl_gradient changed = *gradient;
  pl_tensor tensor = *gradient->tensor;
  int64_t shape = 2;
  pl_error* error = NULL;
  if (gradient->index == BIAS && !gradient->owner &&
      (mistake == lost_gradient || mistake == gradient_unreported))
    return NULL;
  changed.tensor = &tensor;
  if (gradient->index == BIAS) {
    float* grad = (float*)tensor.data;
    if (mistake == wrong_sign) *grad = 2 * bias_before - *grad;
    if (mistake == doubled_gradient) *grad += *grad - bias_before;
  }
  if (mistake == gradient_of_none) changed.index = PARAMETERS;
  if (mistake == gradient_of_shape && gradient->index == BIAS) tensor.shape = &shape;
  if (mistake == gradient_twice) error = real_sink->ready(user, &changed);
  return error ? error : real_sink->ready(user, &changed);
}

static pl_error* wrong_train(pl_task* self, const pl_batch* batch, const pl_train_args* raw,
                             pl_tensor* loss) {
  bias_before = self->grad[BIAS] ? *self->grad[BIAS] : 0;
  pl_train_args args = *raw;
  pl_gradient_sink sink = *raw->gradients;
  pl_error* error;
  real_sink = raw->gradients;
  sink.ready = wrong_ready;
  args.gradients = &sink;
  if (mistake == scale_ignored) args.scale = 1;
  if (mistake == mean_loss) args.scale /= (double)batch->count;
  if (mistake == gradient_overwritten && self->grad[BIAS]) *self->grad[BIAS] = 0;
  error = train(self, batch, &args, loss);
  if (error) return error;
  if (self->grad[BIAS]) {
    float* grad = self->grad[BIAS];
    if (mistake == lost_gradient) *grad = bias_before;
    if (mistake == gradient_early) *grad += 1;
    if (mistake == written_behind) grad[1] = 1;
    if (mistake == written_before) grad[-1] = 1;
  }
  if (mistake == mean_loss) self->loss /= (double)batch->count;
  if (mistake == read_behind) self->loss += (double)self->value[BIAS][1];
  if (mistake == training_writes) *(float*)(void*)(uintptr_t)self->value[BIAS] += 1;
  if (mistake == loss_of_half) loss->dtype.bits = 16;
  if (mistake == random_loss) self->loss += (double)++calls;
  if (mistake == last_batch) self->loss += (double)last_id;
  if (mistake == training_remembers) self->loss *= (double)(calls + 1);
  if (mistake == leaked_step) loss->shape = (int64_t*)calloc(8, sizeof *loss->shape);
  if (mistake == evaluation_remembers) ++calls;
  last_id = batch->ids[0];
  return NULL;
}

static const pl_evaluation_sink* real_evaluation;
static uint64_t evaluated; /* samples */

static pl_error* wrong_value(void* user, pl_str group, pl_str name, double sum, double weight) {
  if (mistake == mean_evaluation) sum /= (double)evaluated;
  if (mistake == evaluation_remembers) sum += (double)calls;
  return real_evaluation->value(user, group, name, sum, weight);
}

static pl_error* wrong_evaluate(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                                const pl_evaluation_sink* sink) {
  pl_evaluation_sink wrong = *sink;
  real_evaluation = sink;
  evaluated = batch->count;
  wrong.value = wrong_value;
  if (mistake == evaluation_writes) *(float*)(void*)(uintptr_t)self->value[BIAS] += 1;
  if (mistake == training_remembers) calls = 1;
  return evaluate(self, batch, raw, &wrong);
}

static pl_error* wrong_predict(pl_task* self, const pl_batch* batch, const pl_evaluate_args* raw,
                               const pl_prediction_sink* sink) {
  pl_batch wrong = *batch;
  uint64_t sorted[2];
  if (mistake == missing_row && batch->count > 2) --wrong.count;
  if (mistake == row_of_place && batch->count == 2) {
    sorted[0] = batch->ids[0] < batch->ids[1] ? batch->ids[0] : batch->ids[1];
    sorted[1] = batch->ids[0] + batch->ids[1] - sorted[0];
    wrong.ids = sorted;
  }
  return predict(self, &wrong, raw, sink);
}

/* ------------------------------------------------------------------------------------------------ units */

static pl_error* wrong_enter(void* user, uint32_t unit, uint32_t pass) {
  static uint64_t entered;
  pl_error* error = real_hooks->enter(user, unit, pass);
  if (!error && mistake == unit_order && pass == PL_PASS_FORWARD && entered++ > 0) {
    error = real_hooks->enter(user, unit, pass);
    if (!error) error = real_hooks->leave(user, unit, pass);
  }
  if (!error && mistake == unit_closed && pass == PL_PASS_BACKWARD)
    error = real_hooks->leave(user, unit, pass);
  return error;
}

static pl_error* wrong_leave(void* user, uint32_t unit, uint32_t pass) {
  if (pass == PL_PASS_BACKWARD && (mistake == unit_open || mistake == unit_closed)) return NULL;
  return real_hooks->leave(user, unit, pass);
}

static pl_error* wrong_hooks(pl_task* self, const pl_unit_hooks* hooks) {
  static pl_unit_hooks wrong;
  real_hooks = hooks;
  wrong = *hooks;
  wrong.enter = wrong_enter;
  wrong.leave = wrong_leave;
  return set_unit_hooks(self, &wrong);
}

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  static const pl_str kSummary = STR("fits y = w x + b, with a mistake");
  static pl_option options[sizeof kOptions / sizeof *kOptions + 1];
  static const pl_option kMistake = {
      sizeof kMistake,           PL_OPTION_STRING, 0, COUNT, STR("mistake"), STR("\"none\""), STR(""),
      STR("what it does wrong"), kMistakes,        0, 0};
  static pl_task_api api;
  static pl_plugin plugin;
  const pl_plugin* right = entry_of_the_right_one(host, error);
  if (!right) return NULL;
  memcpy(options, kOptions, sizeof kOptions);
  options[sizeof kOptions / sizeof *kOptions] = kMistake;
  api = kApi;
  api.create = wrong_create;
  api.sample_count = wrong_count;
  api.data_fingerprint = wrong_fingerprint;
  api.load = wrong_load;
  api.batch_info = wrong_info;
  api.batch_free = wrong_free;
  api.set_unit_hooks = wrong_hooks;
  api.train = wrong_train;
  api.evaluate = wrong_evaluate;
  api.predict = wrong_predict;
  plugin = *right;
  plugin.summary = kSummary;
  plugin.options = options;
  plugin.option_count = sizeof options / sizeof *options;
  plugin.api = &api;
  return &plugin;
}
