#include "core/config/core_options.hpp"

#include <string_view>

namespace pipeline::config {
namespace {

constexpr pl_str str(std::string_view text) { return {text.data(), text.size()}; }

// One line of the table below; the calls after the first add what is not common to all options.
struct Option : pl_option {
  constexpr Option(std::string_view key_text, uint32_t type_code, std::string_view default_text,
                   std::string_view help_text)
      : pl_option{} {
    struct_size = sizeof(pl_option);
    type = type_code;
    key = str(key_text);
    default_value = str(default_text);
    help = str(help_text);
  }
  constexpr Option in(std::string_view unit_text) const {
    Option copy = *this;
    copy.unit = str(unit_text);
    return copy;
  }
  constexpr Option min(double value) const { return limited(PL_OPTION_HAS_MINIMUM, value, maximum); }
  constexpr Option above(double value) const {
    return limited(PL_OPTION_HAS_MINIMUM | PL_OPTION_ABOVE_MINIMUM, value, maximum);
  }
  constexpr Option max(double value) const { return limited(PL_OPTION_HAS_MAXIMUM, minimum, value); }
  constexpr Option below(double value) const {
    return limited(PL_OPTION_HAS_MAXIMUM | PL_OPTION_BELOW_MAXIMUM, minimum, value);
  }
  constexpr Option may_change() const { return limited(PL_OPTION_MAY_CHANGE, minimum, maximum); }
  constexpr Option required() const { return limited(PL_OPTION_REQUIRED, minimum, maximum); }
  template <size_t N>
  constexpr Option one_of(const pl_str (&values)[N]) const {
    Option copy = *this;
    copy.choices = values;
    copy.choice_count = N;
    return copy;
  }

 private:
  constexpr Option limited(uint32_t more_flags, double low, double high) const {
    Option copy = *this;
    copy.flags |= more_flags;
    copy.minimum = low;
    copy.maximum = high;
    return copy;
  }
};

constexpr uint32_t kBool = PL_OPTION_BOOL;
constexpr uint32_t kInt = PL_OPTION_INT;
constexpr uint32_t kFloat = PL_OPTION_FLOAT;
constexpr uint32_t kString = PL_OPTION_STRING;
constexpr uint32_t kPath = PL_OPTION_PATH;

constexpr pl_str kDevices[] = {str("auto"), str("cpu"), str("cuda")};
constexpr pl_str kStageKinds[] = {str("train"), str("evaluate"), str("predict"), str("export"), str("pool")};
constexpr pl_str kOptimizers[] = {str("adamw"), str("sgd")};
constexpr pl_str kSchedules[] = {str("cosine"), str("linear"), str("constant")};
constexpr pl_str kLrScalings[] = {str("none"), str("linear"), str("sqrt"), str("conservative")};
constexpr pl_str kPrecisions[] = {str("auto"), str("fp32"), str("bf16"), str("fp16")};
constexpr pl_str kSplits[] = {str("val"), str("test")};
constexpr pl_str kFullDisk[] = {str("continue"), str("stop")};
constexpr pl_str kLevels[] = {str("debug"), str("info"), str("warning"), str("error")};
constexpr pl_str kConsoles[] = {str("auto"), str("plain"), str("off")};

// May change when a run is continued: its length, what it reports and keeps, where it runs. Not: what decides
// the result.
constexpr pl_option kOptions[] = {
    Option("run.name", kString, "", "name of the run; the file's name if not given").may_change(),
    Option("run.dir", kPath, "", "folder of the run; runs/NAME if not given").may_change(),
    Option("run.cache_dir", kPath, "",
           "prepared data, shared by runs; in the user's cache folder if not given")
        .may_change(),
    Option("run.seed", kInt, "0", "the one source of all randomness").min(0),
    Option("run.reproducible", kBool, "false", "the same bits on any number of processes"),
    Option("run.device", kString, "\"auto\"", "what to compute on; auto is a CUDA device where there is one")
        .one_of(kDevices)
        .may_change(),

    Option("plugins.paths", PL_OPTION_PATH_LIST, "[]", "more folders to look for plugins in").may_change(),
    Option("task.plugin", kString, "", "the task to train, for example \"summarization\"").required(),
    Option("strategy.plugin", kString, "\"auto\"",
           "single, ddp or sharded; auto is single with one process, else ddp")
        .may_change(),
    Option("backend.plugin", kString, "\"auto\"", "gloo, nccl or shm; auto goes by device and hosts")
        .may_change(),

    Option("optimizer.kind", kString, "\"adamw\"", "the update rule").one_of(kOptimizers),
    Option("optimizer.lr", kFloat, "3e-4", "learning rate after warm-up, for a batch of schedule.base_batch")
        .min(0),
    Option("optimizer.beta1", kFloat, "0.9", "of AdamW: decay of the first moment").min(0).below(1),
    Option("optimizer.beta2", kFloat, "0.999", "of AdamW: decay of the second moment").min(0).below(1),
    Option("optimizer.epsilon", kFloat, "1e-8", "of AdamW: added to the denominator").above(0),
    Option("optimizer.weight_decay", kFloat, "0.01",
           "weight decay: decoupled in AdamW, added to the gradient in SGD; the task says of which weights")
        .min(0),
    Option("optimizer.momentum", kFloat, "0.9", "of SGD").min(0).below(1),
    Option("optimizer.nesterov", kBool, "false", "of SGD: Nesterov's momentum"),

    Option("schedule.kind", kString, "\"cosine\"", "how the learning rate falls after warm-up")
        .one_of(kSchedules),
    Option("schedule.warmup_steps", kInt, "0", "steps over which the learning rate rises from near zero")
        .in("steps")
        .min(0),
    Option("schedule.min_lr_ratio", kFloat, "0.1", "learning rate at the end, as a share of the peak")
        .min(0)
        .max(1),
    Option(
        "schedule.lr_scaling", kString, "\"none\"",
        "how the learning rate follows effective batch / base_batch; conservative is another name for none")
        .one_of(kLrScalings),
    Option("schedule.base_batch", kInt, "",
           "effective batch that optimizer.lr is right for; needed by lr_scaling")
        .in("samples")
        .min(1),

    Option("loader.workers", kInt, "4", "threads that load batches ahead; 0 loads between the steps")
        .in("threads")
        .min(0)
        .max(256)
        .may_change(),
    Option("loader.prefetch", kInt, "2", "micro-batches that each worker keeps ready")
        .in("micro-batches")
        .min(1)
        .max(1024)
        .may_change(),
    Option("loader.pin_memory", kBool, "true", "load into pinned memory where a CUDA device is used")
        .may_change(),
    Option("loader.shuffle", kBool, "true", "a new order of the samples in every epoch"),
    Option("loader.group_by_length", kBool, "false",
           "micro-batches of samples of similar length: less padding"),
    Option("loader.group_window", kInt, "16",
           "of group_by_length: the part of the order that is grouped at a time")
        .in("steps")
        .min(1),

    Option("train.global_batch", kInt, "", "samples per optimizer step over all devices; 32 if not given")
        .in("samples")
        .min(1),
    Option("train.batch_per_device", kInt, "",
           "instead of global_batch: samples per optimizer step and device")
        .in("samples")
        .min(1),
    Option("train.micro_batch", kInt, "",
           "samples per forward pass; the smaller of global batch and 8 if not given")
        .in("samples")
        .min(1)
        .may_change(),
    Option("train.accumulation_steps", kInt, "",
           "instead of micro_batch: micro-batches per optimizer step and device")
        .min(1)
        .may_change(),
    Option("train.max_steps", kInt, "", "end after this many optimizer steps")
        .in("steps")
        .min(1)
        .may_change(),
    Option("train.max_epochs", kInt, "", "end after this many passes over the data")
        .in("epochs")
        .min(1)
        .may_change(),
    Option("train.max_seconds", kFloat, "", "end after this time, all parts of a continued run together")
        .in("seconds")
        .above(0)
        .may_change(),
    Option("train.precision", kString, "\"auto\"",
           "of the computation; auto is bf16 where the device has it, else fp16, fp32 on CPU")
        .one_of(kPrecisions),
    Option("train.clip_grad_norm", kFloat, "1.0", "gradients are scaled down to this norm; 0 is off").min(0),
    Option("train.activation_checkpointing", kBool, "false",
           "compute activations again in the backward pass: less memory")
        .may_change(),
    Option("train.init_from", kString, "",
           "where weights come from: a stage, a checkpoint, or a Hugging Face folder; \"\" takes it back"),
    Option("train.max_nonfinite_steps", kInt, "10",
           "stop after so many steps in a row with a gradient that is not finite")
        .in("steps")
        .min(1)
        .may_change(),
    Option("train.loss_scale", kFloat, "65536", "of fp16: the loss scale at the start").above(0),
    Option("train.loss_scale_interval", kInt, "2000",
           "of fp16: finite steps after which the loss scale doubles")
        .in("steps")
        .min(1),

    Option("evaluate.every", kInt, "0", "evaluate on the val split while training; 0 is never")
        .in("steps")
        .min(0)
        .may_change(),
    Option("evaluate.at_end", kBool, "true", "evaluate on the val split after the last step").may_change(),
    Option("evaluate.split", kString, "\"test\"", "that a full evaluation or a prediction reads")
        .one_of(kSplits)
        .may_change(),
    Option("evaluate.max_samples", kInt, "0", "evaluate on so many samples of the split at most; 0 is all")
        .in("samples")
        .min(0)
        .may_change(),
    Option("evaluate.samples", kInt, "3", "samples to show with the model's answers")
        .min(0)
        .max(1000)
        .may_change(),
    Option("evaluate.best_metric", kString, "\"loss\"", "figure that decides which checkpoint is the best")
        .may_change(),

    Option("checkpoint.every", kInt, "0", "save every so many steps; 0 is at the end only")
        .in("steps")
        .min(0)
        .may_change(),
    Option("checkpoint.every_seconds", kFloat, "0", "save after so much time since the last one; 0 is never")
        .in("seconds")
        .min(0)
        .may_change(),
    Option("checkpoint.keep", kInt, "3", "keep this many of the newest; 0 is all").min(0).may_change(),
    Option("checkpoint.keep_best", kBool, "true", "keep the best one, too").may_change(),
    Option("checkpoint.background", kBool, "true", "write while training goes on, from a snapshot in memory")
        .may_change(),
    Option("checkpoint.on_full_disk", kString, "\"continue\"", "go on without a new checkpoint, or stop")
        .one_of(kFullDisk)
        .may_change(),

    Option("launch.processes", kInt, "", "per host; one per CUDA device, else 1, if not given")
        .min(1)
        .max(4096)
        .may_change(),
    Option("launch.threads", kInt, "",
           "CPU threads per process; cores / processes if not given, 1 if reproducible")
        .in("threads")
        .min(1)
        .max(4096)
        .may_change(),
    Option("launch.max_restarts", kInt, "0",
           "start again from the last checkpoint when a process dies, so many times")
        .min(0)
        .may_change(),
    Option("launch.rendezvous_seconds", kFloat, "300", "how long processes wait for each other at the start")
        .in("seconds")
        .above(0)
        .may_change(),
    Option("launch.stall_seconds", kFloat, "600", "a process that makes no progress for so long has failed")
        .in("seconds")
        .above(0)
        .may_change(),

    Option("observe.log_level", kString, "\"info\"", "the least important lines to show")
        .one_of(kLevels)
        .may_change(),
    Option("observe.log_every", kInt, "10", "a line every so many steps where there is no progress bar")
        .in("steps")
        .min(1)
        .may_change(),
    Option("observe.console", kString, "\"auto\"",
           "auto is a progress bar on a terminal and plain lines elsewhere")
        .one_of(kConsoles)
        .may_change(),

    Option("stage.name", kString, "", "of a [[stage]]: letters, digits, _ and -"),
    Option("stage.kind", kString, "\"train\"",
           "what the stage does; pool adds up the evaluations of the stages before it")
        .one_of(kStageKinds),
    Option("stage.init_from", kString, "", "an earlier stage whose result this one starts from"),
};

}  // namespace

std::span<const pl_option> core_options() { return kOptions; }

}  // namespace pipeline::config
