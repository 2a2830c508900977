/* A task in C99, built from pipeline.h alone: y = w x + b is fitted to data that a formula yields. Loss and
 * gradients are exact and summed in the order of the samples, so every figure can be checked by hand. Shows
 * every slot of pl_task_api but the ones that need real data (prepare, sample_costs). */
#include <math.h>
#include <stdlib.h>

#include "linear_regression.h"

static void destroy(pl_task* self) {
  int split;
  for (split = 0; split < SPLITS; ++split) free(self->names[split]);
  free(self->imported);
  free(self);
}

static pl_error* read_options(pl_task* self, const pl_config* config) {
  static const pl_str kFeatures = STR("model.features"), kTrain = STR("data.samples"),
                      kVal = STR("data.val_samples"), kTest = STR("data.test_samples"),
                      kNoise = STR("data.noise"), kFiles = STR("predict.files");
  pl_error* error = self->host->config_int(config, kFeatures, &self->features);
  if (!error) error = self->host->config_int(config, kTrain, &self->samples[PL_SPLIT_TRAIN]);
  if (!error) error = self->host->config_int(config, kVal, &self->samples[PL_SPLIT_VAL]);
  if (!error) error = self->host->config_int(config, kTest, &self->samples[PL_SPLIT_TEST]);
  if (!error) error = self->host->config_float(config, kNoise, &self->noise);
  if (!error) error = self->host->config_bool(config, kFiles, &self->files);
  return error;
}

static pl_error* create(const pl_host* host, const pl_context* context, const pl_config* config,
                        pl_task** out) {
  pl_error* error;
  pl_task* self = (pl_task*)calloc(1, sizeof *self);
  if (!self) return fail(host, PL_ERROR_OUT_OF_MEMORY, "create: no memory");
  self->host = host;
  self->context = context;
  error = read_options(self, config);
  if (error) {
    destroy(self);
    return error;
  }
  self->shapes[WEIGHT][0] = self->features;
  self->shapes[BIAS][0] = 1;
  *out = self;
  return NULL;
}

static pl_error* open_task(pl_task* self) {
  const pl_run_info* run = self->host->run_info(self->context);
  char line[96];
  int split;
  int64_t id;
  if (run->device.type != COMPUTES_ON)
    return fail(self->host, PL_ERROR_UNSUPPORTED,
                PLUGIN_NAME " computes on a device of type %d, the run's device has type %d", COMPUTES_ON,
                (int)run->device.type);
  if (!has_its_stream(run))
    return fail(self->host, PL_ERROR_FAILED, "open: the run's stream is not its device's");
  for (split = 0; split < SPLITS; ++split) {
    self->names[split] = malloc(((size_t)self->samples[split] + 1) * sizeof *self->names[split]);
    if (!self->names[split]) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "open: no memory for names");
    for (id = 0; id < self->samples[split]; ++id)
      snprintf(self->names[split][id], sizeof *self->names[split], "point-%lld", (long long)id);
  }
  snprintf(self->fingerprint, sizeof self->fingerprint, "formula-1 %lld %lld %lld %lld %.17g",
           (long long)self->features, (long long)self->samples[0], (long long)self->samples[1],
           (long long)self->samples[2], self->noise);
  snprintf(line, sizeof line, "%lld features, %lld samples", (long long)self->features,
           (long long)self->samples[0]);
  self->host->log(self->context, PL_LOG_INFO, make_str(line));
  return NULL;
}

static uint64_t metric_count(pl_task* self) {
  (void)self;
  return 1;
}

static pl_error* metric(pl_task* self, uint64_t index, pl_metric* out) {
  static const pl_metric kMetric = {sizeof kMetric,
                                    PL_AGGREGATE_MEAN,
                                    PL_BETTER_LOWER,
                                    0,
                                    STR("mean_absolute_error"),
                                    STR("absolute_error"),
                                    STR("mean distance of prediction and target")};
  if (index != 0)
    return fail(self->host, PL_ERROR_FAILED, "metric %llu: there is 1", (unsigned long long)index);
  give(out, &kMetric, sizeof kMetric);
  return NULL;
}

/* The loss is half the square of the distance. */
static pl_error* report(pl_task* self, const pl_report_args* raw, const pl_report_sink* sink) {
  static const pl_str kName = STR("root_mean_square_error");
  pl_report_args args;
  uint64_t i;
  pl_error* error =
      receive_args(self->host, &args, sizeof args, offsetof(pl_report_args, reserved), raw, "pl_report_args");
  if (error) return error;
  for (i = 0; i < args.value_count; ++i) {
    const pl_value* value =
        (const pl_value*)(const void*)((const char*)args.values + i * args.values->struct_size);
    if (value->name.len == 4 && memcmp(value->name.ptr, "loss", 4) == 0 && value->weight > 0)
      return sink->figure(sink->user, kName, sqrt(2 * value->sum / value->weight), PL_BETTER_LOWER);
  }
  return NULL;
}

static pl_error* prediction_columns(pl_task* self, const pl_str** out, uint64_t* count) {
  static const pl_str kColumns[] = {STR("prediction")};
  (void)self;
  *out = kColumns;
  *count = 1;
  return NULL;
}

static FILE* open_weights(pl_task* self, pl_str folder, const char* mode, pl_error** error) {
  char path[4096];
  FILE* file;
  snprintf(path, sizeof path, "%.*s/weights.txt", (int)folder.len, folder.ptr);
  file = fopen(path, mode);
  if (!file) *error = fail(self->host, PL_ERROR_CONFIG, "%s: cannot be opened", path);
  return file;
}

static pl_error* export_model(pl_task* self, pl_str folder) {
  pl_error* error = NULL;
  int64_t j;
  FILE* file = open_weights(self, folder, "w", &error);
  if (!file) return error;
  error = enter(self, PL_PASS_FORWARD);
  for (j = 0; !error && j < self->features; ++j) fprintf(file, "%.9g\n", (double)self->value[WEIGHT][j]);
  if (!error) fprintf(file, "%.9g\n", (double)self->value[BIAS][0]);
  if (!error) error = leave(self, PL_PASS_FORWARD);
  if (fclose(file) != 0 && !error)
    error = fail(self->host, PL_ERROR_NO_SPACE, "weights.txt: cannot be written");
  return error;
}

static pl_error* import_model(pl_task* self, pl_str folder) {
  pl_error* error = NULL;
  int64_t read = 0;
  double value;
  FILE* file = open_weights(self, folder, "r", &error);
  if (!file) return error;
  if (!self->imported) self->imported = (float*)malloc(((size_t)self->features + 1) * sizeof *self->imported);
  if (!self->imported) error = fail(self->host, PL_ERROR_OUT_OF_MEMORY, "import: no memory");
  while (!error && fscanf(file, "%lf", &value) == 1) {
    if (read <= self->features) self->imported[read] = (float)value;
    ++read;
  }
  fclose(file);
  if (!error && read != self->features + 1)
    error = fail(self->host, PL_ERROR_CONFIG,
                 "weights.txt: has %lld numbers, must have %lld (model.features and the bias)",
                 (long long)read, (long long)self->features + 1);
  return error;
}

static const pl_task_api kApi = {
    .struct_size = sizeof(pl_task_api),
    .create = create,
    .destroy = destroy,
    .open = open_task,
    .sample_count = sample_count,
    .data_fingerprint = data_fingerprint,
    .load = load,
    .batch_info = batch_info,
    .batch_free = batch_free,
    .parameter_count = parameter_count,
    .parameter = parameter,
    .initialize = initialize,
    .import_model = import_model,
    .bind = bind,
    .set_unit_hooks = set_unit_hooks,
    .train = train,
    .evaluate = evaluate,
    .metric_count = metric_count,
    .metric = metric,
    .prediction_columns = prediction_columns,
    .sample_name = sample_name,
    .predict = predict,
    .flops = flops,
    .export_model = export_model,
    .report = report,
};

#define OPTION(type, flags, key, value, unit, help, minimum, maximum) \
  { sizeof(pl_option), type, flags, 0, STR(key), STR(value), STR(unit), STR(help), NULL, minimum, maximum }
#define RANGE (PL_OPTION_HAS_MINIMUM | PL_OPTION_HAS_MAXIMUM)

static const pl_option kOptions[] = {
    OPTION(PL_OPTION_INT, RANGE, "model.features", "4", "features", "length of x", 1, 4096),
    OPTION(PL_OPTION_INT, RANGE, "data.samples", "256", "samples", "size of the training split", 1, 1e9),
    OPTION(PL_OPTION_INT, RANGE, "data.val_samples", "64", "samples", "size of the validation split", 0, 1e9),
    OPTION(PL_OPTION_INT, RANGE, "data.test_samples", "32", "samples", "size of the test split", 0, 1e9),
    OPTION(PL_OPTION_FLOAT, PL_OPTION_HAS_MINIMUM, "data.noise", "0.0", "",
           "half width of the noise added to y", 0, 0),
    OPTION(PL_OPTION_BOOL, 0, "predict.files", "false", "", "a file for each prediction, too", 0, 0),
};

static const pl_plugin kPlugin = {
    sizeof(pl_plugin),
    PL_ABI_MAJOR,
    PL_ABI_MINOR,
    PL_PLUGIN_TASK,
    STR(PLUGIN_NAME),
    STR("1.0"),
    STR("fits y = w x + b to data from a formula, in plain C"),
    STR(""),
    kOptions,
    sizeof kOptions / sizeof *kOptions,
    &kApi,
    NULL,
    NULL,
};

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)error;
  return host->abi_major == PL_ABI_MAJOR ? &kPlugin : NULL;
}
