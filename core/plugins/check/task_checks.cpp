#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <tuple>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/open_task.hpp"
#include "core/plugins/check/subject.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {
namespace {

Batch load(OpenTask& open, std::vector<uint64_t> ids) {
  return open.task().load({PL_SPLIT_TRAIN, PL_PURPOSE_TRAIN, ids, 0});
}

// "" where both are the same but for rounding.
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

void batches_are_weighed(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids();
  const Batch batch = load(open, ids);
  if (batch.info().samples != ids.size())
    throw Error(fmt::format("batch_info: samples is {}, {} were loaded", batch.info().samples, ids.size()));
  if (!(batch.weight() >= 0) || !std::isfinite(batch.weight()))
    throw Error(fmt::format("batch_info: weight is {}", batch.weight()));
  if (batch.info().tokens > batch.info().positions && batch.info().positions != 0)
    throw Error(
        fmt::format("batch_info: {} tokens in {} positions", batch.info().tokens, batch.info().positions));
}

void wrong_ids_are_refused(const CheckArgs& args) {
  OpenTask open(args);
  const uint64_t count = open.task().sample_count(PL_SPLIT_TRAIN);
  if (count == UINT64_MAX) throw Skip{"it has data without an end"};
  for (uint64_t id : {count, ~uint64_t{0}}) {
    try {
      load(open, {id});
    } catch (const Error&) {
      continue;
    }
    throw Error(fmt::format("load took sample {} of {}", id, count));
  }
}

void check_finite(const std::vector<float>& loss_and_gradients) {
  for (float value : loss_and_gradients)
    if (!std::isfinite(value)) throw Error("loss or gradients are not finite at the first step");
}

void training_is_reproducible(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = load(open, open.some_ids());
  const std::vector<float> first = open.train(batch), second = open.train(batch);
  check_finite(first);
  if (!same_bits(first, second))
    throw Error(
        "the same batch and seed gave another loss or other gradients: something random is not seeded, or "
        "training changes something besides the parameters that the loss depends on");
  if (!same_bits(first, open.train(load(open, open.some_ids()))))
    throw Error(
        "the same ids, loaded again, gave another loss: what is random in a sample must follow from the "
        "run's "
        "seed, its id and the epoch");
  OpenTask again(args);
  if (!same_bits(first, again.train(load(again, again.some_ids()))))
    throw Error("a second object gave another loss or other gradients");
}

void gradients_can_be_handed_over(const CheckArgs& args) {
  OpenTask bound(args), handing(args, {.gradients = Gradients::kHandedOver});
  const std::vector<float> in_place = bound.train(load(bound, bound.some_ids()));
  if (!same_bits(in_place, handing.train(load(handing, handing.some_ids()))))
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
  const std::vector<float> expected = wide.train(load(wide, wide.some_ids()));
  const std::vector<float> seen = narrow->train(load(*narrow, narrow->some_ids()));
  check_finite(seen);
  if (!(std::abs(seen[0] - expected[0]) <= kMostOff * std::abs(expected[0])))
    throw Error(fmt::format("the loss is {} in bf16 and {} in float32", seen[0], expected[0]));
}

// As with train.frozen_precision: the weights are rounded, what is computed with them is not.
void takes_frozen_weights_in_bf16(const CheckArgs& args) {
  OpenTask wide(args, {.gradients = Gradients::kHandedOver, .frozen = Frozen::kRounded});
  OpenTask narrow(args, {.gradients = Gradients::kHandedOver, .frozen = Frozen::kNarrow});
  const std::string how =
      difference(wide.train(load(wide, wide.some_ids())), narrow.train(load(narrow, narrow.some_ids())));
  if (!how.empty())
    throw Error(
        "with frozen weights in bf16 the loss or gradients differ from those with the same weights in "
        "float32 by " +
        how + ": widen the weights, not what is computed with them");
}

// What a step's loss is computed from before its micro-batches are trained.
void outputs_are_those_of_training(const CheckArgs& args) {
  OpenTask open(args);
  if (!open.task().has_global_outputs()) throw Skip{"its loss needs no other micro-batch's outputs"};
  const std::vector<uint64_t> ids = open.some_ids();
  const Batch batch = load(open, ids), last = load(open, {ids.back()});
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
    throw Error(fmt::format("outputs of one sample at row {} changed rows before it", ids.size() - 1));
  const std::vector<float> alone = open.train(batch);
  room = open.task().make_room(ids.size());
  open.write_outputs(batch, 0);
  if (const std::string how = difference(alone, open.train(batch, &room)); !how.empty())
    throw Error(
        "a batch that is the whole step gives another loss or other gradients with its outputs than without: "
        "they differ by " +
        how);
}

// As under a strategy that holds the values of one unit at a time.
void units_hold_what_they_use(const CheckArgs& args) {
  OpenTask whole(args, {.gradients = Gradients::kHandedOver});
  if (!whole.task().has_unit_hooks()) throw Skip{"it has no units"};
  OpenTask by_unit(args, {.gradients = Gradients::kHandedOver, .by_unit = true});
  if (!same_bits(whole.train(load(whole, whole.some_ids())),
                 by_unit.train(load(by_unit, by_unit.some_ids()))))
    throw Error(
        "with values that are there only while their unit is open, the loss or gradients are others: "
        "something is used outside of its unit");
}

// Added up in another order, so not to the bit.
void gradients_can_come_in_rows(const CheckArgs& args) {
  OpenTask whole(args, {.gradients = Gradients::kHandedOver}), rows(args, {.gradients = Gradients::kInRows});
  const std::vector<float> expected = whole.train(load(whole, whole.some_ids()));
  const std::vector<float> seen = rows.train(load(rows, rows.some_ids()));
  if (!rows.gave_rows()) throw Skip{"it gives no gradient in rows"};
  if (const std::string how = difference(expected, seen); !how.empty())
    throw Error("gradients in rows differ from whole ones by " + how);
}

void loads_concurrently(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<float> expected = open.train(load(open, open.some_ids()));
  std::vector<Batch> batches(4);
  std::vector<std::exception_ptr> failures(batches.size());
  std::vector<std::thread> threads;
  const std::vector<uint64_t> ids = open.some_ids();
  for (size_t i = 0; i < batches.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        for (int round = 0; round < 8; ++round)
          batches[i] = open.task().load({PL_SPLIT_TRAIN, PL_PURPOSE_TRAIN, ids, 0});
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (const Batch& batch : batches)
    if (!same_bits(expected, open.train(batch)))
      throw Error("batches loaded by several threads at once are not the same");
}

// A loss that another batch, an evaluation or another thread's load changes would be read too late.
void a_loss_lasts_until_the_next_step(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = load(open, open.some_ids());
  const float first = open.train(batch)[0];
  const Batch other = load(open, {open.some_ids().back()});
  auto evaluate_args = sized<pl_evaluate_args>();
  evaluate_args.purpose = PL_PURPOSE_VALIDATE;
  open.task().evaluate(other, evaluate_args, {});
  if (open.loss() != first)
    throw Error(fmt::format("the loss was {}, and is {} after an evaluation", first, open.loss()));
}

// A rank that keeps a part of the weights asks for that part alone.
void initial_values_come_in_any_order(const CheckArgs& args) {
  const OpenTask in_order(args), backwards(args, {.backwards = true});
  if (!same_bits(in_order.values(), backwards.values()))
    throw Error("the initial values depend on the order in which they are asked for");
}

// What an older plugin does not know and may leave be.
void hints_are_ignored(const CheckArgs& args) {
  OpenTask plain(args), hinted(args, {.hints = true});
  const std::vector<uint64_t> ids = plain.some_ids();
  const uint32_t purpose = PL_PURPOSE_TRAIN | 0x10000u;
  const Batch batch = hinted.task().load({PL_SPLIT_TRAIN, purpose, ids, 0});
  if (!same_bits(plain.train(load(plain, ids)), hinted.train(batch)))
    throw Error("flags and codes above bit 15, which may be ignored, changed what it computes");
}

// Neither in a field that it does not know, nor in one that is reserved.
void new_options_are_not_ignored(const CheckArgs& args) {
  OpenTask open(args);
  struct Larger {
    pl_load_args known;
    uint64_t option_of_the_future;
  } larger{sized<pl_load_args>(), 1};
  const std::vector<uint64_t> ids = open.some_ids();
  larger.known.struct_size = sizeof larger;
  larger.known.purpose = PL_PURPOSE_TRAIN;
  larger.known.ids = ids.data();
  larger.known.count = ids.size();
  const pl_task_api& api = open.task().plugin().task();
  pl_batch* batch = nullptr;
  const auto must_refuse = [&](const char* what) {
    pl_error* error = api.load(open.task().handle(), &larger.known, &batch);
    if (!error) throw Error(fmt::format("load took a pl_load_args that sets {}", what));
    host_table().error_free(error);
  };
  must_refuse("an option it cannot know");
  larger.option_of_the_future = 0;
  larger.known.reserved = 1;
  must_refuse("`reserved`");
  larger.known.reserved = 0;
  check(api.load(open.task().handle(), &larger.known, &batch));
  api.batch_free(open.task().handle(), batch);
}

// What an evaluation of some samples reports.
struct Evaluated {
  std::vector<EvaluationValue> values;
  std::vector<EvaluationRecord> records;
};

Evaluated evaluation_of(OpenTask& open, uint32_t purpose) {
  Evaluated all;
  EvaluationSink sink;
  sink.value = [&](EvaluationValue value) {
    if (!std::isfinite(value.sum) || !std::isfinite(value.weight))
      throw Error(fmt::format("value '{}' is {} with weight {}", value.name, value.sum, value.weight));
    const auto found = std::ranges::find_if(
        all.values, [&](const EvaluationValue& v) { return v.group == value.group && v.name == value.name; });
    if (found == all.values.end()) return all.values.push_back(std::move(value));
    found->sum += value.sum;
    found->weight += value.weight;
  };
  sink.record = [&](EvaluationRecord record) { all.records.push_back(std::move(record)); };
  const std::vector<uint64_t> ids = open.some_ids();
  const Batch batch = open.task().load({PL_SPLIT_TRAIN, purpose, ids, 0});
  auto args = sized<pl_evaluate_args>();
  args.purpose = purpose;
  open.task().evaluate(batch, args, sink);
  std::ranges::sort(all.records, {}, [](const EvaluationRecord& r) { return std::tie(r.sample_id, r.key); });
  return all;
}

bool contains(const Evaluated& all, std::string_view name) {
  return std::ranges::any_of(all.values,
                             [&](const EvaluationValue& v) { return v.group.empty() && v.name == name; });
}

double loss_of(OpenTask& open, std::vector<uint64_t> ids) {
  double loss = 0;
  auto args = sized<pl_evaluate_args>();
  args.purpose = PL_PURPOSE_VALIDATE;
  const Batch batch = open.task().load({PL_SPLIT_TRAIN, PL_PURPOSE_VALIDATE, ids, 0});
  open.task().evaluate(batch, args, {.value = [&](const EvaluationValue& value) {
                         if (value.name == "loss" && value.group.empty()) loss += value.sum;
                       }});
  return loss;
}

// The sums of all micro-batches are added: those of means would be too small, and depend on the micro-batch.
// A loss in which samples act upon each other need be neither.
void losses_are_sums(const CheckArgs& args) {
  constexpr double kRounding = 1e-3;
  OpenTask open(args);
  const std::vector<uint64_t> ids = open.some_ids();
  if (ids.size() < 2) throw Skip{"it has one sample"};
  const auto weight_of = [&](uint64_t id) { return load(open, {id}).weight(); };
  const double first = loss_of(open, {ids[0]}), second = loss_of(open, {ids[1]}), both = loss_of(open, ids);
  const double a = weight_of(ids[0]), b = weight_of(ids[1]);
  const auto is = [&](double loss) { return std::abs(both - loss) <= kRounding * std::abs(loss); };
  if (!is(first + second) && (is((first + second) / 2) || is((a * first + b * second) / (a + b))))
    throw Error(
        fmt::format("the loss of two samples is {:.6g}, the mean of those that each has alone, {:.6g} and "
                    "{:.6g}: it must be the sum over the batch",
                    both, first, second));
}

// While training a task may leave out costly values; a full evaluation has them all.
void evaluates(const CheckArgs& args) {
  OpenTask open(args);
  if (!contains(evaluation_of(open, PL_PURPOSE_VALIDATE), "loss"))
    throw Error("evaluate reported no value \"loss\"");
  const Evaluated all = evaluation_of(open, PL_PURPOSE_EVALUATE);
  if (!contains(all, "loss")) throw Error("a full evaluation reported no value \"loss\"");
  const std::vector<Metric> metrics = open.task().metrics();
  for (const Metric& metric : metrics)
    if (!contains(all, metric.source))
      throw Error(fmt::format("metric '{}' is computed from '{}', which a full evaluation did not report",
                              metric.name, metric.source));
  if (open.task().has_report()) return;
  for (const EvaluationValue& value : all.values)
    if (value.name != "loss" && std::ranges::find(metrics, value.name, &Metric::source) == metrics.end())
      throw Error(fmt::format(
          "evaluate reports the value '{}', which nothing uses: describe a metric of it, or write a "
          "report",
          value.name));
  if (!all.records.empty())
    throw Error(
        fmt::format("evaluate records '{}', and there is no report to receive it", all.records[0].key));
}

// All that a report says, for comparison.
std::string report_of(Task& task, const Evaluated& all) {
  std::string said;
  ReportSink sink;
  sink.figure = [&](std::string_view name, double value, uint32_t) {
    said += fmt::format("{} {}\n", name, value);
  };
  sink.text = [&](std::string_view lines) { said += lines; };
  sink.file = [&](std::string_view name, std::span<const std::byte> bytes) {
    said += fmt::format("{} {}", name,
                        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  task.report(PL_SPLIT_TRAIN, PL_PURPOSE_EVALUATE, all.values, all.records, sink);
  return said;
}

// Ranks make it each for itself, and evaluations are added up where no data are.
void reports_alike(const CheckArgs& args) {
  OpenTask open(args);
  if (!open.task().has_report()) throw Skip{"it has no report"};
  const Evaluated all = evaluation_of(open, PL_PURPOSE_EVALUATE);
  const std::string said = report_of(open.task(), all);
  if (report_of(open.task(), all) != said) throw Error("the same values gave two reports");
  const Subject subject(args);
  Task created(subject.plugin(), subject.context(), subject.config());
  if (report_of(created, all) != said)
    throw Error(
        "the same values gave another report before open: it must use the values and the options alone");
}

// What predictions are mostly made for, of the splits that have samples.
uint32_t split_to_predict(const Task& task) {
  for (uint32_t split : {PL_SPLIT_TEST, PL_SPLIT_VAL})
    if (task.sample_count(split) > 0) return split;
  return PL_SPLIT_TRAIN;
}

// Task::predict holds the rows against the batch.
void predicts(const CheckArgs& args) {
  OpenTask open(args, {.purpose = PL_PURPOSE_PREDICT});
  if (!open.task().has_predict()) throw Skip{"it makes no predictions"};
  const uint32_t split = split_to_predict(open.task());
  PredictionSink sink;
  sink.row = [&](uint64_t id, std::span<const std::string_view>) {
    if (open.task().sample_name(split, id).empty())
      throw Error(fmt::format("sample_name of sample {} is empty", id));
  };
  auto predict_args = sized<pl_evaluate_args>();
  predict_args.purpose = PL_PURPOSE_PREDICT;
  const std::vector<uint64_t> ids = open.some_ids(split);
  open.task().predict(open.task().load({split, PL_PURPOSE_PREDICT, ids, 0}), predict_args, sink);
}

// What it keeps, a new object takes, opens with, and keeps in turn.
void takes_its_extra_state(const CheckArgs& args) {
  const std::string state = OpenTask(args).task().extra_state();
  if (state.empty()) throw Skip{"it keeps no extra state"};
  const Subject subject(args);
  Task task(subject.plugin(), subject.context(), subject.config());
  task.set_extra_state(state);
  if (task.has_prepare()) task.prepare();
  task.open();
  if (task.extra_state() != state)
    throw Error(fmt::format("it took back {} bytes of extra state, and then had another one", state.size()));
}

}  // namespace

std::vector<Promise> task_promises() {
  const std::string same = "the same ids and seed give the same loss and gradients, bit for bit";
  return {{"is created and destroyed, twice", is_created_and_destroyed},
          {"prepares and opens; its parameters are in order", opens},
          {"a batch says its weight and size", batches_are_weighed},
          {"sample ids out of range are refused", wrong_ids_are_refused},
          {same, training_is_reproducible},
          {"training works in bf16, too", trains_in_bf16, same},
          {"frozen weights in bf16 give what the same give in float32", takes_frozen_weights_in_bf16, same},
          {"gradients handed over equal gradients in place", gradients_can_be_handed_over, same},
          {"values of a unit are used only while it is open", units_hold_what_they_use, same},
          {"gradients in rows add up to the whole ones", gradients_can_come_in_rows, same},
          {"outputs for the loss of a step are those of its training", outputs_are_those_of_training, same},
          {"a loss stays what it is until the next step", a_loss_lasts_until_the_next_step},
          {"initial values do not depend on the order", initial_values_come_in_any_order},
          {"flags and codes that may be ignored are", hints_are_ignored, same},
          {"batches can be loaded by several threads at once", loads_concurrently, same},
          {"options that it does not know are refused", new_options_are_not_ignored},
          {"evaluation reports the loss and what its metrics need", evaluates},
          {"the loss of a batch is a sum", losses_are_sums, same},
          {"a report is a function of the evaluation's values", reports_alike},
          {"a prediction has one row for each sample", predicts},
          {"extra state is taken back and used", takes_its_extra_state}};
}

}  // namespace pipeline::plugins
