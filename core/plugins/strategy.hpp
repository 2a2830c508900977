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

class Strategy;

// The training state as the strategy owned it when it was taken. Freed by its destructor, in any thread.
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

  // The pieces that this rank owns, in a fixed order; what they point to lives as long as the snapshot.
  // [any-thread]
  void pieces(const std::function<void(const pl_piece&)>& visit) const;

 private:
  const Strategy* strategy_;
  pl_snapshot* handle_;
};

struct Storage {
  pl_tensor value;
  pl_tensor grad;
};

// Fills `destination` with piece.count elements of piece.dtype; throws when the piece is not there.
using PieceReader = std::function<void(const pl_piece& piece, void* destination)>;

// An update rule and all of its options, as pl_optimizer names them. Parameters without PL_PARAMETER_DECAY
// are updated with a weight_decay of 0.
struct Optimizer {
  std::string name;
  std::map<std::string, double> options;
  uint32_t flags = 0;
};

// A strategy object: one method a slot, Error instead of pl_error. `context`, `config` and `communicator`
// must outlive it. [main] but for gradient_ready.
class Strategy {
 public:
  Strategy(const Plugin& plugin, const pl_context& context, const pl_config* config,
           std::span<const pl_parameter> parameters, const Optimizer& optimizer,
           const pl_communicator* communicator);
  ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  const Plugin& plugin() const { return call_.plugin(); }
  const pl_strategy_info& info() const { return info_; }

  // Views to bind the task to; they and what they point to live as long as the strategy.
  Storage storage(uint64_t index) const;
  bool has_unit_hooks() const { return api_.unit_hooks; }
  // To hand to Task::set_unit_hooks; they live as long as the strategy.
  const pl_unit_hooks& unit_hooks();

  // For a strategy that does not keep all parameters in place; others do nothing.
  // Between the two calls all are, where storage() says then. All ranks together.
  bool moves_values() const { return api_.gather; }
  void gather_values();
  void release_values();

  void begin_step(uint64_t micro_batches);
  void gradient_ready(const pl_gradient& gradient);  // [serialized]
  // The sink to hand to Task::train: leads straight into the plugin's gradient_ready. Lives as long as the
  // strategy.
  const pl_gradient_sink& gradient_sink() const { return sink_; }
  void end_micro_batch(const pl_tensor* loss);  // nullptr: this rank had no micro-batch here
  uint64_t step(pl_step_args args);             // the ticket
  pl_step_report collect(uint64_t ticket);

  void load_state(const PieceReader& read, bool values_only);
  Snapshot snapshot(uint32_t mode) const;  // PL_SNAPSHOT_COPY or _VIEW
  // Bytes on this rank, by what they are for.
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
  SerialCheck ready_check_;
};

}  // namespace pipeline::plugins
