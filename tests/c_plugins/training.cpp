#include "tests/c_plugins/training.hpp"

#include <exception>

#include "core/base/abi_values.hpp"

namespace pipeline::plugins {
namespace {

// One rank's objects, in the order in which they must be made.
class Rank {
 public:
  explicit Rank(const TrainingArgs& args)
      : args_(args),
        task_plugin_(Plugin::load(args.task)),
        strategy_plugin_(Plugin::load(args.strategy)),
        config_(config::load({.file = "", .sets = with_plugins(args.sets)})),
        task_config_(config_.plugin("task", task_plugin_.options())),
        strategy_config_(config_.plugin("strategy", strategy_plugin_.options())) {
    for (pl_context* context : {&task_context_, &strategy_context_, &backend_context_})
      context->set_run_info(run_info());
    open_group();
    task_ = std::make_unique<Task>(task_plugin_, task_context_, &task_config_);
    task_->open();
    const Optimizer optimizer{"sgd", {{"momentum", 0.9}, {"nesterov", 0}, {"weight_decay", 0}}};
    strategy_ = std::make_unique<Strategy>(strategy_plugin_, strategy_context_, &strategy_config_,
                                           task_->parameters(), std::span(&optimizer, 1),
                                           group_ ? &group_->view() : nullptr);
    strategy_->load_state([&](const pl_piece& piece, void* out) { initial(piece, static_cast<float*>(out)); },
                          true);
    for (std::uint64_t i = 0; i < task_->parameters().size(); ++i) {
      const Storage storage = strategy_->storage(i);
      task_->bind(i, storage.value, storage.grad);
    }
  }

  double step(std::uint64_t number) {
    const std::uint64_t each = args_.micro_batches / static_cast<std::uint64_t>(args_.ranks);
    const double weight = static_cast<double>(args_.micro_batches * args_.micro_batch);
    strategy_->begin_step(each);
    for (std::uint64_t m = 0; m < each; ++m) {
      const std::uint64_t index = static_cast<std::uint64_t>(args_.rank) * each + m;
      const Batch batch = load(number, index);
      auto args = sized<pl_train_args>();
      args.scale = 1 / weight;
      args.step = number;
      args.micro_batch = index;
      args.gradients = &strategy_->gradient_sink();
      const pl_tensor loss = task_->train(batch, args);
      strategy_->end_micro_batch(&loss);
    }
    auto args = sized<pl_step_args>();
    args.learning_rate = 0.1;
    args.inverse_scale = 1;
    return strategy_->collect(strategy_->step(args)).loss_sum / weight;
  }

  std::vector<float> values() {
    std::vector<float> all;
    for (std::uint64_t i = 0; i < task_->parameters().size(); ++i) {
      const Storage storage = strategy_->storage(i);
      std::size_t count = 1;
      for (std::int32_t d = 0; d < storage.value.ndim; ++d)
        count *= static_cast<std::size_t>(storage.value.shape[d]);
      const auto* data = static_cast<const float*>(storage.value.data);
      all.insert(all.end(), data, data + count);
    }
    return all;
  }

 private:
  std::vector<std::string> with_plugins(std::vector<std::string> sets) const {
    sets.push_back("task.plugin=\"" + task_plugin_.name() + "\"");
    sets.push_back("strategy.plugin=\"" + strategy_plugin_.name() + "\"");
    return sets;
  }

  pl_run_info run_info() const {
    auto info = sized<pl_run_info>();
    info.purpose = PL_PURPOSE_TRAIN;
    info.threads = 1;
    info.rank = args_.rank;
    info.world_size = args_.ranks;
    info.device = {PL_DEVICE_CPU, 0};
    info.parameter_dtype = info.compute_dtype = {PL_DTYPE_FLOAT, 32, 1};
    info.seed = 7;
    return info;
  }

  void open_group() {
    if (args_.backend.empty()) return;
    give_exchange(backend_context_, *args_.peers);
    OpenArgs open;
    open.address = "fake";
    open.group = "training";
    open.rank = args_.rank;
    open.world_size = args_.ranks;
    open.timeout = std::chrono::seconds(30);
    group_ = std::make_unique<Communicator>(Plugin::load(args_.backend), backend_context_, nullptr, open);
  }

  void initial(const pl_piece& piece, float* out) {
    const std::vector<pl_parameter>& parameters = task_->parameters();
    for (std::uint64_t i = 0; i < parameters.size(); ++i)
      if (view(parameters[i].name) == view(piece.parameter)) task_->initialize(i, {out, piece.count});
  }

  Batch load(std::uint64_t number, std::uint64_t index) {
    const std::uint64_t count = task_->sample_count(PL_SPLIT_TRAIN);
    std::vector<std::uint64_t> ids(args_.micro_batch);
    for (std::uint64_t k = 0; k < ids.size(); ++k)
      ids[k] = ((number * args_.micro_batches + index) * args_.micro_batch + k) % count;
    return task_->load({PL_SPLIT_TRAIN, PL_PURPOSE_TRAIN, ids, 0});
  }

  const TrainingArgs& args_;
  const Plugin& task_plugin_;
  const Plugin& strategy_plugin_;
  config::Config config_;
  pl_config task_config_, strategy_config_;
  pl_context task_context_{"task"}, strategy_context_{"strategy"}, backend_context_{"backend"};
  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace

TrainingResult train(const TrainingArgs& args) {
  Rank rank(args);
  TrainingResult result;
  for (std::uint64_t step = 0; step < args.steps; ++step) result.losses.push_back(rank.step(step));
  result.values = rank.values();
  return result;
}

TrainingResult train_with_threads(TrainingArgs args, int ranks) {
  for (const auto& file : {args.task, args.strategy, args.backend}) Plugin::load(file);  // [main]
  std::vector<TrainingResult> results(static_cast<std::size_t>(ranks));
  std::vector<std::exception_ptr> failures(results.size());
  peers::Group run(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      TrainingArgs mine = args;
      mine.rank = rank;
      mine.ranks = ranks;
      try {
        peers::Peers peers(run.world(rank), {});
        mine.peers = &peers;
        results[static_cast<std::size_t>(rank)] = train(mine);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (const TrainingResult& result : results)
    if (result.values != results[0].values || result.losses != results[0].losses)
      throw Error("the ranks ended with different results");
  return results[0];
}

}  // namespace pipeline::plugins
