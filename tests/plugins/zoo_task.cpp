// A task of the zoo that can be opened and called, and breaks its promises only then. ZOO_THROWS: its slots
// let exceptions out. ZOO_NO_STATE: it has extra state of five bytes nowhere. ZOO_ROWS, ZOO_FIELDS,
// ZOO_ROW_ID: how often, how long and for whom its prediction gives a row. ZOO_REPORT_...: what its report
// gives. ZOO_VALUE: the name of a value of its evaluation. ZOO_NARROW_LOSS: its loss in bf16. ZOO_OUTPUT:
// each value of its outputs. ZOO_ROOM: how many of them a row has room for. ZOO_LOSS: its loss with outputs.
// ZOO_STUCK: its training hangs. ZOO_BATCH_FLAGS: its batches' flags. ZOO_FORMS: the forms of its parameter,
// which is then frozen. ZOO_SAMPLES: the samples of each `split`. ZOO_DEAF: the slot that the variable of
// this name names goes on for ever, after it has written a file of that name.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline.h"

#ifndef ZOO_ROWS
#define ZOO_ROWS 1
#endif
#ifndef ZOO_FIELDS
#define ZOO_FIELDS 2
#endif
#ifndef ZOO_ROW_ID
#define ZOO_ROW_ID id
#endif
#ifndef ZOO_BATCH_FLAGS
#define ZOO_BATCH_FLAGS 0x10000  // may be ignored
#endif
#ifndef ZOO_SAMPLES
#define ZOO_SAMPLES 8
#endif
#ifndef ZOO_FORMS
#define ZOO_FORMS 0
#endif
#ifndef ZOO_NARROW_LOSS
#define ZOO_NARROW_LOSS 1
#endif

struct pl_task {
  std::string state = "fresh";
  bool is_open = false;
  bool narrow = false;  // bound to bf16
};

struct pl_batch {
  std::vector<uint64_t> ids;
};

namespace {

pl_str str(const char* text) { return {text, std::strlen(text)}; }

void let_out([[maybe_unused]] const char* slot) {
#ifdef ZOO_STUCK
  while (std::strcmp(slot, "train") == 0) ::pause();
#endif
#ifdef ZOO_THROWS
  throw std::runtime_error(std::string("out of patience in ") + slot);
#endif
}

void be_deaf([[maybe_unused]] const char* slot) {
#ifdef ZOO_DEAF
  const char* const deaf = std::getenv("ZOO_DEAF");
  if (deaf == nullptr || std::strcmp(slot, deaf) != 0) return;
  std::fclose(std::fopen(slot, "w"));
  for (;;) ::sleep(60);
#endif
}

template <class T>
void give(T* out, T value) {
  value.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &value,
              out->struct_size < sizeof value ? out->struct_size : sizeof value);
}

pl_error* create(const pl_host*, const pl_context*, const pl_config*, pl_task** out) {
  be_deaf("create");
  *out = new pl_task;
  return nullptr;
}

void destroy(pl_task* self) {
  delete self;
  let_out("destroy");
}

#ifdef ZOO_DEAF
pl_error* prepare(pl_task*) {
  be_deaf("prepare");
  return nullptr;
}

pl_error* export_model(pl_task*, pl_str) {
  be_deaf("export_model");
  return nullptr;
}
#endif

pl_error* open(pl_task* self) {
  be_deaf("open");
  self->is_open = true;
  return nullptr;
}

pl_error* sample_count(pl_task*, [[maybe_unused]] uint32_t split, uint64_t* out) {
  *out = ZOO_SAMPLES;
  return nullptr;
}

pl_str data_fingerprint(pl_task*) {
  let_out("data_fingerprint");
  return str("zoo");
}

pl_error* load(pl_task*, const pl_load_args* args, pl_batch** out) {
  *out = new pl_batch{{args->ids, args->ids + args->count}};
  return nullptr;
}

pl_error* batch_info(pl_task*, const pl_batch* batch, pl_batch_info* out) {
  pl_batch_info info{};
  info.flags = ZOO_BATCH_FLAGS;
  info.samples = batch->ids.size();
  info.weight = static_cast<double>(info.samples);
  give(out, info);
  return nullptr;
}

void batch_free(pl_task*, pl_batch* batch) {
  delete batch;
  let_out("batch_free");
}

uint64_t parameter_count(pl_task*) {
  let_out("parameter_count");
  return 1;
}

pl_error* parameter(pl_task*, uint64_t, pl_parameter* out) {
  static const int64_t kShape[] = {1};
  pl_parameter value{};
  value.flags = ZOO_FORMS == 0 ? PL_PARAMETER_TRAINABLE : 0;
  value.forms = ZOO_FORMS;
  value.ndim = 1;
  value.shape = kShape;
  value.name = str("weight");
  value.lr_multiplier = 1;
  give(out, value);
  return nullptr;
}

pl_error* initialize(pl_task*, uint64_t, pl_tensor* out) {
  *static_cast<float*>(out->data) = 0;
  return nullptr;
}

pl_error* bind(pl_task* self, uint64_t, const pl_tensor* value, const pl_tensor*) {
  self->narrow = value->dtype.bits == 16;
  return nullptr;
}

#ifndef ZOO_LOSS
#define ZOO_LOSS 1
#endif

pl_error* train(pl_task* self, const pl_batch*, const pl_train_args* args, pl_tensor* loss) {
  static double sum;
  let_out("train");
  [[maybe_unused]] static int calls = 0;
  be_deaf(++calls > 40 ? "later train" : "train");
  sum = self->narrow ? ZOO_NARROW_LOSS : args->outputs != nullptr ? ZOO_LOSS : 1;
  *loss = {};
  loss->data = &sum;
  loss->device.type = PL_DEVICE_CPU;
  loss->dtype = {PL_DTYPE_FLOAT, 64, 1};
  return nullptr;
}

#ifndef ZOO_VALUE
#define ZOO_VALUE "count"
#define ZOO_RECORD_ID batch->ids[0]
#define ZOO_RECORD_TIMES 1
#endif

pl_error* evaluate(pl_task*, [[maybe_unused]] const pl_batch* batch, const pl_evaluate_args*,
                   const pl_evaluation_sink* sink) {
  be_deaf("evaluate");
  if (pl_error* error = sink->value(sink->user, str(""), str("loss"), 3, 2)) return error;
  for (int i = 0; i < ZOO_RECORD_TIMES; ++i)
    if (pl_error* error = sink->record(sink->user, ZOO_RECORD_ID, str("score"), "7", 1)) return error;
  return sink->value(sink->user, str("a"), str(ZOO_VALUE), 1, 1);
}

uint64_t metric_count(pl_task*) {
  let_out("metric_count");
  return 0;
}

pl_error* metric(pl_task*, uint64_t, pl_metric*) { return nullptr; }

pl_error* prediction_columns(pl_task*, const pl_str** out, uint64_t* count) {
  static const pl_str kColumns[] = {str("a"), str("b")};
  *out = kColumns;
  *count = 2;
  return nullptr;
}

pl_error* sample_name(pl_task*, uint32_t, uint64_t, pl_str* out) {
  *out = str("name");
  return nullptr;
}

pl_error* predict(pl_task*, const pl_batch* batch, const pl_evaluate_args*, const pl_prediction_sink* sink) {
  be_deaf("predict");
  static const pl_str kFields[] = {str("x"), str("y"), str("z")};
  for (const uint64_t id : batch->ids) {
    for (int row = 0; row < ZOO_ROWS; ++row)
      if (pl_error* error = sink->row(sink->user, ZOO_ROW_ID, kFields, ZOO_FIELDS)) return error;
    if (pl_error* error = sink->file(sink->user, id, str("file"), "", 0)) return error;
  }
  return nullptr;
}

double flops(pl_task*, const pl_batch*) {
  let_out("flops");
  return 1;
}

pl_error* extra_state(pl_task* self, const void** out, uint64_t* bytes) {
  let_out("extra_state");
#ifdef ZOO_NO_STATE
  *out = nullptr;
#else
  *out = self->state.data();
#endif
  *bytes = self->state.size();
  return nullptr;
}

pl_error* set_extra_state(pl_task* self, const void* state, uint64_t bytes) {
  self->state.assign(static_cast<const char*>(state), bytes);
  return nullptr;
}

#ifndef ZOO_REPORT_FIGURE
#define ZOO_REPORT_FIGURE "spread"
#define ZOO_REPORT_BETTER PL_BETTER_HIGHER
#define ZOO_REPORT_FILE "table.csv"
#endif
#ifndef ZOO_REPORT_BYTES
#define ZOO_REPORT_BYTES "a,b"
#define ZOO_REPORT_TIMES 1
#endif

pl_error* report([[maybe_unused]] pl_task* self, const pl_report_args* args, const pl_report_sink* sink) {
  let_out("report");
  be_deaf("report");
  double sum = args->split;
  for (uint64_t i = 0; i < args->value_count; ++i) sum += args->values[i].sum * args->values[i].weight;
#ifdef ZOO_REPORT_OF_DATA
  if (!self->is_open) sum = 0;
#endif
  if (pl_error* error = sink->figure(sink->user, str(ZOO_REPORT_FIGURE), sum, ZOO_REPORT_BETTER))
    return error;
  if (pl_error* error = sink->text(sink->user, str("two\nlines"))) return error;
  for (int i = 0; i < ZOO_REPORT_TIMES; ++i)
    if (pl_error* error = sink->file(sink->user, str(ZOO_REPORT_FILE), ZOO_REPORT_BYTES, 3)) return error;
  return nullptr;
}

#ifdef ZOO_OUTPUT
#ifndef ZOO_ROOM
#define ZOO_ROOM 2
#endif
std::vector<float> outputs_of_step;

pl_error* begin(pl_task*, uint64_t rows, pl_tensor* out) {
  static int64_t shape[2];
  outputs_of_step.assign(2 * rows, 0);
  shape[0] = static_cast<int64_t>(rows);
  shape[1] = ZOO_ROOM;
  *out = {};
  out->data = outputs_of_step.data();
  out->device.type = PL_DEVICE_CPU;
  out->ndim = 2;
  out->dtype = {PL_DTYPE_FLOAT, 32, 1};
  out->shape = shape;
  return nullptr;
}

pl_error* outputs(pl_task*, const pl_batch* batch, const pl_outputs_args* args) {
  [[maybe_unused]] static float calls = 0;
  for (uint64_t i = 0; i < 2 * batch->ids.size(); ++i) outputs_of_step[2 * args->first_row + i] = ZOO_OUTPUT;
  return nullptr;
}

const void* query(pl_str id) {
  static const pl_global_outputs kTable{sizeof(pl_global_outputs), 0, begin, outputs};
  return std::string(id.ptr, id.len) == PL_EXTENSION_GLOBAL_OUTPUTS ? &kTable : nullptr;
}
#else
const void* query(pl_str) {
  let_out("query");
  return nullptr;
}
#endif

void shutdown() { let_out("shutdown"); }

pl_task_api make_api() {
  pl_task_api api{};
  api.struct_size = sizeof api;
  api.create = create;
  api.destroy = destroy;
  api.open = open;
  api.sample_count = sample_count;
  api.data_fingerprint = data_fingerprint;
  api.load = load;
  api.batch_info = batch_info;
  api.batch_free = batch_free;
  api.parameter_count = parameter_count;
  api.parameter = parameter;
  api.initialize = initialize;
  api.bind = bind;
  api.train = train;
  api.evaluate = evaluate;
  api.metric_count = metric_count;
  api.metric = metric;
  api.prediction_columns = prediction_columns;
  api.sample_name = sample_name;
  api.predict = predict;
  api.flops = flops;
  api.extra_state = extra_state;
  api.set_extra_state = set_extra_state;
  api.report = report;
#ifdef ZOO_DEAF
  api.prepare = prepare;
  api.export_model = export_model;
#endif
  return api;
}

}  // namespace

const pl_plugin* pl_plugin_entry(const pl_host*, pl_error**) {
  static const pl_task_api api = make_api();
  static const pl_plugin plugin{sizeof plugin,
                                PL_ABI_MAJOR,
                                PL_ABI_MINOR,
                                PL_PLUGIN_TASK,
                                str(ZOO_NAME),
                                str("1.2"),
                                str("a plugin of the zoo"),
                                str(""),
                                nullptr,
                                0,
                                &api,
                                query,
                                shutdown};
  return &plugin;
}
