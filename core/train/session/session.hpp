// A task and a strategy brought together for one purpose: plugins found, options checked, data prepared,
// parameters bound. What the verbs (train, evaluate, predict, export) have in common.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/world.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/config/config.hpp"
#include "core/launch/devices.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/registry.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"
#include "core/train/data/batch_plan.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/session/metrics.hpp"
#include "core/train/session/value_source.hpp"

namespace pipeline::train {

// The update rules of a run: [optimizer].
class UpdateRules {
 public:
  static constexpr const char* kNoPlugin = "none";  // of optimizer.plugin

  // `plugin`: that brings the rule; nullptr: strategies know it by name, or nothing is trained. Throws
  // ConfigError where options contradict each other.
  UpdateRules(const config::Config& config, const plugins::Plugin* plugin, bool training);
  // Throws ConfigError for options that are not the plugin's, nor the program's.
  void check_options(const config::Config& config, const config::FindOwners& owners);

  const plugins::Plugin* plugin() const { return plugin_; }  // nullptr: strategies know the rule by name
  const config::PluginConfig* plugin_config() const { return plugin_config_ ? &*plugin_config_ : nullptr; }
  // "Muon": what updates the matrices of hidden layers alone; empty: there is no such rule.
  const std::string& of_matrices() const { return of_matrices_; }

  // The rules as strategies take them, by loss: `context`, in which a plugin's rule is made, and this object
  // must outlive them. Throws ConfigError where the task trains nothing that a rule is for. Called once.
  const std::vector<plugins::Optimizer>& create(const config::Config& config, plugins::Task& task,
                                                const pl_context& context);
  const std::vector<plugins::Optimizer>& created() const { return of_losses_; }

 private:
  static void add_average(plugins::Optimizer& optimizer, const config::AverageOptions& average);
  void require_matrices(const config::Config& config, plugins::Task& task) const;

  bool training_;
  const plugins::Plugin* plugin_ = nullptr;
  std::optional<pl_config> plugin_config_;
  std::string of_matrices_;
  std::unique_ptr<plugins::UpdateRule> rule_;
  plugins::Optimizer optimizer_;
  std::vector<plugins::Optimizer> of_losses_;
};

// What a process computes with: its device, its precision, its threads, and what LibTorch and its libraries
// read of that from the environment.

// run.device for this process. Throws ConfigError where there is none for it.
pl_device choose_device(const config::Config& config, const launch::Devices& devices, const World& world,
                        observe::Log& log);

// `train.precision` on a device: which dtype parameters and products have. The same for every strategy.
struct Precision {
  std::string name;  // fp32, bf16, fp16
  pl_dtype parameter{};
  pl_dtype compute{};
  bool loss_scaling = false;  // fp16
};

// `auto`: bf16 where the device computes in it, else fp16; fp32 on CPU. Throws ConfigError for what the
// device cannot do.
Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices);

// The threads that one of `sharing` processes on this host computes with. same_on_any: they do not change the
// bits.
unsigned compute_threads(const config::Config& config, const launch::Devices& devices, unsigned sharing,
                         bool same_on_any);

// Sets the environment of this process, before a plugin is loaded: LibTorch and its libraries read it once.
// What the user has set is kept, save the number of threads.
void set_environment(const config::Config& config, unsigned sharing);

struct SessionArgs {
  uint32_t purpose = PL_PURPOSE_TRAIN;
  std::filesystem::path run_dir;  // empty: none
  std::function<bool()> cancelled;
  World world;                        // that the plans are made for
  ProcessGroup* processes = nullptr;  // the processes of `world`; not needed to check a configuration
  ValueSource values;                 // what options of the task follow
  // Another session comes after it in which plugins say the same: here only what they say of preparing data,
  // which is done once, goes to the log.
  bool rehearsal = false;
};

// How far a session has come: what memory goes to, should it run out.
enum class SetUp { begun, preparing_data, opening_task, creating_parameters, loading_weights, done };

// Used from one thread. Reads the config in the constructor; the later steps are called once each, in this
// order, create_task() or open_task(). `registry` and `log` must outlive it.
class Session {
 public:
  // Finds the plugins and checks the whole configuration, without touching data. Throws ConfigError or Error.
  Session(config::Config config, plugins::Registry& registry, observe::Log& log, SessionArgs args);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Creates the task, and no more: for what needs no data.
  void create_task();
  // Creates the task, prepares the data (one process per cache folder, the others wait) and opens it.
  // `weights`: the checkpoint that the values will come from, which may carry extra state for the task;
  // nullptr: none.
  void open_task(const checkpoint::Checkpoint* weights);
  // Creates the strategy for the task's parameters, and where several processes train, the group of ranks
  // that it works in. The parameters have no values yet: load_weights() and its like in weights.hpp give
  // them.
  void create_strategy();
  // Binds the task to the strategy's storage; from here on it can work.
  void bind();
  SetUp set_up() const { return set_up_; }
  // Between gather_values() and release_values() every rank has all weights in place, whatever the strategy:
  // for what goes through the model otherwise than training does. All ranks together.
  void gather_values();
  void release_values();

  const config::Config& config() const { return config_; }
  const config::CoreOptions& options() const { return config_.options(); }
  const BatchPlan& plan() const { return plan_; }
  const Precision& precision() const { return precision_; }
  // Whether what the plugins compute has the same bits on any number of threads.
  bool is_same_on_any_threads() const;
  const launch::Devices& devices() const { return devices_; }
  const pl_run_info& run_info() const { return info_; }
  plugins::Task& task() { return *task_; }
  plugins::Strategy& strategy() { return *strategy_; }
  const plugins::Plugin& task_plugin() const { return *task_plugin_; }
  const plugins::Plugin& strategy_plugin() const { return *strategy_plugin_; }
  const plugins::Plugin* backend_plugin() const {
    return backend_plugin_;
  }  // nullptr: one process talks to nobody
  const UpdateRules& rules() const { return *rules_; }
  plugins::Communicator* group() const {
    return group_.get();
  }  // of the ranks that train; nullptr: this process alone
  // The group of all ranks that train, and those of some ranks that the strategy has opened.
  std::vector<plugins::Communicator*> groups() const;
  ProcessGroup& processes() const { return *args_.processes; }
  observe::Log& log() const { return log_; }
  const SessionArgs& args() const { return args_; }
  unsigned workers() const;

  // Throws what the task itself finds wrong with its options; touches no data.
  void check_task();

  // The task's and the strategy's options in force.
  const config::PluginConfig& task_config() const { return *task_config_; }
  const config::PluginConfig& strategy_config() const { return *strategy_config_; }
  // The plugins' options in force, for printing and storing.
  std::vector<const config::PluginConfig*> plugin_configs() const;
  std::string resolved_toml() const;

  // What the task reported in this process through pl_host.metric since the last call.
  std::vector<MetricSum> take_metrics();
  // What the task reported through metric_tensor, still on the device: read_metrics() has the values once the
  // step is collected.
  std::vector<LateMetric> take_late_metrics();
  std::vector<MetricSum> read_metrics(const std::vector<LateMetric>& late);

 private:
  void find_plugins(plugins::Registry& registry, const std::string& backend);
  void set_up_context(pl_context& context, const pl_run_info& info);
  void open_device();
  void check_metric_name(std::string_view name) const;
  void keep_frozen_in(const std::string& precision);  // train.frozen_precision
  void bind_storage();
  void open_group();
  plugins::OpenArgs open_args() const;
  pl_communicator open_group_of(std::string_view name, const std::vector<int32_t>& members);

  config::Config config_;
  observe::Log& log_;
  SessionArgs args_;
  launch::Devices devices_;
  BatchPlan plan_;
  Precision precision_;
  pl_run_info info_{};
  std::string run_dir_, cache_dir_;
  const plugins::Plugin* task_plugin_ = nullptr;
  const plugins::Plugin* strategy_plugin_ = nullptr;
  const plugins::Plugin* backend_plugin_ = nullptr;
  std::optional<pl_config> task_config_, strategy_config_, backend_config_;
  pl_context task_context_, strategy_context_, backend_context_, optimizer_context_;
  std::optional<UpdateRules> rules_;
  std::vector<MetricSum> metrics_;
  std::optional<launch::ScalarReader> scalars_;  // on a device
  std::vector<LateMetric> late_metrics_;
  SetUp set_up_ = SetUp::begun;
  // The task goes first, as it is bound to the strategy's memory; then the strategy, which may have
  // collectives under way.
  struct PartGroup {  // of some ranks
    explicit PartGroup(const std::string& plugin) : context(plugin) {}
    pl_context context;
    std::unique_ptr<plugins::Communicator> group;
  };
  std::unique_ptr<plugins::Communicator> group_;
  std::vector<std::unique_ptr<PartGroup>> part_groups_;
  std::unique_ptr<plugins::Strategy> strategy_;
  std::unique_ptr<plugins::Task> task_;
};

// Compares options, plugins, data and parameters of all ranks, once the task is open: a difference that is
// found late is a hang, or a wrong result. Throws Error (PL_ERROR_CONFIG) on rank 0, which names the rank and
// what differs.
void require_same_on_all_ranks(Session& session);

}  // namespace pipeline::train
