#include "core/train/session.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/observe/format.hpp"
#include "core/plugins/error.hpp"
#include "core/train/extra_state.hpp"
#include "core/train/reporter.hpp"
#include "core/train/schedule_options.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

pl_device choose_device(const config::Config& config, const launch::Devices& devices) {
  const std::string& wanted = config.get_string("run.device");
  const pl_device cpu{PL_DEVICE_CPU, 0}, cuda{PL_DEVICE_CUDA, 0};
  if (wanted == "cpu") return cpu;
  if (!devices.cuda.empty()) return cuda;
  if (wanted == "auto") return cpu;
  throw config.error("run.device", devices.cuda_driver.empty()
                                       ? "there is no NVIDIA driver on this machine: install one, or use \"cpu\""
                                       : "no CUDA device can be used: " +
                                             (devices.cuda_problem.empty() ? "none is visible (see CUDA_VISIBLE_DEVICES)"
                                                                           : devices.cuda_problem));
}

BatchPlan make_plan(const config::Config& config) {
  BatchRequest request;
  const auto given = [&](const char* key) -> std::optional<uint64_t> {
    if (!config.is_set(key)) return std::nullopt;
    return static_cast<uint64_t>(config.get_int(key));
  };
  request.global_batch = given("train.global_batch");
  request.batch_per_device = given("train.batch_per_device");
  request.micro_batch = given("train.micro_batch");
  request.accumulation_steps = given("train.accumulation_steps");
  request.reproducible = config.get_bool("run.reproducible");
  if (const auto standard = config.find_int("train.global_batch")) request.default_global_batch = static_cast<uint64_t>(*standard);
  try {
    return BatchPlan::make(request);
  } catch (const BatchError& error) {
    throw config.error(error.key(), error.what());
  }
}

unsigned compute_threads(const config::Config& config, const launch::Devices& devices) {
  if (const auto threads = config.find_int("launch.threads"); threads && *threads > 0) return static_cast<unsigned>(*threads);
  return config.get_bool("run.reproducible") ? 1 : devices.cores;
}

// What only makes sense with several processes, which this version does not start: never silently without effect.
void refuse_several_processes(const config::Config& config) {
  if (const auto processes = config.find_int("launch.processes"); processes && *processes > 1)
    throw config.error("launch.processes", "this version runs one process: use 1");
  for (const char* key : {"launch.max_restarts", "launch.stall_seconds", "strategy.zero_stage"})
    if (config.is_set(key)) throw config.error(key, "has no effect in this version, which runs one process: remove it");
  if (config.get_string("backend.plugin") != "auto")
    throw config.error("backend.plugin", "one process talks to nobody, and this version runs one: use \"auto\"");
}

std::string choose_strategy(const config::Config& config) {
  const std::string& name = config.get_string("strategy.plugin");
  return name == "auto" ? "single" : name;
}

fs::path default_cache_dir() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') return fs::path(xdg) / "pipeline/prepared";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return fs::path(home) / ".cache/pipeline/prepared";
  return "/var/tmp/pipeline/prepared";
}

// Only one process at a time prepares data in a cache folder.
class PrepareLock {
 public:
  // Throws Error (PL_ERROR_CANCELLED) when `cancelled` says so while another process has the lock.
  PrepareLock(const fs::path& folder, observe::Log& log, const std::function<bool()>& cancelled) {
    constexpr auto kPoll = std::chrono::milliseconds(100);
    std::error_code made;
    fs::create_directories(folder, made);
    if (made) throw Error(fmt::format("run.cache_dir = {}: cannot be created: {}: choose another", folder.string(), made.message()));
    const fs::path file = folder / ".prepare.lock";
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw Error(fmt::format("{}: cannot be created; the cache folder must be writable", file.string()));
    for (bool said = false; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; std::this_thread::sleep_for(kPoll)) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        const int error = errno;
        ::close(descriptor_);
        throw Error(fmt::format("{}: cannot be locked: {}: choose a run.cache_dir on a file system with locks", file.string(), std::strerror(error)));
      }
      if (cancelled && cancelled()) {
        ::close(descriptor_);
        throw Error(PL_ERROR_CANCELLED, "stopped while waiting for another process");
      }
      if (!std::exchange(said, true)) log.info("waiting for another process that prepares data in " + folder.string());
    }
  }
  ~PrepareLock() { ::close(descriptor_); }
  PrepareLock(const PrepareLock&) = delete;
  PrepareLock& operator=(const PrepareLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

struct Session::Sum {
  std::string name;
  double sum = 0, weight = 0;
};

Session::Session(config::Config config, plugins::Registry& registry, observe::Log& log, SessionArgs args)
    : config_(std::move(config)),
      log_(log),
      args_(std::move(args)),
      devices_(launch::find_devices()),
      task_context_("task " + config_.get_string("task.plugin")),
      strategy_context_("strategy " + choose_strategy(config_)) {
  const pl_device device = choose_device(config_, devices_);
  precision_ = choose_precision(config_, device, devices_);
  plan_ = make_plan(config_);
  refuse_several_processes(config_);
  (void)config_.plugin("backend", {});  // none is loaded, so it has no options
  const bool training = args_.purpose == PL_PURPOSE_TRAIN;
  if (training) check_schedule(config_);
  const unsigned threads = compute_threads(config_, devices_);
  // LibTorch and its libraries read these when they are loaded, which the registry does below.
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(variable, std::to_string(threads).c_str(), 1);
  // cuBLAS gives the same bits only with a workspace of its own per stream.
  if (config_.get_bool("run.reproducible")) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);

  const auto find = [&](plugins::Kind kind, const std::string& name, const char* key) -> const plugins::Plugin& {
    try {
      return registry.find(kind, name);
    } catch (const Error& error) {
      if (error.code() != PL_ERROR_CONFIG) throw;
      throw config_.error(key, error.what());
    }
  };
  task_plugin_ = &find(plugins::Kind::kTask, config_.get_string("task.plugin"), "task.plugin");
  strategy_plugin_ = &find(plugins::Kind::kStrategy, choose_strategy(config_), "strategy.plugin");
  task_config_.emplace(config_.plugin("task", task_plugin_->options()));
  strategy_config_.emplace(config_.plugin("strategy", strategy_plugin_->options()));

  run_dir_ = args_.run_dir.string();
  cache_dir_ = config_.find_path("run.cache_dir").value_or("");
  if (cache_dir_.empty()) cache_dir_ = default_cache_dir().string();
  info_ = {.struct_size = sizeof info_,
           .purpose = args_.purpose,
           .flags = (config_.get_bool("run.reproducible") ? PL_RUN_REPRODUCIBLE : 0u) |
                    (config_.get_bool("train.activation_checkpointing") ? PL_RUN_ACTIVATION_CHECKPOINTING : 0u) |
                    (config_.get_bool("loader.pin_memory") && device.type == PL_DEVICE_CUDA ? PL_RUN_PIN_MEMORY : 0u),
           .threads = threads,
           .rank = 0,
           .world_size = 1,
           .local_rank = 0,
           .local_world_size = 1,
           .device = device,
           .parameter_dtype = precision_.parameter,
           .compute_dtype = precision_.compute,
           .seed = static_cast<uint64_t>(config_.get_int("run.seed")),
           .global_batch = training ? plan_.global_batch : 0,
           .micro_batch = training ? plan_.micro_batch : 0,
           .micro_batches = training ? plan_.micro_batches : 0,
           .run_dir = {run_dir_.data(), run_dir_.size()},
           .cache_dir = {cache_dir_.data(), cache_dir_.size()}};
  set_up_context(task_context_);
  set_up_context(strategy_context_);
}

Session::~Session() = default;

void Session::set_up_context(pl_context& context) {
  context.set_run_info(info_);
  context.log = [this](uint32_t level, std::string_view line) {
    log_.write(level == PL_LOG_DEBUG     ? observe::Level::debug
               : level == PL_LOG_WARNING ? observe::Level::warning
               : level == PL_LOG_ERROR   ? observe::Level::error
                                         : observe::Level::info,
               line);
  };
  context.metric = [this](std::string_view name, double sum, double weight) {
    if (std::ranges::find(kMetricsFields, name) != std::end(kMetricsFields))
      throw Error(fmt::format("reports the metric '{}', which is a name of the core's in metrics.jsonl: rename it", name));
    for (Sum& entry : metrics_) {
      if (entry.name != name) continue;
      entry.sum += sum;
      entry.weight += weight;
      return;
    }
    metrics_.push_back({std::string(name), sum, weight});
  };
  context.progress = [this](std::string_view what, uint64_t done, uint64_t total) {
    log_.console().progress(what, done, total);
  };
  context.cancelled = args_.cancelled;
}

std::vector<std::pair<std::string, double>> Session::take_metrics() {
  std::vector<std::pair<std::string, double>> result;
  for (const Sum& entry : metrics_)
    if (entry.weight > 0) result.emplace_back(entry.name, entry.sum / entry.weight);
  metrics_.clear();
  return result;
}

unsigned Session::workers() const { return static_cast<unsigned>(config_.get_int("loader.workers")); }

std::vector<const config::PluginConfig*> Session::plugin_configs() const {
  return {&*task_config_, &*strategy_config_};
}

std::string Session::resolved_toml() const { return config_.to_toml(true, plugin_configs()); }

void Session::open_task(const checkpoint::Checkpoint* weights) {
  task_ = std::make_unique<plugins::Task>(*task_plugin_, task_context_, &*task_config_);
  if (weights) give_extra_state(*task_, *weights);
  if (task_->has_prepare()) {
    const PrepareLock lock(cache_dir_, log_, args_.cancelled);
    task_->prepare();
    log_.console().status({});
  }
  task_->open();
}

void Session::create_strategy() {
  const std::vector<pl_parameter>& parameters = task_->parameters();
  if (parameters.empty()) throw Error(fmt::format("{} has no parameters to train", task_plugin_->label()));
  strategy_ = std::make_unique<plugins::Strategy>(*strategy_plugin_, strategy_context_, &*strategy_config_, parameters,
                                                  optimizer_args(config_), nullptr);
}

void Session::bind() {
  for (uint64_t i = 0; i < task_->parameters().size(); ++i) {
    const plugins::Storage storage = strategy_->storage(i);
    task_->bind(i, storage.value, storage.grad);
  }
  if ((strategy_->info().flags & PL_STRATEGY_NEEDS_UNIT_HOOKS) != 0) {
    if (!task_->has_unit_hooks())
      throw config_.error("strategy.plugin", fmt::format("{} says nothing of where its layers begin and end, which this strategy needs: "
                                                         "use another one",
                                                         task_plugin_->label()));
    task_->set_unit_hooks(strategy_->unit_hooks());
  }
}

pl_optimizer_args optimizer_args(const config::Config& config) {
  pl_optimizer_args args{};
  args.struct_size = sizeof args;
  args.kind = config.get_string("optimizer.kind") == "sgd" ? PL_OPTIMIZER_SGD : PL_OPTIMIZER_ADAMW;
  args.flags = config.get_bool("optimizer.nesterov") ? PL_OPTIMIZER_NESTEROV : 0;
  args.beta1 = config.get_float("optimizer.beta1");
  args.beta2 = config.get_float("optimizer.beta2");
  args.epsilon = config.get_float("optimizer.epsilon");
  args.momentum = config.get_float("optimizer.momentum");
  args.weight_decay = config.get_float("optimizer.weight_decay");
  return args;
}

}  // namespace pipeline::train
