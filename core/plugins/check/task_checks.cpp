#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/open_task.hpp"
#include "core/plugins/check/subject.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {

std::string difference(const std::vector<float>& expected, const std::vector<float>& seen) {
  float largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const float here = std::abs(expected[i] - seen[i]);
    if (!(here <= difference)) difference = here;  // NaN, too
  }
  if (difference <= 1e-5f * largest) return {};
  return fmt::format("{}, where the largest is {}", difference, largest);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

namespace {

void is_created_and_destroyed(const CheckArgs& args) {
  const Subject subject(args);
  for (int i = 0; i < 2; ++i) Task(subject.plugin(), subject.context(), subject.config());
}

void opens(const CheckArgs& args) {
  OpenTask open(args);
  open.task().metrics();
  if (open.task().has_predict() && open.task().prediction_columns().empty())
    throw Error("prediction_columns are none");
}

void check_finite(const std::vector<float>& loss_and_gradients) {
  for (float value : loss_and_gradients)
    if (!std::isfinite(value)) throw Error("loss or gradients are not finite at the first step");
}

void training_is_reproducible(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = open.load(open.some_ids());
  const std::vector<float> first = open.train(batch), second = open.train(batch);
  check_finite(first);
  if (!same_bits(first, second))
    throw Error(
        "the same batch and seed gave another loss or other gradients: something random is not seeded, or "
        "training changes something besides the parameters that the loss depends on");
  if (!same_bits(first, open.train(open.load(open.some_ids()))))
    throw Error(
        "the same ids, loaded again, gave another loss: what is random in a sample must follow from the "
        "run's seed, its id and the epoch");
  OpenTask again(args);
  if (!same_bits(first, again.train(again.load(again.some_ids()))))
    throw Error("a second object gave another loss or other gradients");
}

void gradients_can_be_handed_over(const CheckArgs& args) {
  OpenTask bound(args), handing(args, {.gradients = Gradients::kHandedOver});
  const std::vector<float> in_place = bound.train(bound.load(bound.some_ids()));
  if (!same_bits(in_place, handing.train(handing.load(handing.some_ids()))))
    throw Error("gradients that are handed over differ from those added in place");
}

// `train.precision` is bf16 by default where the device has it, which the author's need not have: the CPU
// shows mistakes as well. The loss is off by more where something that needs its digits, such as a coordinate
// or a position, is rounded, too.
void trains_in_bf16(const CheckArgs& args) {
  constexpr float kMostOff = 0.1f;
  OpenTask wide(args);
  std::optional<OpenTask> narrow;
  try {
    narrow.emplace(args, OpenHow{.dtype = {PL_DTYPE_BFLOAT, 16, 1}});
  } catch (const Error& e) {
    if (e.code() != PL_ERROR_UNSUPPORTED) throw;
    throw Skip{e.what()};
  }
  const std::vector<float> expected = wide.train(wide.load(wide.some_ids()));
  const std::vector<float> seen = narrow->train(narrow->load(narrow->some_ids()));
  check_finite(seen);
  if (!(std::abs(seen[0] - expected[0]) <= kMostOff * std::abs(expected[0])))
    fail("the loss is {} in bf16 and {} in float32", seen[0], expected[0]);
}

// Under train.frozen_precision frozen weights are rounded; what is computed with them is not.
void takes_frozen_weights_in_bf16(const CheckArgs& args) {
  OpenTask wide(args, {.gradients = Gradients::kHandedOver, .frozen = Frozen::kRounded});
  OpenTask narrow(args, {.gradients = Gradients::kHandedOver, .frozen = Frozen::kNarrow});
  const std::string how =
      difference(wide.train(wide.load(wide.some_ids())), narrow.train(narrow.load(narrow.some_ids())));
  if (!how.empty())
    throw Error(
        "with frozen weights in bf16 the loss or gradients differ from those with the same weights in "
        "float32 by " +
        how + ": widen the weights, not what is computed with them");
}

// The outputs are what a step's loss is computed from before its micro-batches are trained.
void outputs_are_those_of_training(const CheckArgs& args) {
  OpenTask open(args);
  if (!open.task().has_global_outputs()) throw Skip{"its loss needs no other micro-batch's outputs"};
  const std::vector<uint64_t> ids = open.some_ids();
  const Batch batch = open.load(ids), last = open.load({ids.back()});
  pl_tensor room{};
  const auto written = [&](const Batch& some, uint64_t first_row) {
    open.write_outputs(some, first_row);
    const auto* values = data_of<const float>(room);
    return std::vector<float>(values, values + room.shape[0] * room.shape[1]);
  };
  room = open.task().make_room(ids.size());
  const std::vector<float> outputs = written(batch, 0);
  for (const float value : outputs)
    if (!std::isfinite(value)) throw Error("outputs are not finite at the first step");
  if (!same_bits(outputs, written(batch, 0)))
    throw Error("the same batch and seed gave other outputs the second time");
  const auto width = static_cast<ptrdiff_t>(room.shape[1]);
  const std::vector<float> after = written(last, ids.size() - 1);
  if (!same_bits({outputs.begin(), outputs.end() - width}, {after.begin(), after.end() - width}))
    fail("outputs of one sample at row {} changed rows before it", ids.size() - 1);
  const std::vector<float> alone = open.train(batch);
  room = open.task().make_room(ids.size());
  open.write_outputs(batch, 0);
  if (const std::string how = difference(alone, open.train(batch, {.outputs = &room})); !how.empty())
    throw Error(
        "a batch that is the whole step gives another loss or other gradients with its outputs than without: "
        "they differ by " +
        how);
}

// Trains as under a strategy that holds the values of one unit at a time.
void units_hold_what_they_use(const CheckArgs& args) {
  OpenTask whole(args, {.gradients = Gradients::kHandedOver});
  if (!whole.task().has_unit_hooks()) throw Skip{"it has no units"};
  OpenTask by_unit(args, {.gradients = Gradients::kHandedOver, .by_unit = true});
  const std::vector<uint64_t> ids = whole.some_ids();
  if (!same_bits(whole.train(whole.load(ids)), by_unit.train(by_unit.load(ids))))
    throw Error(
        "with values that are there only while their unit is open, the loss or gradients are others: "
        "something is used outside of its unit");
  const std::string passes = by_unit.passes();
  by_unit.train(by_unit.load(by_unit.some_ids(PL_SPLIT_TRAIN, 4)));
  if (by_unit.passes() != passes)
    throw Error(
        "two micro-batches do not enter and leave the same units in the same order: each must, also those "
        "that it does not use");
}

// Rows are added up in another order, so the gradients are not the same to the bit.
void gradients_can_come_in_rows(const CheckArgs& args) {
  OpenTask whole(args, {.gradients = Gradients::kHandedOver}), rows(args, {.gradients = Gradients::kInRows});
  const std::vector<float> expected = whole.train(whole.load(whole.some_ids()));
  const std::vector<float> seen = rows.train(rows.load(rows.some_ids()));
  if (!rows.gave_rows()) throw Skip{"it gives no gradient in rows"};
  if (const std::string how = difference(expected, seen); !how.empty())
    throw Error("gradients in rows differ from whole ones by " + how);
}

// A loss that another batch, an evaluation or another thread's load changes would be read too late.
void a_loss_lasts_until_the_next_step(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = open.load(open.some_ids());
  open.train(batch);
  const double first = open.loss();
  const Batch other = open.load({open.some_ids().back()});
  open.evaluate(other, PL_PURPOSE_VALIDATE, {});
  if (open.loss() != first) fail("the loss was {}, and is {} after an evaluation", first, open.loss());
}

// A rank that keeps a part of the weights asks for that part alone.
void initial_values_come_in_any_order(const CheckArgs& args) {
  const OpenTask in_order(args), backwards(args, {.backwards = true});
  if (!same_bits(in_order.values(), backwards.values()))
    throw Error("the initial values depend on the order in which they are asked for");
}

// Hints are flags that an older plugin does not know and may ignore.
void hints_are_ignored(const CheckArgs& args) {
  OpenTask plain(args), hinted(args, {.hints = true});
  const std::vector<uint64_t> ids = plain.some_ids();
  const uint32_t purpose = PL_PURPOSE_TRAIN | 0x10000u;
  const Batch batch = hinted.task().load({PL_SPLIT_TRAIN, purpose, ids, 0});
  if (!same_bits(plain.train(plain.load(ids)), hinted.train(batch)))
    throw Error("flags and codes above bit 15, which may be ignored, changed what it computes");
}

// A new object takes the state that a task keeps, opens with it, and keeps it in turn.
void takes_its_extra_state(const CheckArgs& args) {
  const std::string state = OpenTask(args).task().extra_state();
  if (state.empty()) throw Skip{"it keeps no extra state"};
  const Subject subject(args);
  Task task(subject.plugin(), subject.context(), subject.config());
  task.set_extra_state(state);
  if (task.has_prepare()) task.prepare();
  task.open();
  if (task.extra_state() != state)
    fail("it took back {} bytes of extra state, and then had another one", state.size());
}

}  // namespace

std::vector<Promise> task_promises() {
  std::vector<Promise> promises{
      {"is created and destroyed, twice", is_created_and_destroyed},
      {"prepares and opens; its parameters are in order", opens},
      {kSame, training_is_reproducible},
      {"training works in bf16, too", trains_in_bf16, kSame},
      {"frozen weights in bf16 give what the same give in float32", takes_frozen_weights_in_bf16, kSame},
      {"gradients handed over equal gradients in place", gradients_can_be_handed_over, kSame},
      {"values of a unit are used only while it is open", units_hold_what_they_use, kSame},
      {"gradients in rows add up to the whole ones", gradients_can_come_in_rows, kSame},
      {"outputs for the loss of a step are those of its training", outputs_are_those_of_training, kSame},
      {"a loss stays what it is until the next step", a_loss_lasts_until_the_next_step},
      {"initial values do not depend on the order", initial_values_come_in_any_order},
      {"flags and codes that may be ignored are", hints_are_ignored, kSame},
      {"extra state is taken back and used", takes_its_extra_state}};
  for (const auto& part : {gradient_promises(), data_promises(), evaluation_promises()})
    promises.insert(promises.end(), part.begin(), part.end());
  return promises;
}

}  // namespace pipeline::plugins
