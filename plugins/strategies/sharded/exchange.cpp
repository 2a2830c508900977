#include "plugins/strategies/sharded/exchange.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace pipeline::strategies {

Exchange::Exchange(std::shared_ptr<const Layout> layout, const Partition& partition, const RankGroup& ranks,
                   at::ScalarType wire, Deliver deliver)
    : layout_(std::move(layout)),
      partition_(partition),
      ranks_(ranks),
      wire_(wire),
      deliver_(std::move(deliver)) {}

bool Exchange::is_full() const {
  return under_way_.size() == kInFlight && RankGroup::would_block(under_way_.front()->pending);
}

void Exchange::start(size_t bucket, const Gradients& gradients) {
  if (under_way_.size() == kInFlight) finish_oldest();
  if (free_.empty()) {
    const int64_t part = partition_.longest() / ranks_.size(), others = partition_.longest() - part;
    const auto options = at::TensorOptions().device(ranks_.device());
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
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool mine = rank == ranks_.rank();
    fill(mine ? transfer.own.narrow(0, 0, length) : transfer.send.narrow(0, other++ * length, length),
         partition_.part(bucket, rank), gradients);
  }
  ranks_.exchange(transfer.send.narrow(0, 0, other * length), transfer.receive.narrow(0, 0, other * length),
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
  ranks_.wait(transfer->pending);
  const int64_t length = partition_.part_length(transfer->bucket);
  std::vector<at::Tensor> parts;
  int64_t other = 0;
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    parts.push_back(rank == ranks_.rank() ? transfer->own.narrow(0, 0, length)
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
  const auto size = static_cast<uint64_t>(ranks_.size());
  return kInFlight *
         (longest / size * sizeof(float) + 2 * (longest - longest / size) * at::elementSize(wire_));
}

TensorExchange::TensorExchange(std::shared_ptr<const Layout> layout, const Partition& partition,
                               const RankGroup& ranks, std::vector<size_t> slots)
    : layout_(std::move(layout)),
      partition_(partition),
      ranks_(ranks),
      slots_(std::move(slots)),
      owners_(layout_->slots().size(), -1),
      pieces_(static_cast<size_t>(partition.world_size())) {
  choose_owners();
  for (int64_t rank = 0; rank < partition_.world_size(); ++rank) {
    for (const size_t index : slots_) {
      const Slot& slot = layout_->slots()[index];
      const int64_t end = slot.offset + slot.padded;
      const auto [first, last] = partition_.buckets_of(slot.offset, end);
      for (size_t bucket = first; bucket < last; ++bucket) {
        const Range part = partition_.part(bucket, rank);
        const Range range{std::max(part.begin, slot.offset), std::min(part.end, end)};
        if (range.begin < range.end) pieces_[static_cast<size_t>(rank)].push_back({index, bucket, range});
      }
    }
  }
  for (size_t i = 0; i < mine().size(); ++i)
    if (!is_owner(mine()[i].slot, partition_.rank())) sent_.push_back(i);
  std::ranges::stable_sort(sent_, {}, [&](size_t i) { return owners_[mine()[i].slot]; });
}

// Deals out the largest tensor first, each to the rank that has least to do. A product of Newton and Schulz
// takes rows x columns x the smaller of the two.
void TensorExchange::choose_owners() {
  const auto cost = [&](size_t index) {
    const std::vector<int64_t>& shape = layout_->slots()[index].shape;
    return static_cast<double>(layout_->slots()[index].count) * static_cast<double>(std::ranges::min(shape));
  };
  std::vector<size_t> by_cost = slots_;
  std::ranges::stable_sort(by_cost, std::greater<>(), cost);
  std::vector<double> load(static_cast<size_t>(partition_.world_size()), 0);
  for (const size_t index : by_cost) {
    const auto least = std::ranges::min_element(load);
    *least += cost(index);
    owners_[index] = least - load.begin();
  }
}

std::vector<uint64_t> TensorExchange::counts_to_owners() const {
  std::vector<uint64_t> counts(pieces_.size(), 0);
  for (const size_t i : sent_)
    counts[static_cast<size_t>(owners_[mine()[i].slot])] += static_cast<uint64_t>(mine()[i].range.length());
  return counts;
}

std::vector<uint64_t> TensorExchange::counts_from_ranks() const {
  std::vector<uint64_t> counts(pieces_.size(), 0);
  for (size_t rank = 0; rank < pieces_.size(); ++rank)
    for (const Piece& piece : pieces_[rank])
      if (static_cast<int64_t>(rank) != partition_.rank() && is_owner(piece.slot, partition_.rank()))
        counts[rank] += static_cast<uint64_t>(piece.range.length());
  return counts;
}

void TensorExchange::transform(std::vector<at::Tensor>& values, const Transform& f) const {
  const int64_t rank = partition_.rank();
  const auto total = [](const std::vector<uint64_t>& counts) {
    return static_cast<int64_t>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  };
  const std::vector<uint64_t> out = counts_to_owners(), in = counts_from_ranks();
  const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat).device(ranks_.device());
  const at::Tensor sent = at::empty({total(out)}, options), received = at::empty({total(in)}, options);
  const auto for_sent = [&](const auto& visit) {  // visit(a value, its place in `sent`)
    int64_t next = 0;
    for (const size_t i : sent_) {
      visit(values[i], sent.narrow(0, next, values[i].numel()));
      next += values[i].numel();
    }
  };
  for_sent([](const at::Tensor& value, const at::Tensor& place) { place.copy_(value); });
  ranks_.exchange(sent, received, out, in, "tensors to their owners");

  // Each owned tensor is put together, transformed and cut again, in place of what came.
  std::map<size_t, at::Tensor> owned;
  for (const size_t slot : slots_)
    if (is_owner(slot, rank)) owned.emplace(slot, at::zeros({layout_->slots()[slot].padded}, options));
  const auto for_owned = [&](const auto& visit) {  // visit(place in its tensor, where its values come and go)
    int64_t next = 0;
    for (size_t r = 0; r < pieces_.size(); ++r) {
      for (size_t i = 0; i < pieces_[r].size(); ++i) {
        const Piece& piece = pieces_[r][i];
        if (!is_owner(piece.slot, rank)) continue;
        const int64_t length = piece.range.length();
        const bool is_here = static_cast<int64_t>(r) == rank;
        visit(owned.at(piece.slot).narrow(0, piece.range.begin - layout_->slots()[piece.slot].offset, length),
              is_here ? values[i] : received.narrow(0, next, length));
        if (!is_here) next += length;
      }
    }
  };
  for_owned([](const at::Tensor& place, const at::Tensor& came) { place.copy_(came); });
  for (auto& [index, tensor] : owned) {
    const Slot& slot = layout_->slots()[index];
    f(slot, tensor.narrow(0, 0, slot.count).view(slot.shape));
  }
  for_owned([](const at::Tensor& place, const at::Tensor& goes) { goes.copy_(place); });

  ranks_.exchange(received, sent, in, out, "tensors from their owners");
  for_sent([](const at::Tensor& value, const at::Tensor& place) { value.copy_(place); });
}

}  // namespace pipeline::strategies
