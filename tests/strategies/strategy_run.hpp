#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/config/settings.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"
#include "core/plugins/strategy.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::strategies {

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool decay = true;
  double lr_multiplier = 1;
  bool trainable = true;
  uint32_t unit = 0;
  bool narrow = false;  // kept in bfloat16
  bool hidden = false;  // a matrix of a hidden layer
  uint32_t loss = 0;
};

struct RunOptions {
  std::string plugin = "single";
  bool reproducible = false;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  pl_stream stream = {};
  int32_t world_size = 1;
  uint64_t micro_batches = 1;  // of all ranks
  uint32_t purpose = PL_PURPOSE_TRAIN;
  std::vector<std::string> sets = {};      // options: "strategy.bucket_mib=1"
  const pl_communicator* group = nullptr;  // says rank and world size; NULL: one process
  // What the strategy gets of a group of some ranks that it opens; empty: the group itself.
  std::function<pl_communicator(std::string_view name, const pl_communicator& group)> part_group = {};
};

plugins::Optimizer adamw(double weight_decay = 0.1);
plugins::Optimizer in_bits(plugins::Optimizer adamw, int bits);                                 // its moments
plugins::Optimizer muon();                                                                      // and AdamW
plugins::Optimizer with_ema(plugins::Optimizer optimizer, double every = 1, double start = 0);  // decay 0.9
plugins::Optimizer sgd(double momentum = 0, double weight_decay = 0, bool nesterov = false);

// Gradients of one micro-batch, by parameter; undefined: none.
using Gradients = std::vector<at::Tensor>;

// One micro-batch as a task would make it.
struct MicroBatch {
  Gradients gradients;
  at::Tensor loss;                 // undefined: the core had no batch for this rank
  Gradients again = {};            // second contributions, of parameters that are used twice; they come last
  bool lent = false;               // the task keeps its tensors
  std::vector<size_t> order = {};  // of the first contributions; empty: last parameter first
};

// A tensor of the state by "kind/parameter", as bytes; 0 where another rank has the piece. What is in
// bfloat16 is widened to float32.
using State = std::map<std::string, std::vector<std::byte>>;

// Drives a strategy plugin through its table, as the core does, with gradients that the test makes up.
class StrategyRun {
 public:
  StrategyRun(std::vector<ParameterSpec> specs, const plugins::Optimizer& optimizer,
              const RunOptions& options = {});
  ~StrategyRun();

  plugins::Strategy& strategy() const { return *strategy_; }
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  at::Tensor value(size_t index);  // the bound memory itself
  void set(size_t index, const at::Tensor& value);

  // The task's side. Handing over moves the tensor's memory; lending lets the strategy look at it during the
  // call.
  void hand_over(size_t index, at::Tensor gradient);
  void lend(size_t index, const at::Tensor& gradient);
  void add_rows(size_t index, const at::Tensor& rows, const at::Tensor& values);
  // Delivers a gradient as the strategy's storage asks for: adds it to the bound one, lends a copy or hands
  // it over; on the run's device, as the loss.
  void deliver(size_t index, const at::Tensor& gradient, bool lent = false);
  void deliver(const MicroBatch& micro_batch);
  void end_micro_batch(const at::Tensor& loss);

  // One whole step of this rank.
  uint64_t start_step(const std::vector<MicroBatch>& micro_batches, const pl_step_args& args);
  // One whole step; hands over copies.
  pl_step_report step(const std::vector<Gradients>& micro_batches, double learning_rate = 0.1,
                      double clip_norm = 0, double inverse_scale = 1);
  static pl_step_args step_args(double learning_rate, double clip_norm = 0, double inverse_scale = 1);

  State state(uint32_t mode = PL_SNAPSHOT_COPY) const { return state_of(strategy_->snapshot(mode)); }
  static State state_of(const plugins::Snapshot& snapshot);
  void load(const State& state, bool values_only = false);

  int live_gradients() const { return live_; }  // handed over and not released

 private:
  std::vector<ParameterSpec> specs_;
  at::Device device_;
  pl_context context_{"strategy under test"};
  std::vector<std::unique_ptr<class PartGroup>> part_groups_;  // the strategy's
  pl_config config_;
  std::unique_ptr<plugins::Strategy> strategy_;
  int live_ = 0;
};

// Gradients for all trainable parameters, different for every seed. [any-thread]
Gradients random_gradients(const std::vector<ParameterSpec>& specs, uint64_t seed);

// A state of these parameters to begin with.
State some_values(const std::vector<ParameterSpec>& specs);

// What `call` fails with, or "none".
template <class Call>
std::string error_of(const Call& call) {
  return tests::message_of<Error>(call, "none");
}

}  // namespace pipeline::strategies
