/* A task plugin that loads, and by macros every way in which one can fail to. It cannot train. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline.h"

#define STR(literal) \
  { literal, sizeof(literal) - 1 }

#include "zoo_options.h"

#define ZOO_RETURN_TABLE 0
#define ZOO_RETURN_NULL 1
#define ZOO_RETURN_ERROR 2
#define ZOO_RETURN_BOTH 3
#define ZOO_RETURN_NEVER 4
#define ZOO_RETURN_CRASH 5
#define ZOO_RETURN_EXIT 6

#ifndef ZOO_ENTRY
#define ZOO_ENTRY pl_plugin_entry
#endif
#ifndef ZOO_MAJOR
#define ZOO_MAJOR PL_ABI_MAJOR
#endif
#ifndef ZOO_MINOR
#define ZOO_MINOR PL_ABI_MINOR
#endif
#ifndef ZOO_PLUGIN_SIZE
#define ZOO_PLUGIN_SIZE sizeof(pl_plugin)
#endif
#ifndef ZOO_API_SIZE
#define ZOO_API_SIZE sizeof(pl_task_api)
#endif
#ifndef ZOO_TRAIN
#define ZOO_TRAIN zoo_train
#endif
#ifndef ZOO_PREDICT
#define ZOO_PREDICT NULL
#endif
#ifndef ZOO_EXTRA_STATE
#define ZOO_EXTRA_STATE NULL
#endif
#ifndef ZOO_RETURN
#define ZOO_RETURN ZOO_RETURN_TABLE
#endif
#ifndef ZOO_API
#define ZOO_API &kTable
#endif
#ifndef ZOO_KIND
#define ZOO_KIND PL_PLUGIN_TASK
#endif
#ifndef ZOO_RUNTIME
#define ZOO_RUNTIME ""
#endif

static pl_error* zoo_error(const pl_host* host, const char* text) {
  pl_str message;
  message.ptr = text;
  message.len = strlen(text);
  return host->error_new(PL_ERROR_UNSUPPORTED, message);
}

struct pl_task {
  const pl_host* host;
};

static pl_error* zoo_create(const pl_host* host, const pl_context* context, const pl_config* config,
                            pl_task** out) {
  static pl_task task;
  (void)context;
  (void)config;
  task.host = host;
  *out = &task;
  return NULL;
}
static void zoo_destroy(pl_task* self) { (void)self; }
static pl_error* zoo_open(pl_task* self) { return zoo_error(self->host, "the zoo has no data"); }
static pl_error* zoo_sample_count(pl_task* self, uint32_t split, uint64_t* out) {
  (void)self;
  (void)split;
  *out = 0;
  return NULL;
}
static pl_error* zoo_load(pl_task* self, const pl_load_args* args, pl_batch** out) {
  (void)args;
  (void)out;
  return zoo_error(self->host, "the zoo has no data");
}
static pl_error* zoo_batch_info(pl_task* self, const pl_batch* batch, pl_batch_info* out) {
  (void)batch;
  (void)out;
  return zoo_error(self->host, "the zoo has no data");
}
static void zoo_batch_free(pl_task* self, pl_batch* batch) {
  (void)self;
  (void)batch;
}
static uint64_t zoo_parameter_count(pl_task* self) {
  (void)self;
  return 0;
}
static pl_error* zoo_parameter(pl_task* self, uint64_t index, pl_parameter* out) {
  (void)index;
  (void)out;
  return zoo_error(self->host, "the zoo has no parameters");
}
static pl_error* zoo_initialize(pl_task* self, uint64_t index, pl_tensor* out) {
  (void)index;
  (void)out;
  return zoo_error(self->host, "the zoo has no parameters");
}
static pl_error* zoo_bind(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad) {
  (void)index;
  (void)value;
  (void)grad;
  return zoo_error(self->host, "the zoo has no parameters");
}
#ifdef ZOO_LEAKS
PL_EXPORT
#endif
pl_error* zoo_train(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);
pl_error* zoo_train(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss) {
  (void)batch;
  (void)args;
  (void)loss;
  return zoo_error(self->host, "the zoo cannot train");
}
static pl_error* zoo_evaluate(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                              const pl_evaluation_sink* sink) {
  (void)batch;
  (void)args;
  (void)sink;
  return zoo_error(self->host, "the zoo cannot evaluate");
}
pl_error* zoo_predict(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                      const pl_prediction_sink* sink);
pl_error* zoo_predict(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                      const pl_prediction_sink* sink) {
  (void)batch;
  (void)args;
  (void)sink;
  return zoo_error(self->host, "the zoo cannot predict");
}

pl_error* zoo_extra_state(pl_task* self, const void** out, uint64_t* bytes);
pl_error* zoo_extra_state(pl_task* self, const void** out, uint64_t* bytes) {
  (void)out;
  (void)bytes;
  return zoo_error(self->host, "the zoo keeps nothing");
}

#ifdef ZOO_UNRESOLVED
void zoo_function_that_nobody_has(void);
#endif

/* ZOO_LARGER: tables as a later version of the header would have them. */
typedef struct larger_task_api {
  pl_task_api known;
  void* slots_of_the_future[4];
} larger_task_api;

/* clang-format gives up on the condition. */
/* clang-format off */
static const larger_task_api kTable = {
    .known =
        {
#ifdef ZOO_LARGER
            .struct_size = sizeof(larger_task_api),
#else
            .struct_size = ZOO_API_SIZE,
#endif
            .create = zoo_create,
            .destroy = zoo_destroy,
            .open = zoo_open,
            .sample_count = zoo_sample_count,
            .load = zoo_load,
            .batch_info = zoo_batch_info,
            .batch_free = zoo_batch_free,
            .parameter_count = zoo_parameter_count,
            .parameter = zoo_parameter,
            .initialize = zoo_initialize,
            .bind = zoo_bind,
            .train = ZOO_TRAIN,
            .evaluate = zoo_evaluate,
            .predict = ZOO_PREDICT,
            .extra_state = ZOO_EXTRA_STATE,
        },
    .slots_of_the_future = {(void*)&kTable, NULL, NULL, (void*)&kTable}};
/* clang-format on */

static void zoo_shutdown(void) {
  const char* file =
      getenv("ZOO_SHUTDOWN_FILE"); /* a test's way to see the call; plugins read no environment */
  FILE* out = file ? fopen(file, "a") : NULL;
  if (!out) return;
  fputs(ZOO_NAME "\n", out);
  fclose(out);
}

static const void* zoo_query(pl_str id) {
  static const int kExtension = 42;
  return id.len == 10 && memcmp(id.ptr, "zoo.test/1", 10) == 0 ? &kExtension : NULL;
}

typedef struct larger_plugin {
  pl_plugin known;
  void* fields_of_the_future[2];
} larger_plugin;

static const larger_plugin kPlugin = {
    {
#ifdef ZOO_LARGER
        sizeof(larger_plugin),
#else
        ZOO_PLUGIN_SIZE,
#endif
        ZOO_MAJOR, ZOO_MINOR, ZOO_KIND, STR(ZOO_NAME), STR("1.2"), STR("a plugin of the zoo"),
        STR(ZOO_RUNTIME), kOptions, ZOO_OPTION_COUNT, ZOO_API, zoo_query, zoo_shutdown},
    {NULL, NULL}};

PL_EXPORT const pl_plugin* ZOO_ENTRY(const pl_host* host, pl_error** error);
const pl_plugin* ZOO_ENTRY(const pl_host* host, pl_error** error) {
#ifdef ZOO_PRINTS
  printf("hello from the plugin\n");
#endif
#ifdef ZOO_UNRESOLVED
  zoo_function_that_nobody_has();
#endif
  static int calls = 0;
  switch (ZOO_RETURN) {
    case ZOO_RETURN_NULL:
      return NULL;
    case ZOO_RETURN_ERROR:
      *error = zoo_error(host, calls++ == 0 ? "needs a unicorn, and there is none" : "was called again");
      return NULL;
    case ZOO_RETURN_BOTH:
      *error = zoo_error(host, "cannot make up its mind");
      return &kPlugin.known;
    case ZOO_RETURN_NEVER:
      for (;;) sleep(1);
    case ZOO_RETURN_CRASH:
      abort();
    case ZOO_RETURN_EXIT:
      exit(3);
    default:
      return &kPlugin.known;
  }
}
