#include "plugins/strategies/sharded/exchange.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

namespace pipeline::strategies {

Exchange::Exchange(std::shared_ptr<const Layout> layout, const Partition& partition, const Peers& peers,
                   at::ScalarType wire, Deliver deliver)
    : layout_(std::move(layout)),
      partition_(partition),
      peers_(peers),
      wire_(wire),
      deliver_(std::move(deliver)) {}

bool Exchange::is_full() const {
  return under_way_.size() == kInFlight && Peers::would_block(under_way_.front()->pending);
}

void Exchange::start(size_t bucket, const Gradients& gradients) {
  if (under_way_.size() == kInFlight) finish_oldest();
  if (free_.empty()) {
    const int64_t part = partition_.longest() / peers_.size(), others = partition_.longest() - part;
    const auto options = at::TensorOptions().device(peers_.device());
    auto transfer = std::make_unique<Transfer>();
    transfer->own = at::empty({part}, options.dtype(at::kFloat));
    transfer->send = at::empty({others}, options.dtype(wire_));
    transfer->receive = at::empty({others}, options.dtype(wire_));
    free_.push_back(std::move(transfer));
  }
  under_way_.push_back(std::move(free_.back()));
  free_.pop_back();
  Transfer& transfer = *under_way_.back();
  transfer.bucket = bucket;
  const int64_t length = partition_.part_length(bucket);
  int64_t other = 0;
  for (int64_t rank = 0; rank < peers_.size(); ++rank) {
    const bool mine = rank == peers_.rank();
    fill(mine ? transfer.own.narrow(0, 0, length) : transfer.send.narrow(0, other++ * length, length),
         partition_.part(bucket, rank), gradients);
  }
  peers_.exchange(transfer.send.narrow(0, 0, other * length), transfer.receive.narrow(0, 0, other * length),
                  transfer.pending, concat("gradients ", bucket));
}

void Exchange::fill(const at::Tensor& to, Range range, const Gradients& gradients) const {
  const std::vector<Slot>& slots = layout_->slots();
  auto slot =
      std::ranges::partition_point(slots, [&](const Slot& s) { return s.offset + s.padded <= range.begin; });
  int64_t filled = range.begin;
  const auto nothing_until = [&](int64_t end) {
    // -0 is what changes no bit of what it is added to.
    if (filled < end) to.narrow(0, filled - range.begin, end - filled).fill_(-0.0);
  };
  for (; slot != slots.end() && slot->offset < range.end; ++slot) {
    const at::Tensor& gradient = gradients[static_cast<size_t>(slot - slots.begin())];
    if (!gradient.defined()) continue;
    const int64_t first = std::max(range.begin, slot->offset);
    const int64_t last = std::min(range.end, slot->offset + slot->padded);
    nothing_until(first);
    to.narrow(0, first - range.begin, last - first)
        .copy_(gradient.narrow(0, first - slot->offset, last - first));
    filled = last;
  }
  nothing_until(range.end);
}

void Exchange::finish_oldest() {
  std::unique_ptr<Transfer> transfer = std::move(under_way_.front());
  under_way_.pop_front();
  peers_.wait(transfer->pending);
  const int64_t length = partition_.part_length(transfer->bucket);
  std::vector<at::Tensor> parts;
  int64_t other = 0;
  for (int64_t rank = 0; rank < peers_.size(); ++rank) {
    parts.push_back(rank == peers_.rank() ? transfer->own.narrow(0, 0, length)
                                          : transfer->receive.narrow(0, other++ * length, length));
  }
  deliver_(transfer->bucket, parts);
  free_.push_back(std::move(transfer));
}

void Exchange::finish() {
  while (!under_way_.empty()) finish_oldest();
  free_.clear();  // the next step's forward pass needs memory more
}

void Exchange::drop() { under_way_.clear(); }

uint64_t Exchange::bytes() const {
  const auto longest = static_cast<uint64_t>(partition_.longest());
  const auto size = static_cast<uint64_t>(peers_.size());
  return kInFlight *
         (longest / size * sizeof(float) + 2 * (longest - longest / size) * at::elementSize(wire_));
}

}  // namespace pipeline::strategies
