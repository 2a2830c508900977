#include "plugins/strategies/ddp/buckets.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {

std::vector<size_t> expected_order(const Layout& layout) {
  std::vector<size_t> order;
  for (size_t slot = 0; slot < layout.trainable_slots(); ++slot) {
    if (layout.slots()[slot].count > 0) order.push_back(slot);
  }
  std::ranges::sort(order, std::greater(), [&](size_t slot) { return layout.slots()[slot].parameter; });
  return order;
}

std::vector<Bucket> make_buckets(const Layout& layout, const BucketSizes& sizes,
                                 const std::vector<size_t>& order) {
  std::vector<Bucket> buckets;
  Bucket open;
  bool any_flat = false;
  const auto close = [&] {
    if (open.count == 0) return;
    any_flat = true;
    buckets.push_back(std::exchange(open, {}));
  };
  for (const size_t slot : order) {
    const int64_t count = layout.slots()[slot].padded;
    if (count >= std::min(sizes.in_place, sizes.most)) {
      for (int64_t begin = 0; begin < count; begin += sizes.most) {
        const int64_t piece = std::min(sizes.most, count - begin);
        buckets.push_back({{{slot, begin, piece}}, piece, true});
      }
      continue;
    }
    if (open.count + count > (any_flat ? sizes.most : sizes.first)) close();
    open.parts.push_back({slot, 0, count});
    open.count += count;
  }
  close();
  return buckets;
}

Buckets::Buckets(const Communicator& group, std::shared_ptr<const Layout> layout, std::vector<Bucket> plan,
                 at::Device device, at::ScalarType wire)
    : group_(group),
      layout_(std::move(layout)),
      options_(at::TensorOptions().dtype(at::kFloat).device(device)),
      wire_(wire) {
  replan(std::move(plan));
}

void Buckets::replan(std::vector<Bucket> plan) {
  plan_ = std::move(plan);
  buckets_of_.assign(layout_->trainable_slots(), {});
  for (size_t i = 0; i < plan_.size(); ++i) {
    for (const BucketPart& part : plan_[i].parts) buckets_of_[part.slot].push_back(i);
  }
  reset();
}

void Buckets::reset() {
  flights_.clear();
  flights_.reserve(plan_.size());
  ready_.assign(layout_->trainable_slots(), false);
  gradients_.assign(layout_->trainable_slots(), at::Tensor());
  missing_.clear();
  for (const Bucket& bucket : plan_) missing_.push_back(bucket.parts.size());
}

void Buckets::put(size_t slot, at::Tensor gradient) {
  ready_[slot] = true;
  gradients_[slot] = std::move(gradient);
  for (const size_t bucket : buckets_of_[slot]) --missing_[bucket];
  while (flights_.size() < plan_.size() && missing_[flights_.size()] == 0) {
    start(flights_.size());
  }
}

// What an all-reduce is to change.
at::Tensor Buckets::gather(const Bucket& bucket) {
  if (bucket.in_place) {
    const BucketPart& part = bucket.parts.front();
    at::Tensor& gradient = gradients_[part.slot];
    if (!gradient.defined()) gradient = at::zeros({layout_->slots()[part.slot].padded}, options_);
    return gradient.narrow(0, part.begin, part.count);
  }
  at::Tensor flat = at::empty({bucket.count}, options_);
  int64_t at = 0;
  for (const BucketPart& part : bucket.parts) {
    at::Tensor place = flat.narrow(0, std::exchange(at, at + part.count), part.count);
    if (gradients_[part.slot].defined()) {
      place.copy_(gradients_[part.slot]);
    } else {
      place.zero_();
    }
    gradients_[part.slot] = std::move(place);
  }
  return flat;
}

void Buckets::start(size_t index) {
  const at::Tensor sum = gather(plan_[index]);
  Flight& flight = flights_.emplace_back(Flight{sum, sum.to(wire_), std::nullopt});
  flight.work.emplace(group_.all_reduce(to_buffer(flight.sent, concat("bucket ", index))));
}

uint64_t Buckets::copied_bytes() const {
  uint64_t elements = 0, converted = 0;
  for (const Bucket& bucket : plan_) {
    if (!bucket.in_place) elements += static_cast<uint64_t>(bucket.count);
    converted += static_cast<uint64_t>(bucket.count);
  }
  return elements * sizeof(float) + (wire_ == at::kFloat ? 0 : converted * c10::elementSize(wire_));
}

std::vector<at::Tensor> Buckets::finish() {
  for (Flight& flight : flights_) {
    flight.work->wait();
    if (!flight.sent.is_same(flight.sum)) flight.sum.copy_(flight.sent);
    flight.sent.reset();
  }
  std::vector<at::Tensor> sums = std::move(gradients_);
  reset();
  return sums;
}

}  // namespace pipeline::strategies
