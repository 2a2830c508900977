#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <pipeline/torch/runtime.hpp>

#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/collective.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/ddp/reductions.hpp"

namespace pipeline::strategies {
namespace {

at::Tensor any_rank(const Communicator& group, const at::Tensor& flags) {
  group.all_reduce(to_buffer(flags, "rows of late gradients"), PL_REDUCE_MAX).wait();
  return flags;
}

// A gradient as rows, and the few elements that make no whole one.
at::Tensor rows_of(const at::Tensor& gradient) {
  const int64_t rows = gradient.numel() / kChunk;
  return gradient.narrow(0, 0, rows * kChunk).view({rows, kChunk});
}
at::Tensor rest_of(const at::Tensor& gradient) {
  const int64_t rest = gradient.numel() % kChunk;
  return gradient.narrow(0, gradient.numel() - rest, rest);
}

at::Tensor row_flags(const at::Tensor& late, const at::Tensor& sum) {
  const at::Tensor rows = rows_of(late.defined() ? late : sum);
  if (!late.defined() || rows.size(0) == 0) return at::zeros({rows.size(0)}, rows.options().dtype(at::kByte));
  const auto [least, most] = at::aminmax(rows, /*dim=*/1);
  return least.ne(0).logical_or_(most.ne(0)).to(at::kByte);  // NaN is not 0 either
}

// The rows of one slot on their way.
struct Flight {
  size_t slot;
  at::Tensor index;  // of the rows
  at::Tensor sent;
  Communicator::Work work;
};

Flight send(const Communicator& group, size_t slot, const at::Tensor& flags, const at::Tensor& late,
            const at::Tensor& sum) {
  at::Tensor index = flags.nonzero().squeeze(1);
  at::Tensor sent = late.defined()
                        ? at::cat({rows_of(late).index_select(0, index).flatten(), rest_of(late)})
                        : at::zeros({index.numel() * kChunk + rest_of(sum).numel()}, sum.options());
  Communicator::Work work = group.all_reduce(to_buffer(sent, "late gradients"));
  return {slot, std::move(index), std::move(sent), std::move(work)};
}

void receive(Flight& flight, const at::Tensor& sum) {
  flight.work.wait();
  const int64_t in_rows = flight.index.numel() * kChunk;
  rows_of(sum).index_add_(0, flight.index, flight.sent.narrow(0, 0, in_rows).view({-1, kChunk}));
  rest_of(sum).add_(flight.sent.narrow(0, in_rows, flight.sent.numel() - in_rows));
}

// Adds to `sums` what came on any rank after a gradient had been sent; all by slot. `is_late`: 1 where any
// rank has something, the same on all. `late`: this rank's part, undefined where there is none. Only those
// rows of kChunk elements travel in which some rank has anything. All ranks must call it.
void add_late_gradients(const Communicator& group, const std::vector<uint8_t>& is_late,
                        const std::vector<at::Tensor>& late, std::vector<at::Tensor>& sums) {
  std::vector<size_t> affected;
  std::vector<at::Tensor> flags;
  for (size_t slot = 0; slot < is_late.size(); ++slot) {
    if (is_late[slot] == 0) continue;
    affected.push_back(slot);
    flags.push_back(row_flags(late[slot], sums[slot]));
  }
  const at::Tensor all_flags = any_rank(group, at::cat(flags));

  std::vector<Flight> flights;
  int64_t at = 0;
  for (size_t i = 0; i < affected.size(); ++i) {
    const size_t slot = affected[i];
    const int64_t rows = flags[i].numel();
    flights.push_back(
        send(group, slot, all_flags.narrow(0, std::exchange(at, at + rows), rows), late[slot], sums[slot]));
  }
  for (Flight& flight : flights) receive(flight, sums[flight.slot]);
}

// The fast way: micro-batches are added up on each rank; in the last one every gradient that is complete goes
// into its bucket, and full buckets travel while the backward pass goes on. What was not used goes as zeros
// at its end, what comes after its bucket has left travels by itself.
class BucketReduction : public Reduction {
 public:
  BucketReduction(const Context& context, const Communicator& group, std::shared_ptr<const Layout> layout,
                  at::Device device, const BucketSizes& sizes, at::ScalarType wire, bool overlap)
      : context_(context),
        group_(group),
        layout_(std::move(layout)),
        device_(device),
        sizes_(sizes),
        overlap_(overlap),
        gradients_(layout_, /*fixed_tree=*/false),
        buckets_(group, layout_, make_buckets(*layout_, sizes, expected_order(*layout_)), device, wire),
        arrivals_(layout_->trainable_slots()),
        late_rows_(layout_) {}

  // A step that was given up on all ranks may have stopped at another bucket on each: all send the rest, so
  // that the order stays the same.
  void begin(uint64_t micro_batches) override {
    gradients_.clear();
    late_rows_.clear();
    if (unfinished_) {
      send_rest();
      receive();
    }
    order_.clear();
    loss_.clear();
    arrivals_.forget_micro_batch();
    left_ = micro_batches;
    unfinished_ = true;
    if (sends_now()) send_unused();
  }

  void add(size_t slot, const at::Tensor& gradient, bool owned) override {
    gradients_.add(slot, gradient, owned);
    if (overlap_ && !knows_order_ && left_ == 1) order_.push_back(slot);
    if (arrivals_.arrived(slot) && sends_now()) send(slot);
  }

  void add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values) override {
    if (buckets_.has(slot)) {
      late_rows_.add(slot, rows, values);
    } else {
      gradients_.add_rows(slot, rows, values);
    }
  }

  // On CUDA the host would have to wait for which rows there are.
  bool takes_rows() const override { return overlap_ && device_.is_cpu(); }

  void end_micro_batch(at::Tensor loss) override {
    if (loss.defined()) {
      arrivals_.end_micro_batch();
    } else {
      arrivals_.forget_micro_batch();
    }
    loss_.push(std::move(loss));
    if (--left_ == 0) send_rest();
    if (sends_now()) send_unused();
  }

  StepSums finish() override {
    StepSums sums = receive();
    if (!knows_order_ && overlap_) learn_order();
    return sums;
  }

  void memory(const MemoryVisitor& visit) const override {
    visit("gradients", static_cast<uint64_t>(layout_->trainable_length()) * sizeof(float));
    if (const uint64_t bytes = buckets_.copied_bytes(); bytes > 0) visit("gradient buckets", bytes);
  }

 private:
  struct Loss {
    at::Tensor sum;
    Communicator::Work work;
  };

  // Whether gradients travel as soon as they are there.
  bool sends_now() const { return overlap_ && left_ == 1; }

  void send(size_t slot) {
    if (!buckets_.has(slot)) buckets_.put(slot, gradients_.take(slot));
  }

  // Sends the slots that no gradient is expected for, so that they hold up no bucket behind theirs.
  void send_unused() {
    for (size_t slot = 0; slot < layout_->trainable_slots(); ++slot) {
      if (arrivals_.none_expected(slot)) send(slot);
    }
  }

  void send_rest() {
    if (loss_sum_) return;
    for (size_t slot = 0; slot < layout_->trainable_slots(); ++slot) send(slot);
    at::Tensor loss = loss_.finish();
    loss =
        loss.defined() ? loss.clone() : at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device_));
    loss_sum_.emplace(Loss{loss, group_.all_reduce(to_buffer(loss, "loss"))});
  }

  StepSums receive() {
    unfinished_ = false;
    std::vector<uint8_t> late = late_on_any_rank();
    const bool late_rows = late.back() != 0;
    late.pop_back();
    std::vector<at::Tensor> sums = buckets_.finish();
    loss_sum_->work.wait();
    const at::Tensor loss = std::exchange(loss_sum_, std::nullopt)->sum;
    if (std::ranges::count(late, 1) > 0) {
      std::vector<at::Tensor> gradients;
      for (size_t slot = 0; slot < sums.size(); ++slot) gradients.push_back(gradients_.take(slot));
      add_late_gradients(group_, late, gradients, sums);
    }
    if (late_rows) {
      for (const LateRows::Sum& rows : late_rows_.finish(&group_, device_))
        rows.add_to(sums[rows.slot].narrow(0, 0, layout_->slots()[rows.slot].count), 0);
    }
    GradientRuns runs;
    for (size_t slot = 0; slot < sums.size(); ++slot) {
      if (sums[slot].defined()) runs.push_back({layout_->slots()[slot].offset, std::move(sums[slot])});
    }
    return {std::move(runs), loss};
  }

  // What came after its bucket had left, on any rank: 1 for each slot, and behind them for rows.

  std::vector<uint8_t> late_on_any_rank() const {
    std::vector<uint8_t> late(layout_->trainable_slots() + 1);
    for (size_t slot = 0; slot + 1 < late.size(); ++slot) late[slot] = gradients_.has(slot) ? 1 : 0;
    late.back() = late_rows_.empty() ? 0 : 1;
    maximum_over_hosts(context_, "late gradients", late);
    return late;
  }

  // Learns rank 0's order for all ranks, after the first step. A gradient that came several times counts from
  // its last, one that did not come goes behind the others.
  void learn_order() {
    std::vector<int64_t> places(layout_->trainable_slots());
    if (group_.rank() == 0) {
      std::ranges::fill(places, std::numeric_limits<int64_t>::max());
      for (size_t i = 0; i < order_.size(); ++i) places[order_[i]] = static_cast<int64_t>(i);
    }
    maximum_over_hosts(context_, "order", places);
    std::vector<size_t> order = expected_order(*layout_);
    std::ranges::stable_sort(order, {}, [&](size_t slot) { return places[slot]; });
    buckets_.replan(make_buckets(*layout_, sizes_, order));
    knows_order_ = true;
  }

  const Context context_;
  const Communicator& group_;
  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  BucketSizes sizes_;
  bool overlap_;
  GradientSum gradients_;
  Buckets buckets_;
  Arrivals arrivals_;
  LateRows late_rows_;         // of gradients that have been sent
  std::vector<size_t> order_;  // in which gradients came in the first step's last micro-batch
  bool knows_order_ = false;
  LossTree loss_ = make_loss_tree();
  std::optional<Loss> loss_sum_;  // under way
  bool unfinished_ = false;       // between begin() and finish()
  uint64_t left_ = 0;             // micro-batches of this step
};

}  // namespace

std::unique_ptr<Reduction> bucket_reduction(const Context& context, const Communicator& group,
                                            std::shared_ptr<const Layout> layout, at::Device device,
                                            const BucketSizes& sizes, at::ScalarType wire, bool overlap) {
  return std::make_unique<BucketReduction>(context, group, std::move(layout), device, sizes, wire, overlap);
}

}  // namespace pipeline::strategies
