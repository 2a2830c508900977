#include "core/train/global_outputs.hpp"

#include <algorithm>

#include "core/base/abi_values.hpp"

namespace pipeline::train {

RowsOfStep::RowsOfStep(std::span<const uint64_t> samples, uint64_t micro_batches) : begins_{0} {
  for (uint64_t m = 0; m < micro_batches; ++m)
    begins_.push_back(begins_.back() + (m < samples.size() ? samples[m] : 0));
}

std::vector<RowsOfStep::Turn> RowsOfStep::turns(uint64_t world_size, uint32_t micro_batch_order) const {
  const uint64_t micro_batches = begins_.size() - 1, each = (micro_batches + world_size - 1) / world_size;
  const bool in_turns = micro_batch_order == PL_ORDER_INTERLEAVED;
  const uint64_t length = in_turns ? 1 : each;  // micro-batches of a rank in one turn
  const auto at = [&](uint64_t m) { return begins_[std::min(m, micro_batches)]; };
  std::vector<Turn> turns(in_turns ? each : 1);
  for (uint64_t turn = 0, m = 0; turn < turns.size(); ++turn)
    for (uint64_t rank = 0; rank < world_size; ++rank, m += length)
      turns[turn].emplace_back(at(m), at(m + length));
  return turns;
}

bool GlobalOutputs::are_wanted(Session& session, uint64_t micro_batches) {
  return micro_batches > 1 && session.task().has_global_outputs();
}

GlobalOutputs::GlobalOutputs(Session& session, std::span<const plugins::Batch> batches,
                             std::span<const MicroBatchPlace> places, const RowsOfStep& rows,
                             const std::function<std::pair<plugins::Batch, MicroBatchPlace>()>& any_batch)
    : session_(session), rows_(rows), all_(session.task().make_room(rows.total())) {
  const auto is_loaded = [](const plugins::Batch& batch) { return static_cast<bool>(batch); };
  const auto some = std::ranges::find_if(batches, is_loaded);
  std::optional<std::pair<plugins::Batch, MicroBatchPlace>> other;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i]) {
      compute(batches[i], places[i]);
    } else if ((session.strategy().info().flags & PL_STRATEGY_NEEDS_UNIT_HOOKS) == 0) {
      continue;
    } else if (some != batches.end()) {
      // The other ranks go through their units, and the strategy needs this rank for that.
      compute(*some, places[static_cast<size_t>(some - batches.begin())]);
    } else {
      if (!other) other = any_batch();
      compute(other->first, other->second);
    }
  }
  if (session.group() != nullptr) gather();
}

void GlobalOutputs::compute(const plugins::Batch& batch, MicroBatchPlace place) {
  pl_outputs_args args{};
  args.seed = dropout_seed(session_, place);
  args.step = place.step;
  args.micro_batch = place.index;
  args.first_row = rows_.begin(place.index);
  session_.task().write_outputs(batch, args);
  session_.processes().peers().progress();
}

void GlobalOutputs::gather() {
  plugins::Communicator& group = *session_.group();
  const auto width = static_cast<uint64_t>(all_.shape[1]);
  const auto rows_from = [&](uint64_t begin, uint64_t end) {
    auto buffer = sized<pl_buffer>();
    buffer.data = static_cast<char*>(all_.data) + all_.byte_offset + begin * width * sizeof(float);
    buffer.count = (end - begin) * width;
    buffer.dtype = all_.dtype;
    buffer.device = all_.device;
    buffer.stream = session_.run_info().stream;
    buffer.label = to_pl("outputs of the step");
    return buffer;
  };
  std::vector<plugins::Work> pending;
  for (const RowsOfStep::Turn& turn :
       rows_.turns(static_cast<uint64_t>(group.world_size()), session_.strategy().info().micro_batch_order)) {
    std::vector<uint64_t> counts;
    for (const auto& [begin, end] : turn) counts.push_back((end - begin) * width);
    const auto& [begin, end] = turn[static_cast<size_t>(group.rank())];
    const pl_buffer mine = rows_from(begin, end);
    pending.push_back(group.all_gather(mine, rows_from(turn.front().first, turn.back().second), counts));
  }
  for (plugins::Work& work : pending) work.wait_on(session_.run_info().stream);
}

}  // namespace pipeline::train
