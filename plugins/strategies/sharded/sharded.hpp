#pragma once

#include <pipeline/options.hpp>
#include <pipeline/strategy.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/strategies/common/gradient_check.hpp"
#include "plugins/strategies/common/report_queue.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/peers.hpp"
#include "plugins/strategies/sharded/reducer.hpp"
#include "plugins/strategies/sharded/shard.hpp"
#include "plugins/strategies/sharded/shard_groups.hpp"
#include "plugins/strategies/sharded/step_figures.hpp"
#include "plugins/strategies/sharded/unit_order.hpp"
#include "plugins/strategies/sharded/unit_slots.hpp"
#include "plugins/strategies/sharded/values.hpp"

namespace pipeline::strategies {

struct ShardedConfig {
  int64_t zero_stage = 2;
  double bucket_mib = 8;
  std::string reduction = "fp32";
  bool overlap = true;
  int64_t unit_slots = 2;
  bool offload = false;
  bool offload_weights = false;
  std::string shard_group = "all";

  void describe(Options& o) {
    o("zero_stage", zero_stage, "1 shards optimizer state, 2 also gradients, 3 also parameters")
        .min(1)
        .max(3)
        .may_change();
    o("bucket_mib", bucket_mib, "maximum size of a bucket of gradients or weights")
        .above(0)
        .unit("MiB")
        .may_change();
    o("reduction", reduction, "dtype in which gradients are sent; bf16 halves the bytes; sums are in fp32")
        .choices({"fp32", "bf16"});
    o("overlap", overlap, "send during the backward pass, gather during the forward pass").may_change();
    o("unit_slots", unit_slots, "stage 3: units, besides unit 0, whose weights are held whole at once")
        .min(1)
        .may_change();
    o("shard_group", shard_group,
      "processes that hold one copy in shards: all, host (those of a host), or a number, as in \"4\"; "
      "gradients are "
      "summed between groups")
        .may_change();
    o("offload", offload, "keep optimizer state in pinned host memory; needs CUDA").may_change();
    o("offload_weights", offload_weights,
      "stage 3: keep weights in pinned host memory, too; each unit's are on the device while it is used")
        .may_change();
  }
};

// ZeRO (arXiv 1910.02054): every rank has its shard of the optimizer's state (stage 1), of the gradients'
// sums (2), of the weights (3), and updates that alone. README.md has the memory that this takes.
//
// A parameter that gets no gradient in a step is updated with a gradient of zero.
class Sharded : public Strategy<ShardedConfig> {
 public:
  explicit Sharded(Setup setup);
  static const void* query(std::string_view extension);

  pl_strategy_info info() override;
  Storage storage(uint64_t index) override;
  void enter_unit(uint32_t unit, uint32_t pass) override;
  void leave_unit(uint32_t unit, uint32_t pass) override;
  void begin_step(uint64_t micro_batches) override;
  void gradient_ready(Gradient gradient) override;
  void end_micro_batch(const pl_tensor* loss) override;
  uint64_t step(const pl_step_args& args) override;
  pl_step_report collect(uint64_t ticket) override;
  void load_state(const StateReader& reader) override;
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override;
  void memory(const MemoryVisitor& visit) override;

  void swap_average() override;
  void gather() override;
  void release() override;

 private:
  bool is_training() const { return run().purpose == PL_PURPOSE_TRAIN; }
  bool has_unit_slots() const { return unit_slots_ != nullptr; }
  at::ScalarType dtype() const;
  bool is_offloaded(bool asked, const char* option) const;
  void check_config() const;
  std::unique_ptr<TensorExchange> make_tensor_exchange() const;
  std::unique_ptr<Reducer> make_reducer();
  template <class Place>
  void bind_to(const Place& place);

  void prefetch(std::optional<uint32_t> unit);
  void keep_step_without_micro_batch();
  void wait_for_units_without_hooks();
  void publish();
  void update(double learning_rate, const GradientScale& scale);

  at::Device device_;
  ShardGroups groups_;
  const Peers& peers_;  // that hold the other shards
  std::shared_ptr<const Layout> layout_;
  Partition partition_;
  std::unique_ptr<Values> values_;  // but for stage 3 in training
  Shard shard_;
  std::unique_ptr<UnitSlots> unit_slots_;  // for that
  std::unique_ptr<Values> gathered_;       // with slots, between gather() and release()
  std::vector<TensorView> views_;
  std::unique_ptr<TensorExchange> tensors_;  // where a rule of tensors updates some
  std::unique_ptr<Reducer> reducer_;
  StepFigures figures_;
  StepProgress progress_;
  UnitOrder unit_order_;
  std::set<uint32_t> entered_;  // units that the task has entered so far
  ReportQueue reports_;
  uint64_t last_ticket_ = 0;
};

}  // namespace pipeline::strategies
