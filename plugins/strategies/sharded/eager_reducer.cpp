#include <algorithm>
#include <deque>
#include <limits>
#include <span>
#include <utility>

#include <pipeline/error.hpp>
#include <pipeline/torch/runtime.hpp>

#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/sharded/reducer.hpp"

namespace pipeline::strategies {
namespace {

// Sends each bucket as soon as it can, while the backward pass goes on, and lets its gradients go. Buckets
// that are complete while enough are in flight wait for their turn, and the backward pass goes on: up to as
// much as the largest parameter has, which comes at once. All ranks send in the same order, whatever order
// gradients come in: in the first step from the last bucket to the first, as a backward pass makes them, then
// as they were complete on rank 0. A bucket whose gradients do not all come goes at the end of the
// micro-batch, the missing ones as zeros; so that it does not hold up the others, after the first step it is
// the last one everywhere.
//
// A gradient that comes again when its bucket is gone goes with the next micro-batch. From then on this rank
// waits for as many. Rows that come then go with the next micro-batch, too, or by themselves at the end of
// the step, and are not waited for. On CUDA no rows are taken: the host would have to wait for which they
// are.
class EagerReducer : public Reducer {
 public:
  EagerReducer(const ReducerArgs& args, const std::vector<Parameter>& parameters, SendWhen when,
               at::ScalarType wire)
      : args_(args),
        parameters_(parameters),
        when_(when),
        sum_(args.layout, /*fixed_tree=*/false, /*may_be_narrow=*/true),
        exchange_(args.layout, args.partition, args.ranks, wire,
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

  void begin(uint64_t micro_batches) override {
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
    for (RankGroup::Pending& pending : between_) pending.reset();
    args_.shard.clear_gradients();
    start_round();
  }

  void add(size_t slot, const at::Tensor& gradient, bool owned) override {
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
      if (complete && when_ == SendWhen::kComplete && !knows_order_ && sends_now())
        completed_.push_back(bucket);
    }
    if (when_ == SendWhen::kComplete && sends_now()) send_complete();
  }

  void add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) override {
    rows_came_ = true;
    if (!slots_[slot].taken) return sum_.add_rows(slot, rows, values);
    late_rows_.add(slot, rows, values);
    if (knows_order_ && !expects_rows_) late_ = slot;
  }

  bool takes_rows() const override { return when_ == SendWhen::kComplete && args_.ranks.device().is_cpu(); }

  void end_unit(uint32_t unit) override {
    if (when_ != SendWhen::kUnitEnd || !sends_now()) return;
    for (const Region& region : args_.layout->regions()) {
      if (region.unit != unit || region.begin >= args_.layout->trainable_length()) continue;
      const auto [first, last] = args_.partition.buckets_of(region.begin, region.end);
      for (size_t bucket = last; bucket-- > first;) {
        if (!buckets_[bucket].deferred && !buckets_[bucket].sent) send(bucket);
      }
    }
    start_ready(true);
  }

  void end_micro_batch(bool empty) override {
    if (sends_now()) {
      send_rest(empty);
      // What came late goes with the next micro-batch, if there is one.
      if (seen_ + 1 < micro_batches_) late_.reset();
    }
    start_round();
    ++seen_;
  }

  void finish() override {
    if (when_ != SendWhen::kMicroBatchEnd && !knows_order_) {
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
    for (RankGroup::Pending& pending : between_) args_.groups.between().wait(pending);
  }

  void memory(const MemoryVisitor& visit) const override {
    if (buckets_.empty()) return;
    if (!args_.every_micro_batch || when_ == SendWhen::kMicroBatchEnd) {
      visit("gradients before they are sent",
            static_cast<uint64_t>(args_.layout->trainable_length()) * sizeof(float));
    }
    visit("buckets in flight", exchange_.bytes());
  }

 private:
  struct SlotState {
    std::pair<size_t, size_t> buckets;  // that it lies in
    uint32_t expected = 1;              // times that its gradient comes in a micro-batch
    uint32_t arrived = 0;               // in this one
    bool taken = false;                 // to be sent
    size_t sent = 0;                    // of its buckets
  };
  struct BucketState {
    std::pair<size_t, size_t> slots;
    uint32_t expected = 0;  // gradients
    uint32_t arrived = 0;
    bool sent = false;          // or ready
    bool deferred = false;      // to the end of the micro-batch
    bool was_deferred = false;  // in this step on this rank: incomplete or late
  };

  bool sends_now() const { return args_.every_micro_batch || seen_ + 1 == micro_batches_; }

  void start_round() {
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

  void expect_again(size_t slot) {
    SlotState& state = slots_[slot];
    state.expected = state.arrived;
    for (size_t bucket = state.buckets.first; bucket < state.buckets.second; ++bucket) {
      buckets_[bucket].was_deferred = true;
    }
  }

  // From here on what comes for its gradients is late, whenever the bucket is started: a sum's order must not
  // depend on how fast the others are.
  void send(size_t bucket) {
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

  void send_complete() {
    for (; next_ < order_.size(); ++next_) {
      const BucketState& bucket = buckets_[order_[next_]];
      if (bucket.arrived < bucket.expected || bucket.deferred) return;
      send(order_[next_]);
      start_ready(false);
    }
  }

  // Starts the buckets that need not wait for others, and more where too much is held; or all.
  void start_ready(bool all) {
    while (!ready_.empty() && (all || ready_length_ > longest_slot_ || !exchange_.is_full())) {
      const size_t bucket = ready_.front();
      ready_.pop_front();
      ready_length_ -= args_.partition.buckets()[bucket].length();
      start(bucket);
    }
  }

  void start(size_t bucket) {
    exchange_.start(bucket, outgoing_);
    const auto [first, last] = buckets_[bucket].slots;
    for (size_t slot = first; slot < last; ++slot) {
      SlotState& state = slots_[slot];
      if (++state.sent == state.buckets.second - state.buckets.first) outgoing_[slot].reset();
    }
  }

  void send_rest(bool empty) {
    for (const size_t bucket : order_) {
      BucketState& state = buckets_[bucket];
      if (state.sent) continue;
      if (!empty && state.arrived < state.expected) state.was_deferred = true;
      send(bucket);
    }
    start_ready(true);
  }

  // At the end of the first step: in which order buckets were complete on rank 0, which go last, whether some
  // rank has something left to send, and whether some rank's gradients come in rows.
  void learn_order() {
    const size_t count = buckets_.size();
    std::vector<int32_t> common(2 * count + 2);
    const std::span<int32_t> deferred(common.data(), count), places(common.data() + count, count);
    int32_t &late = common[2 * count], &rows = common[2 * count + 1];
    for (size_t bucket = 0; bucket < count; ++bucket)
      deferred[bucket] = buckets_[bucket].was_deferred ? 1 : 0;
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

  // The groups' sums of this rank's part, in float32: what of the gradients goes over the links between them.
  void sum_between(size_t bucket) {
    args_.groups.between().all_reduce(args_.shard.gradient(bucket), between_[bucket],
                                      concat("sums of gradients ", bucket));
  }

  // Each rank adds what lies in its parts.
  void finish_late_rows() {
    const at::Device device = args_.ranks.device();
    for (const LateRows::Sum& late : late_rows_.finish(args_.ranks.communicator(), device)) {
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

  ReducerArgs args_;
  const std::vector<Parameter>& parameters_;
  SendWhen when_;
  GradientSum sum_;
  Exchange exchange_;
  std::vector<SlotState> slots_;
  std::vector<BucketState> buckets_;
  std::vector<at::Tensor> outgoing_;  // by slot: taken, and not all sent
  std::deque<size_t> ready_;          // buckets whose gradients are taken, to be started in this order
  int64_t ready_length_ = 0;          // elements in them
  int64_t longest_slot_ = 0;
  std::vector<size_t> order_;  // of buckets
  size_t next_ = 0;            // in order_
  uint64_t micro_batches_ = 0;
  uint64_t seen_ = 0;
  std::optional<size_t> late_;  // a slot whose gradient came after its bucket went, in the micro-batch that
                                // is going on
  LateRows late_rows_;
  bool rows_came_ = false;         // on this rank
  bool expects_rows_ = false;      // some came on any rank in the first step, hence perhaps in every one
  std::vector<size_t> completed_;  // buckets in the order in which they were complete in the first step, the
                                   // first time counts
  bool knows_order_ = false;
  std::vector<uint64_t> delivered_;          // times that a bucket came in this step
  std::vector<RankGroup::Pending> between_;  // by bucket: its sum over the groups, under way
};

}  // namespace

std::unique_ptr<Reducer> eager_reducer(const ReducerArgs& args, const std::vector<Parameter>& parameters,
                                       SendWhen when, at::ScalarType wire) {
  return std::make_unique<EagerReducer>(args, parameters, when, wire);
}

}  // namespace pipeline::strategies
