#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plugins/call.hpp"

namespace pipeline::plugins {

// An update rule of an optimizer plugin. Strategies call it through a forwarding table, which checks thread
// tags and names the plugin in errors. `context` and `config` must outlive it, and it the strategies that
// have it. [main]
class UpdateRule {
 public:
  // Throws Error, also where its state has names that it must not have, or its flags are unknown.
  UpdateRule(const Plugin& plugin, const pl_context& context, const pl_config* config);
  ~UpdateRule();
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;

  const Plugin& plugin() const { return call_.plugin(); }
  // Whether the rule sees matrices whole, and is for those of hidden layers alone.
  bool is_for_matrices() const { return api_.transform != nullptr; }

  // The table that strategies get, with the optional slots that the plugin has.
  const pl_optimizer_api& forwarding_table() const;
  pl_update_rule* handle() const {
    return reinterpret_cast<pl_update_rule*>(const_cast<UpdateRule*>(this));  // back in forwarding_table()
  }

 private:
  void check_info() const;
  template <class Call>
  static pl_error* forward(pl_update_rule* handle, const char* slot, const Call& call) noexcept;

  const pl_optimizer_api& api_;
  Caller call_;
  pl_update_rule* self_ = nullptr;
};

class Strategy;

// The training state that a strategy owned at the time of the snapshot. May be destroyed on any thread.
class Snapshot {
 public:
  Snapshot(const Strategy& strategy, pl_snapshot* handle) : strategy_(&strategy), handle_(handle) {}
  Snapshot(Snapshot&& other) noexcept
      : strategy_(other.strategy_), handle_(std::exchange(other.handle_, nullptr)) {}
  Snapshot& operator=(Snapshot&& other) noexcept {
    std::swap(strategy_, other.strategy_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Snapshot();

  // Visits the pieces that this rank owns, in a fixed order; what they point to lives as long as the
  // snapshot. [any-thread]
  void pieces(const std::function<void(const pl_piece&)>& visit) const;

 private:
  const Strategy* strategy_;
  pl_snapshot* handle_;
};

struct Storage {
  pl_tensor value;
  pl_tensor grad;
};

// Fills `destination` with piece.count elements of piece.dtype; throws if the piece is missing.
using PieceReader = std::function<void(const pl_piece& piece, void* destination)>;

// An update rule and all of its options, named as in pl_optimizer. Parameters without PL_PARAMETER_DECAY
// are updated with a weight_decay of 0.
struct Optimizer {
  std::string name;
  std::map<std::string, double> options;
  uint32_t flags = 0;
  const UpdateRule* rule = nullptr;                // of a plugin; otherwise strategies know it by its name
  std::vector<Optimizer> of_hidden_matrices = {};  // one, if those have another rule
};

// A strategy object: one method per slot, which throws Error where the slot returns pl_error. `context`,
// `config` and `communicator` must outlive it. [main], except gradient_ready. `optimizers`: by loss, with the
// same rules for each; of more than one the strategy must have PL_STRATEGY_TAKES_LOSSES.
class Strategy {
 public:
  Strategy(const Plugin& plugin, const pl_context& context, const pl_config* config,
           std::span<const pl_parameter> parameters, std::span<const Optimizer> optimizers,
           const pl_communicator* communicator);
  ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  const Plugin& plugin() const { return call_.plugin(); }
  const pl_strategy_info& info() const { return info_; }

  // Returns views to bind the task to; they and what they point to live as long as the strategy.
  Storage storage(uint64_t index) const;
  bool has_unit_hooks() const { return api_.unit_hooks; }
  // For Task::set_unit_hooks; valid as long as the strategy lives.
  const pl_unit_hooks& unit_hooks();

  // For a strategy that does not keep all parameters in place; others do nothing. Between the two calls all
  // are in place, at the addresses that storage() then returns. Called by all ranks together.
  bool moves_values() const { return api_.gather; }
  void gather_values();
  void release_values();

  void begin_step(uint64_t micro_batches);
  void gradient_ready(const pl_gradient& gradient);  // [serialized]
  // For Task::train: calls the plugin's gradient_ready directly. Valid as long as the strategy lives.
  const pl_gradient_sink& gradient_sink() const { return sink_; }
  // Whether the task has handed a gradient of this parameter to the sink on this rank.
  bool had_gradient(uint64_t index) const { return had_gradient_.at(index); }
  void end_micro_batch(const pl_tensor* loss);  // nullptr: this rank had no micro-batch
  uint64_t step(pl_step_args args);             // returns the ticket
  pl_step_report collect(uint64_t ticket);

  void load_state(const PieceReader& read, bool values_only);
  // PL_SNAPSHOT_COPY or _VIEW, and PL_SNAPSHOT_TRAINED, in spite of which a strategy may give all there is.
  Snapshot snapshot(uint32_t mode) const;
  // Swaps values and their moving average. Called by all ranks together.
  bool has_average() const { return api_.swap_average; }
  void swap_average();
  // Bytes used on this rank, by purpose.
  std::vector<std::pair<std::string, uint64_t>> memory() const;

 private:
  friend class Snapshot;
  void destroy() noexcept;
  static pl_error* ready(void* user, const pl_gradient* gradient) noexcept;

  const pl_strategy_api& api_;
  Caller call_;
  pl_strategy* self_ = nullptr;
  pl_strategy_info info_{};
  pl_unit_hooks hooks_{};
  pl_gradient_sink sink_{};
  std::vector<bool> had_gradient_;  // per parameter
  SerialCheck ready_check_;
};

}  // namespace pipeline::plugins
