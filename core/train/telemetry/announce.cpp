#include "core/train/telemetry/reporter.hpp"

#include <algorithm>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/launch/devices.hpp"
#include "core/observe/format.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {
namespace {

// One line: a word, and what there is to say of it.
void announce(observe::Log& log, std::string_view word, const std::string& text) {
  log.info(fmt::format("{:<11}{}", word, text));
}

struct ParameterCount {
  uint64_t total = 0;
  uint64_t trainable = 0;
  uint64_t decayed = 0;  // trainable, with weight decay
  // Frozen, and kept in another form than the run's: by its name.
  std::map<std::string, uint64_t> frozen;
  uint64_t hidden = 0;  // trainable matrices of hidden layers
};

std::string name_of_form(const pl_parameter& parameter) {
  return plugins::is_coded(parameter) ? std::string(plugins::value_kind(parameter)) : "bf16";
}

ParameterCount count_parameters(Session& session) {
  ParameterCount count;
  for (const pl_parameter& parameter : session.task().parameters()) {
    count.total += plugins::element_count(parameter);
    if (parameter.form != 0) count.frozen[name_of_form(parameter)] += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_TRAINABLE) == 0) continue;
    count.trainable += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_HIDDEN_MATRIX) != 0)
      count.hidden += plugins::element_count(parameter);
    if ((parameter.flags & PL_PARAMETER_DECAY) != 0) count.decayed += plugins::element_count(parameter);
  }
  return count;
}

std::string describe_backend(const Session& session) {
  const plugins::Communicator* group = session.group();
  if (group == nullptr)
    return session.backend_plugin() == nullptr
               ? "none"
               : session.backend_plugin()->name() + " (not needed by one process)";
  return fmt::format("{} ({}, {})", group->plugin().name(), group->library(), group->transport());
}

}  // namespace

void announce_place(const Session& session) {
  const pl_run_info& info = session.run_info();
  const World& world = session.processes().world();
  const bool is_held = (info.flags & PL_RUN_REPRODUCIBLE) != 0 && info.threads == 1 &&
                       session.devices().cores > 1 && !session.options().launch.threads &&
                       !session.is_same_on_any_threads();
  announce(session.log(), "device",
           fmt::format(
               "{}, {} thread{}{}", launch::describe(info.device, session.devices()), info.threads,
               info.threads == 1 ? "" : "s",
               is_held ? ", as sums of a plugin may depend on it (launch.threads sets another number)" : ""));
  announce(session.log(), "processes",
           fmt::format("{}{}; this is rank {}, local rank {} on host {}", info.world_size,
                       world.launcher.empty() ? "" : fmt::format(", started by {}", world.launcher),
                       info.rank, info.local_rank, host_name()));
  if (info.threads > session.devices().cores)
    session.log().warning(
        fmt::format("launch.threads = {}: this process has {} core{}, on which that many threads wait for "
                    "each other: leave it out to use the cores there are",
                    info.threads, session.devices().cores, session.devices().cores == 1 ? "" : "s"));
}

void announce_model_options(const Session& session) {
  if (session.args().values.is_own) return;
  const config::PluginConfig& options = *session.plugin_configs().front();
  std::map<std::string, std::string> by_file;
  for (const std::string& key : options.keys()) {
    const config::Origin& origin = options.origin(key);
    if (origin.kind != config::Origin::Kind::kModel) continue;
    std::string& text = by_file[origin.file];
    text += fmt::format("{}{}{} = {}", text.empty() ? "" : ", ", options.prefix(), key, options.show(key));
  }
  for (const auto& [file, text] : by_file)
    announce(session.log(), "options", fmt::format("from {}: {}", file, text));
}

void warn_of_unused_options(const Session& session) {
  const config::Config& config = session.config();
  const config::CoreOptions& options = config.options();
  const auto unused = [&](const char* key, const std::string& why) {
    if (config.is_set(key))
      session.log().warning(fmt::format("{} = {} has no effect: {}", key, config.show(key), why));
  };
  const auto because = [&](const char* key) { return fmt::format("{} is {}", key, config.show(key)); };
  const bool has_plugin = session.rules().plugin() != nullptr;
  const std::string optimizer = because(has_plugin ? "optimizer.plugin" : "optimizer.kind");
  const std::string& rule = has_plugin ? session.rules().plugin()->name() : options.optimizer.kind;
  if (rule == "sgd" || (has_plugin && session.rules().of_matrices().empty())) {
    for (const char* key :
         {"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon", "optimizer.state_bits"})
      unused(key, optimizer);
  }
  if (has_plugin || rule != "sgd")
    for (const char* key : {"optimizer.momentum", "optimizer.nesterov"}) unused(key, optimizer);
  if (has_plugin || rule != "muon")
    for (const char* key : {"optimizer.muon_momentum", "optimizer.muon_steps"}) unused(key, optimizer);
  if (has_plugin && session.rules().of_matrices().empty()) unused("optimizer.kind", optimizer);
  if (options.train.clip_grad_value > 0) unused("train.clip_grad_norm", because("train.clip_grad_value"));
  if (options.average.decay == 0)
    for (const char* key : {"optimizer.ema_every", "optimizer.ema_start"})
      unused(key, because("optimizer.ema_decay"));
  if (session.precision().name == "bf16" && options.train.frozen_precision == "bf16")
    unused("train.frozen_precision", "the precision is bf16, so all weights are");
  const std::string& kind = options.schedule.kind;
  if (kind == "constant" || kind == "inverse_sqrt") unused("schedule.min_lr_ratio", because("schedule.kind"));
  if (kind != "wsd")
    for (const char* key : {"schedule.decay_steps", "schedule.decay"}) unused(key, because("schedule.kind"));
  if (options.evaluate.patience == 0) unused("evaluate.min_delta", because("evaluate.patience"));
  if (options.schedule.lr_scaling == "none") unused("schedule.base_batch", because("schedule.lr_scaling"));
  if (!options.loader.group_by_length) unused("loader.group_window", because("loader.group_by_length"));
  if (session.workers() == 0) unused("loader.prefetch", because("loader.workers"));
  if (session.task_plugin().name() != plugins::kPythonTask)
    unused("loader.processes",
           session.task_plugin().label() + " makes its batches in threads: loader.workers");
  if (options.observe.empty_cache_every > 0 && session.run_info().device.type == PL_DEVICE_CPU)
    unused("observe.empty_cache_every", "the CPU has no cache to empty");
  else if (options.observe.empty_cache_every > 0 &&
           !session.strategy_plugin().runtime_extension().empty_cache)
    unused("observe.empty_cache_every", session.strategy_plugin().label() + " cannot empty it");
  if (!options.observe.wandb) unused("observe.wandb_project", because("observe.wandb"));
  if (!options.observe.mlflow)
    for (const char* const key : {"observe.mlflow_uri", "observe.mlflow_experiment"})
      unused(key, because("observe.mlflow"));
  if (!session.precision().loss_scaling)
    for (const char* key : {"train.loss_scale", "train.loss_scale_interval"})
      unused(key, "the precision is " + session.precision().name);
}

void warn_of_unused_parameters(Session& session, uint64_t steps) {
  constexpr size_t kNamed = 5;
  const std::span<const pl_parameter> parameters = session.task().parameters();
  const std::vector<plugins::Loss>& losses = session.task().losses();
  const double decay = session.options().rule.weight_decay;
  std::vector<std::string_view> names;
  size_t trainable = 0;
  bool shrink = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!(parameters[i].flags & PL_PARAMETER_TRAINABLE)) continue;
    ++trainable;
    if (session.strategy().had_gradient(i)) continue;
    if (!losses.empty() &&
        std::max(losses[parameters[i].loss].first, losses[parameters[i].loss].every) > steps)
      continue;  // its loss may have had no turn
    names.push_back(view(parameters[i].name));
    shrink = shrink || (decay > 0 && (parameters[i].flags & PL_PARAMETER_DECAY));
  }
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kNamed);
  session.log().warning(fmt::format(
      "{} of {} trainable parameters had no gradient in {} step{}{}: {}{}: the loss does not depend on "
      "them{}. Freeze them, or leave them out of the model, unless later data needs them",
      names.size(), trainable, steps, steps == 1 ? "" : "s",
      session.run_info().world_size > 1 ? fmt::format(" on rank {}", session.run_info().rank) : "",
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "",
      shrink ? fmt::format(", and optimizer.weight_decay = {} still shrinks them",
                           session.config().show("optimizer.weight_decay"))
             : ""));
}

void announce_training(Session& session, const Schedule& schedule, uint64_t steps_per_epoch,
                       const std::string& weights) {
  const config::Config& config = session.config();
  const BatchPlan& plan = session.plan();
  const pl_run_info& info = session.run_info();
  const pl_strategy_info& strategy = session.strategy().info();
  const ParameterCount count = count_parameters(session);
  const auto say = [&](std::string_view word, const std::string& text) {
    announce(session.log(), word, text);
  };

  const plugins::Plugin* rule = session.rules().plugin();
  say("task", fmt::format("{} {}, strategy {}, backend {}{}", session.task_plugin().name(),
                          session.task_plugin().version(), session.strategy_plugin().name(),
                          describe_backend(session),
                          rule ? fmt::format(", optimizer {} {}", rule->name(), rule->version()) : ""));
  announce_place(session);
  say("batch", plan.describe());
  if (!plan.gave_way.empty()) session.log().info(plan.gave_way);
  say("model",
      fmt::format(
          "{} parameters, {} trainable, {} of them with weight decay{}; {}", observe::grouped(count.total),
          observe::grouped(count.trainable), observe::grouped(count.decayed),
          session.rules().of_matrices().empty()
              ? ""
              : fmt::format(", {} by {}", observe::grouped(count.hidden), session.rules().of_matrices()),
          weights));
  std::string frozen;
  for (const auto& [form, elements] : count.frozen)
    frozen += fmt::format("; {} frozen in {}", observe::grouped(elements), form);
  say("precision",
      fmt::format("{}: parameter {}, compute {}, gradient {}, reduction {}, master {}, optimizer {}{}",
                  session.precision().name, precision_name(info.parameter_dtype),
                  precision_name(info.compute_dtype), precision_name(strategy.gradient_dtype),
                  precision_name(strategy.reduction_dtype), precision_name(strategy.master_dtype),
                  precision_name(strategy.optimizer_dtype), frozen));
  const config::CoreOptions& options = config.options();
  const std::string& scaling = options.schedule.lr_scaling;
  const double base = options.optimizer.lr;
  const std::string fall =
      schedule.kind == ScheduleKind::wsd
          ? fmt::format(", {} in the last {} steps", options.schedule.decay, schedule.decay_steps)
          : "";
  say("rate", fmt::format("{:.3g}{}, {} after {} warm-up steps{}", schedule.peak,
                          scaling == "linear" || scaling == "sqrt"
                              ? fmt::format(" ({:.3g} for a batch of {}, scaled {} to {})", base,
                                            options.schedule.base_batch.value(), scaling, plan.global_batch)
                              : "",
                          options.schedule.kind, schedule.warmup_steps, fall));
  if (const auto& variables = session.processes().variables(); !variables.empty())
    say("variables", fmt::format("{}", fmt::join(variables, " ")));
  if (options.train.batch_per_device)
    session.log().info("train.batch_per_device is set, so the global batch grows with the number of devices");
  const double max_seconds = options.train.max_seconds.value_or(0);
  const uint64_t samples = session.task().sample_count(PL_SPLIT_TRAIN);
  const double spe = static_cast<double>(steps_per_epoch);
  say("length", (schedule.total_steps > 0 ? fmt::format("{} steps = {:.2f} epochs", schedule.total_steps,
                                                        static_cast<double>(schedule.total_steps) / spe)
                                          : std::string("until the time is up")) +
                    fmt::format(" of {} samples in {} steps", observe::grouped(samples), steps_per_epoch) +
                    (max_seconds > 0 ? ", at most " + observe::human_duration(max_seconds) : ""));
  warn_of_unused_options(session);
  if (schedule.total_steps > 0 && schedule.warmup_steps >= schedule.total_steps)
    session.log().warning(
        fmt::format("the run ends before the learning rate is warmed up: schedule.warmup_steps is {}",
                    schedule.warmup_steps));
  else if (schedule.kind == ScheduleKind::wsd &&
           schedule.warmup_steps + schedule.decay_steps > schedule.total_steps)
    session.log().warning(
        fmt::format("schedule.decay_steps is {}, and the run has {} steps after its warm-up: the learning "
                    "rate falls in all of them",
                    schedule.decay_steps, schedule.total_steps - schedule.warmup_steps));
  if (samples < plan.global_batch)
    session.log().warning(
        fmt::format("there are fewer training samples ({}) than train.global_batch ({}): every step uses all "
                    "of them once",
                    samples, plan.global_batch));
}

double measure_peak_flops(Session& session) {
  const plugins::Plugin& plugin = session.strategy_plugin();
  const pl_runtime runtime = plugin.runtime_extension();
  if (!runtime.peak_flops) return 0;
  double per_device = 0;
  try {
    check(plugins::contain(plugin, "peak_flops", [&] {
      return runtime.peak_flops(&plugins::host_table(), &session.run_info(), &per_device);
    }));
  } catch (const Error& error) {
    session.log().warning(
        fmt::format("no MFU: the peak could not be measured: {}: {}", plugin.label(), error.what()));
    return 0;
  }
  give_back_unused(session);  // its matrices would be in the way of smaller tensors
  announce(session.log(), "peak",
           fmt::format("{:.3g} GFLOP/s per device, measured; MFU is the task's FLOPs a second against that",
                       per_device / 1e9));
  return per_device * session.run_info().world_size;
}

nlohmann::ordered_json describe_run(Session& session) {
  const pl_run_info& info = session.run_info();
  const ParameterCount count = count_parameters(session);
  return {{"task", session.task_plugin().name() + " " + session.task_plugin().version()},
          {"strategy", session.strategy_plugin().name()},
          {"backend", describe_backend(session)},
          {"device", launch::describe(info.device, session.devices())},
          {"processes", info.world_size},
          {"precision", session.precision().name},
          {"global_batch", session.plan().global_batch},
          {"micro_batch", session.plan().micro_batch},
          {"parameters", count.total},
          {"trainable_parameters", count.trainable}};
}

std::string model_json(Session& session) {
  nlohmann::ordered_json json;
  const ParameterCount count = count_parameters(session);
  json["parameters"] = {
      {"total", count.total}, {"trainable", count.trainable}, {"weight_decay", count.decayed}};
  const pl_strategy_info& info = session.strategy().info();
  json["dtypes"] = {{"parameter", precision_name(session.precision().parameter)},
                    {"compute", precision_name(session.precision().compute)},
                    {"gradient", precision_name(info.gradient_dtype)},
                    {"reduction", precision_name(info.reduction_dtype)},
                    {"master", precision_name(info.master_dtype)},
                    {"optimizer", precision_name(info.optimizer_dtype)}};
  std::string frozen;
  for (const auto& [form, elements] : count.frozen) frozen += (frozen.empty() ? "" : ", ") + form;
  if (!frozen.empty()) json["dtypes"]["frozen"] = frozen;
  nlohmann::ordered_json bytes = nlohmann::ordered_json::object();
  for (const auto& [what, size] : session.strategy().memory()) bytes[what] = size;
  json["bytes"] = bytes;

  std::map<uint32_t, uint64_t> per_unit;
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const pl_parameter& parameter : session.task().parameters()) {
    per_unit[parameter.unit] += plugins::element_count(parameter);
    parameters.push_back({{"name", view(parameter.name)},
                          {"shape", std::vector<int64_t>(parameter.shape, parameter.shape + parameter.ndim)},
                          {"unit", parameter.unit},
                          {"trainable", (parameter.flags & PL_PARAMETER_TRAINABLE) != 0},
                          {"weight_decay", (parameter.flags & PL_PARAMETER_DECAY) != 0}});
  }
  nlohmann::ordered_json units = nlohmann::ordered_json::array();
  for (const auto& [unit, elements] : per_unit) units.push_back({{"unit", unit}, {"parameters", elements}});
  json["units"] = units;
  json["tensors"] = parameters;
  return json.dump(2) + "\n";
}

}  // namespace pipeline::train
