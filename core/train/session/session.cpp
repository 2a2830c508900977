#include "core/train/session/session.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
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

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/base/file_lock.hpp"
#include "core/launch/process.hpp"
#include "core/train/session/extra_state.hpp"
#include "core/train/session/schedule.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

std::string choose_strategy(const config::Config& config, const World& world) {
  const std::string& name = config.options().plugins.strategy;
  return name != "auto" ? name : world.size == 1 ? "single" : "ddp";
}

// The backend's name; empty: one process talks to nobody, and no backend is asked for.
std::string choose_backend(const config::Config& config, const World& world, pl_device device) {
  const std::string& name = config.options().plugins.backend;
  if (name != "auto") return name;
  if (world.size == 1) return {};
  if (device.type == PL_DEVICE_CUDA) return "nccl";
  return world.local_size == world.size ? "shm" : "gloo";
}

// Outside training every process works by itself, with all weights.
pl_run_info alone(pl_run_info info) {
  info.rank = info.local_rank = 0;
  info.world_size = info.local_world_size = 1;
  return info;
}

fs::path default_cache_dir() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0')
    return fs::path(xdg) / "pipeline/prepared";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache/pipeline/prepared";
  return "/var/tmp/pipeline/prepared";
}

// Only one process at a time prepares data in a cache folder: the one that has this lock.
class PrepareLock {
 public:
  explicit PrepareLock(const fs::path& folder) : folder_(folder) {
    std::error_code made;
    fs::create_directories(folder, made);
    if (made)
      fail(PL_ERROR_CONFIG,
           "run.cache_dir = {}: cannot be created: {}: set it to a folder that you can write to; where it is "
           "not set, it is below XDG_CACHE_HOME or HOME",
           folder.string(), made.message());
    const fs::path file = folder / ".prepare.lock";
    file_ = FileLock(Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
    if (!file_)
      fail(PL_ERROR_CONFIG, "{}: cannot be created: {}: set run.cache_dir to a folder that you can write to",
           file.string(), std::strerror(errno));
  }

  bool try_once() {
    if (held_ || ::flock(file_.fd(), LOCK_EX | LOCK_NB) == 0) return held_ = true;
    if (errno != EWOULDBLOCK && errno != EINTR)
      fail("{}: cannot be locked: {}: choose a run.cache_dir on a file system with locks",
           (folder_ / ".prepare.lock").string(), std::strerror(errno));
    return false;
  }

  // Throws Error, PL_ERROR_CANCELLED when `cancelled` says so while another process has it.
  void wait(observe::Log& log, const std::function<bool()>& cancelled) {
    constexpr auto kPoll = std::chrono::milliseconds(100);
    for (bool said = false; !try_once(); std::this_thread::sleep_for(kPoll)) {
      if (cancelled && cancelled())
        throw Error(PL_ERROR_CANCELLED, "stopped while waiting for another process");
      if (!std::exchange(said, true))
        log.info("waiting for another process that prepares data in " + folder_.string());
    }
  }

 private:
  fs::path folder_;
  FileLock file_;  // once it is held
  bool held_ = false;
};

}  // namespace

Session::Session(config::Config config, plugins::Registry& registry, observe::Log& log, SessionArgs args)
    : config_(std::move(config)),
      log_(log),
      args_(std::move(args)),
      devices_(launch::find_devices()),
      task_context_("task " + config_.options().plugins.task),
      strategy_context_("strategy " + choose_strategy(config_, args_.world)),
      backend_context_("backend"),
      optimizer_context_("optimizer") {
  const World& world = args_.world;
  const pl_device device = choose_device(config_, devices_, world, log_);
  precision_ = choose_precision(config_, device, devices_);
  const bool training = args_.purpose == PL_PURPOSE_TRAIN;
  // Outside training the plan says only how large batches are.
  plan_ = BatchPlan::make(config_, training ? static_cast<uint64_t>(world.size) : 1);
  if (training) {
    check_schedule(config_);
    profiled_steps(config_);
  }
  const unsigned sharing =
      args_.processes ? args_.processes->sharing_cores() : static_cast<unsigned>(world.local_size);
  find_plugins(registry, choose_backend(config_, world, device));

  run_dir_ = args_.run_dir.string();
  const config::CoreOptions& options = config_.options();
  cache_dir_ = options.run.cache_dir.absolute();
  if (cache_dir_.empty()) cache_dir_ = default_cache_dir().string();
  info_ = {.struct_size = sizeof info_,
           .purpose = args_.purpose,
           .flags = (options.run.reproducible ? PL_RUN_REPRODUCIBLE : 0u) |
                    (options.train.activation_checkpointing ? PL_RUN_ACTIVATION_CHECKPOINTING : 0u) |
                    (options.loader.pin_memory && device.type == PL_DEVICE_CUDA ? PL_RUN_PIN_MEMORY : 0u) |
                    (options.exports.dtype != "auto" ? PL_RUN_EXPORTS_FLOAT32 : 0u),
           .loader_processes = static_cast<uint32_t>(options.loader.processes),
           .rank = world.rank,
           .world_size = world.size,
           .local_rank = world.local_rank,
           .local_world_size = world.local_size,
           .device = device,
           .parameter_dtype = precision_.parameter,
           .compute_dtype = precision_.compute,
           .seed = options.run.seed,
           .global_batch = training ? plan_.global_batch : 0,
           .micro_batch = training ? plan_.micro_batch : 0,
           .micro_batches = training ? plan_.micro_batches : 0,
           .run_dir = {run_dir_.data(), run_dir_.size()},
           .cache_dir = {cache_dir_.data(), cache_dir_.size()}};
  info_.threads = compute_threads(config_, devices_, sharing, is_same_on_any_threads());  // of this device
  set_up_context(task_context_, info_);
  set_up_context(strategy_context_, training ? info_ : alone(info_));
  set_up_context(backend_context_, info_);
  set_up_context(optimizer_context_, info_);
  if (args_.processes != nullptr) {
    plugins::give_exchange(strategy_context_, args_.processes->peers());
    plugins::give_exchange(backend_context_, args_.processes->peers(), args_.cancelled);
  }
}

Session::~Session() {
  task_.reset();
  strategy_.reset();  // may wait for collectives, which a failure elsewhere must still end
  if (group_) args_.processes->watch({});
}

void Session::find_plugins(plugins::Registry& registry, const std::string& backend) {
  const auto owners = [&](std::string_view table) { return registry.options_of_all(table); };
  const auto find = [&](plugins::Kind kind, const std::string& name,
                        const char* key) -> const plugins::Plugin* {
    try {
      return &registry.find(kind, name);
    } catch (const Error& error) {
      if (error.code() != PL_ERROR_CONFIG) throw;
      std::string_view problem = error.what();
      // The configuration says key and value itself, unless the value was auto.
      const std::string said = fmt::format("{} = \"{}\": ", key, name);
      if (problem.starts_with(said) && config_.show(key) == config::to_toml(std::string_view(name)))
        problem.remove_prefix(said.size());
      throw config_.error(key, problem);
    }
  };
  task_plugin_ = find(plugins::Kind::kTask, config_.options().plugins.task, "task.plugin");
  strategy_plugin_ = find(plugins::Kind::kStrategy, choose_strategy(config_, args_.world), "strategy.plugin");
  task_config_.emplace(config_.plugin("task", task_plugin_->options(), owners));
  if (!args_.values.folder.empty()) require_folder(config_, args_.values.folder);
  if (const auto said = model_options(*task_plugin_, *task_config_, args_.values); !said.empty())
    task_config_.emplace(config_.plugin("task", task_plugin_->options(), owners, said));
  strategy_config_.emplace(config_.plugin("strategy", strategy_plugin_->options(), owners));
  const bool training = args_.purpose == PL_PURPOSE_TRAIN;
  const std::string& rule = config_.options().optimizer.plugin;
  const bool has_rule = rule != UpdateRules::kNoPlugin;
  rules_.emplace(config_,
                 training && has_rule ? find(plugins::Kind::kOptimizer, rule, "optimizer.plugin") : nullptr,
                 training);
  if (rules_->plugin() != nullptr) optimizer_context_.plugin = rules_->plugin()->label();
  if (training || !has_rule) rules_->check_options(config_, owners);
  if (backend.empty()) {
    (void)config_.plugin("backend", {}, owners);  // none is loaded, so it has no options
    return;
  }
  backend_plugin_ = find(plugins::Kind::kBackend, backend, "backend.plugin");
  backend_context_.plugin = "backend " + backend;
  backend_config_.emplace(config_.plugin("backend", backend_plugin_->options(), owners));
}

bool Session::is_same_on_any_threads() const {
  if (precision_.name != "fp32" && info_.device.type == PL_DEVICE_CPU) return false;
  return std::ranges::all_of(
      std::array{task_plugin_, strategy_plugin_, rules_->plugin()}, [](const plugins::Plugin* plugin) {
        return plugin == nullptr || (plugin->runtime_extension().flags & PL_RUNTIME_SAME_ON_ANY_THREADS) != 0;
      });
}

void Session::set_up_context(pl_context& context, const pl_run_info& info) {
  context.set_run_info(info);
  context.log = [this](uint32_t level, std::string_view line) {
    if (args_.rehearsal && set_up_ != SetUp::preparing_data) return;
    log_.write(level == PL_LOG_DEBUG     ? observe::Level::debug
               : level == PL_LOG_WARNING ? observe::Level::warning
               : level == PL_LOG_ERROR   ? observe::Level::error
                                         : observe::Level::info,
               line);
  };
  context.metric = [this](std::string_view name, double sum, double weight) {
    check_metric_name(name);
    add(metrics_, {std::string(name), sum, weight});
  };
  context.metric_tensor = [this](std::string_view name, const pl_tensor& sum, double weight) {
    check_metric_name(name);
    if (sum.device.type == PL_DEVICE_CPU)
      return add(metrics_, {std::string(name), launch::scalar_on_host(sum), weight});
    if (!scalars_) fail("reports the metric '{}' from a device, and this run has none", name);
    late_metrics_.push_back({std::string(name), scalars_->start(sum), weight});
  };
  context.progress = [this](std::string_view what, uint64_t done, uint64_t total) {
    if (args_.processes != nullptr) args_.processes->peers().progress();
    log_.console().progress(what, done, total);
  };
  context.cancelled = [this] {  // who asks is alive: it waits for a lock, say, or writes a long text
    if (args_.processes != nullptr) args_.processes->peers().progress();
    return args_.cancelled && args_.cancelled();
  };
}

void Session::check_metric_name(std::string_view name) const {
  if (std::ranges::find(kMetricsFields, name) != std::end(kMetricsFields))
    fail("reports the metric '{}', which is a name of the core's in metrics.jsonl: rename it", name);
}

std::vector<MetricSum> Session::take_metrics() { return std::exchange(metrics_, {}); }

std::vector<LateMetric> Session::take_late_metrics() { return std::exchange(late_metrics_, {}); }

std::vector<MetricSum> Session::read_metrics(const std::vector<LateMetric>& late) {
  std::vector<MetricSum> sums;
  for (const LateMetric& metric : late) add(sums, {metric.name, scalars_->finish(metric.sum), metric.weight});
  return sums;
}

// A process that makes batches is kept busy by a thread that waits for it.
unsigned Session::workers() const {
  return static_cast<unsigned>(
      std::max(config_.options().loader.workers, config_.options().loader.processes));
}

std::vector<const config::PluginConfig*> Session::plugin_configs() const {
  std::vector<const config::PluginConfig*> configs{&*task_config_, &*strategy_config_};
  if (backend_config_) configs.push_back(&*backend_config_);
  if (rules_->plugin_config()) configs.push_back(rules_->plugin_config());
  return configs;
}

std::string Session::resolved_toml() const { return config_.to_toml(true, plugin_configs()); }

void Session::check_task() { const plugins::Task made(*task_plugin_, task_context_, &*task_config_); }

// Not called by the constructor: checking a configuration needs no device.
void Session::open_device() {
  if (info_.device.type == PL_DEVICE_CPU) return;
  info_.stream = launch::compute_stream(info_.device);
  scalars_.emplace(info_.stream);
  for (pl_context* context : {&task_context_, &strategy_context_, &backend_context_, &optimizer_context_}) {
    pl_run_info info = context->run_info();
    info.stream = info_.stream;
    context->set_run_info(info);
  }
}

void Session::create_task() {
  task_ = std::make_unique<plugins::Task>(*task_plugin_, task_context_, &*task_config_);
}

void Session::open_task(const checkpoint::Checkpoint* weights) {
  open_device();
  create_task();
  if (weights) give_extra_state(*task_, *weights);
  if (task_->has_prepare()) {
    args_.processes->at("waiting to prepare data", 0);
    const auto give_up = [this] {
      args_.processes->peers().progress();  // so long as the one that prepares does
      return args_.cancelled && args_.cancelled();
    };
    const observe::Elapsed elapsed(log_.console(), "preparing data");
    PrepareLock lock(cache_dir_);
    // Rank 0 is the one whose progress is shown.
    if (info_.local_rank == 0) lock.try_once();
    args_.processes->peers().barrier("the first may prepare data");
    lock.wait(log_, give_up);
    args_.processes->at("preparing data", 0);
    set_up_ = SetUp::preparing_data;
    const ProcessGroup::Busy busy(*args_.processes);  // a task in Python cannot say how far it is
    task_->prepare();
    log_.console().status({});
  }
  const observe::Elapsed elapsed(log_.console(), "opening the data and creating the model");
  args_.processes->at("opening data", 0);
  set_up_ = SetUp::opening_task;
  const ProcessGroup::Busy busy(*args_.processes);
  task_->open();
  log_.console().status({});
}

// The arguments for opening a group of all ranks.
plugins::OpenArgs Session::open_args() const {
  const World& world = args_.world;
  ProcessGroup& processes = *args_.processes;
  return {.address = world.address,
          .group = fmt::format("train {}", processes.next_group()),  // of this stage
          .rank = world.rank,
          .world_size = world.size,
          .local_rank = world.local_rank,
          .local_world_size = world.local_size,
          .device = info_.device,
          // The watch over all ranks says more of a stall than one that waits can, so it goes first.
          .timeout = std::max(processes.options().rendezvous, 2 * processes.options().stall)};
}

void Session::open_group() {
  args_.processes->at("opening the group of ranks", 0);
  group_ = std::make_unique<plugins::Communicator>(*backend_plugin_, backend_context_, &*backend_config_,
                                                   open_args());
  args_.processes->watch(groups());
  strategy_context_.open_group = [this](std::string_view name, const std::vector<int32_t>& members) {
    return open_group_of(name, members);
  };
}

pl_communicator Session::open_group_of(std::string_view name, const std::vector<int32_t>& members) {
  const World& world = args_.world;
  const int32_t first = world.rank - world.local_rank;  // of this host: launchers number ranks host by host
  const auto place = [&](auto begin, auto end) { return static_cast<int32_t>(std::distance(begin, end)); };
  const auto is_here = [&](int32_t rank) { return rank >= first && rank < first + world.local_size; };
  const auto mine = std::ranges::find(members, world.rank);
  plugins::OpenArgs args = open_args();
  args.group = fmt::format("{} {} of rank {}", args.group, name, members.front());
  args.members = members;
  args.rank = place(members.begin(), mine);
  args.world_size = static_cast<int32_t>(members.size());
  args.local_rank = static_cast<int32_t>(std::count_if(members.begin(), mine, is_here));
  args.local_world_size = static_cast<int32_t>(std::ranges::count_if(members, is_here));
  auto part = std::make_unique<PartGroup>(backend_context_.plugin);
  set_up_context(part->context, backend_context_.run_info());
  plugins::give_exchange_among(part->context, args_.processes->peers(), args.group, members, args.rank,
                               args.timeout, args_.cancelled);
  part->group =
      std::make_unique<plugins::Communicator>(*backend_plugin_, part->context, &*backend_config_, args);
  part_groups_.push_back(std::move(part));
  args_.processes->watch(groups());
  return part_groups_.back()->group->view();
}

std::vector<plugins::Communicator*> Session::groups() const {
  std::vector<plugins::Communicator*> all;
  if (group_) all.push_back(group_.get());
  for (const auto& part : part_groups_) all.push_back(part->group.get());
  return all;
}

void Session::create_strategy() {
  const observe::Elapsed elapsed(log_.console(), "creating the model's parameters");
  set_up_ = SetUp::creating_parameters;
  const std::vector<pl_parameter>& parameters = task_->parameters();
  if (parameters.empty()) fail("{} has no parameters to train", task_plugin_->label());
  const std::vector<plugins::Optimizer>& rules = rules_->create(config_, *task_, optimizer_context_);
  keep_frozen_in(config_.options().train.frozen_precision);
  if (args_.purpose == PL_PURPOSE_TRAIN && args_.world.size > 1) open_group();
  strategy_ = std::make_unique<plugins::Strategy>(*strategy_plugin_, strategy_context_, &*strategy_config_,
                                                  parameters, rules, group_ ? &group_->view() : nullptr);
  set_up_ = SetUp::loading_weights;
}

void Session::keep_frozen_in(const std::string& precision) {
  if (precision == "auto") return;
  const uint32_t form = precision == "nf4"    ? PL_FORM_NF4
                        : precision == "int8" ? PL_FORM_INT8
                                              : PL_FORM_BFLOAT16;
  const auto refuse = [&](const std::string& problem) {
    return config_.error("train.frozen_precision", problem);
  };
  if (precision_.name == "fp16")
    throw refuse("with train.precision = \"fp16\" frozen weights are kept in fp16: use \"auto\"");
  if (precision_.name == precision) return;
  if (task_->keep_frozen_in(form) == 0)
    throw refuse(
        fmt::format("{} has no frozen {} that may be kept so: use \"auto\", or train LoRA "
                    "to weights that are frozen (lora.rank)",
                    task_plugin_->label(),
                    form == PL_FORM_BFLOAT16 ? "weights" : "matrices, of 64 inputs or a multiple of it,"));
}

void Session::bind_storage() {
  const std::vector<pl_parameter>& parameters = task_->parameters();
  for (uint64_t i = 0; i < parameters.size(); ++i) {
    const plugins::Storage storage = strategy_->storage(i);
    const uint32_t form = parameters[i].form, code = storage.value.dtype.code;
    const bool is_so = form == 0 || code == (form == PL_FORM_BFLOAT16 ? PL_DTYPE_BFLOAT : PL_DTYPE_UINT);
    const bool is_whole =
        !plugins::is_coded(parameters[i]) ||
        (storage.value.ndim == 1 && storage.value.shape[0] == static_cast<int64_t>(parameters[i].form_bytes));
    if (!is_so || !is_whole)
      throw config_.error("train.frozen_precision",
                          fmt::format("{} keeps '{}' in {}: use \"auto\"", strategy_plugin_->label(),
                                      view(parameters[i].name), precision_name(storage.value.dtype)));
    task_->bind(i, storage.value, storage.grad);
  }
}

void Session::gather_values() {
  if (!strategy_->moves_values()) return;
  strategy_->gather_values();
  bind_storage();
}

void Session::release_values() {
  if (!strategy_->moves_values()) return;
  strategy_->release_values();
  bind_storage();
}

void Session::bind() {
  bind_storage();
  // A strategy that does not need them may gain by them: it waits for each unit's weights alone.
  if (strategy_->has_unit_hooks() && task_->has_unit_hooks()) {
    task_->set_unit_hooks(strategy_->unit_hooks());
  } else if ((strategy_->info().flags & PL_STRATEGY_NEEDS_UNIT_HOOKS) != 0) {
    throw config_.error(
        "strategy.plugin",
        fmt::format("it needs a task that declares its layers, and {} does not (set_unit_hooks): use "
                    "strategy.zero_stage = 1 or 2, or another strategy",
                    task_plugin_->label()));
  }
  // What loading took, and what the task had allocated for its parameters, is free now, and most of it in
  // pieces: back to the system.
  ::malloc_trim(0);
  launch::keep_freed_memory(config_.options().train.activation_checkpointing);  // a stage before may differ
  set_up_ = SetUp::done;
}

}  // namespace pipeline::train
