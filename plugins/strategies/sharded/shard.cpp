#include "plugins/strategies/sharded/shard.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pipeline/error.hpp>

#include "plugins/strategies/common/gradient_norm.hpp"

namespace pipeline::strategies {

Shard::Shard(const Context& context, std::shared_ptr<const Layout> layout, const Partition& partition,
             const std::vector<Parameter>& parameters, const std::vector<OptimizerRule>& optimizers,
             const Options& options)
    : layout_(std::move(layout)),
      partition_(partition),
      in_float_(at::TensorOptions().dtype(at::kFloat).device(options.device)),
      is_offloaded_(options.state_on_host || options.weights_on_host),
      state_(layout_, parameters) {
  for (size_t bucket = 0; bucket < partition.buckets().size(); ++bucket) {
    Part part{.range = partition.part(bucket), .value = {}, .gradient = {}, .optimizer = nullptr};
    const bool trained = bucket < partition.trainable_buckets();
    const at::ScalarType dtype =
        trained ? at::kFloat : type_of(layout_->stored(part.range.begin), options.dtype);
    part.is_view = options.arena != nullptr && (!trained || dtype == options.dtype);
    auto where = in_float_.dtype(dtype);
    if (options.weights_on_host) where = where.device(at::kCPU).pinned_memory(true);
    part.value = part.is_view ? options.arena->part(part.range.begin, part.range.length())
                              : at::zeros({part.range.length()}, where);
    if (trained) {
      part.optimizer = std::make_unique<Optimizer>(context, optimizers, layout_, part.value, part.range.begin,
                                                   options.device, options.state_on_host);
    }
    parts_.push_back(std::move(part));
  }
}

void Shard::place(size_t bucket, const at::Tensor& bucket_memory) const {
  const Part& part = parts_[bucket];
  const int64_t length = part.range.length();
  at::Tensor place = bucket_memory.narrow(0, partition_.rank() * length, length);
  if (place.const_data_ptr() != part.value.const_data_ptr()) place.copy_(part.value, /*non_blocking=*/true);
}

void Shard::clear_gradients() {
  for (Part& part : parts_) part.gradient.reset();
}

at::Tensor Shard::squares(bool in_chunks) const {
  if (!in_chunks && !in_float_.device().is_cpu()) {
    GradientRuns runs;
    for (const Part& part : parts_)
      if (part.gradient.defined()) runs.push_back({part.range.begin, part.gradient});
    return sum_of_squares(runs, in_float_.device()).view({1});
  }
  std::vector<at::Tensor> sums{at::empty({0}, in_float_.dtype(at::kDouble))};
  for (size_t bucket = 0; bucket < partition_.trainable_buckets(); ++bucket) {
    const Part& part = parts_[bucket];
    GradientRuns runs;
    if (part.gradient.defined()) runs.push_back({part.range.begin, part.gradient});
    sums.push_back(chunk_sums(runs, part.range.begin, part.range.end, in_float_.device()));
  }
  return at::cat(sums);
}

void Shard::advance(const LossScales& scales) {
  for (Part& part : parts_) {
    if (part.optimizer) part.optimizer->advance(scales);
  }
}

const at::Tensor& Shard::gradient_of(Part& part) {
  if (!part.gradient.defined()) part.gradient = at::zeros({part.range.length()}, in_float_);
  return part.gradient;
}

const Group& Shard::group_at(int64_t offset) const {
  return *std::ranges::partition_point(layout_->groups(), [&](const Group& g) { return g.end <= offset; });
}

void Shard::update_tensors(const TensorExchange& exchange, double learning_rate, const LossScales& scales) {
  const auto run_of = [&](const TensorExchange::Piece& piece) -> GradientRuns {
    Part& part = parts_[piece.bucket];
    return {{piece.range.begin,
             gradient_of(part).narrow(0, piece.range.begin - part.range.begin, piece.range.length())}};
  };
  std::vector<at::Tensor> directions;
  for (const TensorExchange::Piece& piece : exchange.mine()) {
    const Group& group = group_at(piece.range.begin);
    GradientRuns runs = run_of(piece);
    // All ranks exchange all pieces, also those that are not updated.
    if (const auto& scale = scales[group.loss])
      runs = parts_[piece.bucket].optimizer->directions(group, runs, *scale);
    directions.push_back(runs.front().gradient);
  }
  exchange.transform(directions, [&](const Slot& slot, const at::Tensor& tensor) {
    parts_.front().optimizer->rule(group_at(slot.offset)).transform(tensor);
  });
  for (size_t i = 0; i < directions.size(); ++i) {
    const TensorExchange::Piece& piece = exchange.mine()[i];
    const Group& group = group_at(piece.range.begin);
    if (const auto& scale = scales[group.loss])
      parts_[piece.bucket].optimizer->update(group, {{piece.range.begin, directions[i]}}, learning_rate,
                                             *scale);
  }
}

void Shard::update(size_t bucket, double learning_rate, const LossScales& scales) {
  Part& part = parts_[bucket];
  gradient_of(part);
  const std::vector<Group>& groups = layout_->groups();
  auto group =
      std::ranges::partition_point(groups, [&](const Group& g) { return g.end <= part.range.begin; });
  for (; group != groups.end() && group->begin < part.range.end; ++group) {
    const auto& scale = scales[group->loss];
    if (!scale || part.optimizer->rule(*group).is_of_matrices()) continue;
    const int64_t begin = std::max(group->begin, part.range.begin);
    const int64_t end = std::min(group->end, part.range.end);
    part.optimizer->update(*group, {{begin, part.gradient.narrow(0, begin - part.range.begin, end - begin)}},
                           learning_rate, *scale);
  }
  part.gradient.reset();
}

void Shard::swap_average() {
  for (Part& part : parts_) {
    if (part.optimizer) part.optimizer->swap_average();
  }
}

// What the device has been told to copy to the host may still be under way.
void Shard::wait_for_device() const {
  const at::Device device = in_float_.device();
  if (is_offloaded_) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

void Shard::load(const StateReader& reader) {
  wait_for_device();
  for (const Part& part : parts_) state_.read(reader, {"value", part.range.begin, part.value});
  const at::Tensor steps = state_.read_step_counts(reader);
  for (Part& part : parts_) {
    if (!part.optimizer) continue;
    part.optimizer->load(state_, reader);
    part.optimizer->set_step_counts(steps);
  }
}

std::unique_ptr<Snapshot> Shard::snapshot(uint32_t mode) const {
  wait_for_device();
  std::vector<ArenaPart> parts;
  for (const Part& part : parts_)
    if (part.range.begin < layout_->trainable_length() || (mode & PL_SNAPSHOT_TRAINED) == 0)
      parts.push_back({"value", part.range.begin, part.value});
  for (const Part& part : parts_) {
    if (!part.optimizer) continue;
    for (ArenaPart& state : part.optimizer->state()) parts.push_back(std::move(state));
  }
  // The counts for all, from the rank that has the beginning.
  at::Tensor steps;
  if (partition_.rank() == 0) {
    steps = parts_.front().optimizer ? parts_.front().optimizer->step_counts()
                                     : at::zeros({static_cast<int64_t>(layout_->losses())}, in_float_);
  }
  return state_.snapshot(std::move(parts), steps, (mode & PL_SNAPSHOT_COPY) != 0);
}

uint64_t Shard::trainable_elements() const {
  uint64_t elements = 0;
  for (const Part& part : parts_) {
    if (part.optimizer) elements += static_cast<uint64_t>(part.range.length());
  }
  return elements;
}

uint64_t Shard::value_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    if (!part.is_view) bytes += part.value.nbytes();
  }
  return bytes;
}

uint64_t Shard::optimizer_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_)
    if (part.optimizer) bytes += part.optimizer->state_bytes();
  return bytes;
}

Values::Values(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
               at::ScalarType dtype)
    : layout_(std::move(layout)),
      partition_(partition),
      ranks_(ranks),
      arena_(layout_, dtype, ranks.device()),
      pending_(partition.buckets().size()) {}

void Values::gather(size_t bucket, const Shard& shard) {
  ranks_.wait(pending_[bucket]);
  const Range range = partition_.buckets()[bucket];
  const at::Tensor memory = arena_.part(range.begin, range.length());
  shard.place(bucket, memory);
  ranks_.all_gather(memory, pending_[bucket], concat("weights ", bucket));
}

void Values::gather_all(const Shard& shard) {
  for (size_t bucket = 0; bucket < pending_.size(); ++bucket) gather(bucket, shard);
}

void Values::wait(int64_t begin, int64_t end) {
  const auto [first, last] = partition_.buckets_of(begin, end);
  for (size_t bucket = first; bucket < last; ++bucket) ranks_.wait(pending_[bucket]);
}

}  // namespace pipeline::strategies
