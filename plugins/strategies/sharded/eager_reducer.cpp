#include "plugins/strategies/sharded/eager_reducer.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include <pipeline/error.hpp>
#include <pipeline/torch/runtime.hpp>

#include <ATen/ops/zeros.h>

namespace pipeline::strategies {

EagerReducer::EagerReducer(const ReducerArgs& args, const std::vector<Parameter>& parameters, When when,
                           at::ScalarType wire)
    : args_(args),
      parameters_(parameters),
      when_(when),
      sum_(args.layout, /*fixed_tree=*/false, /*may_be_narrow=*/true),
      exchange_(args.layout, args.partition, args.peers, wire,
                [this](size_t bucket, const std::vector<at::Tensor>& parts) {
                  at::Tensor& gradient = args_.shard.gradient(bucket);
                  for (const at::Tensor& part : parts) {
                    if (gradient.defined()) {
                      gradient.add_(part);
                    } else {
                      gradient = part.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
                    }
                  }
                  // When no more can come for the bucket, its sum goes on between the groups.
                  const bool all = ++delivered_[bucket] == (args_.every_micro_batch ? micro_batches_ : 1);
                  if (all && knows_order_ && !expects_rows_) sum_between(bucket);
                }),
      slots_(args.layout->trainable_slots()),
      buckets_(args.partition.trainable_buckets()),
      outgoing_(slots_.size()),
      late_rows_(args.layout),
      delivered_(buckets_.size()),
      between_(buckets_.size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = args_.layout->slots()[i];
    if (slot.count == 0) continue;
    longest_slot_ = std::max(longest_slot_, slot.padded);
    slots_[i].buckets = args_.partition.buckets_of(slot.offset, slot.offset + slot.padded);
    for (size_t bucket = slots_[i].buckets.first; bucket < slots_[i].buckets.second; ++bucket) {
      BucketState& state = buckets_[bucket];
      if (state.expected++ == 0) state.slots.first = i;
      state.slots.second = i + 1;
    }
  }
  for (size_t bucket = buckets_.size(); bucket-- > 0;) order_.push_back(bucket);
}

void EagerReducer::begin(uint64_t micro_batches) {
  micro_batches_ = micro_batches;
  seen_ = 0;
  late_.reset();
  late_rows_.clear();
  completed_.clear();
  sum_.clear();
  ready_.clear();
  ready_length_ = 0;
  exchange_.drop();
  std::ranges::fill(delivered_, 0);
  for (Peers::Pending& pending : between_) pending.reset();
  args_.shard.clear_gradients();
  start_round();
}

void EagerReducer::start_round() {
  next_ = 0;
  for (SlotState& slot : slots_) {
    slot.arrived = 0;
    slot.sent = 0;
    slot.taken = false;
  }
  for (BucketState& bucket : buckets_) {
    bucket.arrived = 0;
    bucket.sent = false;
  }
  std::ranges::fill(outgoing_, at::Tensor());
}

void EagerReducer::add(size_t slot, const at::Tensor& gradient, bool owned) {
  start_ready(false);
  sum_.add(slot, gradient, owned);
  SlotState& state = slots_[slot];
  if (state.taken) {
    late_ = slot;
  } else if (!late_rows_.empty()) {
    late_rows_.move_to(sum_, slot);
  }
  if (++state.arrived > state.expected) return expect_again(slot);
  if (state.arrived < state.expected) return;
  for (size_t bucket = state.buckets.first; bucket < state.buckets.second; ++bucket) {
    const bool complete = ++buckets_[bucket].arrived == buckets_[bucket].expected;
    if (complete && when_ == When::kComplete && !knows_order_ && sends_now()) completed_.push_back(bucket);
  }
  if (when_ == When::kComplete && sends_now()) send_complete();
}

void EagerReducer::add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) {
  rows_came_ = true;
  if (!slots_[slot].taken) return sum_.add_rows(slot, rows, values);
  late_rows_.add(slot, rows, values);
  if (knows_order_ && !expects_rows_) late_ = slot;
}

void EagerReducer::expect_again(size_t slot) {
  SlotState& state = slots_[slot];
  state.expected = state.arrived;
  for (size_t bucket = state.buckets.first; bucket < state.buckets.second; ++bucket) {
    buckets_[bucket].was_deferred = true;
  }
}

void EagerReducer::send_complete() {
  for (; next_ < order_.size(); ++next_) {
    const BucketState& bucket = buckets_[order_[next_]];
    if (bucket.arrived < bucket.expected || bucket.deferred) return;
    send(order_[next_]);
    start_ready(false);
  }
}

void EagerReducer::end_unit(uint32_t unit) {
  if (when_ != When::kUnitEnd || !sends_now()) return;
  for (const Region& region : args_.layout->regions()) {
    if (region.unit != unit || region.begin >= args_.layout->trainable_length()) continue;
    const auto [first, last] = args_.partition.buckets_of(region.begin, region.end);
    for (size_t bucket = last; bucket-- > first;) {
      if (!buckets_[bucket].deferred && !buckets_[bucket].sent) send(bucket);
    }
  }
  start_ready(true);
}

// From here on what comes for its gradients is late, whenever the bucket is started: a sum's order must not
// depend on how fast the others are.
void EagerReducer::send(size_t bucket) {
  const auto [first, last] = buckets_[bucket].slots;
  for (size_t slot = first; slot < last; ++slot) {
    SlotState& state = slots_[slot];
    if (state.taken) continue;
    state.taken = true;
    outgoing_[slot] = sum_.take(slot);
  }
  buckets_[bucket].sent = true;
  ready_.push_back(bucket);
  ready_length_ += args_.partition.buckets()[bucket].length();
}

// Starts the buckets that need not wait for others, and more where too much is held; or all.
void EagerReducer::start_ready(bool all) {
  while (!ready_.empty() && (all || ready_length_ > longest_slot_ || !exchange_.is_full())) {
    const size_t bucket = ready_.front();
    ready_.pop_front();
    ready_length_ -= args_.partition.buckets()[bucket].length();
    start(bucket);
  }
}

void EagerReducer::start(size_t bucket) {
  exchange_.start(bucket, outgoing_);
  const auto [first, last] = buckets_[bucket].slots;
  for (size_t slot = first; slot < last; ++slot) {
    SlotState& state = slots_[slot];
    if (++state.sent == state.buckets.second - state.buckets.first) outgoing_[slot].reset();
  }
}

void EagerReducer::end_micro_batch(bool empty) {
  if (sends_now()) {
    send_rest(empty);
    // What came late goes with the next micro-batch, if there is one.
    if (seen_ + 1 < micro_batches_) late_.reset();
  }
  start_round();
  ++seen_;
}

void EagerReducer::send_rest(bool empty) {
  for (const size_t bucket : order_) {
    BucketState& state = buckets_[bucket];
    if (state.sent) continue;
    if (!empty && state.arrived < state.expected) state.was_deferred = true;
    send(bucket);
  }
  start_ready(true);
}

void EagerReducer::finish() {
  if (when_ != When::kMicroBatchEnd && !knows_order_) {
    learn_order();
  } else if (late_) {
    const std::string& name = parameters_[args_.layout->slots()[*late_].parameter].name;
    fail("the gradient of ", name,
         " arrived again after it had been sent, in the last micro-batch of a step, unlike in the first "
         "step: use ",
         "strategy.overlap = false, which sends nothing before the end");
  }
  exchange_.finish();
  if (expects_rows_) finish_late_rows();
  if (args_.groups.groups() == 1) return;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    if (!between_[bucket]) sum_between(bucket);
  for (Peers::Pending& pending : between_) args_.groups.between().wait(pending);
}

// The groups' sums of this rank's part, in float32: what of the gradients goes over the links between them.
void EagerReducer::sum_between(size_t bucket) {
  args_.groups.between().all_reduce(args_.shard.gradient(bucket), between_[bucket],
                                    concat("sums of gradients ", bucket));
}

// Each rank adds what lies in its parts.
void EagerReducer::finish_late_rows() {
  const at::Device device = args_.peers.device();
  for (const LateRows::Sum& late : late_rows_.finish(args_.peers.communicator(), device)) {
    const Slot& slot = args_.layout->slots()[late.slot];
    const auto [first_bucket, last_bucket] = slots_[late.slot].buckets;
    for (size_t bucket = first_bucket; bucket < last_bucket; ++bucket) {
      const Range part = args_.partition.part(bucket);
      const int64_t begin = std::max(part.begin, slot.offset);
      const int64_t end = std::min(part.end, slot.offset + slot.count);
      if (begin >= end) continue;
      at::Tensor& gradient = args_.shard.gradient(bucket);
      if (!gradient.defined()) gradient = at::zeros({part.length()}, late.values.options());
      late.add_to(gradient.narrow(0, begin - part.begin, end - begin), begin - slot.offset);
    }
  }
}

// At the end of the first step: in which order buckets were complete on rank 0, which go last, whether some
// rank has something left to send, and whether some rank's gradients come in rows.
void EagerReducer::learn_order() {
  const size_t count = buckets_.size();
  std::vector<int32_t> common(2 * count + 2);
  const std::span<int32_t> deferred(common.data(), count), places(common.data() + count, count);
  int32_t &late = common[2 * count], &rows = common[2 * count + 1];
  for (size_t bucket = 0; bucket < count; ++bucket) deferred[bucket] = buckets_[bucket].was_deferred ? 1 : 0;
  if (args_.groups.all().rank() == 0) {
    std::ranges::fill(places, std::numeric_limits<int32_t>::max());  // behind those that were complete
    for (size_t i = completed_.size(); i-- > 0;) places[completed_[i]] = static_cast<int32_t>(i);
  }
  late = late_ ? 1 : 0;
  rows = rows_came_ ? 1 : 0;
  args_.groups.all().maximum(common);
  if (late != 0) {
    send_rest(true);
    start_round();
    late_.reset();
  }
  expects_rows_ = rows != 0;
  for (size_t bucket = 0; bucket < count; ++bucket) buckets_[bucket].deferred = deferred[bucket] != 0;
  std::ranges::stable_sort(order_, {}, [&](size_t bucket) { return places[bucket]; });
  std::stable_partition(order_.begin(), order_.end(),
                        [&](size_t bucket) { return !buckets_[bucket].deferred; });
  knows_order_ = true;
}

void EagerReducer::memory(const MemoryVisitor& visit) const {
  if (buckets_.empty()) return;
  if (!args_.every_micro_batch) {
    visit("gradients before they are sent",
          static_cast<uint64_t>(args_.layout->trainable_length()) * sizeof(float));
  }
  visit("buckets in flight", exchange_.bytes());
}

}  // namespace pipeline::strategies
