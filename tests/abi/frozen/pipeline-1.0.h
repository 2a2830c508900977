/* pipeline.h as it was released as version 1.0, without its comments. */
#ifndef PIPELINE_ABI_PIPELINE_H
#define PIPELINE_ABI_PIPELINE_H 
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define PL_ABI_MAJOR 1u
#define PL_ABI_MINOR 0u
#define PL_FLAGS_MAY_IGNORE 0xffff0000u
#define PL_CODE(value) ((value)&0xffffu)
#define PL_HAS(type,pointer,field) \
  ((pointer)->struct_size >= offsetof(type, field) + sizeof(((const type*)0)->field))
typedef struct pl_str {
  const char* ptr;
  size_t len;
} pl_str;
typedef struct pl_number {
  pl_str name;
  double value;
} pl_number;
typedef struct pl_error pl_error;
typedef struct pl_config pl_config;
typedef struct pl_context pl_context;
typedef struct pl_communicator pl_communicator;
#define PL_ERROR_FAILED 1u
#define PL_ERROR_CONFIG 2u
#define PL_ERROR_OUT_OF_MEMORY 3u
#define PL_ERROR_CANCELLED 4u
#define PL_ERROR_TIMEOUT 5u
#define PL_ERROR_PEER 6u
#define PL_ERROR_UNSUPPORTED 7u
#define PL_ERROR_CORRUPT 8u
#define PL_ERROR_NO_SPACE 9u
#define PL_DEVICE_CPU 1
#define PL_DEVICE_CUDA 2
#define PL_DEVICE_CUDA_HOST 3
typedef struct pl_device {
  int32_t type;
  int32_t id;
} pl_device;
#define PL_DTYPE_INT 0u
#define PL_DTYPE_UINT 1u
#define PL_DTYPE_FLOAT 2u
#define PL_DTYPE_BFLOAT 4u
#define PL_DTYPE_BOOL 6u
typedef struct pl_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} pl_dtype;
#define PL_STREAM_NONE 0u
#define PL_STREAM_DEVICE 1u
typedef struct pl_stream {
  uint32_t kind;
  uint32_t reserved;
  void* handle;
} pl_stream;
typedef struct pl_tensor {
  void* data;
  pl_device device;
  int32_t ndim;
  pl_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} pl_tensor;
#define PL_OPTION_BOOL 1u
#define PL_OPTION_INT 2u
#define PL_OPTION_FLOAT 3u
#define PL_OPTION_STRING 4u
#define PL_OPTION_PATH 5u
#define PL_OPTION_INT_LIST 6u
#define PL_OPTION_FLOAT_LIST 7u
#define PL_OPTION_STRING_LIST 8u
#define PL_OPTION_PATH_LIST 9u
#define PL_OPTION_REQUIRED 1u
#define PL_OPTION_HAS_MINIMUM 2u
#define PL_OPTION_HAS_MAXIMUM 4u
#define PL_OPTION_ABOVE_MINIMUM 8u
#define PL_OPTION_BELOW_MAXIMUM 16u
#define PL_OPTION_MAY_CHANGE 32u
#define PL_OPTION_OF_MODEL 64u
#define PL_OPTION_FOLLOWS 128u
typedef struct pl_option {
  uint32_t struct_size;
  uint32_t type;
  uint32_t flags;
  uint32_t choice_count;
  pl_str key;
  pl_str default_value;
  pl_str unit;
  pl_str help;
  const pl_str* choices;
  double minimum;
  double maximum;
} pl_option;
#define PL_PURPOSE_TRAIN 1u
#define PL_PURPOSE_EVALUATE 2u
#define PL_PURPOSE_PREDICT 3u
#define PL_PURPOSE_EXPORT 4u
#define PL_PURPOSE_VALIDATE 5u
#define PL_RUN_REPRODUCIBLE 1u
#define PL_RUN_ACTIVATION_CHECKPOINTING 2u
#define PL_RUN_PIN_MEMORY 4u
typedef struct pl_run_info {
  uint32_t struct_size;
  uint32_t purpose;
  uint32_t flags;
  uint32_t threads;
  uint32_t loader_processes;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  uint32_t reserved;
  pl_device device;
  pl_stream stream;
  pl_dtype parameter_dtype;
  pl_dtype compute_dtype;
  uint64_t seed;
  uint64_t global_batch;
  uint64_t micro_batch;
  uint64_t micro_batches;
  pl_str run_dir;
  pl_str cache_dir;
} pl_run_info;
#define PL_LOG_DEBUG 1u
#define PL_LOG_INFO 2u
#define PL_LOG_WARNING 3u
#define PL_LOG_ERROR 4u
typedef pl_error* (*pl_bytes_visitor)(void* user, int32_t rank, const void* bytes, uint64_t size);
typedef struct pl_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  pl_error* (*error_new)(uint32_t code, pl_str message);
  uint32_t (*error_code)(const pl_error* error);
  pl_str (*error_message)(const pl_error* error);
  void (*error_free)(pl_error* error);
  void (*log)(const pl_context* context, uint32_t level, pl_str line);
  void (*metric)(const pl_context* context, pl_str name, double sum, double weight);
  void (*metric_tensor)(const pl_context* context, pl_str name, const pl_tensor* sum, double weight);
  void (*progress)(const pl_context* context, pl_str what, uint64_t done, uint64_t total);
  uint32_t (*cancelled)(const pl_context* context);
  const pl_run_info* (*run_info)(const pl_context* context);
  uint64_t (*seed)(const pl_context* context, pl_str name, uint64_t a, uint64_t b, uint64_t c);
  pl_error* (*exchange)(const pl_context* context, pl_str name, const void* mine, uint64_t size,
                        pl_bytes_visitor visit, void* user);
  pl_error* (*store_set)(const pl_context* context, pl_str key, const void* bytes, uint64_t size);
  pl_error* (*store_get)(const pl_context* context, pl_str key, double timeout_seconds,
                         pl_bytes_visitor visit, void* user);
  pl_error* (*config_bool)(const pl_config* config, pl_str key, uint32_t* out);
  pl_error* (*config_int)(const pl_config* config, pl_str key, int64_t* out);
  pl_error* (*config_float)(const pl_config* config, pl_str key, double* out);
  pl_error* (*config_string)(const pl_config* config, pl_str key, pl_str* out);
  pl_error* (*config_int_list)(const pl_config* config, pl_str key, const int64_t** out, uint64_t* count);
  pl_error* (*config_float_list)(const pl_config* config, pl_str key, const double** out, uint64_t* count);
  pl_error* (*config_string_list)(const pl_config* config, pl_str key, const pl_str** out, uint64_t* count);
  uint32_t (*config_is_set)(const pl_config* config, pl_str key);
  pl_error* (*config_error)(const pl_config* config, pl_str key, pl_str problem);
  pl_error* (*group_open)(const pl_context* context, pl_str name, const int32_t* members,
                          uint64_t member_count, pl_communicator* out);
} pl_host;
#define PL_PARAMETER_TRAINABLE 1u
#define PL_PARAMETER_DECAY 2u
#define PL_PARAMETER_NEW 4u
#define PL_PARAMETER_DROPPABLE 8u
#define PL_PARAMETER_HIDDEN_MATRIX 16u
#define PL_FORM_BFLOAT16 1u
#define PL_FORM_INT8 2u
#define PL_FORM_NF4 4u
typedef struct pl_parameter {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t ndim;
  uint32_t unit;
  const int64_t* shape;
  pl_str name;
  double lr_multiplier;
  uint32_t optimizer;
  uint32_t forms;
  uint32_t form;
  uint32_t reserved;
  uint64_t form_bytes;
} pl_parameter;
typedef struct pl_gradient {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t index;
  const pl_tensor* tensor;
  pl_stream stream;
  void* owner;
  void (*release)(void* owner);
  const pl_tensor* rows;
} pl_gradient;
#define PL_GRADIENTS_IN_ROWS 1u
typedef struct pl_gradient_sink {
  uint32_t struct_size;
  uint32_t flags;
  void* user;
  pl_error* (*ready)(void* user, const pl_gradient* gradient);
} pl_gradient_sink;
#define PL_PASS_FORWARD 1u
#define PL_PASS_BACKWARD 2u
#define PL_PASS_FORWARD_ALONE 3u
typedef struct pl_unit_hooks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*enter)(void* user, uint32_t unit, uint32_t pass);
  pl_error* (*leave)(void* user, uint32_t unit, uint32_t pass);
} pl_unit_hooks;
typedef struct pl_task pl_task;
typedef struct pl_batch pl_batch;
#define PL_SPLIT_TRAIN 0u
#define PL_SPLIT_VAL 1u
#define PL_SPLIT_TEST 2u
typedef struct pl_load_args {
  uint32_t struct_size;
  uint32_t split;
  uint32_t purpose;
  uint32_t reserved;
  const uint64_t* ids;
  uint64_t count;
  uint64_t epoch;
} pl_load_args;
typedef struct pl_batch_info {
  uint32_t struct_size;
  uint32_t flags;
  double weight;
  uint64_t samples;
  uint64_t tokens;
  uint64_t positions;
} pl_batch_info;
typedef struct pl_train_args {
  uint32_t struct_size;
  uint32_t reserved;
  double scale;
  uint64_t seed;
  uint64_t step;
  uint64_t micro_batch;
  const pl_gradient_sink* gradients;
  const pl_tensor* outputs;
  uint64_t first_row;
} pl_train_args;
typedef struct pl_evaluate_args {
  uint32_t struct_size;
  uint32_t purpose;
  uint64_t samples_to_show;
} pl_evaluate_args;
typedef struct pl_evaluation_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*value)(void* user, pl_str group, pl_str name, double sum, double weight);
  pl_error* (*record)(void* user, uint64_t sample_id, pl_str key, const void* bytes, uint64_t size);
  pl_error* (*sample)(void* user, uint64_t sample_id, pl_str text);
} pl_evaluation_sink;
typedef struct pl_prediction_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*row)(void* user, uint64_t sample_id, const pl_str* fields, uint64_t count);
  pl_error* (*file)(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size);
  pl_error* (*append)(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size);
} pl_prediction_sink;
#define PL_AGGREGATE_MEAN 1u
#define PL_AGGREGATE_SUM 2u
#define PL_AGGREGATE_EXP_MEAN 3u
#define PL_BETTER_LOWER 1u
#define PL_BETTER_HIGHER 2u
typedef struct pl_metric {
  uint32_t struct_size;
  uint32_t aggregate;
  uint32_t better;
  uint32_t reserved;
  pl_str name;
  pl_str source;
  pl_str help;
} pl_metric;
typedef struct pl_value {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str group;
  pl_str name;
  double sum;
  double weight;
} pl_value;
typedef struct pl_record {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t sample_id;
  pl_str key;
  const void* bytes;
  uint64_t size;
} pl_record;
typedef struct pl_report_args {
  uint32_t struct_size;
  uint32_t split;
  uint32_t purpose;
  uint32_t reserved;
  const pl_value* values;
  uint64_t value_count;
  const pl_record* records;
  uint64_t record_count;
} pl_report_args;
typedef struct pl_report_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*figure)(void* user, pl_str name, double value, uint32_t better);
  pl_error* (*text)(void* user, pl_str lines);
  pl_error* (*file)(void* user, pl_str name, const void* bytes, uint64_t size);
} pl_report_sink;
typedef struct pl_model_options_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*value)(void* user, pl_str key, pl_str toml, pl_str from);
  pl_error* (*problem)(void* user, pl_str key, pl_str problem);
} pl_model_options_sink;
typedef struct pl_reply_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*text)(void* user, pl_str piece);
} pl_reply_sink;
typedef struct pl_task_api {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config, pl_task** out);
  void (*destroy)(pl_task* self);
  pl_error* (*model_options)(const pl_host* host, const pl_config* config, pl_str init_from,
                             const pl_model_options_sink* sink);
  pl_error* (*prepare)(pl_task* self);
  pl_error* (*extra_state)(pl_task* self, const void** out, uint64_t* bytes);
  pl_error* (*set_extra_state)(pl_task* self, const void* state, uint64_t bytes);
  pl_error* (*open)(pl_task* self);
  pl_error* (*sample_count)(pl_task* self, uint32_t split, uint64_t* out);
  pl_error* (*sample_costs)(pl_task* self, uint32_t split, const uint64_t* ids, uint64_t count, double* out);
  pl_str (*data_fingerprint)(pl_task* self);
  pl_error* (*load)(pl_task* self, const pl_load_args* args, pl_batch** out);
  pl_error* (*batch_info)(pl_task* self, const pl_batch* batch, pl_batch_info* out);
  void (*batch_free)(pl_task* self, pl_batch* batch);
  uint64_t (*parameter_count)(pl_task* self);
  pl_error* (*parameter)(pl_task* self, uint64_t index, pl_parameter* out);
  pl_error* (*initialize)(pl_task* self, uint64_t index, pl_tensor* out);
  pl_error* (*form_bytes)(pl_task* self, uint64_t index, uint32_t form, uint64_t* out);
  pl_error* (*encode_value)(pl_task* self, uint64_t index, uint32_t form, const pl_tensor* values, void* out);
  pl_error* (*import_model)(pl_task* self, pl_str folder);
  pl_error* (*bind)(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad);
  pl_error* (*set_unit_hooks)(pl_task* self, const pl_unit_hooks* hooks);
  pl_error* (*train)(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);
  pl_error* (*evaluate)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                        const pl_evaluation_sink* sink);
  uint64_t (*metric_count)(pl_task* self);
  pl_error* (*metric)(pl_task* self, uint64_t index, pl_metric* out);
  pl_error* (*report)(pl_task* self, const pl_report_args* args, const pl_report_sink* sink);
  pl_error* (*prediction_columns)(pl_task* self, const pl_str** out, uint64_t* count);
  pl_error* (*sample_name)(pl_task* self, uint32_t split, uint64_t sample_id,
                           pl_str* out);
  pl_error* (*predict)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                       const pl_prediction_sink* sink);
  pl_error* (*finish_predictions)(pl_task* self, uint32_t split, pl_str folder,
                                  const pl_prediction_sink* sink);
  pl_error* (*reply)(pl_task* self, pl_str messages, const pl_reply_sink* sink);
  double (*flops)(pl_task* self, const pl_batch* batch);
  pl_error* (*export_model)(pl_task* self, pl_str folder);
} pl_task_api;
typedef struct pl_comm pl_comm;
typedef struct pl_work pl_work;
#define PL_REDUCE_SUM 1u
#define PL_REDUCE_MIN 2u
#define PL_REDUCE_MAX 3u
typedef struct pl_buffer {
  uint32_t struct_size;
  uint32_t flags;
  void* data;
  uint64_t count;
  pl_dtype dtype;
  pl_device device;
  uint32_t reserved;
  pl_stream stream;
  pl_str label;
} pl_buffer;
typedef struct pl_backend_open_args {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  pl_device device;
  double timeout_seconds;
  pl_str address;
  pl_str group;
  const int32_t* members;
  uint64_t member_count;
} pl_backend_open_args;
typedef struct pl_backend_info {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str library;
  pl_str transport;
} pl_backend_info;
typedef void (*pl_collective_ran)(void* user, uint64_t sequence, int64_t begin, int64_t end);
typedef struct pl_backend_api {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*open)(const pl_host* host, const pl_context* context, const pl_config* config,
                    const pl_backend_open_args* args, pl_comm** out);
  pl_error* (*info)(pl_comm* comm, pl_backend_info* out);
  pl_error* (*all_reduce)(pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out);
  pl_error* (*reduce_scatter)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                              const uint64_t* counts, uint32_t reduce, pl_work** out);
  pl_error* (*all_gather)(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                          const uint64_t* counts, pl_work** out);
  pl_error* (*broadcast)(pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out);
  pl_error* (*all_to_all)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                          const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out);
  pl_error* (*barrier)(pl_comm* comm, pl_work** out);
  pl_error* (*wait)(pl_comm* comm, pl_work* work, pl_stream stream);
  pl_error* (*wait_host)(pl_comm* comm, pl_work* work, double timeout_seconds);
  void (*abort)(pl_comm* comm, pl_str reason);
  void (*close)(pl_comm* comm);
  uint32_t (*is_done)(pl_comm* comm, pl_work* work);
  void (*observe)(pl_comm* comm, pl_collective_ran ran, void* user);
} pl_backend_api;
typedef struct pl_update_rule pl_update_rule;
typedef struct pl_update_args {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t run_count;
  const pl_tensor* weights;
  const pl_tensor* gradients;
  const pl_tensor* state;
  const pl_tensor* updates;
  double learning_rate;
  double weight_decay;
  const pl_tensor* divisor;
  const pl_tensor* found_inf;
} pl_update_args;
#define PL_OPTIMIZER_TAKES_SCALE 1u
typedef struct pl_optimizer_info {
  uint32_t struct_size;
  uint32_t flags;
  const pl_str* state;
  uint64_t state_count;
} pl_optimizer_info;
typedef struct pl_optimizer_api {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config,
                      pl_update_rule** out);
  void (*destroy)(pl_update_rule* self);
  pl_error* (*info)(pl_update_rule* self, pl_optimizer_info* out);
  pl_error* (*update)(pl_update_rule* self, const pl_update_args* args);
  pl_error* (*directions)(pl_update_rule* self, const pl_update_args* args);
  pl_error* (*transform)(pl_update_rule* self, const pl_tensor* matrix);
} pl_optimizer_api;
#define PL_OPTIMIZER_WHOLE_TENSORS 1u
typedef struct pl_optimizer {
  uint32_t struct_size;
  uint32_t flags;
  pl_str name;
  const pl_number* options;
  uint64_t option_count;
  const pl_optimizer_api* api;
  pl_update_rule* rule;
} pl_optimizer;
typedef struct pl_strategy pl_strategy;
typedef struct pl_snapshot pl_snapshot;
struct pl_communicator {
  uint32_t struct_size;
  uint32_t flags;
  int32_t rank;
  int32_t world_size;
  const pl_backend_api* api;
  pl_comm* comm;
};
typedef struct pl_strategy_args {
  uint32_t struct_size;
  uint32_t reserved;
  const pl_parameter* parameters;
  uint64_t parameter_count;
  const pl_optimizer* optimizers;
  uint64_t optimizer_count;
  const pl_communicator* communicator;
} pl_strategy_args;
#define PL_ORDER_BLOCK 1u
#define PL_ORDER_INTERLEAVED 2u
#define PL_STRATEGY_NEEDS_UNIT_HOOKS 1u
#define PL_STRATEGY_TAKES_ROWS 2u
#define PL_STRATEGY_SAVES_TRAINED 4u
typedef struct pl_strategy_info {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t micro_batch_order;
  uint32_t reserved;
  pl_dtype gradient_dtype;
  pl_dtype reduction_dtype;
  pl_dtype master_dtype;
  pl_dtype optimizer_dtype;
} pl_strategy_info;
typedef struct pl_step_args {
  uint32_t struct_size;
  uint32_t reserved;
  double learning_rate;
  double clip_norm;
  double inverse_scale;
  double clip_value;
} pl_step_args;
typedef struct pl_step_report {
  uint32_t struct_size;
  uint32_t finite;
  double loss_sum;
  double grad_norm;
} pl_step_report;
typedef struct pl_piece {
  uint32_t struct_size;
  uint32_t ndim;
  pl_str parameter;
  pl_str kind;
  const int64_t* shape;
  uint64_t offset;
  uint64_t count;
  pl_dtype dtype;
  uint32_t flags;
  const void* data;
} pl_piece;
typedef struct pl_state_reader {
  uint32_t struct_size;
  uint32_t values_only;
  void* user;
  pl_error* (*read)(void* user, const pl_piece* piece, void* destination);
} pl_state_reader;
typedef pl_error* (*pl_piece_visitor)(void* user, const pl_piece* piece);
typedef pl_error* (*pl_memory_visitor)(void* user, pl_str what, uint64_t bytes);
#define PL_SNAPSHOT_COPY 1u
#define PL_SNAPSHOT_VIEW 2u
#define PL_SNAPSHOT_TRAINED 4u
typedef struct pl_strategy_api {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config,
                      const pl_strategy_args* args, pl_strategy** out);
  void (*destroy)(pl_strategy* self);
  pl_error* (*info)(pl_strategy* self, pl_strategy_info* out);
  pl_error* (*storage)(pl_strategy* self, uint64_t index, pl_tensor* value, pl_tensor* grad);
  pl_error* (*unit_hooks)(pl_strategy* self, pl_unit_hooks* out);
  pl_error* (*begin_step)(pl_strategy* self, uint64_t micro_batches);
  pl_error* (*gradient_ready)(pl_strategy* self, const pl_gradient* gradient);
  pl_error* (*end_micro_batch)(pl_strategy* self, const pl_tensor* loss);
  pl_error* (*step)(pl_strategy* self, const pl_step_args* args, uint64_t* ticket);
  pl_error* (*collect)(pl_strategy* self, uint64_t ticket, pl_step_report* out);
  pl_error* (*load_state)(pl_strategy* self, const pl_state_reader* reader);
  pl_error* (*snapshot)(pl_strategy* self, uint32_t mode, pl_snapshot** out);
  pl_error* (*snapshot_pieces)(pl_snapshot* snapshot, pl_piece_visitor visit, void* user);
  void (*snapshot_free)(pl_snapshot* snapshot);
  pl_error* (*memory)(pl_strategy* self, pl_memory_visitor visit, void* user);
  pl_error* (*gather)(pl_strategy* self);
  pl_error* (*release)(pl_strategy* self);
  pl_error* (*swap_average)(pl_strategy* self);
} pl_strategy_api;
#define PL_EXTENSION_GLOBAL_OUTPUTS "pl.global-outputs/1"
typedef struct pl_outputs_args {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t seed;
  uint64_t step;
  uint64_t micro_batch;
  uint64_t first_row;
} pl_outputs_args;
typedef struct pl_global_outputs {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*begin)(pl_task* self, uint64_t rows, pl_tensor* out);
  pl_error* (*outputs)(pl_task* self, const pl_batch* batch, const pl_outputs_args* args);
} pl_global_outputs;
#define PL_EXTENSION_RUNTIME "pl.runtime/1"
#define PL_RUNTIME_SAME_ON_ANY_THREADS 1u
typedef struct pl_runtime {
  uint32_t struct_size;
  uint32_t flags;
  pl_error* (*peak_flops)(const pl_host* host, const pl_run_info* info, double* out);
  pl_error* (*empty_cache)(const pl_host* host, const pl_run_info* info);
  pl_error* (*start_profile)(const pl_host* host, const pl_run_info* info);
  pl_error* (*stop_profile)(const pl_host* host, pl_str path);
} pl_runtime;
#define PL_PLUGIN_TASK 1u
#define PL_PLUGIN_STRATEGY 2u
#define PL_PLUGIN_BACKEND 3u
#define PL_PLUGIN_OPTIMIZER 4u
typedef struct pl_plugin {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t kind;
  pl_str name;
  pl_str version;
  pl_str summary;
  pl_str runtime;
  const pl_option* options;
  uint64_t option_count;
  const void* api;
  const void* (*query)(pl_str id);
  void (*shutdown)(void);
} pl_plugin;
typedef const pl_plugin* (*pl_plugin_entry_fn)(const pl_host* host, pl_error** error);
#define PL_EXPORT __attribute__((visibility("default")))
PL_EXPORT const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error);
#ifdef __cplusplus
}
#endif
#endif
