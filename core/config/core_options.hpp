// The core's own options, in display order: a row is the option, and the field that the program reads. Text
// that is not given is empty, and a number without a default is optional.
#pragma once

#include "core/config/option_rows.hpp"

namespace pipeline::config {

struct RunOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string name = option("run.name", "", "name of the run; default: the file's name", may_change());
  Path dir = option("run.dir", "", "run folder; default: runs/NAME", may_change());
  Path cache_dir = option("run.cache_dir", "",
                          "prepared data, shared by runs; default: the user's cache folder", may_change());
  uint64_t seed = option("run.seed", "0", "the only source of randomness", at_least(0));
  bool reproducible = option("run.reproducible", "false", "the same bits on any number of processes");
  std::string device = option("run.device", "auto", "compute device; auto: a CUDA device if there is one",
                              one_of({"auto", "cpu", "cuda"}), may_change());
};

// Which plugins a run has, and where they are.
struct PluginOptions : OptionTable {
  using OptionTable::OptionTable;

  std::vector<Path> paths = option("plugins.paths", "[]", "more folders to search for plugins", may_change());
  std::string task =
      option("task.plugin", "", "the task to train, for example \"summarization\"", required());
  std::string strategy =
      option("strategy.plugin", "auto",
             "single, ddp, sharded or diloco; auto: single with one process, else ddp", may_change());
  std::string backend =
      option("backend.plugin", "auto", "gloo, nccl or shm; auto: by device and hosts", may_change());
};

// What all update rules have in common.
struct OptimizerOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string kind = option("optimizer.kind", "adamw",
                            "the update rule; muon: of the matrices of hidden layers, adamw of all else",
                            one_of({"adamw", "sgd", "muon"}));
  std::string plugin =
      option("optimizer.plugin", "none",
             "in place of kind, the update rule of a plugin, for example \"sign_sgd\"; none: there is none");
  double lr =
      option("optimizer.lr", "3e-4", "learning rate after warm-up, for a batch of schedule.base_batch",
             at_least(0), by_name());
};

// The options of update rules that strategies know by name.
struct RuleOptions : OptionTable {
  using OptionTable::OptionTable;

  double beta1 =
      option("optimizer.beta1", "0.9", "AdamW: decay of the first moment", at_least(0), below(1), by_name());
  double beta2 = option("optimizer.beta2", "0.999", "AdamW: decay of the second moment", at_least(0),
                        below(1), by_name());
  double epsilon =
      option("optimizer.epsilon", "1e-8", "AdamW: added to the denominator", above(0), by_name());
  double weight_decay =
      option("optimizer.weight_decay", "0.01",
             "weight decay: decoupled in AdamW, added to the gradient in SGD; the task selects the weights",
             at_least(0), by_name());
  uint64_t state_bits =
      option("optimizer.state_bits", "32",
             "AdamW: bits that each moment is kept in, 32, 16 or 8; fewer are rounded at random", at_least(8),
             at_most(32), by_name());
  double momentum = option("optimizer.momentum", "0.9", "SGD: momentum", at_least(0), below(1), by_name());
  double muon_momentum = option("optimizer.muon_momentum", "0.95", "Muon: momentum, as Nesterov has it",
                                at_least(0), below(1), by_name());
  uint64_t muon_steps = option("optimizer.muon_steps", "5", "Muon: Newton-Schulz iterations", at_least(1),
                               at_most(100), by_name());
  bool nesterov = option("optimizer.nesterov", "false", "SGD: Nesterov momentum", by_name());
};

// The moving average of the weights.
struct AverageOptions : OptionTable {
  using OptionTable::OptionTable;

  double decay = option("optimizer.ema_decay", "0.0",
                        "keep the exponential moving average of the weights, with this decay: 0.999; 0: none",
                        at_least(0), below(1));
  uint64_t every =
      option("optimizer.ema_every", "1", "EMA: steps between two updates", in("steps"), at_least(1));
  uint64_t start =
      option("optimizer.ema_start", "0", "EMA: steps after which it begins, with the weights of that moment",
             in("steps"), at_least(0));
};

struct ScheduleOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string kind =
      option("schedule.kind", "cosine",
             "how the learning rate falls after warm-up; wsd: it stays, and falls in the last decay_steps",
             one_of({"cosine", "linear", "constant", "wsd", "inverse_sqrt"}), by_name());
  uint64_t warmup_steps =
      option("schedule.warmup_steps", "0", "steps over which the learning rate rises from near zero",
             in("steps"), at_least(0), by_name());
  double min_lr_ratio = option("schedule.min_lr_ratio", "0.1", "final learning rate as a share of the peak",
                               at_least(0), at_most(1), by_name());
  std::optional<uint64_t> decay_steps =
      optional("schedule.decay_steps", "wsd: steps at the end; default: a tenth of the training", in("steps"),
               at_least(1), by_name());
  std::string decay = option("schedule.decay", "1-sqrt", "wsd: how the learning rate falls in them",
                             one_of({"linear", "cosine", "1-sqrt"}), by_name());
  std::string lr_scaling =
      option("schedule.lr_scaling", "none",
             "how the learning rate scales with effective batch / base_batch; conservative means none",
             one_of({"none", "linear", "sqrt", "conservative"}), by_name());
  std::optional<uint64_t> base_batch =
      optional("schedule.base_batch", "effective batch that optimizer.lr is meant for; needed by lr_scaling",
               in("samples"), at_least(1), by_name());
};

struct LoaderOptions : OptionTable {
  using OptionTable::OptionTable;

  uint64_t workers = option("loader.workers", "4", "threads that load batches ahead; 0: load between steps",
                            in("threads"), at_least(0), at_most(256), may_change());
  uint64_t processes =
      option("loader.processes", "0",
             "processes that make the batches of a task in Python; 0: the threads of loader.workers do",
             in("processes"), at_least(0), at_most(256), may_change());
  uint64_t prefetch = option("loader.prefetch", "2", "micro-batches kept ready per worker",
                             in("micro-batches"), at_least(1), at_most(1024), may_change());
  bool pin_memory =
      option("loader.pin_memory", "true", "load into pinned memory if a CUDA device is used", may_change());
  bool shuffle = option("loader.shuffle", "true", "new sample order in every epoch");
  bool group_by_length =
      option("loader.group_by_length", "false", "batch samples of similar length: less padding");
  uint64_t group_window =
      option("loader.group_window", "16", "group_by_length: steps whose samples are grouped together",
             in("steps"), at_least(1));
};

struct TrainOptions : OptionTable {
  using OptionTable::OptionTable;

  std::optional<uint64_t> global_batch = optional(
      "train.global_batch",
      "samples per optimizer step over all devices; default: 32, or one a device where there are more",
      in("samples"), at_least(1));
  std::optional<uint64_t> batch_per_device =
      optional("train.batch_per_device", "instead of global_batch: samples per step and device",
               in("samples"), at_least(1));
  CountOrAuto micro_batch = option("train.micro_batch", "",
                                   "samples per forward pass; auto: as many as fit; default: 8, or fewer "
                                   "where the batch or the devices need it",
                                   in("samples"), at_least(1), one_of({"auto"}), may_change());
  std::optional<uint64_t> accumulation_steps =
      optional("train.accumulation_steps", "instead of micro_batch: micro-batches per step and device",
               at_least(1), may_change());
  std::optional<uint64_t> max_steps = optional("train.max_steps", "end after this many optimizer steps",
                                               in("steps"), at_least(1), may_change(), by_name());
  std::optional<uint64_t> max_epochs =
      optional("train.max_epochs", "end after this many passes over the data", in("epochs"), at_least(1),
               may_change(), by_name());
  std::optional<double> max_seconds =
      optional("train.max_seconds", "end after this time, counting earlier parts of the run", in("seconds"),
               above(0), may_change(), by_name());
  std::string precision =
      option("train.precision", "auto",
             "compute precision; auto: bf16 if the device has it, else fp16; fp32 on the CPU",
             one_of({"auto", "fp32", "bf16", "fp16"}));
  std::string frozen_precision = option("train.frozen_precision", "auto",
                                        "what frozen weights are in; auto: train.precision; int8, nf4: "
                                        "layers' matrices in 8, 4 bits, the rest in bf16",
                                        one_of({"auto", "bf16", "int8", "nf4"}));
  double clip_grad_norm = option("train.clip_grad_norm", "1.0", "scale gradients down to this norm; 0: off",
                                 at_least(0), by_name());
  double clip_grad_value =
      option("train.clip_grad_value", "0.0",
             "limit each element of the gradient to this size, in place of train.clip_grad_norm; 0: off",
             at_least(0), by_name());
  bool activation_checkpointing =
      option("train.activation_checkpointing", "false",
             "recompute activations in the backward pass: less memory", may_change());
  std::string init_from =
      option("train.init_from", "",
             "initial weights: a stage, a checkpoint, or a Hugging Face folder; \"\" unsets it");
  bool init_state = option(
      "train.init_state", "false",
      "with init_from, a run of ours: go on from its optimizer state, step and place in the data as well");
  uint64_t max_nonfinite_steps =
      option("train.max_nonfinite_steps", "10",
             "end the run after this many updates skipped in a row, as gradients were not finite",
             in("steps"), at_least(1), may_change(), by_name());
  double loss_scale = option("train.loss_scale", "65536", "fp16: initial loss scale", above(0));
  uint64_t loss_scale_interval =
      option("train.loss_scale_interval", "2000", "fp16: finite steps before the loss scale doubles",
             in("steps"), at_least(1), by_name());
};

struct EvaluateOptions : OptionTable {
  using OptionTable::OptionTable;

  uint64_t every = option("evaluate.every", "0", "evaluate on the val split during training; 0: never",
                          in("steps"), at_least(0), may_change(), by_name());
  bool at_start = option("evaluate.at_start", "false",
                         "evaluate on the val split before the first step: what is learnt is seen beside it",
                         may_change());
  bool at_end = option("evaluate.at_end", "true", "evaluate on the val split after the last step",
                       may_change(), by_name());
  std::string split = option("evaluate.split", "test", "split used by full evaluations and predictions",
                             one_of({"val", "test"}), may_change());
  uint64_t max_samples =
      option("evaluate.max_samples", "0", "evaluate at most this many samples of the split; 0: all",
             in("samples"), at_least(0), may_change(), by_name());
  uint64_t samples = option("evaluate.samples", "3", "samples shown with the model's answers", at_least(0),
                            at_most(1000), may_change());
  std::string best_metric = option("evaluate.best_metric", "loss", "figure that selects the best checkpoint",
                                   may_change(), by_name());
  bool ema =
      option("evaluate.ema", "false",
             "evaluate the moving average of the weights, which optimizer.ema_decay keeps, during training");
  uint64_t patience =
      option("evaluate.patience", "0",
             "end the run after so many evaluations in a row without a better evaluate.best_metric; 0: never",
             in("evaluations"), at_least(0), may_change(), by_name());
  double min_delta = option("evaluate.min_delta", "0.0", "patience: by how much a better one must be better",
                            at_least(0), may_change(), by_name());
};

struct ExportOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string dtype =
      option("export.dtype", "auto",
             "what weights are exported in; auto: as the folder has them that they came from, "
             "else fp32",
             one_of({"auto", "fp32", "bf16", "fp16"}), may_change());
  uint64_t shard_size =
      option("export.shard_size", "5000",
             "a larger model.safetensors is cut into files of at most this size, between tensors", in("MB"),
             at_least(1), may_change());
};

struct CheckpointOptions : OptionTable {
  using OptionTable::OptionTable;

  uint64_t every = option("checkpoint.every", "0", "steps between checkpoints; 0: only at the end",
                          in("steps"), at_least(0), may_change());
  double every_seconds = option("checkpoint.every_seconds", "0", "time between checkpoints; 0: never",
                                in("seconds"), at_least(0), may_change());
  uint64_t keep =
      option("checkpoint.keep", "3", "newest checkpoints to keep, and the newest known to be good; 0: all",
             at_least(0), may_change());
  bool keep_best = option("checkpoint.keep_best", "true",
                          "also keep the checkpoint with the best evaluate.best_metric", may_change());
  bool background = option("checkpoint.background", "true",
                           "write during training, from a snapshot in memory", may_change());
  std::string frozen = option("checkpoint.frozen", "kept",
                              "weights that do not train: kept, or left_out and read from init_from's folder",
                              one_of({"kept", "left_out"}));
  std::string on_full_disk =
      option("checkpoint.on_full_disk", "continue", "continue without a checkpoint, or stop",
             one_of({"continue", "stop"}), may_change());
};

struct LaunchOptions : OptionTable {
  using OptionTable::OptionTable;

  std::optional<uint64_t> processes =
      optional("launch.processes", "processes per host; default: one per CUDA device, or 1 without CUDA",
               at_least(1), at_most(4096), may_change());
  std::optional<uint64_t> threads =
      optional("launch.threads",
               "CPU threads per process; default: cores / processes, or 1 where run.reproducible needs it",
               in("threads"), at_least(1), at_most(4096), may_change());
  uint64_t max_restarts =
      option("launch.max_restarts", "0", "times to restart from the last checkpoint after a process dies",
             at_least(0), may_change());
  double rendezvous_seconds =
      option("launch.rendezvous_seconds", "300", "how long processes wait for each other at the start",
             in("seconds"), above(0), may_change());
  double stall_seconds =
      option("launch.stall_seconds", "600", "time without progress after which a process has failed",
             in("seconds"), above(0), may_change());
};

struct ObserveOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string log_level = option("observe.log_level", "info", "lowest level shown",
                                 one_of({"debug", "info", "warning", "error"}), may_change());
  uint64_t log_every = option("observe.log_every", "10", "steps between log lines without a progress bar",
                              in("steps"), at_least(1), may_change());
  uint64_t empty_cache_every = option(
      "observe.empty_cache_every", "0",
      "steps between two times LibTorch's device cache is emptied; 0: never; the CPU has none to empty",
      in("steps"), at_least(0), may_change());
  std::string profile = option(
      "observe.profile", "",
      "record these optimizer steps in a trace for Perfetto: \"10-14\", for the first few are not typical",
      may_change());
  std::string serve = option(
      "observe.serve", "",
      "HOST:PORT at which a browser finds the run's page while it goes on: 127.0.0.1:8080; default: none",
      may_change());
  bool tensorboard =
      option("observe.tensorboard", "false",
             "write TensorBoard's event files to the run folder: tensorboard --logdir runs", may_change());
  bool wandb =
      option("observe.wandb", "false",
             "log to Weights & Biases, through its Python package; WANDB_MODE=offline needs no account",
             may_change());
  std::string wandb_project = option(
      "observe.wandb_project", "", "W&B project; default: WANDB_PROJECT, or W&B's own choice", may_change());
  bool mlflow = option("observe.mlflow", "false", "log to MLflow, through its Python package", may_change());
  std::string mlflow_uri = option(
      "observe.mlflow_uri", "",
      "MLflow's server or database: http://host:5000, sqlite:///mlflow.db; default: MLFLOW_TRACKING_URI",
      may_change());
  std::string mlflow_experiment =
      option("observe.mlflow_experiment", "",
             "MLflow experiment; default: MLFLOW_EXPERIMENT_NAME, or MLflow's own choice", may_change());
  std::string console =
      option("observe.console", "auto", "auto: a progress bar on a terminal, plain lines elsewhere",
             one_of({"auto", "plain", "off"}), may_change());
};

struct StageOptions : OptionTable {
  using OptionTable::OptionTable;

  std::string name = option("stage.name", "", "[[stage]] name: letters, digits, _ and -");
  std::string kind =
      option("stage.kind", "train", "what the stage does; pool combines the evaluations of earlier stages",
             one_of({"train", "evaluate", "predict", "export", "pool"}));
  std::string init_from = option("stage.init_from", "", "earlier stage whose weights this one starts from");
};

struct CoreOptions : OptionTable {
  using OptionTable::OptionTable;

  RunOptions run{reader()};
  PluginOptions plugins{reader()};
  OptimizerOptions optimizer{reader()};
  RuleOptions rule{reader()};
  AverageOptions average{reader()};
  ScheduleOptions schedule{reader()};
  LoaderOptions loader{reader()};
  TrainOptions train{reader()};
  EvaluateOptions evaluate{reader()};
  CheckpointOptions checkpoint{reader()};
  ExportOptions exports{reader()};
  LaunchOptions launch{reader()};
  ObserveOptions observe{reader()};
  StageOptions stage{reader()};
};

}  // namespace pipeline::config
