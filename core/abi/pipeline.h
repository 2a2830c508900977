/* pipeline.h - the stable C ABI between the `pipeline` host and its plugins.
 *
 * A plugin is a shared library that exports one function, `pl_plugin_entry`. The plugin is a task (data,
 * model, loss), a strategy (where parameters, gradients and optimizer state live), a backend (how bytes move
 * between processes) or an optimizer (how weights follow from gradients). This header is all a plugin needs.
 * `pipeline new task NAME --language c` (or strategy, optimizer) writes one to begin with, with the helpers
 * that every plugin in C wants, and `pipeline check-plugin` tries what a plugin promises. The file is named
 * as pl_plugin.name says, NAME.so, in the folder of its kind (tasks, strategies, backends, optimizers) of a
 * plugin folder. It is C99, includes only two standard headers, and never changes incompatibly within a major
 * version. README.md states the rules; CHANGELOG.md lists what each version appended.
 *
 * What to read, besides these conventions, "Basic values", "Options", "A run and its host" and "The entry":
 *   you write a task        "Parameters and gradients", "Tasks"; with set_unit_hooks also `gather` in
 *                           "Strategies"; Python and C++ have their own layers above
 *   you write a strategy    "Parameters and gradients", "Backends", "Optimizers", "Strategies"
 *   you write a backend     "Backends"
 *   you write an optimizer  "Optimizers"
 * "Extensions" are for those who need what only some plugins have.
 *
 * Conventions that hold for every declaration below:
 *  - Structs passed by pointer begin with `struct_size`; fields are only ever appended. The sender sets
 *    struct_size to its sizeof. The receiver copies min(struct_size, its own sizeof) bytes and takes the
 *    rest as zero, so either side may be newer. For an `out` struct the caller sets struct_size to its
 *    sizeof and zeroes the rest; the callee writes at most struct_size bytes and leaves struct_size as it
 *    is. The stride of an array is the struct_size of its first element. pl_str, pl_number, pl_device,
 *    pl_dtype, pl_stream and pl_tensor have no struct_size and never change.
 *  - `reserved` fields are zero. An options struct (named ..._args) with a nonzero `reserved`, or a nonzero
 *    byte beyond the fields that the receiver knows, is refused: no option is ever silently ignored. In
 *    other structs the receiver ignores such bytes; a struct whose later fields may change the meaning of
 *    earlier ones has `flags`.
 *  - Flags are bits of a uint32_t. An unknown bit from 0 to 15 is an error (PL_ERROR_UNSUPPORTED), one from
 *    16 to 31 is ignored. Codes are uint32_t constants. The lower 16 bits are the code; an unknown one is
 *    an error. The upper 16 bits may later refine it and are ignored where unknown.
 *  - Slots are required unless marked (optional); an optional one may be NULL. The host checks at load.
 *  - Functions that can fail return `pl_error *`; NULL means success. Either side creates errors with
 *    pl_host.error_new; the receiver frees them with pl_host.error_free. A slot whose callback returned an
 *    error returns that same error. After an error nothing has been handed out: `out` parameters are
 *    neither read nor freed. No C++ exception may leave a function of this ABI.
 *  - Every pointer has one of four lifetimes. static: until the process ends. borrowed-call: until the call
 *    returns. borrowed-object: as long as the object the function belongs to (its first argument or the one
 *    it creates). owned: the receiver frees it with the named function. Unless stated otherwise, arguments
 *    are borrowed-call, what a slot returns or writes into an `out` struct is borrowed-object, and what
 *    pl_plugin and `query` point to is static.
 *  - Every function has a thread tag. [main]: only the thread that runs the training loop. [any-thread]:
 *    any thread, also concurrently. [serialized]: any thread, one call at a time per object. [collective]:
 *    [serialized], and all ranks make the same calls in the same order. "[main] collective" is both. An
 *    untagged callback runs on the thread of the slot it was passed to.
 *  - One stream, pl_run_info.stream, orders device work. Work that a slot starts on the device runs after
 *    all work of earlier slots of any plugin and before all work of later ones: a slot uses that stream, or
 *    synchronizes its own streams with it on both sides. So no slot waits for the device unless it says so,
 *    and only pl_gradient and the collectives, whose work may come from elsewhere, name a stream. On the
 *    CPU, work is finished when the slot returns.
 *  - CUDA: the stream is a non-blocking one of the device's primary context. A slot must not assume that a
 *    context or device is current on its thread, and may leave another one current. pl_device.id counts the
 *    devices visible to the process, as numbered by CUDA_VISIBLE_DEVICES.
 *  - Strings are UTF-8 and not NUL-terminated. */
#ifndef PIPELINE_ABI_PIPELINE_H
#define PIPELINE_ABI_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PL_ABI_MAJOR 1u /* must match between host and plugin */
#define PL_ABI_MINOR 0u /* may differ either way */

#define PL_FLAGS_MAY_IGNORE 0xffff0000u  /* unknown flags among these bits are ignored */
#define PL_CODE(value) ((value)&0xffffu) /* the part of a code that must be known */

/* True if the sender of the struct at `pointer` (of struct type `type`) knew `field`. */
#define PL_HAS(type, pointer, field) \
  ((pointer)->struct_size >= offsetof(type, field) + sizeof(((const type*)0)->field))

/* ---------------------------------------------------------------------------------------- Basic values */

typedef struct pl_str {
  const char* ptr; /* may be NULL if len is 0 */
  size_t len;
} pl_str;

/* A named number: one option of an optimizer. */
typedef struct pl_number {
  pl_str name;
  double value;
} pl_number;

typedef struct pl_error pl_error;               /* created and freed by the host */
typedef struct pl_config pl_config;             /* the validated options of one plugin */
typedef struct pl_context pl_context;           /* one plugin object's view of its run */
typedef struct pl_communicator pl_communicator; /* a group of ranks, for strategies */

/* Error codes tell the caller what it can do; the message is for people. */
#define PL_ERROR_FAILED 1u        /* anything else */
#define PL_ERROR_CONFIG 2u        /* the user's configuration or input is wrong */
#define PL_ERROR_OUT_OF_MEMORY 3u /* host or device memory is exhausted */
#define PL_ERROR_CANCELLED 4u     /* stopped because pl_host.cancelled said so */
#define PL_ERROR_TIMEOUT 5u       /* another rank did not answer in time */
#define PL_ERROR_PEER 6u          /* another rank died or aborted */
#define PL_ERROR_UNSUPPORTED 7u   /* this device, dtype or combination is not supported */
#define PL_ERROR_CORRUPT 8u       /* stored data is damaged */
#define PL_ERROR_NO_SPACE 9u      /* the disk is full */

/* Devices, dtypes and tensors have the layout and codes of DLPack's DLDevice, DLDataType and DLTensor. */
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

/* A device's stream, or none: for host memory, and where no device computes. NONE means nothing else,
 * such as "the current stream" or "wait". CUDA's legacy default stream, whose handle is NULL, is not a
 * stream here. */
#define PL_STREAM_NONE 0u
#define PL_STREAM_DEVICE 1u

typedef struct pl_stream {
  uint32_t kind; /* PL_STREAM_... */
  uint32_t reserved;
  void* handle; /* PL_STREAM_DEVICE: the native stream (CUDA: CUstream), not NULL */
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

/* --------------------------------------------------------------------------------------------- Options */

#define PL_OPTION_BOOL 1u
#define PL_OPTION_INT 2u
#define PL_OPTION_FLOAT 3u
#define PL_OPTION_STRING 4u
#define PL_OPTION_PATH 5u /* a string; relative to the folder the run was started in */
#define PL_OPTION_INT_LIST 6u
#define PL_OPTION_FLOAT_LIST 7u
#define PL_OPTION_STRING_LIST 8u
#define PL_OPTION_PATH_LIST 9u

#define PL_OPTION_REQUIRED 1u       /* no default: the user must set it */
#define PL_OPTION_HAS_MINIMUM 2u    /* value (or each list element) >= minimum */
#define PL_OPTION_HAS_MAXIMUM 4u    /* value (or each list element) <= maximum */
#define PL_OPTION_ABOVE_MINIMUM 8u  /* value > minimum; with HAS_MINIMUM */
#define PL_OPTION_BELOW_MAXIMUM 16u /* value < maximum; with HAS_MAXIMUM */
#define PL_OPTION_MAY_CHANGE 32u    /* may change when a run continues: it cannot affect the result */
/* Where the user does not set it, the option follows the model that the first values come from: another
 * tool's folder, as pl_task_api.model_options reads it, or the options of the run that wrote the checkpoint.
 */
#define PL_OPTION_OF_MODEL 64u /* the weights are right with it alone: another value is an error */
#define PL_OPTION_FOLLOWS 128u /* the user may set another value */

/* One option of a plugin. The host validates it, fills in the default, and prints it
 * (`pipeline explain`). */
typedef struct pl_option {
  uint32_t struct_size;
  uint32_t type;  /* PL_OPTION_BOOL ... */
  uint32_t flags; /* PL_OPTION_REQUIRED ... */
  uint32_t choice_count;
  pl_str key;            /* relative to the plugin's table, dotted: "model.n_head". An optimizer's table is
                          * [optimizer], which has keys of the host: "beta1" is one */
  pl_str default_value;  /* as TOML source: `12`, `"gelu"`, `[1, 2]`; empty if required */
  pl_str unit;           /* "tokens", "seconds", ...; may be empty */
  pl_str help;           /* one line */
  const pl_str* choices; /* strings only; static; NULL: any */
  double minimum;
  double maximum;
} pl_option;

/* ---------------------------------------------------------------------------------- A run and its host */

#define PL_PURPOSE_TRAIN 1u
#define PL_PURPOSE_EVALUATE 2u /* a full evaluation, by verb or stage */
#define PL_PURPOSE_PREDICT 3u
#define PL_PURPOSE_EXPORT 4u
#define PL_PURPOSE_VALIDATE 5u /* the evaluation between training steps */

#define PL_RUN_REPRODUCIBLE 1u             /* same bits on any number of processes */
#define PL_RUN_ACTIVATION_CHECKPOINTING 2u /* recompute activations in the backward pass */
#define PL_RUN_PIN_MEMORY 4u               /* batches should be loaded into pinned memory */
/* export_model should write all weights in float32: the host rounds them. Without it a task writes them in
 * the type that they came in, or that other tools expect. */
#define PL_RUN_EXPORTS_FLOAT32 0x10000u

/* The facts of a run, the same for all objects of a process. */
typedef struct pl_run_info {
  uint32_t struct_size;
  uint32_t purpose;
  uint32_t flags;
  uint32_t threads; /* CPU threads this process may use for computation */
  /* Processes that a task may start to make its batches, for a language whose threads take turns; 0: none. */
  uint32_t loader_processes;
  int32_t rank;       /* of data parallelism: among the processes that share the global batch */
  int32_t world_size; /* of data parallelism; at least 1 */
  int32_t local_rank; /* among the processes of this host */
  int32_t local_world_size;
  uint32_t reserved;
  pl_device device;
  pl_stream stream; /* orders all device work; NONE on the CPU, and where nothing is computed */
  /* Of the values a task is bound to; if narrower than float32, the strategy keeps float32 masters. */
  pl_dtype parameter_dtype;
  pl_dtype compute_dtype; /* of matrix products and activations */
  uint64_t seed;
  /* The batch plan; 0 when not training. global_batch = micro_batch x micro_batches. */
  uint64_t global_batch;  /* samples per optimizer step, all ranks together */
  uint64_t micro_batch;   /* samples per forward pass */
  uint64_t micro_batches; /* per optimizer step, all ranks together */
  pl_str run_dir;         /* the run's own folder; empty if there is none */
  pl_str cache_dir;       /* for prepared data, shared by runs; may not exist yet */
} pl_run_info;

#define PL_LOG_DEBUG 1u
#define PL_LOG_INFO 2u
#define PL_LOG_WARNING 3u
#define PL_LOG_ERROR 4u

/* Bytes from `rank`, borrowed-call. An error ends the visit. */
typedef pl_error* (*pl_bytes_visitor)(void* user, int32_t rank, const void* bytes, uint64_t size);

/* A plugin's only access to the outside: it reads no environment variables but those of its own library,
 * writes to no console, installs no signal handlers and seeds nothing from a clock. One table per process,
 * static. `context` is the one the plugin object was created with, borrowed-object. */
typedef struct pl_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;

  /* Errors. error_new copies the message and never returns NULL. [any-thread] */
  pl_error* (*error_new)(uint32_t code, pl_str message);
  uint32_t (*error_code)(const pl_error* error);  /* [any-thread] */
  pl_str (*error_message)(const pl_error* error); /* borrowed-object [any-thread] */
  void (*error_free)(pl_error* error);            /* NULL is ignored [any-thread] */

  /* One complete line, without a trailing newline. [any-thread] */
  void (*log)(const pl_context* context, uint32_t level, pl_str line);
  /* A value for this step's line of metrics.jsonl: the weighted mean over the step, or, where all
   * weights are 0, the sum: a count. Keep names stable. [main] */
  void (*metric)(const pl_context* context, pl_str name, double sum, double weight);
  /* The same for a sum on the device, a float32 or float64 scalar. It is copied in stream order and read
   * one step later, as the loss is, so nothing waits for the device. [main] */
  void (*metric_tensor)(const pl_context* context, pl_str name, const pl_tensor* sum, double weight);
  /* Progress of long work (`prepare`, a download). total = 0: unknown. [any-thread] */
  void (*progress)(const pl_context* context, pl_str what, uint64_t done, uint64_t total);
  /* Nonzero: return PL_ERROR_CANCELLED soon. For work that is long by itself: collectives go on, as the host
   * needs them to save the run, and aborts a group that it gives up. [any-thread] */
  uint32_t (*cancelled)(const pl_context* context);
  const pl_run_info* (*run_info)(const pl_context* context); /* borrowed-object [any-thread] */
  /* A seed as a pure function of (run.seed, name, a, b, c): the only source of randomness. [any-thread] */
  uint64_t (*seed)(const pl_context* context, pl_str name, uint64_t a, uint64_t b, uint64_t c);

  /* For strategies and backends: what ranks exchange besides tensors, such as addresses and counts. It goes
   * through rank 0 over the host's own connections, so it is not for bulk data. Names and keys are private
   * to the plugin and at most 900 bytes long; a backend prefixes them with the name of its group. All three
   * fail with PL_ERROR_PEER as soon as any rank has failed, and with PL_ERROR_CANCELLED.
   *
   * exchange: an all-gather of bytes. Every rank passes `mine`, of any size; `visit` receives all of them,
   * in rank order. At most 1 GiB over all ranks. Exchanges of one name are [collective]; those of different
   * names are independent and may run concurrently. Returns when all ranks have taken part. [any-thread]
   *
   * store_set, store_get: a key-value table shared by all ranks, for libraries that find their ranks
   * through one. Keys are never removed; the last value set counts. get waits until the key exists, then
   * visits its value as rank 0's. It fails with PL_ERROR_TIMEOUT after timeout_seconds, at once if that is
   * not above 0. [any-thread] */
  pl_error* (*exchange)(const pl_context* context, pl_str name, const void* mine, uint64_t size,
                        pl_bytes_visitor visit, void* user);
  pl_error* (*store_set)(const pl_context* context, pl_str key, const void* bytes, uint64_t size);
  pl_error* (*store_get)(const pl_context* context, pl_str key, double timeout_seconds,
                         pl_bytes_visitor visit, void* user);

  /* Options, validated, with defaults filled in. A key that is not in the plugin's schema is an error, as
   * is a wrong type. Pointers are valid as long as the config. [any-thread] */
  pl_error* (*config_bool)(const pl_config* config, pl_str key, uint32_t* out);
  pl_error* (*config_int)(const pl_config* config, pl_str key, int64_t* out);
  pl_error* (*config_float)(const pl_config* config, pl_str key, double* out);
  /* Also paths, made absolute; borrowed-object. */
  pl_error* (*config_string)(const pl_config* config, pl_str key, pl_str* out);
  pl_error* (*config_int_list)(const pl_config* config, pl_str key, const int64_t** out, uint64_t* count);
  pl_error* (*config_float_list)(const pl_config* config, pl_str key, const double** out, uint64_t* count);
  pl_error* (*config_string_list)(const pl_config* config, pl_str key, const pl_str** out, uint64_t* count);
  uint32_t (*config_is_set)(const pl_config* config, pl_str key); /* 0: the default is in force */
  /* An error of the form `file:line: task.model.n_head = 7: problem`, code PL_ERROR_CONFIG. */
  pl_error* (*config_error)(const pl_config* config, pl_str key, pl_str problem);

  /* For strategies in training: a further group, of some of the run's ranks. All ranks call it, each with the
   * members of its own group, in the order of their ranks there; groups of one name share no rank. The host
   * closes it after the strategy is gone. PL_ERROR_UNSUPPORTED: the backend has no such groups.
   * [main] collective */
  pl_error* (*group_open)(const pl_context* context, pl_str name, const int32_t* members,
                          uint64_t member_count, pl_communicator* out);
} pl_host;

/* ---------------------------------------------------------------------------- Parameters and gradients */

#define PL_PARAMETER_TRAINABLE 1u
#define PL_PARAMETER_DECAY 2u /* weight decay applies */
/* Values are restored by name; names and shapes must match. Only a stage that starts from another stage's
 * weights may differ: a NEW parameter missing there keeps its initial value, and a DROPPABLE one may exist
 * there but not here. The log names both. */
#define PL_PARAMETER_NEW 4u
#define PL_PARAMETER_DROPPABLE 8u
/* A matrix of a hidden layer: neither an embedding nor an output head. Some update rules are for these. */
#define PL_PARAMETER_HIDDEN_MATRIX 16u

/* Forms in which the value of a frozen parameter may be kept, besides pl_run_info.parameter_dtype. A task
 * says which ones it takes; the user chooses (train.frozen_precision); strategies, checkpoints and transfers
 * carry what is chosen as it is.
 *  - PL_FORM_BFLOAT16: the shape of the parameter in bfloat16.
 *  - PL_FORM_INT8: 8 bits a value, with scales of rows (Dettmers et al., arXiv 2208.07339).
 *  - PL_FORM_NF4: 4 bits a value, with sizes of blocks (arXiv 2305.14314).
 * The layout of the last two is the task's own: it says how many bytes a value takes, and makes them
 * (pl_task_api.form_bytes, encode_value). For everybody else the value is one uint8 tensor of so many. */
#define PL_FORM_BFLOAT16 1u
#define PL_FORM_INT8 2u
#define PL_FORM_NF4 4u

/* A parameter tensor. Training changes no other state of the task. */
typedef struct pl_parameter {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t ndim;
  uint32_t unit; /* layer index: parameters that are used together; see pl_unit_hooks */
  const int64_t* shape;
  pl_str name;          /* unique; its name in checkpoints */
  double lr_multiplier; /* of the learning rate; normally 1 */
  uint32_t optimizer;   /* index in pl_strategy_args.optimizers, set by the host; 0 from tasks */
  uint32_t forms;       /* PL_FORM_... of them: those in which the task takes the value where it is frozen */
  uint32_t form;        /* the one in force, set by the host; 0, as from tasks: pl_run_info.parameter_dtype */
  uint32_t loss;        /* index of the loss that it is trained by, where a task has several: pl_loss */
  uint64_t form_bytes;  /* set by the host: of the value, where the form is PL_FORM_INT8 or PL_FORM_NF4 */
} pl_parameter;

/* One of several losses of a task. Each trained parameter belongs to one, whose gradient alone it follows,
 * and each loss has an update of its own: gradients are clipped by the norm of its parameters, its updates
 * are counted, and options of the rule may be others. It has a turn at the steps `first`, first + every,
 * first + 2 every and so on, which count from 1. In other steps nothing of its parameters changes: value,
 * state, moving average, count of updates. All losses of a step are those of the weights with which it
 * begins. */
typedef struct pl_loss {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str name; /* unique */
  uint64_t first;
  uint64_t every;
  const pl_number*
      options; /* of the update rule, as in pl_optimizer, in place of those that the user has set */
  uint64_t option_count;
} pl_loss;

#define PL_MAX_LOSSES 64u

/* A finished gradient of one micro-batch, in float32, the parameter's dtype or the compute dtype. */
typedef struct pl_gradient {
  uint32_t struct_size;
  uint32_t flags; /* none so far */
  uint64_t index; /* of the parameter */
  /* The bound gradient, or the task's own tensor, with the shape of the parameter or of `rows`. */
  const pl_tensor* tensor;
  pl_stream stream; /* on which it is complete: pl_run_info.stream or another one; NONE: host memory */
  /* NULL for the bound gradient and for rows. For the task's own tensor: from this call on, even if it
   * fails, the strategy owns the memory. It calls release(owner) once, from any thread, when everything
   * that reads the memory has finished or is queued on pl_run_info.stream. So the memory may be reused at
   * once for work on that stream; for any other use its owner must wait. */
  void* owner;
  void (*release)(void* owner);
  /* (K) int64 on the tensor's device: `tensor`, (K, ...), is added to these rows of the gradient; a row may
   * repeat. NULL: `tensor` has all rows. Both borrowed-call.
   * REQUIRES: the sink has PL_GRADIENTS_IN_ROWS, and no gradient is bound. */
  const pl_tensor* rows;
} pl_gradient;

/* The strategy sends gradients while the backward pass runs: hand over each part as soon as it is ready,
 * dense parts first, and a part that touches few rows of a large parameter as those rows. */
#define PL_GRADIENTS_IN_ROWS 1u

typedef struct pl_gradient_sink {
  uint32_t struct_size;
  uint32_t flags; /* PL_GRADIENTS_... */
  void* user;
  /* In any order, which may differ between ranks and steps, and never concurrently with unit hooks. A bound
   * gradient is reported once per micro-batch, when complete. A gradient that is
   * handed over may come in several parts, as for a parameter used twice; the parts are added. A missing
   * gradient is zero. [serialized] */
  pl_error* (*ready)(void* user, const pl_gradient* gradient);
} pl_gradient_sink;

/* The task calls these where its units begin and end, so that a strategy can hold one unit's parameters at
 * a time. Between enter and leave the unit's values are at the addresses they were bound to, for work on
 * pl_run_info.stream; outside, their contents are undefined. A unit's gradients are delivered before it is
 * left in the backward pass. Units may overlap and may be entered again; unit 0 is the one for what the whole
 * pass uses, such as an embedding that is also the head. After an error the micro-batch is over: no more
 * units are entered or left.
 *
 * Both are [collective]: every micro-batch of every rank enters and leaves the same units in the same
 * order, forward and backward, in steps with the same idle_losses. A model whose micro-batches use different
 * units, e.g. text with or without an image, also enters and leaves the units it does not use. A task with
 * pl.global-outputs/1 also goes through them forward alone, between begin_step and the first micro-batch; a
 * rank with fewer micro-batches than others goes through one a second time. */
#define PL_PASS_FORWARD 1u
#define PL_PASS_BACKWARD 2u
#define PL_PASS_FORWARD_ALONE 3u /* no backward pass follows */

typedef struct pl_unit_hooks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*enter)(void* user, uint32_t unit, uint32_t pass);
  pl_error* (*leave)(void* user, uint32_t unit, uint32_t pass);
} pl_unit_hooks;

/* ----------------------------------------------------------------------------------------------- Tasks */

typedef struct pl_task pl_task;   /* created by pl_task_api.create */
typedef struct pl_batch pl_batch; /* created by pl_task_api.load */

#define PL_SPLIT_TRAIN 0u
#define PL_SPLIT_VAL 1u
#define PL_SPLIT_TEST 2u

typedef struct pl_load_args {
  uint32_t struct_size;
  uint32_t split;
  uint32_t purpose; /* PL_PURPOSE_...: training may mask or augment, prediction must not need targets */
  uint32_t reserved;
  const uint64_t* ids; /* each < sample_count(split); in any order, possibly repeated */
  uint64_t count;      /* at least 1 */
  uint64_t epoch; /* 0-based; 0 outside training. Random choices depend only on (seed, epoch, sample id) */
} pl_load_args;

typedef struct pl_batch_info {
  uint32_t struct_size;
  uint32_t flags;     /* none so far */
  double weight;      /* divisor of the loss sum, e.g. target tokens; may be 0 */
  uint64_t samples;   /* samples in the batch */
  uint64_t tokens;    /* useful positions computed; 0, as positions, where there is no such thing */
  uint64_t positions; /* positions computed, including padding */
} pl_batch_info;

typedef struct pl_train_args {
  uint32_t struct_size;
  uint32_t reserved;
  double scale;  /* backward starts from (loss sum x scale); contains 1 / the step's weight; may be 0 */
  uint64_t seed; /* for dropout; a pure function of (run.seed, step, micro_batch) */
  uint64_t step; /* 0-based optimizer step */
  uint64_t micro_batch; /* index in the global batch */
  const pl_gradient_sink* gradients;
  /* For a task with pl.global-outputs/1: what pl_global_outputs.begin made room for, complete, and the row of
   * this batch's first sample; borrowed-call. NULL: this batch is the whole step. */
  const pl_tensor* outputs;
  uint64_t first_row;
  uint64_t
      idle_losses; /* bit i: loss i has no turn in this step; it is neither computed nor part of the sum */
} pl_train_args;

typedef struct pl_evaluate_args {
  uint32_t struct_size;
  uint32_t purpose;         /* PL_PURPOSE_VALIDATE, _EVALUATE or _PREDICT */
  uint64_t samples_to_show; /* at most, of this batch, through the sink's `sample` */
} pl_evaluate_args;

/* Results of an evaluation. Sums are added, and records collected, in sample order, so the result does not
 * depend on the number of processes. All functions [main]. */
typedef struct pl_evaluation_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* Adds to the sum `name`. Sums that `metric` describes are shown as figures, and "loss" always is;
   * `report` receives all sums. group: a part of the data with sums of its own, for `report`, such as a
   * cluster that cross-validation never splits; it belongs to one evaluation only. It is named by its
   * content (a hash, not an index). Evaluations that share a group are not pooled: it would count twice.
   * Empty: the evaluation as a whole. */
  pl_error* (*value)(void* user, pl_str group, pl_str name, double sum, double weight);
  /* For what sums cannot express: bytes that belong to one sample of this batch, under a key of the task's
   * choice, once per sample and key. `report` receives the records of all samples, on all ranks: at most a
   * few kilobytes each. */
  pl_error* (*record)(void* user, uint64_t sample_id, pl_str key, const void* bytes, uint64_t size);
  /* A sample to show, as text of any number of lines. */
  pl_error* (*sample)(void* user, uint64_t sample_id, pl_str text);
} pl_evaluation_sink;

/* Results of a prediction: rows of a table, in any order within a batch, and additional files. All
 * functions [main]. */
typedef struct pl_prediction_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  pl_error* (*row)(void* user, uint64_t sample_id, const pl_str* fields, uint64_t count);
  pl_error* (*file)(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size);
  /* Bytes at the end of a file that grows, in the order of the samples whatever the number of processes: for
   * what is larger than memory. It gets its name when all samples are there, and a prediction that was
   * interrupted goes on with it. */
  pl_error* (*append)(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size);
} pl_prediction_sink;

#define PL_AGGREGATE_MEAN 1u     /* sum / weight */
#define PL_AGGREGATE_SUM 2u      /* sum */
#define PL_AGGREGATE_EXP_MEAN 3u /* exp(sum / weight), e.g. perplexity */

#define PL_BETTER_LOWER 1u
#define PL_BETTER_HIGHER 2u

/* How a value of the evaluation becomes a figure. Every task has "loss" (mean, lower). */
typedef struct pl_metric {
  uint32_t struct_size;
  uint32_t aggregate;
  uint32_t better;
  uint32_t reserved;
  pl_str name;
  pl_str source; /* the value it is computed from; empty: the one named `name` */
  pl_str help;
} pl_metric;

/* A value of a finished evaluation, over all samples. */
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
  const pl_value* values; /* in order of first occurrence */
  uint64_t value_count;
  const pl_record* records; /* by sample, then key; none if several evaluations are pooled */
  uint64_t record_count;
} pl_report_args;

/* What a report adds to an evaluation. All functions [main]. */
typedef struct pl_report_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* A figure in addition to those of `metric`, shown and stored as it is. better: PL_BETTER_... */
  pl_error* (*figure)(void* user, pl_str name, double value, uint32_t better);
  /* Lines for the log, e.g. a table. */
  pl_error* (*text)(void* user, pl_str lines);
  /* A file to store with the figures, e.g. a picture, after a full evaluation (PL_PURPOSE_EVALUATE). name:
   * a plain file name, used once; a name that the host itself uses is an error. */
  pl_error* (*file)(void* user, pl_str name, const void* bytes, uint64_t size);
} pl_report_sink;

/* What options with PL_OPTION_OF_MODEL or PL_OPTION_FOLLOWS are by the model folders of other tools that
 * first values come from. Both functions [main]. */
typedef struct pl_model_options_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* The option's value by the file `from`, as TOML source. It is in force where the user did not set the
   * option; a set one with PL_OPTION_OF_MODEL must be equal. */
  pl_error* (*value)(void* user, pl_str key, pl_str toml, pl_str from);
  /* What else is wrong with an option beside these folders. The user is told all problems at once. */
  pl_error* (*problem)(void* user, pl_str key, pl_str problem);
} pl_model_options_sink;

/* An answer in a conversation, for somebody who waits. */
typedef struct pl_reply_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* The next piece of the answer, in whole characters, as soon as it is there. [main] */
  pl_error* (*text)(void* user, pl_str piece);
} pl_reply_sink;

/* Order of calls: [model_options], create, [set_extra_state], [prepare], open, parameter*, [import_model],
 * initialize*, bind*, [set_unit_hooks], then work. extra_state: at any time after open, on some ranks only.
 * report: also directly after create. destroy, batch_free and their like are never passed NULL. All slots
 * [main] unless tagged. */
typedef struct pl_task_api {
  uint32_t struct_size;
  uint32_t reserved;

  /* Reads the options; touches no data. What the run cannot have (a device, a dtype) is refused here:
   * `pipeline check` calls create alone. `host` static, `context` and `config` borrowed-object. */
  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config, pl_task** out);
  void (*destroy)(pl_task* self);
  /* (optional) Says what the options are by the folders of other tools. Called before `create` where no
   * checkpoint gives the values. init_from: the folder that import_model will receive, empty if there is
   * none; options name others. config: as the user has set it, the rest at its defaults. Reads no more than
   * small files that describe a model. */
  pl_error* (*model_options)(const pl_host* host, const pl_config* config, pl_str init_from,
                             const pl_model_options_sink* sink);

  /* (optional) Downloads, parses, tokenizes into cache_dir, unless already done. One process at a time; the
   * others wait. */
  pl_error* (*prepare)(pl_task* self);
  /* (optional, both or none) State without which the parameters are meaningless and which the options do
   * not determine, such as a vocabulary made from data, or running statistics. Every checkpoint stores the
   * state of its time, of rank 0: what changes in training must do so equally on all ranks. Borrowed-object,
   * until the next call. */
  pl_error* (*extra_state)(pl_task* self, const void** out, uint64_t* bytes);
  /* Receives it before prepare and open if the values come from a checkpoint. The task must use it and not
   * make its own. An error if it contradicts the options. */
  pl_error* (*set_extra_state)(pl_task* self, const void* state, uint64_t bytes);
  /* Opens data and builds the model for run_info.purpose. May wait for the device. */
  pl_error* (*open)(pl_task* self);

  /* Data. */
  /* 0: no such split. UINT64_MAX, for training only: an endless stream; ids are positions in it. */
  pl_error* (*sample_count)(pl_task* self, uint32_t split, uint64_t* out);
  /* (optional) Relative cost of samples, e.g. in tokens, for grouping similar ones: out[i] for ids[i].
   * [any-thread] */
  pl_error* (*sample_costs)(pl_task* self, uint32_t split, const uint64_t* ids, uint64_t count, double* out);
  /* (optional) Identifies the data's content, the same on all ranks and in a continued run.
   * Borrowed-object. */
  pl_str (*data_fingerprint)(pl_task* self);
  /* load is called ahead of time by worker threads. batch_free may be called while device work started by
   * `train` still reads the batch. All three [any-thread]. */
  pl_error* (*load)(pl_task* self, const pl_load_args* args, pl_batch** out);
  pl_error* (*batch_info)(pl_task* self, const pl_batch* batch, pl_batch_info* out);
  void (*batch_free)(pl_task* self, pl_batch* batch);

  /* Parameters. Strings and shapes borrowed-object. */
  uint64_t (*parameter_count)(pl_task* self);
  pl_error* (*parameter)(pl_task* self, uint64_t index, pl_parameter* out);
  /* Writes the initial value into `out` (host, float32, contiguous): a pure function of (run.seed, index),
   * or the imported value. Called for any subset of the parameters, in any order. */
  pl_error* (*initialize)(pl_task* self, uint64_t index, pl_tensor* out);
  /* (optional, both or none) For parameters that have PL_FORM_INT8 or PL_FORM_NF4 among their forms.
   * form_bytes: how many bytes the value takes. encode_value writes them into `out`: those of `values` (host,
   * float32, contiguous, of the parameter's shape), or, if it is NULL, of what initialize would write. */
  pl_error* (*form_bytes)(pl_task* self, uint64_t index, uint32_t form, uint64_t* out);
  pl_error* (*encode_value)(pl_task* self, uint64_t index, uint32_t form, const pl_tensor* values, void* out);
  /* (optional) Reads initial values from another tool's folder, e.g. Hugging Face. Strict: one error lists
   * all tensors that are missing (except NEW parameters), unexpected, or of the wrong shape. */
  pl_error* (*import_model)(pl_task* self, pl_str folder);
  /* Assigns storage to parameter `index`: `value`, of run_info.parameter_dtype or in the form that the host
   * chose (pl_parameter.form; its bytes are of shape (form_bytes)), and `grad`, of the dtype of `value` or in
   * float32 (grad->dtype says which), both contiguous and aligned to 64 bytes; byte_offset may be nonzero.
   * grad->data == NULL: gradients are handed over (see pl_gradient.owner), or the parameter is not trainable.
   * The views are borrowed-call; the memory stays in place until destroy, or until the parameter is bound
   * again, between batches. */
  pl_error* (*bind)(pl_task* self, uint64_t index, const pl_tensor* value, const pl_tensor* grad);
  /* (optional) For strategies that do not keep all parameters in place: `train` says which unit of
   * pl_parameter.unit it enters and leaves. For evaluate and predict such a strategy gathers all parameters,
   * and the hooks do nothing. hooks: borrowed-object. */
  pl_error* (*set_unit_hooks)(pl_task* self, const pl_unit_hooks* hooks);

  /* Work. */
  /* Forward and backward. `loss` receives a view of the unscaled loss sum, a float32 or float64 scalar (ndim
   * 0; shape may be NULL) on the device, valid until the work of the next `train`. Gradients are added to the
   * bound ones; the strategy clears those. */
  pl_error* (*train)(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);
  /* Yields the sums and records of a batch. May wait for the device. */
  pl_error* (*evaluate)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                        const pl_evaluation_sink* sink);
  /* (optional, both or none) Figures in addition to the loss; index < metric_count. */
  uint64_t (*metric_count)(pl_task* self);
  pl_error* (*metric)(pl_task* self, uint64_t index, pl_metric* out);
  /* (optional) Results beyond means: intervals, tables, pictures, figures computed from records. Called
   * after every complete evaluation, on all ranks with the same values, and must give the same results on
   * each. Also called with the pooled values of several evaluations, on an object that was created but not
   * opened: it may use only `args` and the options. */
  pl_error* (*report)(pl_task* self, const pl_report_args* args, const pl_report_sink* sink);
  /* (optional, all three or none) A prediction is a table: its column names after the id (borrowed-object),
   * the id of a sample, the rows of a batch. predict may wait for the device. */
  pl_error* (*prediction_columns)(pl_task* self, const pl_str** out, uint64_t* count);
  pl_error* (*sample_name)(pl_task* self, uint32_t split, uint64_t sample_id,
                           pl_str* out); /* borrowed-object [any-thread] */
  pl_error* (*predict)(pl_task* self, const pl_batch* batch, const pl_evaluate_args* args,
                       const pl_prediction_sink* sink);
  /* (optional, with predict) Makes something of a whole prediction: a picture, a file in another format.
   * Called behind the last sample, on rank 0 alone; again after an interruption. `folder` has all that
   * predict wrote and appended. Of `sink` only `file` may be called, with sample_id 0. */
  pl_error* (*finish_predictions)(pl_task* self, uint32_t split, pl_str folder,
                                  const pl_prediction_sink* sink);
  /* (optional) Writes the answer to a conversation: `messages` is a JSON array of {"role": "system" | "user"
   * | "assistant", "content"}, the last of them the user's. The content is text or, where a user shows
   * pictures, a list of parts: {"type": "text", "text": text} and {"type": "image", "path": path}; a task
   * that sees none says so. Called as predict is, with bound parameters; ends early when the run is cancelled
   * (pl_host.cancelled). */
  pl_error* (*reply)(pl_task* self, pl_str messages, const pl_reply_sink* sink);
  /* (optional) Floating-point operations of forward and backward for this batch, for MFU. */
  double (*flops)(pl_task* self, const pl_batch* batch);
  /* (optional) Writes the bound values into an existing, empty folder in a form that other tools load. May
   * wait for the device. */
  pl_error* (*export_model)(pl_task* self, pl_str folder);
  /* (optional, both or none) Several losses; index < loss_count, at most PL_MAX_LOSSES. Read after open. What
   * loss points to: borrowed-object. Their sum is the loss of `train` and of the value "loss". 0: there is
   * one loss, of all parameters. Strategies without PL_STRATEGY_TAKES_LOSSES are refused for more than one.
   */
  uint64_t (*loss_count)(pl_task* self);
  pl_error* (*loss)(pl_task* self, uint64_t index, pl_loss* out);
} pl_task_api;

/* -------------------------------------------------------------------------------------------- Backends */

typedef struct pl_comm pl_comm; /* a group of ranks; created by pl_backend_api.open */
typedef struct pl_work pl_work; /* a collective in progress */

#define PL_REDUCE_SUM 1u
#define PL_REDUCE_MIN 2u
#define PL_REDUCE_MAX 3u

typedef struct pl_buffer {
  uint32_t struct_size;
  uint32_t flags; /* none so far */
  void* data;
  uint64_t count; /* elements */
  pl_dtype dtype;
  pl_device device;
  uint32_t reserved;
  /* The stream that fills the buffer or used it last: the collective runs after its work. The two buffers
   * of a call may name different streams. NONE: no work is pending on any stream. */
  pl_stream stream;
  /* What the collective is for, "bucket 3": in traces, and in messages about a collective that
   * does not end. Of the first buffer; at most 63 bytes are kept. Empty: not said. */
  pl_str label;
} pl_buffer;

typedef struct pl_backend_open_args {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t rank; /* in this group, as all ranks here */
  int32_t world_size;
  int32_t local_rank;
  int32_t local_world_size;
  pl_device device;
  double timeout_seconds; /* for connecting and, by default, for each collective */
  pl_str address;         /* host name or IP of rank 0: shows which network reaches the others */
  pl_str group;           /* name of this group, unique in the run; prefixes its exchanges */
  /* A group of some of the run's ranks: these, by rank in the group; NULL: all. A process may be in several
   * groups at a time. pl_host.exchange, store_set and store_get of the group's context are among its members.
   * A backend that has only the group of all returns PL_ERROR_UNSUPPORTED. */
  const int32_t* members;
  uint64_t member_count;
} pl_backend_open_args;

typedef struct pl_backend_info {
  uint32_t struct_size;
  uint32_t reserved;
  pl_str library;   /* "NCCL 2.27.3" */
  pl_str transport; /* interface or mechanism in use, as far as known */
} pl_backend_info;

/* When a collective moved bytes. sequence: of the group's collectives, the first one called is 1. begin, end:
 * CLOCK_MONOTONIC, in nanoseconds; waiting for ranks that are late is part of it. */
typedef void (*pl_collective_ran)(void* user, uint64_t sequence, int64_t begin, int64_t end);

/* Collectives start work and return at once; groups are independent, so the work of one goes on while
 * another's waits (a thread for each group, or a device's stream). Their buffers must not be touched before
 * `wait_host` has returned, except by work queued on a stream after its `wait`. All ranks make the same calls
 * in the same order, with the same dtype, reduction, root and counts; in all_to_all, send_counts[r] of rank s
 * equals receive_counts[s] of rank r. `counts` are elements per rank, world_size of them; NULL: even, of a
 * number that world_size divides. A full buffer has the sum of the counts, a shard its own. A count may be 0,
 * and the data then NULL. Only out buffers are written. Buffers must not overlap, except that a shard may be
 * this rank's own part of the full buffer. Every backend supports float64, float32, float16, bfloat16, int64,
 * int32 and uint8 with all three reductions; for others it may return PL_ERROR_UNSUPPORTED. MIN and MAX of a
 * NaN are NaN.
 *
 * Arguments that a rank can check alone are refused (PL_ERROR_FAILED) before anything starts, and the group
 * stays usable. Each collective has the timeout given to open, even if only a stream waits for it; a failure
 * after such a `wait` is returned by the next call. After an abort, a timeout or another failure the group is
 * dead: every call fails with PL_ERROR_PEER (or the error that ended it). Pending work must still be waited
 * for; the wait fails at once. The host aborts the group on every rank as soon as one has failed or is gone,
 * so a backend need not watch the others. */
typedef struct pl_backend_api {
  uint32_t struct_size;
  uint32_t reserved;

  /* Ranks find each other through pl_host.exchange and its store. Blocks until all are connected. [main] */
  pl_error* (*open)(const pl_host* host, const pl_context* context, const pl_config* config,
                    const pl_backend_open_args* args, pl_comm** out);
  pl_error* (*info)(pl_comm* comm, pl_backend_info* out); /* strings borrowed-object [any-thread] */

  /* A barrier is done when all ranks have called it; it does not order device work. All [collective]. */
  pl_error* (*all_reduce)(pl_comm* comm, const pl_buffer* in_out, uint32_t reduce, pl_work** out);
  pl_error* (*reduce_scatter)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_shard,
                              const uint64_t* counts, uint32_t reduce, pl_work** out);
  pl_error* (*all_gather)(pl_comm* comm, const pl_buffer* in_shard, const pl_buffer* out_full,
                          const uint64_t* counts, pl_work** out);
  pl_error* (*broadcast)(pl_comm* comm, const pl_buffer* in_out, int32_t root, pl_work** out);
  pl_error* (*all_to_all)(pl_comm* comm, const pl_buffer* in, const pl_buffer* out_buffer,
                          const uint64_t* send_counts, const uint64_t* receive_counts, pl_work** out);
  pl_error* (*barrier)(pl_comm* comm, pl_work** out);

  /* wait and wait_host end the work and free it, even if they fail. [any-thread]
   * wait: work queued on `stream` from now on sees the result; does not block the host. With PL_STREAM_NONE
   * it returns when the result is available to this thread. */
  pl_error* (*wait)(pl_comm* comm, pl_work* work, pl_stream stream);
  /* Returns when the work is done, on any device. timeout_seconds <= 0: the group's. */
  pl_error* (*wait_host)(pl_comm* comm, pl_work* work, double timeout_seconds);
  /* May run concurrently with all but close. Pending and later calls fail with PL_ERROR_PEER within a
   * second. [any-thread] */
  void (*abort)(pl_comm* comm, pl_str reason);
  /* Frees comm; does not wait for other ranks. REQUIRES: all work has ended. [main] */
  void (*close)(pl_comm* comm);

  /* (optional) 0 while `wait` with PL_STREAM_NONE would block; a NULL slot means always 1. A backend whose
   * work runs on a device returns 1: the host runs ahead, and a caller that deferred work until the device
   * is done would defer everything. [any-thread] */
  uint32_t (*is_done)(pl_comm* comm, pl_work* work);
  /* (optional) For a backend that moves bytes on threads of its own; a device's work shows in the device's
   * own trace. From now on `ran` is called after each collective, on the backend's thread; it returns soon.
   * NULL: no more; none is under way when this returns. [main] */
  void (*observe)(pl_comm* comm, pl_collective_ran ran, void* user);
} pl_backend_api;

/* ------------------------------------------------------------------------------------------ Optimizers */

typedef struct pl_update_rule pl_update_rule; /* created by pl_optimizer_api.create */

/* What a call updates: runs of weights, each a parameter or a part of one, as a strategy happens to keep it.
 * All in float32, one-dimensional and contiguous, on one device. The update of an element may not depend on
 * which others are with it. */
typedef struct pl_update_args {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t run_count;
  const pl_tensor* weights;   /* run_count of them */
  const pl_tensor* gradients; /* as weights; clipped. May be overwritten */
  const pl_tensor* state;     /* run r of kind k at k * run_count + r */
  const pl_tensor* updates;   /* how many were made, with this one: a float32 scalar on the device */
  double learning_rate;
  double weight_decay; /* 0 for parameters without PL_PARAMETER_DECAY */
  /* For a rule with PL_OPTIMIZER_TAKES_SCALE, float32 scalars on the device; NULL: nothing to do. Gradients
   * are divided by `divisor` first; where `found_inf` is not 0, nothing may change. */
  const pl_tensor* divisor;
  const pl_tensor* found_inf;
} pl_update_args;

/* `update` and `directions` heed divisor and found_inf, which can save passes over gradients, weights and
 * state. For other rules the strategy does both. Behind `transform` there is no divisor. */
#define PL_OPTIMIZER_TAKES_SCALE 1u

typedef struct pl_optimizer_info {
  uint32_t struct_size;
  uint32_t flags; /* PL_OPTIMIZER_TAKES_SCALE */
  /* What is kept of each weight besides, zero at first: the names that it has in checkpoints (pl_piece.kind),
   * [a-z0-9_]+ and neither "value", "ema" nor "step". */
  const pl_str* state;
  uint64_t state_count;
} pl_optimizer_info;

/* An update rule, under any strategy. Learning rate, clipping, averages and skipped steps are not its
 * concern. All slots are [main]. */
typedef struct pl_optimizer_api {
  uint32_t struct_size;
  uint32_t reserved;

  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config,
                      pl_update_rule** out);
  void (*destroy)(pl_update_rule* self);
  pl_error* (*info)(pl_update_rule* self, pl_optimizer_info* out);
  /* Changes weights and state in place. */
  pl_error* (*update)(pl_update_rule* self, const pl_update_args* args);

  /* (optional, both or none) A rule for matrices, which sees each one whole. It is used for those with
   * PL_PARAMETER_HIDDEN_MATRIX, and AdamW for all else. In order: `directions` replaces gradients, element by
   * element, by what `transform` is to see; `transform` replaces a matrix of them, (rows, columns), by
   * another; `update` gets that as gradients. */
  pl_error* (*directions)(pl_update_rule* self, const pl_update_args* args);
  pl_error* (*transform)(pl_update_rule* self, const pl_tensor* matrix);
} pl_optimizer_api;

/* The rule needs whole matrices: a strategy that splits tensors brings each together, or refuses it. */
#define PL_OPTIMIZER_WHOLE_TENSORS 1u

/* The update rule of a group of parameters, as a strategy gets it, with all its options. An unknown or
 * missing option is an error. A rule is a plugin's, with weight_decay as its only option here, or one that
 * strategies have themselves:
 *
 * "adamw": beta1, beta2, epsilon, weight_decay. Decoupled decay (Loshchilov and Hutter, arXiv 1711.05101),
 * as in PyTorch's AdamW. It may have state_bits, 16 or 8: the moments are kept in so many.
 *
 * "sgd": momentum, nesterov (0 or 1), weight_decay. Decay is added to the gradient, as in PyTorch's SGD.
 *
 * "muon": momentum, steps (of Newton and Schulz), weight_decay. For matrices, with WHOLE_TENSORS; as
 * PyTorch's Muon with its learning rate adjusted to AdamW's (arXiv 2502.16982).
 *
 * Each may have ema_decay, ema_every and ema_start, the same in all: the strategy also keeps the exponential
 * moving average of what is trained, after each ema_every-th update behind the first ema_start, as state
 * "ema". */
typedef struct pl_optimizer {
  uint32_t struct_size;
  uint32_t flags; /* PL_OPTIMIZER_WHOLE_TENSORS */
  pl_str name;
  const pl_number* options;
  uint64_t option_count;
  const pl_optimizer_api* api; /* of a plugin, with `rule`; both borrowed-object. NULL: the strategy's own */
  pl_update_rule* rule;
} pl_optimizer;

/* ------------------------------------------------------------------------------------------ Strategies */

typedef struct pl_strategy pl_strategy; /* created by pl_strategy_api.create */
typedef struct pl_snapshot pl_snapshot; /* created by pl_strategy_api.snapshot */

/* A group of ranks as strategies see it. `api` is the host's table around the backend's (it keeps the
 * heartbeat and the flight record): call communicator->api->all_reduce(communicator->comm, ...). */
struct pl_communicator {
  uint32_t struct_size;
  uint32_t flags; /* none so far */
  int32_t rank;   /* in the group */
  int32_t world_size;
  const pl_backend_api* api;
  pl_comm* comm;
};

typedef struct pl_strategy_args {
  uint32_t struct_size;
  uint32_t reserved;
  const pl_parameter* parameters; /* borrowed-call: copy what is kept */
  uint64_t parameter_count;
  const pl_optimizer* optimizers; /* at least one; trainable parameters refer to theirs by index */
  uint64_t optimizer_count;
  const pl_communicator* communicator; /* borrowed-object; NULL if world_size is 1 */
} pl_strategy_args;

/* Which rank runs micro-batch m of M: a contiguous block each, or m mod world_size. */
#define PL_ORDER_BLOCK 1u
#define PL_ORDER_INTERLEAVED 2u

#define PL_STRATEGY_NEEDS_UNIT_HOOKS 1u /* tasks must have set_unit_hooks; implies gather and release */
#define PL_STRATEGY_TAKES_ROWS 2u       /* gradient_ready accepts pl_gradient.rows */
#define PL_STRATEGY_SAVES_TRAINED 4u    /* snapshot accepts PL_SNAPSHOT_TRAINED */
#define PL_STRATEGY_TAKES_LOSSES 8u     /* heeds pl_parameter.loss and pl_step_args.idle_losses */

typedef struct pl_strategy_info {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t micro_batch_order;
  uint32_t reserved;
  pl_dtype gradient_dtype;  /* for accumulation */
  pl_dtype reduction_dtype; /* for transfer between ranks */
  pl_dtype master_dtype;    /* of what the optimizer updates */
  pl_dtype optimizer_dtype; /* of the moments */
} pl_strategy_info;

typedef struct pl_step_args {
  uint32_t struct_size;
  uint32_t reserved;
  double learning_rate;
  double clip_norm;     /* 0: no clipping */
  double inverse_scale; /* gradients are multiplied by it first (1 / loss scale) */
  double clip_value;    /* then each element is limited to this size; 0: it is not. Not with clip_norm */
  uint64_t idle_losses; /* bit i: nothing of the parameters of loss i changes in this step */
} pl_step_args;

typedef struct pl_step_report {
  uint32_t struct_size;
  uint32_t finite;  /* 0: a gradient was not finite and the update was skipped, on all ranks */
  double loss_sum;  /* over all micro-batches and ranks */
  double grad_norm; /* L2, of all parameters that the step updates; after inverse_scale, before clipping */
} pl_step_report;

/* A contiguous run of elements of one flattened tensor of the training state. So that another strategy can
 * continue, kinds are fixed: "value" (the master), "exp_avg", "exp_avg_sq", "momentum", "ema" and what a rule
 * names in pl_optimizer_info are float32 of the parameter's shape; "step", the number of updates made, is an
 * int64 scalar with an empty parameter name, or, where a task has several losses, a vector of one for each.
 * State that no other strategy can continue from has kinds of the strategy's own. A snapshot may have the
 * "value" of a frozen parameter and optimizer state in bfloat16, which is widened when it is read; a frozen
 * value in PL_FORM_INT8 or PL_FORM_NF4 is uint8 of kind "int8" or "nf4", (form_bytes). */
typedef struct pl_piece {
  uint32_t struct_size;
  uint32_t ndim;
  pl_str parameter; /* name; empty for state of the optimizer as a whole */
  pl_str kind;
  const int64_t* shape; /* of the whole tensor */
  uint64_t offset;      /* first element, in the flattened tensor */
  uint64_t count;
  pl_dtype dtype;
  uint32_t flags;   /* none so far */
  const void* data; /* host memory; NULL in requests */
} pl_piece;

typedef struct pl_state_reader {
  uint32_t struct_size;
  uint32_t values_only; /* nonzero: a fresh start; only "value" can be read, the rest starts at zero */
  void* user;
  /* Fills `destination` (host) with piece->count elements of piece->dtype, which is not converted. A
   * missing piece is an error. Ranks may read different pieces. */
  pl_error* (*read)(void* user, const pl_piece* piece, void* destination);
} pl_state_reader;

typedef pl_error* (*pl_piece_visitor)(void* user, const pl_piece* piece);
typedef pl_error* (*pl_memory_visitor)(void* user, pl_str what, uint64_t bytes);

#define PL_SNAPSHOT_COPY 1u /* does not change while training continues */
#define PL_SNAPSHOT_VIEW 2u /* no copy where possible; visited and freed before the next begin_step */
/* With one of these: without the values of frozen parameters, which a checkpoint before this one has. Ranks
 * may differ in it. */
#define PL_SNAPSHOT_TRAINED 4u

/* One training step: begin_step, then per micro-batch of this rank gradient_ready* and end_micro_batch, then
 * step; its report is collected one step later. Gradients are summed, not averaged, over micro-batches and
 * ranks: the divisor is in pl_train_args.scale. For an empty micro-batch the task is not called; a strategy
 * with unit hooks does what they would have done. All slots are [main] unless tagged. begin_step,
 * end_micro_batch, step, collect, load_state, snapshot, gather, release and swap_average are collective as
 * well. */
typedef struct pl_strategy_api {
  uint32_t struct_size;
  uint32_t reserved;

  pl_error* (*create)(const pl_host* host, const pl_context* context, const pl_config* config,
                      const pl_strategy_args* args, pl_strategy** out);
  void (*destroy)(pl_strategy* self);
  pl_error* (*info)(pl_strategy* self, pl_strategy_info* out);
  /* What the task will be bound to; see pl_task_api.bind. Shapes borrowed-object. */
  pl_error* (*storage)(pl_strategy* self, uint64_t index, pl_tensor* value, pl_tensor* grad);
  /* (optional) For tasks with set_unit_hooks. out->user borrowed-object. */
  pl_error* (*unit_hooks)(pl_strategy* self, pl_unit_hooks* out);

  /* micro_batches: how many this rank will run, including empty ones; at least 1. */
  pl_error* (*begin_step)(pl_strategy* self, uint64_t micro_batches);
  pl_error* (*gradient_ready)(pl_strategy* self, const pl_gradient* gradient); /* [serialized] */
  /* loss: from the task. NULL: an empty micro-batch, whose gradients are zero. */
  pl_error* (*end_micro_batch)(pl_strategy* self, const pl_tensor* loss);
  /* Reduces, clips, updates. Clipping multiplies by min(1, clip_norm / (norm + 1e-6)), as PyTorch does, with
   * a norm for each loss. A step that is skipped because a gradient is not finite, of whichever loss, changes
   * no state. *ticket: for collect. */
  pl_error* (*step)(pl_strategy* self, const pl_step_args* args, uint64_t* ticket);
  /* The report of one of the last two steps. Waits for the device to finish that step. */
  pl_error* (*collect)(pl_strategy* self, uint64_t ticket, pl_step_report* out);

  /* State. These may wait for the device. */
  pl_error* (*load_state)(pl_strategy* self, const pl_state_reader* reader);
  pl_error* (*snapshot)(pl_strategy* self, uint32_t mode, pl_snapshot** out); /* owned: snapshot_free */
  /* The pieces this rank owns, in a fixed order, each valid until snapshot_free. Every element of the state
   * has one owner. [any-thread] */
  pl_error* (*snapshot_pieces)(pl_snapshot* snapshot, pl_piece_visitor visit, void* user);
  void (*snapshot_free)(pl_snapshot* snapshot); /* [any-thread] */
  /* Bytes on this rank's device and host, by purpose. */
  pl_error* (*memory)(pl_strategy* self, pl_memory_visitor visit, void* user);

  /* (optional, both or none) For a strategy that does not keep all parameters in place. After gather all
   * of them are on this rank, and unit hooks do nothing until release. After each of the two, `storage`
   * returns where they are, and the task is bound again before its next batch. Used for evaluation and
   * generation, which run a model in other ways than training does, and a different number of times on
   * each rank.
   * REQUIRES: no step is in progress. */
  pl_error* (*gather)(pl_strategy* self);
  pl_error* (*release)(pl_strategy* self);
  /* (optional) For a strategy that keeps the moving average of weights, pl_optimizer's ema_decay. The average
   * takes the values' place and they its own, in what the task is bound to as well; the next call puts both
   * back. Between the two are evaluations alone, with gather and release. */
  pl_error* (*swap_average)(pl_strategy* self);
} pl_strategy_api;

/* ------------------------------------------------------------------------------------------ Extensions */

/* What only some plugins have: a table that pl_plugin.query returns for an id with its revision. */

/* Of tasks: a loss of each sample that depends on what the model makes of all samples of the
 * step, as in contrastive learning, whatever micro-batches and ranks these are in. Before the first
 * micro-batch of a step is trained, the host has the outputs of all of them computed without gradients, a row
 * a sample, and gathers the rows of all ranks. `train` then gets them all (Gao et al., arXiv 2101.06983). */
#define PL_EXTENSION_GLOBAL_OUTPUTS "pl.global-outputs/1"

typedef struct pl_outputs_args {
  uint32_t struct_size;
  uint32_t reserved;
  /* As in pl_train_args of the same batch, so that dropout is the same. */
  uint64_t seed;
  uint64_t step;
  uint64_t micro_batch;
  uint64_t first_row; /* of the batch's samples, which come in the order of their ids */
} pl_outputs_args;

/* Not called where a step is one micro-batch. Both functions [main], between begin_step and the first
 * micro-batch. */
typedef struct pl_global_outputs {
  uint32_t struct_size;
  uint32_t reserved;
  /* Room for the outputs of a step's `rows` samples: (rows, K), float32, contiguous, on the run's device,
   * with the same K on all ranks. The task owns it; borrowed until the next begin. K = 0: in this run no loss
   * depends on other samples, and nothing else is called. */
  pl_error* (*begin)(pl_task* self, uint64_t rows, pl_tensor* out);
  /* Writes the rows of one batch, in stream order. Units are entered and left with PL_PASS_FORWARD_ALONE, the
   * same ones on all ranks. May be called again for the same batch. */
  pl_error* (*outputs)(pl_task* self, const pl_batch* batch, const pl_outputs_args* args);
} pl_global_outputs;

/* Of tasks, strategies and optimizers: what they compute with, and what that can do for the whole process. */
#define PL_EXTENSION_RUNTIME "pl.runtime/1"

/* What the plugin computes in float32 on the CPU has the same bits whatever pl_run_info.threads is. Where all
 * plugins of a run say so, a reproducible one uses all cores, and may be continued on another number. */
#define PL_RUNTIME_SAME_ON_ANY_THREADS 1u

typedef struct pl_runtime {
  uint32_t struct_size;
  uint32_t flags; /* PL_RUNTIME_... */
  /* (optional) The device's peak FLOP/s, measured with matrix products in info->compute_dtype on
   * info->threads. Takes a fraction of a second and waits for the device. [main] */
  pl_error* (*peak_flops)(const pl_host* host, const pl_run_info* info, double* out);
  /* (optional) Returns the memory that the library's allocator holds on info->device and nothing uses. May
   * wait for the device. [main] */
  pl_error* (*empty_cache)(const pl_host* host, const pl_run_info* info);
  /* (optional, both or none) Records what the library does, on all threads of the process and on its device:
   * one recording at a time, whichever plugin is asked. stop_profile ends it and writes it to the file
   * `path`: JSON in Chrome's trace event format, with `baseTimeNanoseconds`, the time since 1970 that all
   * `ts` (in microseconds) count from. `pid` is the process for what its threads did (`tid`), and a device's
   * number for what that did. An empty path: writes nothing. Both [main]. */
  pl_error* (*start_profile)(const pl_host* host, const pl_run_info* info);
  pl_error* (*stop_profile)(const pl_host* host, pl_str path);
} pl_runtime;

/* ------------------------------------------------------------------------------------------- The entry */

#define PL_PLUGIN_TASK 1u
#define PL_PLUGIN_STRATEGY 2u
#define PL_PLUGIN_BACKEND 3u
#define PL_PLUGIN_OPTIMIZER 4u

typedef struct pl_plugin {
  uint32_t struct_size;
  uint32_t abi_major; /* PL_ABI_MAJOR and PL_ABI_MINOR of the header it was built with */
  uint32_t abi_minor;
  uint32_t kind;
  pl_str name;    /* as in `plugin = "name"`: [a-z0-9_-]+ */
  pl_str version; /* of the plugin */
  pl_str summary; /* one line */
  /* The linked library build that must be the same in the whole process, e.g. "torch 2.11.0+cu130
   * cxx11-abi"; empty: none. Two different nonempty tags in one process are refused. */
  pl_str runtime;
  const pl_option* options;
  uint64_t option_count;
  const void* api; /* pl_task_api, pl_strategy_api, pl_backend_api or pl_optimizer_api, by kind; static */
  /* (optional) A table for an extension by id, e.g. "pl.cuda-graph/1", or NULL. [any-thread] */
  const void* (*query)(pl_str id);
  /* (optional) The last call into the plugin, after all of its objects are gone. Libraries are never
   * unloaded. [main] */
  void (*shutdown)(void);
} pl_plugin;

/* The only exported symbol. Returns a static table, or NULL with the reason in *error if it cannot work
 * with this host. May be called again, and then returns the same table. [main] */
typedef const pl_plugin* (*pl_plugin_entry_fn)(const pl_host* host, pl_error** error);

#define PL_EXPORT __attribute__((visibility("default")))

PL_EXPORT const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error);

#ifdef __cplusplus
}
#endif

#endif
