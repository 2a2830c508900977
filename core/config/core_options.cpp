#include "core/config/option.hpp"

#include <string_view>

namespace pipeline::config {
namespace {

constexpr pl_str str(std::string_view text) { return {text.data(), text.size()}; }

// What is not common to all options: each is an option without a name, of which what is set is taken over.
constexpr pl_option kMayChange{.flags = PL_OPTION_MAY_CHANGE}, kRequired{.flags = PL_OPTION_REQUIRED},
    kByName{.flags = kChangesByName};
constexpr pl_option at_least(double value) { return {.flags = PL_OPTION_HAS_MINIMUM, .minimum = value}; }
constexpr pl_option at_most(double value) { return {.flags = PL_OPTION_HAS_MAXIMUM, .maximum = value}; }
constexpr pl_option above(double value) {
  return {.flags = PL_OPTION_HAS_MINIMUM | PL_OPTION_ABOVE_MINIMUM, .minimum = value};
}
constexpr pl_option below(double value) {
  return {.flags = PL_OPTION_HAS_MAXIMUM | PL_OPTION_BELOW_MAXIMUM, .maximum = value};
}
constexpr pl_option in(std::string_view unit) { return {.unit = str(unit)}; }
template <size_t N>
constexpr pl_option one_of(const pl_str (&values)[N]) {
  return {.choice_count = N, .choices = values};
}

// One line of the table below.
template <class... Facets>
constexpr pl_option option(std::string_view key, uint32_t type, std::string_view default_value,
                           std::string_view help, const Facets&... facets) {
  pl_option made{.struct_size = sizeof(pl_option),
                 .type = type,
                 .key = str(key),
                 .default_value = str(default_value),
                 .help = str(help)};
  for (const pl_option& facet : {pl_option{}, facets...}) {
    made.flags |= facet.flags;
    if (facet.flags & PL_OPTION_HAS_MINIMUM) made.minimum = facet.minimum;
    if (facet.flags & PL_OPTION_HAS_MAXIMUM) made.maximum = facet.maximum;
    if (facet.unit.len > 0) made.unit = facet.unit;
    if (facet.choice_count > 0) {
      made.choices = facet.choices;
      made.choice_count = facet.choice_count;
    }
  }
  return made;
}

constexpr uint32_t kBool = PL_OPTION_BOOL;
constexpr uint32_t kInt = PL_OPTION_INT;
constexpr uint32_t kFloat = PL_OPTION_FLOAT;
constexpr uint32_t kString = PL_OPTION_STRING;
constexpr uint32_t kPath = PL_OPTION_PATH;

constexpr pl_str kDevices[] = {str("auto"), str("cpu"), str("cuda")};
constexpr pl_str kStageKinds[] = {str("train"), str("evaluate"), str("predict"), str("export"), str("pool")};
constexpr pl_str kOptimizers[] = {str("adamw"), str("sgd"), str("muon")};
constexpr pl_str kSchedules[] = {str("cosine"), str("linear"), str("constant"), str("wsd"),
                                 str("inverse_sqrt")};
constexpr pl_str kFalls[] = {str("linear"), str("cosine"), str("1-sqrt")};
constexpr pl_str kLrScalings[] = {str("none"), str("linear"), str("sqrt"), str("conservative")};
constexpr pl_str kFrozenPrecisions[] = {str("auto"), str("bf16")};
constexpr pl_str kPrecisions[] = {str("auto"), str("fp32"), str("bf16"), str("fp16")};
constexpr pl_str kAuto[] = {str("auto")};
constexpr pl_str kSplits[] = {str("val"), str("test")};
constexpr pl_str kFullDisk[] = {str("continue"), str("stop")};
constexpr pl_str kLevels[] = {str("debug"), str("info"), str("warning"), str("error")};
constexpr pl_str kConsoles[] = {str("auto"), str("plain"), str("off")};

// May change when a run is continued: its length, what it reports and keeps, where it runs. By name, with
// --change: what decides the result from a step on. Not: what decides it from the beginning.
constexpr pl_option kOptions[] = {
    option("run.name", kString, "", "name of the run; default: the file's name", kMayChange),
    option("run.dir", kPath, "", "run folder; default: runs/NAME", kMayChange),
    option("run.cache_dir", kPath, "", "prepared data, shared by runs; default: the user's cache folder",
           kMayChange),
    option("run.seed", kInt, "0", "the only source of randomness", at_least(0)),
    option("run.reproducible", kBool, "false", "the same bits on any number of processes"),
    option("run.device", kString, "\"auto\"", "compute device; auto: a CUDA device if there is one",
           one_of(kDevices), kMayChange),

    option("plugins.paths", PL_OPTION_PATH_LIST, "[]", "more folders to search for plugins", kMayChange),
    option("task.plugin", kString, "", "the task to train, for example \"summarization\"", kRequired),
    option("strategy.plugin", kString, "\"auto\"",
           "single, ddp, sharded or diloco; auto: single with one process, else ddp", kMayChange),
    option("backend.plugin", kString, "\"auto\"", "gloo, nccl or shm; auto: by device and hosts", kMayChange),

    option("optimizer.kind", kString, "\"adamw\"",
           "the update rule; muon: of the matrices of hidden layers, adamw of all else", one_of(kOptimizers)),
    option("optimizer.plugin", kString, "\"none\"",
           "in place of kind, the update rule of a plugin, for example \"sign_sgd\"; none: there is none"),
    option("optimizer.lr", kFloat, "3e-4", "learning rate after warm-up, for a batch of schedule.base_batch",
           at_least(0), kByName),
    option("optimizer.beta1", kFloat, "0.9", "AdamW: decay of the first moment", at_least(0), below(1),
           kByName),
    option("optimizer.beta2", kFloat, "0.999", "AdamW: decay of the second moment", at_least(0), below(1),
           kByName),
    option("optimizer.epsilon", kFloat, "1e-8", "AdamW: added to the denominator", above(0), kByName),
    option("optimizer.weight_decay", kFloat, "0.01",
           "weight decay: decoupled in AdamW, added to the gradient in SGD; the task selects the weights",
           at_least(0), kByName),
    option("optimizer.state_bits", kInt, "32",
           "AdamW: bits that each moment is kept in, 32, 16 or 8; fewer are rounded at random", at_least(8),
           at_most(32), kByName),
    option("optimizer.momentum", kFloat, "0.9", "SGD: momentum", at_least(0), below(1), kByName),
    option("optimizer.muon_momentum", kFloat, "0.95", "Muon: momentum, as Nesterov has it", at_least(0),
           below(1), kByName),
    option("optimizer.muon_steps", kInt, "5", "Muon: Newton-Schulz iterations", at_least(1), at_most(100),
           kByName),
    option("optimizer.nesterov", kBool, "false", "SGD: Nesterov momentum", kByName),

    option("optimizer.ema_decay", kFloat, "0.0",
           "keep the exponential moving average of the weights, with this decay: 0.999; 0: none", at_least(0),
           below(1)),
    option("optimizer.ema_every", kInt, "1", "EMA: steps between two updates", in("steps"), at_least(1)),
    option("optimizer.ema_start", kInt, "0",
           "EMA: steps after which it begins, with the weights of that moment", in("steps"), at_least(0)),

    option("schedule.kind", kString, "\"cosine\"",
           "how the learning rate falls after warm-up; wsd: it stays, and falls in the last decay_steps",
           one_of(kSchedules), kByName),
    option("schedule.warmup_steps", kInt, "0", "steps over which the learning rate rises from near zero",
           in("steps"), at_least(0), kByName),
    option("schedule.min_lr_ratio", kFloat, "0.1", "final learning rate as a share of the peak", at_least(0),
           at_most(1), kByName),
    option("schedule.decay_steps", kInt, "", "wsd: steps at the end; default: a tenth of the training",
           in("steps"), at_least(1), kByName),
    option("schedule.decay", kString, "\"1-sqrt\"", "wsd: how the learning rate falls in them",
           one_of(kFalls), kByName),
    option("schedule.lr_scaling", kString, "\"none\"",
           "how the learning rate scales with effective batch / base_batch; conservative means none",
           one_of(kLrScalings), kByName),
    option("schedule.base_batch", kInt, "",
           "effective batch that optimizer.lr is meant for; needed by lr_scaling", in("samples"), at_least(1),
           kByName),

    option("loader.workers", kInt, "4", "threads that load batches ahead; 0: load between steps",
           in("threads"), at_least(0), at_most(256), kMayChange),
    option("loader.processes", kInt, "0",
           "processes that make the batches of a task in Python; 0: the threads of loader.workers do",
           in("processes"), at_least(0), at_most(256), kMayChange),
    option("loader.prefetch", kInt, "2", "micro-batches kept ready per worker", in("micro-batches"),
           at_least(1), at_most(1024), kMayChange),
    option("loader.pin_memory", kBool, "true", "load into pinned memory if a CUDA device is used",
           kMayChange),
    option("loader.shuffle", kBool, "true", "new sample order in every epoch"),
    option("loader.group_by_length", kBool, "false", "batch samples of similar length: less padding"),
    option("loader.group_window", kInt, "16", "group_by_length: steps whose samples are grouped together",
           in("steps"), at_least(1)),

    option("train.global_batch", kInt, "",
           "samples per optimizer step over all devices; default: 32, or one a device where there are more",
           in("samples"), at_least(1)),
    option("train.batch_per_device", kInt, "", "instead of global_batch: samples per step and device",
           in("samples"), at_least(1)),
    option(
        "train.micro_batch", kInt, "",
        "samples per forward pass; auto: as many as fit; default: 8, or fewer where the batch or the devices "
        "need it",
        in("samples"), at_least(1), one_of(kAuto), kMayChange),
    option("train.accumulation_steps", kInt, "", "instead of micro_batch: micro-batches per step and device",
           at_least(1), kMayChange),
    option("train.max_steps", kInt, "", "end after this many optimizer steps", in("steps"), at_least(1),
           kMayChange, kByName),
    option("train.max_epochs", kInt, "", "end after this many passes over the data", in("epochs"),
           at_least(1), kMayChange, kByName),
    option("train.max_seconds", kFloat, "", "end after this time, counting earlier parts of the run",
           in("seconds"), above(0), kMayChange, kByName),
    option("train.precision", kString, "\"auto\"",
           "compute precision; auto: bf16 if the device has it, else fp16; fp32 on the CPU",
           one_of(kPrecisions)),
    option(
        "train.frozen_precision", kString, "\"auto\"",
        "dtype that frozen weights are kept in; auto: train.precision; bf16: half the memory where that is "
        "fp32",
        one_of(kFrozenPrecisions)),
    option("train.clip_grad_norm", kFloat, "1.0", "scale gradients down to this norm; 0: off", at_least(0),
           kByName),
    option("train.clip_grad_value", kFloat, "0.0",
           "limit each element of the gradient to this size, in place of train.clip_grad_norm; 0: off",
           at_least(0), kByName),
    option("train.activation_checkpointing", kBool, "false",
           "recompute activations in the backward pass: less memory", kMayChange),
    option("train.init_from", kString, "",
           "initial weights: a stage, a checkpoint, or a Hugging Face folder; \"\" unsets it"),
    option(
        "train.init_state", kBool, "false",
        "with init_from, a run of ours: go on from its optimizer state, step and place in the data as well"),
    option("train.max_nonfinite_steps", kInt, "10",
           "end the run after this many updates skipped in a row, as gradients were not finite", in("steps"),
           at_least(1), kMayChange, kByName),
    option("train.loss_scale", kFloat, "65536", "fp16: initial loss scale", above(0)),
    option("train.loss_scale_interval", kInt, "2000", "fp16: finite steps before the loss scale doubles",
           in("steps"), at_least(1), kByName),

    option("evaluate.every", kInt, "0", "evaluate on the val split during training; 0: never", in("steps"),
           at_least(0), kMayChange, kByName),
    option("evaluate.at_start", kBool, "false",
           "evaluate on the val split before the first step: what is learnt is seen beside it", kMayChange),
    option("evaluate.at_end", kBool, "true", "evaluate on the val split after the last step", kMayChange,
           kByName),
    option("evaluate.split", kString, "\"test\"", "split used by full evaluations and predictions",
           one_of(kSplits), kMayChange),
    option("evaluate.max_samples", kInt, "0", "evaluate at most this many samples of the split; 0: all",
           in("samples"), at_least(0), kMayChange, kByName),
    option("evaluate.samples", kInt, "3", "samples shown with the model's answers", at_least(0),
           at_most(1000), kMayChange),
    option("evaluate.best_metric", kString, "\"loss\"", "figure that selects the best checkpoint", kMayChange,
           kByName),

    option("evaluate.ema", kBool, "false",
           "evaluate the moving average of the weights, which optimizer.ema_decay keeps, during training"),
    option("evaluate.patience", kInt, "0",
           "end the run after so many evaluations in a row without a better evaluate.best_metric; 0: never",
           in("evaluations"), at_least(0), kMayChange, kByName),
    option("evaluate.min_delta", kFloat, "0.0", "patience: by how much a better one must be better",
           at_least(0), kMayChange, kByName),

    option("checkpoint.every", kInt, "0", "steps between checkpoints; 0: only at the end", in("steps"),
           at_least(0), kMayChange),
    option("checkpoint.every_seconds", kFloat, "0", "time between checkpoints; 0: never", in("seconds"),
           at_least(0), kMayChange),
    option("checkpoint.keep", kInt, "3",
           "newest checkpoints to keep, and the newest known to be good; 0: all", at_least(0), kMayChange),
    option("checkpoint.keep_best", kBool, "true",
           "also keep the checkpoint with the best evaluate.best_metric", kMayChange),
    option("checkpoint.background", kBool, "true", "write during training, from a snapshot in memory",
           kMayChange),
    option("checkpoint.on_full_disk", kString, "\"continue\"", "continue without a checkpoint, or stop",
           one_of(kFullDisk), kMayChange),

    option("launch.processes", kInt, "",
           "processes per host; default: one per CUDA device, or 1 without CUDA", at_least(1), at_most(4096),
           kMayChange),
    option("launch.threads", kInt, "",
           "CPU threads per process; default: cores / processes, or 1 if reproducible", in("threads"),
           at_least(1), at_most(4096), kMayChange),
    option("launch.max_restarts", kInt, "0", "times to restart from the last checkpoint after a process dies",
           at_least(0), kMayChange),
    option("launch.rendezvous_seconds", kFloat, "300", "how long processes wait for each other at the start",
           in("seconds"), above(0), kMayChange),
    option("launch.stall_seconds", kFloat, "600", "time without progress after which a process has failed",
           in("seconds"), above(0), kMayChange),

    option("observe.log_level", kString, "\"info\"", "lowest level shown", one_of(kLevels), kMayChange),
    option("observe.log_every", kInt, "10", "steps between log lines without a progress bar", in("steps"),
           at_least(1), kMayChange),
    option("observe.empty_cache_every", kInt, "0",
           "steps between two times LibTorch's device cache is emptied; 0: never; the CPU has none to empty",
           in("steps"), at_least(0), kMayChange),
    option(
        "observe.profile", kString, "",
        "record these optimizer steps in a trace for Perfetto: \"10-14\", for the first few are not typical",
        kMayChange),
    option(
        "observe.serve", kString, "",
        "HOST:PORT at which a browser finds the run's page while it goes on: 127.0.0.1:8080; default: none",
        kMayChange),
    option("observe.tensorboard", kBool, "false",
           "write TensorBoard's event files to the run folder: tensorboard --logdir runs", kMayChange),
    option("observe.wandb", kBool, "false",
           "log to Weights & Biases, through its Python package; WANDB_MODE=offline needs no account",
           kMayChange),
    option("observe.wandb_project", kString, "", "W&B project; default: WANDB_PROJECT, or W&B's own choice",
           kMayChange),
    option("observe.mlflow", kBool, "false", "log to MLflow, through its Python package", kMayChange),
    option("observe.mlflow_uri", kString, "",
           "MLflow's server or database: http://host:5000, sqlite:///mlflow.db; default: MLFLOW_TRACKING_URI",
           kMayChange),
    option("observe.mlflow_experiment", kString, "",
           "MLflow experiment; default: MLFLOW_EXPERIMENT_NAME, or MLflow's own choice", kMayChange),
    option("observe.console", kString, "\"auto\"",
           "auto: a progress bar on a terminal, plain lines elsewhere", one_of(kConsoles), kMayChange),

    option("stage.name", kString, "", "[[stage]] name: letters, digits, _ and -"),
    option("stage.kind", kString, "\"train\"",
           "what the stage does; pool combines the evaluations of earlier stages", one_of(kStageKinds)),
    option("stage.init_from", kString, "", "earlier stage whose weights this one starts from"),
};

}  // namespace

std::span<const pl_option> core_options() { return kOptions; }

}  // namespace pipeline::config
