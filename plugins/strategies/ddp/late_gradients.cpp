#include "plugins/strategies/ddp/late_gradients.hpp"

#include <utility>

#include "plugins/strategies/common/collective.hpp"

namespace pipeline::strategies {
namespace {

at::Tensor any_rank(const Communicator& group, const at::Tensor& flags) {
  group.all_reduce(to_buffer(flags), PL_REDUCE_MAX).wait();
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
  Communicator::Work work = group.all_reduce(to_buffer(sent));
  return {slot, std::move(index), std::move(sent), std::move(work)};
}

void receive(Flight& flight, const at::Tensor& sum) {
  flight.work.wait();
  const int64_t in_rows = flight.index.numel() * kChunk;
  rows_of(sum).index_add_(0, flight.index, flight.sent.narrow(0, 0, in_rows).view({-1, kChunk}));
  rest_of(sum).add_(flight.sent.narrow(0, in_rows, flight.sent.numel() - in_rows));
}

}  // namespace

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

}  // namespace pipeline::strategies
