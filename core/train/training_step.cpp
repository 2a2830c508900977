#include "core/train/training_step.hpp"

#include <algorithm>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/train/step_reports.hpp"

namespace pipeline::train {
namespace {

pl_train_args train_args(Session& session, MicroBatchPlace place, const GlobalOutputs* outputs) {
  pl_train_args args{};
  args.seed = dropout_seed(session, place);
  args.step = place.step;
  args.micro_batch = place.index;
  args.idle_losses = session.task().idle_losses(place.step);
  if (outputs != nullptr) {
    args.outputs = &outputs->all();
    args.first_row = outputs->first_row(place.index);
  }
  return args;
}

pl_error* drop(void* /*user*/, const pl_gradient* gradient) noexcept {
  if (gradient->release != nullptr) gradient->release(gradient->owner);
  return nullptr;
}

}  // namespace

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

uint64_t dropout_seed(const Session& session, MicroBatchPlace place) {
  return derive_seed(session.run_info().seed, "dropout", place.step, place.index);
}

void train_micro_batch(Session& session, plugins::Batch& batch, MicroBatchPlace place, double weight,
                       const LossScale& loss_scale, const GlobalOutputs* outputs) {
  plugins::Strategy& strategy = session.strategy();
  pl_train_args args = train_args(session, place, outputs);
  args.scale = weight > 0 ? loss_scale.value() / weight : 0;
  args.gradients = &strategy.gradient_sink();
  const pl_tensor loss = session.task().train(batch, args);
  strategy.end_micro_batch(&loss);
  session.processes().peers().progress();
  batch = plugins::Batch();
}

void go_through_units(Session& session, const plugins::Batch& batch, MicroBatchPlace place,
                      const GlobalOutputs* outputs) {
  pl_gradient_sink nothing = session.strategy().gradient_sink();
  nothing.user = nullptr;
  nothing.ready = drop;
  pl_train_args args = train_args(session, place, outputs);
  args.gradients = &nothing;
  session.task().train(batch, args);
  session.take_metrics();
  session.read_metrics(session.take_late_metrics());
}

pl_step_args step_args(Session& session, uint64_t step, double learning_rate, const LossScale& loss_scale) {
  pl_step_args args{};
  args.idle_losses = session.task().idle_losses(step);
  args.learning_rate = learning_rate;
  args.clip_value = session.options().train.clip_grad_value;
  if (args.clip_value == 0) args.clip_norm = session.options().train.clip_grad_norm;
  args.inverse_scale = 1 / loss_scale.value();
  return args;
}

TrialSteps::TrialSteps(Session& session)
    : session_(session), loss_scale_(loss_scale_options(session)), step_(session.task().busiest_step()) {}

// The places of this rank's micro-batches: the step is that of all ranks, as in a run.
std::vector<MicroBatchPlace> TrialSteps::places(uint64_t each) const {
  const auto world = static_cast<uint64_t>(session_.run_info().world_size),
             rank = static_cast<uint64_t>(session_.run_info().rank);
  const bool in_turns = session_.strategy().info().micro_batch_order == PL_ORDER_INTERLEAVED;
  std::vector<MicroBatchPlace> places;
  for (uint64_t i = 0; i < each; ++i)
    places.push_back({.step = step_, .index = in_turns ? i * world + rank : rank * each + i});
  return places;
}

// The outputs of all samples of the step, where the task's loss needs them.
std::optional<GlobalOutputs> TrialSteps::global_outputs(std::span<const plugins::Batch> batches,
                                                        std::span<const MicroBatchPlace> places) {
  const uint64_t all = batches.size() * static_cast<uint64_t>(session_.run_info().world_size);
  if (!GlobalOutputs::are_wanted(session_, all)) return std::nullopt;
  std::vector<MicroBatchFacts> mine;
  for (size_t i = 0; i < batches.size(); ++i)
    mine.push_back({.index = places[i].index, .samples = batches[i].ids().size()});
  const StepFacts facts = sum_over_ranks(session_.processes(), mine);
  return std::optional<GlobalOutputs>(std::in_place, session_, batches, places,
                                      RowsOfStep(facts.samples, all), nullptr);
}

TrialStep TrialSteps::run(std::span<const std::vector<uint64_t>> micro_batches, uint64_t epoch,
                          double learning_rate, const std::function<void()>& after_micro_batch) {
  plugins::Task& task = session_.task();
  plugins::Strategy& strategy = session_.strategy();
  std::vector<plugins::Batch> batches;
  double weight = 0;
  TrialStep result;
  result.flops = 0;
  const uint64_t before = launch::host_memory();
  for (const std::vector<uint64_t>& ids : micro_batches) {
    batches.push_back(
        task.load({.split = PL_SPLIT_TRAIN, .purpose = PL_PURPOSE_TRAIN, .ids = ids, .epoch = epoch}));
    weight += batches.back().weight();
    const std::optional<double> flops = task.flops(batches.back());
    result.flops = result.flops && flops ? std::optional(*result.flops + *flops) : std::nullopt;
  }
  result.loaded_bytes = std::max(before, launch::host_memory()) - before;
  const double began = now_seconds();
  strategy.begin_step(batches.size());
  const std::vector<MicroBatchPlace> places = this->places(batches.size());
  const std::optional<GlobalOutputs> outputs = global_outputs(batches, places);
  for (size_t m = 0; m < batches.size(); ++m) {
    if (session_.args().cancelled && session_.args().cancelled())
      throw Error(PL_ERROR_CANCELLED, "stopped between two micro-batches");
    train_micro_batch(session_, batches[m], places[m], weight, loss_scale_, outputs ? &*outputs : nullptr);
    if (after_micro_batch) after_micro_batch();
  }
  result.pass_seconds = now_seconds() - began;
  const pl_step_report report =
      strategy.collect(strategy.step(step_args(session_, step_, learning_rate, loss_scale_)));
  result.seconds = now_seconds() - began;
  result.loss = observe::without_sign_if_nan(weight > 0 ? report.loss_sum / weight : 0);
  result.finite = report.finite != 0;
  loss_scale_.update(result.finite);
  session_.take_metrics();
  session_.read_metrics(session_.take_late_metrics());
  if (session_.task().losses().size() < 2) ++step_;  // else each is one in which the most losses have a turn
  return result;
}

}  // namespace pipeline::train
