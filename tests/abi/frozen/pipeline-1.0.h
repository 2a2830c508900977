/* pipeline.h - the stable C ABI between the `pipeline` host and its plugins.
 *
 * A plugin is one shared library that exports one function, `pl_plugin_entry`, and is a task (data, model,
 * loss), a strategy (where parameters, gradients and optimizer state live) or a backend (how bytes move
 * between processes). This header is all a plugin needs: it is C99, includes nothing but two standard
 * headers, and never changes incompatibly within a major version. README.md beside it states the rules,
 * CHANGELOG.md what was appended when.
 *
 * Conventions, true of every declaration below:
 *  - Structs that cross by pointer begin with `struct_size`, and fields are only ever appended. Who sends a
 *    struct sets struct_size to its sizeof. Who receives it copies min(struct_size, its own sizeof) bytes and
 *    takes the rest as zero, so either side may be the newer one. For an `out` struct the caller sets
 *    struct_size to its sizeof and the rest to zero; the callee writes at most struct_size bytes, and leaves
 *    struct_size as it is. In an array, struct_size of the first element is the stride. pl_str, pl_number,
 *    pl_device, pl_dtype, pl_stream and pl_tensor carry no size and never change.
 *  - An options struct (named ..._args) that has a nonzero byte where the receiver knows no field, or in
 *    `reserved`, is refused: no option is ever ignored in silence. In other structs such bytes are ignored;
 *    one whose later fields may change the meaning of its first ones has `flags`.
 *  - `reserved` is zero.
 *  - Flags are bits of a uint32_t. Bits 0 to 15 must be understood: an unknown one is an error. Bits 16 to 31
 *    may be ignored by who does not know them. Codes are plain uint32_t constants: the lower 16 bits say what
 *    it is, and an unknown one is an error; the upper 16 bits may one day say it more exactly, and are
 *    ignored by who does not know them.
 *  - Slots are required unless marked (optional); optional ones may be NULL. The host checks them once, at
 *    load.
 *  - Functions that can fail return `pl_error *`: NULL is success. Errors are made by the host
 *    (pl_host.error_new), whoever raises them, and freed by the receiver (pl_host.error_free). A slot whose
 *    callback returned an error returns that error as it is. After an error nothing was handed out: what
 *    `out` parameters hold is neither read nor freed. No C++ exception may leave a function of this ABI.
 *  - Every pointer has one of four lifetimes. static: until the process ends. borrowed-call: until the call
 *    returns. borrowed-object: as long as the object that the function is about, its first argument or the
 *    one that it makes. owned: the receiver frees it with the named function. Arguments are borrowed-call
 *    where nothing else is said.
 *  - Every function has a thread tag. [main]: only the thread that runs the training loop. [any-thread]: any
 *    thread, also concurrently. [serialized]: any thread, one call at a time per object. [collective]:
 *    [serialized], and all ranks make the same calls in the same order. "[main] collective" is both. A
 *    callback is called on the thread of the slot that it was passed to, unless it is tagged.
 *  - Device work is ordered by one stream, pl_run_info.stream. What a slot starts on the device runs after
 *    all that earlier slots of any plugin started, and before all that later ones start: a slot puts its work
 *    on that stream, or makes its own streams wait for it and it for them. So no slot waits for the device
 *    unless it says so, and none has a stream among its arguments but where work may come from elsewhere:
 *    pl_gradient.stream and the collectives. On the CPU the work is done when the slot returns.
 *  - CUDA: that stream is a non-blocking one of the device's primary context. No slot may count on a context
 *    or a device being current on its thread, and it may leave another one current. pl_device.id counts the
 *    devices that the process sees, as CUDA_VISIBLE_DEVICES numbers them.
 *  - Strings are UTF-8, not NUL-terminated. */
#ifndef PIPELINE_ABI_PIPELINE_H
#define PIPELINE_ABI_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PL_ABI_MAJOR 1u /* must match between host and plugin */
#define PL_ABI_MINOR 0u /* may differ either way */

#define PL_FLAGS_MAY_IGNORE 0xffff0000u  /* the bits of flags that who does not know them may ignore */
#define PL_CODE(value) ((value)&0xffffu) /* the part of a code that must be known */

/* True if the struct at `pointer` (of struct type `type`), as its sender sized it, contains `field`. */
#define PL_HAS(type, pointer, field) \
  ((pointer)->struct_size >= offsetof(type, field) + sizeof(((const type*)0)->field))

/* ----------------------------------------------------------------------------------------- basic values */

typedef struct pl_str {
  const char* ptr; /* may be NULL when len is 0 */
  size_t len;
} pl_str;

/* A named number: an option of an optimizer. */
typedef struct pl_number {
  pl_str name;
  double value;
} pl_number;

typedef struct pl_error pl_error;     /* made and freed by the host */
typedef struct pl_config pl_config;   /* the validated options of one plugin */
typedef struct pl_context pl_context; /* what one plugin object sees of its run */

/* Error codes: what the caller can do about it. The message is for people. */
#define PL_ERROR_FAILED 1u        /* anything else */
#define PL_ERROR_CONFIG 2u        /* the user's configuration or input is wrong */
#define PL_ERROR_OUT_OF_MEMORY 3u /* host or device memory is exhausted */
#define PL_ERROR_CANCELLED 4u     /* stopped because pl_host.cancelled said so */
#define PL_ERROR_TIMEOUT 5u       /* another rank did not answer in time */
#define PL_ERROR_PEER 6u          /* another rank died or aborted */
#define PL_ERROR_UNSUPPORTED 7u   /* this device, dtype or combination cannot be done */
#define PL_ERROR_CORRUPT 8u       /* stored data is damaged */
#define PL_ERROR_NO_SPACE 9u      /* the disk is full */

/* Devices, dtypes and tensors are laid out as DLPack's DLDevice, DLDataType and DLTensor, with DLPack's
 * codes. */
#define PL_DEVICE_CPU 1
#define PL_DEVICE_CUDA 2
#define PL_DEVICE_CUDA_HOST 3 /* pinned host memory */

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
  uint16_t lanes; /* always 1 here */
} pl_dtype;

/* A stream of a device, or none: for memory of the host, and where no device computes. It says nothing else:
 * not "the current one", not "wait". The handle of CUDA's legacy default stream, which is NULL, is no stream
 * here. */
#define PL_STREAM_NONE 0u
#define PL_STREAM_DEVICE 1u

typedef struct pl_stream {
  uint32_t kind; /* PL_STREAM_... */
  uint32_t reserved;
  void* handle; /* PL_STREAM_DEVICE: the device's own kind of stream (CUDA: CUstream), not NULL */
} pl_stream;

typedef struct pl_tensor {
  void* data; /* NULL: no tensor */
  pl_device device;
  int32_t ndim;
  pl_dtype dtype;
  int64_t* shape;   /* ndim extents */
  int64_t* strides; /* in elements; NULL: contiguous, row-major */
  uint64_t byte_offset;
} pl_tensor;

/* --------------------------------------------------------------------------------------------- options */

#define PL_OPTION_BOOL 1u
#define PL_OPTION_INT 2u
#define PL_OPTION_FLOAT 3u
#define PL_OPTION_STRING 4u
#define PL_OPTION_PATH 5u /* a string; relative paths are taken from the folder the run was started in */
#define PL_OPTION_INT_LIST 6u
#define PL_OPTION_FLOAT_LIST 7u
#define PL_OPTION_STRING_LIST 8u
#define PL_OPTION_PATH_LIST 9u

#define PL_OPTION_REQUIRED 1u       /* no default: the user must give it */
#define PL_OPTION_HAS_MINIMUM 2u    /* value (or each list element) >= minimum */
#define PL_OPTION_HAS_MAXIMUM 4u    /* value (or each list element) <= maximum */
#define PL_OPTION_ABOVE_MINIMUM 8u  /* value > minimum; with HAS_MINIMUM */
#define PL_OPTION_BELOW_MAXIMUM 16u /* value < maximum; with HAS_MAXIMUM */
#define PL_OPTION_MAY_CHANGE 32u    /* may differ when a run is continued: it cannot change the result */

/* One key that a plugin understands. The host validates, fills in defaults, and prints it (`pipeline
 * explain`). */
typedef struct pl_option {
  uint32_t struct_size;
  uint32_t type;  /* PL_OPTION_BOOL ... */
  uint32_t flags; /* PL_OPTION_REQUIRED ... */
  uint32_t choice_count;
  pl_str key;            /* below the plugin's table, dotted: "model.n_head" */
  pl_str default_value;  /* as TOML source: `12`, `"gelu"`, `[1, 2]`; empty when required */
  pl_str unit;           /* "tokens", "seconds", ...; may be empty */
  pl_str help;           /* one line */
  const pl_str* choices; /* strings only; static; NULL: any */
  double minimum;
  double maximum;
} pl_option;

/* ------------------------------------------------------------------------------- what a run looks like */

#define PL_PURPOSE_TRAIN 1u
#define PL_PURPOSE_EVALUATE 2u /* a full evaluation, by verb or stage */
#define PL_PURPOSE_PREDICT 3u
#define PL_PURPOSE_EXPORT 4u
#define PL_PURPOSE_VALIDATE 5u /* the evaluation between training steps */

#define PL_RUN_REPRODUCIBLE 1u             /* same bits on any number of processes */
#define PL_RUN_ACTIVATION_CHECKPOINTING 2u /* recompute activations in the backward pass */
#define PL_RUN_PIN_MEMORY 4u               /* batches should be loaded into pinned memory */

/* The facts of a run, the same for all objects of a process. */
typedef struct pl_run_info {
  uint32_t struct_size;
  uint32_t purpose;
  uint32_t flags;
  uint32_t threads;   /* CPU threads that this process may compute with */
  int32_t rank;       /* among the processes that share out the global batch: of data parallelism */
  int32_t world_size; /* of data parallelism; at least 1 */
  int32_t local_rank; /* among the processes of this host */
  int32_t local_world_size;
  pl_device device;
  pl_stream stream; /* that all device work is ordered by; NONE on the CPU, and where nothing is computed */
  /* Of the values that a task is bound to; the strategy keeps float32 masters if it is narrower. */
  pl_dtype parameter_dtype;
  pl_dtype compute_dtype; /* of matrix products and activations */
  uint64_t seed;
  /* The batch plan; 0 when not training. global_batch = micro_batch x micro_batches. */
  uint64_t global_batch;  /* samples per optimizer step, all ranks together */
  uint64_t micro_batch;   /* samples per forward pass */
  uint64_t micro_batches; /* per optimizer step, all ranks together */
  pl_str run_dir;         /* the run's own folder; empty when there is none */
  pl_str cache_dir;       /* for prepared data; shared by runs */
} pl_run_info;

#define PL_LOG_DEBUG 1u
#define PL_LOG_INFO 2u
#define PL_LOG_WARNING 3u
#define PL_LOG_ERROR 4u

/* Bytes that came from `rank`, borrowed-call. An error ends the visit. */
typedef pl_error* (*pl_bytes_visitor)(void* user, int32_t rank, const void* bytes, uint64_t size);

/* Everything outside that a plugin sees: it reads no environment but its library's own, writes to no console,
 * installs no signal handler, uses no clock as a seed. One table per process, static. `context` is what the
 * plugin object was created with, borrowed-object. */
typedef struct pl_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;

  /* Errors. error_new copies the message and never returns NULL. [any-thread] */
  pl_error* (*error_new)(uint32_t code, pl_str message);
  uint32_t (*error_code)(const pl_error* error);  /* [any-thread] */
  pl_str (*error_message)(const pl_error* error); /* borrowed-object [any-thread] */
  void (*error_free)(pl_error* error);            /* NULL is allowed [any-thread] */

  /* One finished line, without a newline at its end. [any-thread] */
  void (*log)(const pl_context* context, uint32_t level, pl_str line);
  /* A value that goes into this step's line of metrics.jsonl, averaged over the step by weight; keep names
   * stable. [main] */
  void (*metric)(const pl_context* context, pl_str name, double sum, double weight);
  /* The same for a sum on the device, a float32 or float64 scalar. It is copied in the order of the stream
   * and read a step later, as the loss is, so that nobody waits for the device. [main] */
  void (*metric_tensor)(const pl_context* context, pl_str name, const pl_tensor* sum, double weight);
  /* Progress of something long (`prepare`, a download). total = 0: unknown. [any-thread] */
  void (*progress)(const pl_context* context, pl_str what, uint64_t done, uint64_t total);
  /* Nonzero: give up soon, with PL_ERROR_CANCELLED. [any-thread] */
  uint32_t (*cancelled)(const pl_context* context);
  const pl_run_info* (*run_info)(const pl_context* context); /* borrowed-object [any-thread] */
  /* A seed as a pure function of (run.seed, name, a, b, c): the only source of randomness. [any-thread] */
  uint64_t (*seed)(const pl_context* context, pl_str name, uint64_t a, uint64_t b, uint64_t c);

  /* For strategies and backends: what ranks tell each other besides tensors, such as addresses and counts.
   * It goes through rank 0, over connections that the host has anyway, so it is not for data. Names and keys
   * are the plugin's own and have at most 900 bytes; a backend puts the name of its group in front. All three
   * fail with PL_ERROR_PEER as soon as any rank has failed, and with PL_ERROR_CANCELLED.
   *
   * exchange: an all-gather of bytes. Every rank gives `mine`, of a size of its own; `visit` is called with
   * what each of them gave, in the order of the ranks. At most 1 GiB, all ranks together. Exchanges of one
   * name are [collective]; those of different names are independent, also on several threads. It waits until
   * all ranks have come. [any-thread]
   *
   * store_set, store_get: a table that all ranks share, for libraries that find their ranks by one. A key
   * stays; the value that was set last counts. get waits until the key is there, and visits its value as one
   * of rank 0; PL_ERROR_TIMEOUT after timeout_seconds, at once where that is not above 0. [any-thread] */
  pl_error* (*exchange)(const pl_context* context, pl_str name, const void* mine, uint64_t size,
                        pl_bytes_visitor visit, void* user);
  pl_error* (*store_set)(const pl_context* context, pl_str key, const void* bytes, uint64_t size);
  pl_error* (*store_get)(const pl_context* context, pl_str key, double timeout_seconds,
                         pl_bytes_visitor visit, void* user);

  /* Options, validated, with defaults filled in; a key that the plugin's schema does not have is an error,
   * and so is a wrong type. Pointers stay valid until the config does. [any-thread] */
  pl_error* (*config_bool)(const pl_config* config, pl_str key, uint32_t* out);
  pl_error* (*config_int)(const pl_config* config, pl_str key, int64_t* out);
  pl_error* (*config_float)(const pl_config* config, pl_str key, double* out);
  pl_error* (*config_string)(const pl_config* config, pl_str key,
                             pl_str* out); /* also paths, made absolute; borrowed-object */
  pl_error* (*config_int_list)(const pl_config* config, pl_str key, const int64_t** out, uint64_t* count);
  pl_error* (*config_float_list)(const pl_config* config, pl_str key, const double** out, uint64_t* count);
  pl_error* (*config_string_list)(const pl_config* config, pl_str key, const pl_str** out, uint64_t* count);
  uint32_t (*config_is_set)(const pl_config* config, pl_str key); /* 0: the default is in force */
  /* An error of the form `file:line: task.model.n_head = 7: problem`, code PL_ERROR_CONFIG. */
  pl_error* (*config_error)(const pl_config* config, pl_str key, pl_str problem);
} pl_host;

/* -------------------------------------------------------------------------- parameters and gradients */

#define PL_PARAMETER_TRAINABLE 1u
#define PL_PARAMETER_DECAY 2u /* weight decay applies */
/* A run takes its values up by name, and names and shapes must match. Only a stage that starts from the
 * weights of another one may differ: a NEW parameter that those lack keeps its initial value, and a DROPPABLE
 * one of theirs may be missing here. The log names both. */
#define PL_PARAMETER_NEW 4u
#define PL_PARAMETER_DROPPABLE 8u

/* A parameter tensor. A task has no state besides its parameters that training changes. */
typedef struct pl_parameter {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t ndim;
  uint32_t unit; /* layer index: parameters that are used together; see pl_unit_hooks */
  const int64_t* shape;
  pl_str name;          /* unique; as in the checkpoint */
  double lr_multiplier; /* of the learning rate; 1 is normal */
  uint32_t optimizer;   /* index in pl_strategy_args.optimizers, set by the host; 0 from tasks */
  uint32_t reserved;
} pl_parameter;

/* A finished gradient of one micro-batch, in float32, the parameter's dtype or the compute dtype. */
typedef struct pl_gradient {
  uint32_t struct_size;
  uint32_t flags; /* none in 1.0 */
  uint64_t index; /* of the parameter */
  const pl_tensor*
      tensor;       /* the bound gradient, or the task's own tensor, of the parameter's shape or rows */
  pl_stream stream; /* that it is complete on: pl_run_info.stream, or another one of the task's */
  /* Set for the task's own tensor, NULL for the bound gradient and for rows. From the call on, also where it
   * fails, the memory belongs to the strategy. It calls release(owner) once, from any thread, when all that
   * reads the memory is done or is on pl_run_info.stream already. So memory that is given out again for work
   * on that stream is in order; for anything else its owner must wait. */
  void* owner;
  void (*release)(void* owner);
  /* (K) int64 on the tensor's device: `tensor`, (K, ...), is added to these rows of the gradient, the same
   * row perhaps several times. NULL: the tensor is of all rows. Both are borrowed-call.
   * REQUIRES: the sink's flags say PL_GRADIENTS_IN_ROWS, and no gradient is bound. */
  const pl_tensor* rows;
} pl_gradient;

/* The strategy sends gradients while the backward pass runs: hand over each part as soon as it is there, what
 * is dense first, and what touches a few rows of a large parameter as those rows. */
#define PL_GRADIENTS_IN_ROWS 1u

typedef struct pl_gradient_sink {
  uint32_t struct_size;
  uint32_t flags; /* PL_GRADIENTS_... */
  void* user;
  /* In any order. A bound gradient comes once for each micro-batch, when it is complete; one that is handed
   * over may come several times, as a parameter that is used twice does, and is added up. One that does not
   * come is zero. [serialized] */
  pl_error* (*ready)(void* user, const pl_gradient* gradient);
} pl_gradient_sink;

/* Told by the task where its units begin and end, so that a strategy can hold one unit's parameters at a
 * time. Between enter and leave the unit's values are in place, at the addresses they were bound to, for work
 * on pl_run_info.stream; outside they may be anything. A unit's gradients come before it is left in the
 * backward pass. Units may overlap, and may be entered again. After an error the micro-batch is over: nothing
 * more is entered or left.
 *
 * Both are [collective]: every micro-batch of every rank enters and leaves the same units in the same order,
 * forward and backward. A model whose micro-batches use different units, such as a text beside a picture,
 * enters and leaves those that it does not use as well. */
#define PL_PASS_FORWARD 1u
#define PL_PASS_BACKWARD 2u

typedef struct pl_unit_hooks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*enter)(void* user, uint32_t unit, uint32_t pass);
  pl_error* (*leave)(void* user, uint32_t unit, uint32_t pass);
} pl_unit_hooks;

/* ----------------------------------------------------------------------------------------------- tasks */

typedef struct pl_task pl_task;   /* made by pl_task_api.create */
typedef struct pl_batch pl_batch; /* made by pl_task_api.load */

#define PL_SPLIT_TRAIN 0u
#define PL_SPLIT_VAL 1u
#define PL_SPLIT_TEST 2u

typedef struct pl_load_args {
  uint32_t struct_size;
  uint32_t split;
  uint32_t purpose; /* PL_PURPOSE_...: training may mask or augment, prediction must not need targets */
  uint32_t reserved;
  const uint64_t* ids; /* each < sample_count(split); in any order, and the same one may come twice */
  uint64_t count;      /* at least 1 */
  uint64_t epoch; /* 0-based; 0 outside training. Random choices depend on (seed, epoch, sample id) alone */
} pl_load_args;

typedef struct pl_batch_info {
  uint32_t struct_size;
  uint32_t flags;     /* none in 1.0 */
  double weight;      /* what the loss sum is divided by, e.g. target tokens; may be 0 */
  uint64_t samples;   /* samples in the batch */
  uint64_t tokens;    /* useful positions computed; 0 when the task has no such thing */
  uint64_t positions; /* positions computed, padding included */
} pl_batch_info;

typedef struct pl_train_args {
  uint32_t struct_size;
  uint32_t reserved;
  double scale;         /* backward starts from (loss sum x scale) */
  uint64_t seed;        /* for dropout; a pure function of (run.seed, step, micro_batch) */
  uint64_t step;        /* 0-based optimizer step */
  uint64_t micro_batch; /* index in the global batch */
  const pl_gradient_sink* gradients;
} pl_train_args;

typedef struct pl_evaluate_args {
  uint32_t struct_size;
  uint32_t purpose;         /* PL_PURPOSE_VALIDATE, _EVALUATE or _PREDICT */
  uint64_t samples_to_show; /* through the sink's `sample`, at most */
} pl_evaluate_args;

/* What an evaluation yields. Sums are added over batches, and records put together, in the order of the
 * samples, so the result does not depend on the number of processes. All functions [main]. */
typedef struct pl_evaluation_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* Adds to the sum `name`. It is shown as a figure where `metric` describes one of it, and "loss" always is;
   * `report` gets all of them. group: a part of the data that belongs in one evaluation alone, such as a
   * cluster that a cross-validation never cuts in two, with sums of its own, for `report`. It is named by its
   * content (a hash, not a number in a list); evaluations with a group in common are not added up, since that
   * would count it twice. Empty: of the evaluation as a whole. */
  pl_error* (*value)(void* user, pl_str group, pl_str name, double sum, double weight);
  /* What sums cannot express: bytes that belong to a sample of this batch, under a key of the task's, once
   * for each sample and key. `report` gets those of all samples, on all ranks: at most a few
   * kilobytes each. */
  pl_error* (*record)(void* user, uint64_t sample_id, pl_str key, const void* bytes, uint64_t size);
  /* A sample worth reading, as text of any number of lines. */
  pl_error* (*sample)(void* user, uint64_t sample_id, pl_str text);
} pl_evaluation_sink;

/* What a prediction yields: rows of a table, in any order within a batch, and files beside it. All functions
 * [main]. */
typedef struct pl_prediction_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*row)(void* user, uint64_t sample_id, const pl_str* fields, uint64_t count);
  pl_error* (*file)(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size);
} pl_prediction_sink;

#define PL_AGGREGATE_MEAN 1u     /* sum / weight */
#define PL_AGGREGATE_SUM 2u      /* sum */
#define PL_AGGREGATE_EXP_MEAN 3u /* exp(sum / weight), e.g. perplexity */

#define PL_BETTER_LOWER 1u
#define PL_BETTER_HIGHER 2u

/* How a value of the evaluation becomes a figure. Every task reports "loss" (mean, lower). */
typedef struct pl_metric {
  uint32_t struct_size;
  uint32_t aggregate;
  uint32_t better;
  uint32_t reserved;
  pl_str name;
  pl_str source; /* name of the value it is computed from; empty: its own name */
  pl_str help;
} pl_metric;

/* A value of a finished evaluation, over all of its samples. */
typedef struct pl_value {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str group; /* empty: of the whole */
  pl_str name;
  double sum;
  double weight;
} pl_value;

/* A record of one sample of a finished evaluation. */
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
  const pl_value* values; /* in the order in which they first came */
  uint64_t value_count;
  const pl_record* records; /* by sample, then by key; none where several evaluations are added up */
  uint64_t record_count;
} pl_report_args;

/* What a report adds to an evaluation. All functions [main]. */
typedef struct pl_report_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* A figure besides those of `metric`, which are computed already; shown and kept as they are. PL_BETTER_...
   */
  pl_error* (*figure)(void* user, pl_str name, double value, uint32_t better);
  /* Lines for whoever reads the log, e.g. a table. */
  pl_error* (*text)(void* user, pl_str lines);
  /* A file beside the figures, e.g. a picture; kept of a full evaluation (PL_PURPOSE_EVALUATE). A plain file
   * name, once; one that the host uses itself is an error. */
  pl_error* (*file)(void* user, pl_str name, const void* bytes, uint64_t size);
} pl_report_sink;

/* Order of calls: create, [set_extra_state], [prepare], open, [extra_state], [import_model], parameter*,
 * initialize*, bind*, [set_unit_hooks], then work. All slots [main] unless tagged. */
typedef struct pl_task_api {
  uint32_t struct_size;
  uint32_t reserved;

  /* Reads the options; touches no data. `host` static, `context` and `config` borrowed-object. */
  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config, pl_task** out);
  void (*destroy)(pl_task* self);

  /* (optional) Downloads, parses, tokenizes into cache_dir. One process at a time; the others wait. Finds
   * finished work. */
  pl_error* (*prepare)(pl_task* self);
  /* (optional, both or none) What the parameters mean nothing without and the options do not give again: a
   * vocabulary that was made from data. Fixed once the task is open; every checkpoint carries it.
   * Borrowed-object. */
  pl_error* (*extra_state)(pl_task* self, const void** out, uint64_t* bytes);
  /* Gets it back, before prepare and open, where the values come from a checkpoint; the task uses it, and
   * must not make another one. An error where it contradicts the options. */
  pl_error* (*set_extra_state)(pl_task* self, const void* state, uint64_t bytes);
  /* Opens data and builds the model for run_info.purpose. May wait for the device. */
  pl_error* (*open)(pl_task* self);

  /* Data. */
  /* 0: no such split. UINT64_MAX, for training alone: no end, as of a stream; ids are positions in it. */
  pl_error* (*sample_count)(pl_task* self, uint32_t split, uint64_t* out);
  /* (optional) Relative cost of samples, e.g. tokens, for grouping alike ones: out[i] for ids[i].
   * [any-thread] */
  pl_error* (*sample_costs)(pl_task* self, uint32_t split, const uint64_t* ids, uint64_t count, double* out);
  /* (optional) Identifies the data's content, the same on all ranks and in a continued run.
   * Borrowed-object. */
  pl_str (*data_fingerprint)(pl_task* self);
  /* load reads samples ahead of time, on worker threads. batch_free may come while work on the device that
   * `train` started still reads the batch. [any-thread], all three. */
  pl_error* (*load)(pl_task* self, const pl_load_args* args, pl_batch** out);
  pl_error* (*batch_info)(pl_task* self, const pl_batch* batch, pl_batch_info* out);
  void (*batch_free)(pl_task* self, pl_batch* batch);

  /* Parameters. Strings and shapes borrowed-object. */
  uint64_t (*parameter_count)(pl_task* self);
  pl_error* (*parameter)(pl_task* self, uint64_t index, pl_parameter* out);
  /* Writes the initial value into `out` (host, float32, contiguous): a pure function of (run.seed, index), or
   * of what was imported. Called for any of the parameters, in any order: a rank may need a part alone. */
  pl_error* (*initialize)(pl_task* self, uint64_t index, pl_tensor* out);
  /* (optional) Takes initial values from a folder of another tool, e.g. Hugging Face. Strict: one error lists
   * all tensors that are missing (but for NEW parameters), unexpected or of another shape. */
  pl_error* (*import_model)(pl_task* self, pl_str folder);
  /* Gives parameter `index` its storage: `value`, of run_info.parameter_dtype, and `grad`, both contiguous
   * and aligned to 64 bytes. grad->data == NULL: gradients are handed over (see pl_gradient.owner), or the
   * parameter is not trainable. The views are borrowed-call; the memory stays where it is until destroy, or
   * until the parameter is bound again, between batches. */
  pl_error* (*bind)(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad);
  /* (optional) For strategies that do not keep all parameters in place. hooks: borrowed-object, static
   * members. */
  pl_error* (*set_unit_hooks)(pl_task* self, const pl_unit_hooks* hooks);

  /* Work. */
  /* Forward and backward. `loss` becomes a view of the unscaled loss sum, a float32 or float64 scalar on the
   * device, valid until the work of the next `train`. Gradients are added to what the bound ones hold; the
   * strategy clears them. */
  pl_error* (*train)(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);
  /* Sums and records of a batch. May wait for the device. */
  pl_error* (*evaluate)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                        const pl_evaluation_sink* sink);
  /* (optional, both or none) Figures besides the loss; index < metric_count. */
  uint64_t (*metric_count)(pl_task* self);
  pl_error* (*metric)(pl_task* self, uint64_t index, pl_metric* out);
  /* (optional) What an evaluation says beyond means: intervals, tables, pictures, figures of records. After
   * every evaluation that was not cut off, on all ranks with the same values, and they must yield the same.
   * Also with the values of several evaluations together, and then on an object that was only created: it
   * uses `args` and options alone. */
  pl_error* (*report)(pl_task* self, const pl_report_args* args, const pl_report_sink* sink);
  /* (optional, all three or none) A prediction is a table. The names of its columns after the id,
   * borrowed-object; the id of a sample; the rows of a batch. predict may wait for the device. */
  pl_error* (*prediction_columns)(pl_task* self, const pl_str** out, uint64_t* count);
  pl_error* (*sample_name)(pl_task* self, uint32_t split, uint64_t sample_id,
                           pl_str* out); /* borrowed-object [any-thread] */
  pl_error* (*predict)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                       const pl_prediction_sink* sink);
  /* (optional) Floating-point operations of forward and backward for this batch, for the utilisation figure
   * (MFU). */
  double (*flops)(pl_task* self, const pl_batch* batch);
  /* (optional) Writes the bound values into an existing, empty folder, in the form that other tools load. May
   * wait for the device. */
  pl_error* (*export_model)(pl_task* self, pl_str folder);
} pl_task_api;

/* -------------------------------------------------------------------------------------------- backends */

typedef struct pl_comm pl_comm; /* a group of ranks; made by pl_backend_api.open */
typedef struct pl_work pl_work; /* a collective under way */

#define PL_REDUCE_SUM 1u
#define PL_REDUCE_MIN 2u
#define PL_REDUCE_MAX 3u

typedef struct pl_buffer {
  uint32_t struct_size;
  uint32_t flags; /* none in 1.0 */
  void* data;
  uint64_t count; /* elements */
  pl_dtype dtype;
  pl_device device;
  uint32_t reserved;
  /* That fills the buffer, or used it last: the collective runs after it. Two buffers may have two. NONE:
   * nothing is under way. */
  pl_stream stream;
} pl_buffer;

typedef struct pl_backend_open_args {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t rank; /* in this group, as all ranks here */
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  pl_device device;
  double timeout_seconds; /* to connect in and, by default, of each collective */
  pl_str address;         /* host name or IP of rank 0, which tells the network that leads to the others */
  pl_str group;           /* unique name of this group in the run, for what its ranks exchange */
} pl_backend_open_args;

typedef struct pl_backend_info {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str library;   /* "NCCL 2.27.3" */
  pl_str transport; /* interface or mechanism in use, as far as it is known */
} pl_backend_info;

/* Collectives start and return at once. Nobody touches their buffers before the work is done: `wait_host` has
 * returned, or what runs on a stream after its `wait`. All ranks call the same collectives in the same order
 * with the same counts and dtypes. `counts` are elements per rank, world_size of them; NULL: even. A count
 * may be 0, and the data then NULL. Buffers do not overlap, but a shard may be this rank's own part of the
 * full buffer. Every backend has the dtypes float64, float32, float16, bfloat16, int64, int32 and uint8 with
 * all three reductions; another one is PL_ERROR_UNSUPPORTED.
 *
 * Each collective has open's timeout, also where only a stream waits for it. What failed after such a `wait`
 * is what the next call returns. After an abort, a timeout or another failure the group is dead: every call
 * fails with PL_ERROR_PEER (or with what ended it), and what is under way is still waited for, which then
 * fails at once. The host aborts the group on every rank as soon as one has failed or is gone, so a backend
 * need not watch the others. */
typedef struct pl_backend_api {
  uint32_t struct_size;
  uint32_t reserved;

  /* Ranks find each other by pl_host.exchange and its store. Blocks until all are connected. [main] */
  pl_error* (*open)(const pl_host* host, const pl_context* context, const pl_config* config,
                    const pl_backend_open_args* args, pl_comm** out);
  pl_error* (*info)(pl_comm* comm, pl_backend_info* out); /* strings borrowed-object [any-thread] */

  /* All [collective]. The work of a barrier is done when all ranks have called it; work on devices it does
   * not order. */
  pl_error* (*all_reduce)(pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out);
  pl_error* (*reduce_scatter)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                              const uint64_t* counts, uint32_t reduce, pl_work** out);
  pl_error* (*all_gather)(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                          const uint64_t* counts, pl_work** out);
  pl_error* (*broadcast)(pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out);
  pl_error* (*all_to_all)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                          const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out);
  pl_error* (*barrier)(pl_comm* comm, pl_work** out);

  /* Each of the two ends a work: it frees it, also when it fails. [any-thread]
   * wait: what comes after on `stream` sees the result, and the host goes on at once. With PL_STREAM_NONE
   * this thread is what comes after: it returns when the result is there. */
  pl_error* (*wait)(pl_comm* comm, pl_work* work, pl_stream stream);
  /* Returns when the work is done, whatever its device. timeout_seconds <= 0: the group's. */
  pl_error* (*wait_host)(pl_comm* comm, pl_work* work, double timeout_seconds);
  /* Concurrent with all but close: pending and later calls fail with PL_ERROR_PEER within a second.
   * [any-thread] */
  void (*abort)(pl_comm* comm, pl_str reason);
  /* Frees comm, without waiting for other ranks. REQUIRES: all work has ended. [main] */
  void (*close)(pl_comm* comm);

  /* (optional) 0 while a `wait` with PL_STREAM_NONE would block; NULL is as 1. Where a device does the work,
   * it is 1 or NULL: the host is ahead of the device, and who held things back until it is done would hold
   * all back. [any-thread] */
  uint32_t (*is_done)(pl_comm* comm, pl_work* work);
} pl_backend_api;

/* ------------------------------------------------------------------------------------------ strategies */

typedef struct pl_strategy pl_strategy; /* made by pl_strategy_api.create */
typedef struct pl_snapshot pl_snapshot; /* made by pl_strategy_api.snapshot */

/* A group of ranks as strategies see it: the host's own table over the backend's (it keeps the heartbeat and
 * the flight record), so slots are called as communicator->api->all_reduce(communicator->comm, ...). */
typedef struct pl_communicator {
  uint32_t struct_size;
  uint32_t flags; /* none in 1.0 */
  int32_t rank;
  int32_t world_size;
  const pl_backend_api* api;
  pl_comm* comm;
} pl_communicator;

/* The rule needs whole matrices: a strategy that cuts tensors refuses it. */
#define PL_OPTIMIZER_WHOLE_TENSORS 1u

/* A rule of update for a group of parameters, by name, with all of its options; an option that the rule does
 * not have is an error, and so is one that is missing.
 *
 * "adamw": beta1, beta2, epsilon, weight_decay. Decoupled decay (Loshchilov and Hutter, arXiv 1711.05101), as
 * PyTorch's AdamW.
 *
 * "sgd": momentum, nesterov (0 or 1), weight_decay. Decay is added to the gradient, as PyTorch's SGD. */
typedef struct pl_optimizer {
  uint32_t struct_size;
  uint32_t flags; /* PL_OPTIMIZER_... */
  pl_str name;
  const pl_number* options;
  uint64_t option_count;
} pl_optimizer;

typedef struct pl_strategy_args {
  uint32_t struct_size;
  uint32_t reserved;
  const pl_parameter* parameters; /* borrowed-call: copy what is kept */
  uint64_t parameter_count;
  const pl_optimizer* optimizers; /* at least one; each trainable parameter names its own by index */
  uint64_t optimizer_count;
  const pl_communicator* communicator; /* borrowed-object; NULL where world_size is 1 */
} pl_strategy_args;

/* Which rank runs micro-batch m of M: a contiguous block each, or m mod world_size. */
#define PL_ORDER_BLOCK 1u
#define PL_ORDER_INTERLEAVED 2u

#define PL_STRATEGY_NEEDS_UNIT_HOOKS 1u /* the task must take them; with unit_hooks, gather and release */
#define PL_STRATEGY_OWNS_SHARDS 2u /* every rank has pieces of the state; otherwise rank 0 has them all */
#define PL_STRATEGY_TAKES_ROWS 4u  /* gradient_ready takes pl_gradient.rows */

typedef struct pl_strategy_info {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t micro_batch_order;
  uint32_t reserved;
  pl_dtype gradient_dtype;  /* accumulated in */
  pl_dtype reduction_dtype; /* sent between ranks in */
  pl_dtype master_dtype;    /* that the optimizer updates */
  pl_dtype optimizer_dtype; /* of the moments */
} pl_strategy_info;

typedef struct pl_step_args {
  uint32_t struct_size;
  uint32_t reserved;
  double learning_rate;
  double clip_norm;     /* 0: no clipping */
  double inverse_scale; /* gradients are multiplied by it first (1 / loss scale) */
} pl_step_args;

typedef struct pl_step_report {
  uint32_t struct_size;
  uint32_t finite;  /* 0: a gradient was not finite and the update was skipped, on all ranks */
  double loss_sum;  /* over all micro-batches and ranks */
  double grad_norm; /* after inverse_scale, before clipping */
} pl_step_report;

/* A contiguous run of elements of one flattened tensor of the training state. */
typedef struct pl_piece {
  uint32_t struct_size;
  uint32_t ndim;
  pl_str parameter;     /* name; empty for state of the optimizer as a whole */
  pl_str kind;          /* "value" (the master), "exp_avg", "exp_avg_sq", "momentum", "step", ... */
  const int64_t* shape; /* of the whole tensor */
  uint64_t offset;      /* first element, in the flattened tensor */
  uint64_t count;
  pl_dtype dtype;
  uint32_t flags;   /* none in 1.0 */
  const void* data; /* host memory; NULL in requests */
} pl_piece;

typedef struct pl_state_reader {
  uint32_t struct_size;
  uint32_t values_only; /* nonzero: a fresh start; only "value" can be read, all else begins at zero */
  void* user;
  /* Fills `destination` (host) with piece->count elements of piece->dtype. A piece that is not there is an
   * error. */
  pl_error* (*read)(void* user, const pl_piece* piece, void* destination);
} pl_state_reader;

typedef pl_error* (*pl_piece_visitor)(void* user, const pl_piece* piece);
typedef pl_error* (*pl_memory_visitor)(void* user, pl_str what, uint64_t bytes);

#define PL_SNAPSHOT_COPY 1u /* stays what it is while training goes on */
#define PL_SNAPSHOT_VIEW 2u /* no copy where possible; visited and freed before the next begin_step */

/* One training step: begin_step, then per micro-batch of this rank gradient_ready* and end_micro_batch, then
 * step; its report is collected one step later. All slots are [main] unless tagged. begin_step,
 * end_micro_batch, step, collect, load_state, snapshot, gather and release are collective as well. */
typedef struct pl_strategy_api {
  uint32_t struct_size;
  uint32_t reserved;

  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config,
                      const pl_strategy_args* args, pl_strategy** out);
  void (*destroy)(pl_strategy* self);
  pl_error* (*info)(pl_strategy* self, pl_strategy_info* out);
  /* What the task is to be bound to, as its `bind` describes; shapes borrowed-object. */
  pl_error* (*storage)(pl_strategy* self, uint64_t index, pl_tensor* value, pl_tensor* grad);
  /* (optional) For tasks that take them. out->user borrowed-object. */
  pl_error* (*unit_hooks)(pl_strategy* self, pl_unit_hooks* out);

  /* micro_batches: that this rank will run, empty ones included; at least 1. */
  pl_error* (*begin_step)(pl_strategy* self, uint64_t micro_batches);
  pl_error* (*gradient_ready)(pl_strategy* self, const pl_gradient* gradient); /* [serialized] */
  /* loss: the task's; NULL: this rank had no micro-batch here, and its gradients count as zero. */
  pl_error* (*end_micro_batch)(pl_strategy* self, const pl_tensor* loss);
  /* Reduces, clips, updates. *ticket: for collect. */
  pl_error* (*step)(pl_strategy* self, const pl_step_args* args, uint64_t* ticket);
  /* Waits for the device to end the step of this ticket, one of the last two. */
  pl_error* (*collect)(pl_strategy* self, uint64_t ticket, pl_step_report* out);

  /* State. These may wait for the device. */
  pl_error* (*load_state)(pl_strategy* self, const pl_state_reader* reader);
  pl_error* (*snapshot)(pl_strategy* self, uint32_t mode, pl_snapshot** out); /* owned: snapshot_free */
  /* The pieces that this rank owns, in a fixed order, each valid until snapshot_free. [any-thread] */
  pl_error* (*snapshot_pieces)(pl_snapshot* snapshot, pl_piece_visitor visit, void* user);
  void (*snapshot_free)(pl_snapshot* snapshot); /* [any-thread] */
  /* Bytes on this rank's device and host, by what they are for. */
  pl_error* (*memory)(pl_strategy* self, pl_memory_visitor visit, void* user);

  /* (optional, both or none) For a strategy that does not keep all parameters in place. After gather all are
   * on this rank, and unit hooks do nothing until release. After each of the two `storage` says where they
   * are, and the task is bound again before its next batch. For evaluation and generation, which go through
   * a model otherwise than training does, and on each rank as often as they like.
   * REQUIRES: no step is under way. */
  pl_error* (*gather)(pl_strategy* self);
  pl_error* (*release)(pl_strategy* self);
} pl_strategy_api;

/* Extension of strategies: what the device can do at most, measured with matrix products in
 * info->compute_dtype on info->threads, or better, in a fraction of a second, for which it waits. FLOP/s of
 * one device. [main] */
#define PL_EXTENSION_PEAK_FLOPS "pl.peak-flops/1"

typedef struct pl_peak_flops {
  uint32_t struct_size;
  uint32_t reserved;
  pl_error* (*measure)(const pl_host* host, const pl_run_info* info, double* out);
} pl_peak_flops;

/* ------------------------------------------------------------------------------------------- the entry */

#define PL_PLUGIN_TASK 1u
#define PL_PLUGIN_STRATEGY 2u
#define PL_PLUGIN_BACKEND 3u

typedef struct pl_plugin {
  uint32_t struct_size;
  uint32_t abi_major; /* PL_ABI_MAJOR and PL_ABI_MINOR of the header it was built with */
  uint32_t abi_minor;
  uint32_t kind;
  pl_str name;    /* as in `plugin = "name"`: [a-z0-9_-]+ */
  pl_str version; /* of the plugin */
  pl_str summary; /* one line */
  /* What it links besides the C library that must be the same in the whole process, e.g. "torch 2.11.0+cu130
   * cxx11-abi"; empty: nothing. Two different nonempty tags in one process are refused. */
  pl_str runtime;
  const pl_option* options;
  uint64_t option_count;
  const void* api; /* pl_task_api, pl_strategy_api or pl_backend_api, by kind; static */
  /* (optional) A table for an extension by id, e.g. "pl.cuda-graph/1", or NULL. [any-thread] */
  const void* (*query)(pl_str id);
  /* (optional) The last call into the plugin, after all of its objects are gone. Libraries are never
   * unloaded. [main] */
  void (*shutdown)(void);
} pl_plugin;

/* The one exported symbol. Returns a static table, or NULL if it cannot work with this host (it then has said
 * why in *error). May be called again, and then returns the same table. [main] */
typedef const pl_plugin* (*pl_plugin_entry_fn)(const pl_host* host, pl_error** error);

#define PL_EXPORT __attribute__((visibility("default")))

PL_EXPORT const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error);

#ifdef __cplusplus
}
#endif

#endif
