#pragma once

#include <pipeline.h>

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/tensor.hpp>

#include "plugins/strategies/common/arena.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/optimizer.hpp"
#include "plugins/strategies/sharded/exchange.hpp"
#include "plugins/strategies/sharded/partition.hpp"
#include "plugins/strategies/sharded/rank_group.hpp"

namespace pipeline::strategies {

// What this rank alone has: of every bucket its part of the weights, in float32 where they are trained, of
// the gradients' sum and of the optimizer's state.
class Shard {
 public:
  struct Options {
    at::ScalarType dtype;  // of the parameters that the task is bound to
    at::Device device;
    // Where all of the weights are in place: the shard then is a view of it as far as the dtypes agree. Null:
    // the shard's own memory.
    const ValueArena* arena;
    bool state_on_host;    // pinned, and copied to the device to be updated
    bool weights_on_host;  // those as well, and to be used; without an arena
  };
  Shard(const Context& context, std::shared_ptr<const Layout> layout, const Partition& partition,
        const std::vector<Parameter>& parameters, const std::vector<OptimizerRule>& optimizers,
        const Options& options);

  // Puts this rank's part of a bucket where it belongs in `bucket_memory`, the whole bucket.
  void place(size_t bucket, const at::Tensor& bucket_memory) const;

  // The sum of this part's gradients, float32; undefined: zero. To be filled before a step ends, and gone
  // after it.
  at::Tensor& gradient(size_t bucket) { return parts_[bucket].gradient; }
  void clear_gradients();
  // The sum of squares of each chunk in turn, bucket by bucket, in double. in_chunks = false: a device may
  // sum them all, which is faster there.
  at::Tensor squares(bool in_chunks) const;

  // To be called once per step, before update().
  void advance(const LossScales& scales);
  bool has_tensor_rule(const Group& group) const {
    return parts_.front().optimizer->rule(group).is_of_matrices();
  }
  // Updates by rules of tensors, of all buckets, before update(), which leaves these out. [collective]
  void update_tensors(const TensorExchange& exchange, double learning_rate, const LossScales& scales);
  void update(size_t bucket, double learning_rate, const LossScales& scales);

  void swap_average();

  void load(const StateReader& reader);
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) const;

  uint64_t value_bytes() const;  // that are no view of the arena
  uint64_t gradient_bytes() const { return trainable_elements() * sizeof(float); }
  uint64_t optimizer_bytes() const;
  pl_dtype optimizer_dtype() const {
    return parts_.front().optimizer ? parts_.front().optimizer->state_dtype() : kFloat32;
  }

 private:
  struct Part {
    Range range;
    at::Tensor value;
    bool is_view = false;  // of the arena
    at::Tensor gradient;
    std::unique_ptr<Optimizer> optimizer;  // of what is trained
  };

  const at::Tensor& gradient_of(Part& part);
  void wait_for_device() const;
  const Group& group_at(int64_t offset) const;
  uint64_t trainable_elements() const;

  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  at::TensorOptions in_float_;
  bool is_offloaded_;        // something is on the host that the device writes to
  std::vector<Part> parts_;  // by bucket
  ArenaState state_;
};

// All weights, whole, in one arena that the task can be bound to, put together from the ranks' shards.
class Values {
 public:
  Values(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
         at::ScalarType dtype);

  const ValueArena& arena() const { return arena_; }
  void* address(size_t index) const { return arena_.address(index); }

  // Starts to put a bucket together. Nobody may read it until it has been waited for.
  void gather(size_t bucket, const Shard& shard);
  void gather_all(const Shard& shard);
  // Waits for the buckets that have a part of [begin, end).
  void wait(int64_t begin, int64_t end);
  void wait_all() { wait(0, layout_->length()); }

 private:
  std::shared_ptr<const Layout> layout_;
  const Partition& partition_;
  const RankGroup& ranks_;
  ValueArena arena_;
  std::vector<RankGroup::Pending> pending_;  // by bucket; goes before the arena
};

}  // namespace pipeline::strategies
