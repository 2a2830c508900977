// What evaluations and predictions promise, and that a batch is the sum of its samples.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/check/open_task.hpp"

namespace pipeline::plugins {
namespace {

// What an evaluation of some samples reports.
struct Evaluated {
  std::vector<EvaluationValue> values;
  std::vector<EvaluationRecord> records;
};

Evaluated evaluation_of(OpenTask& open, const Batch& batch, uint32_t purpose) {
  Evaluated all;
  EvaluationSink sink;
  sink.value = [&](EvaluationValue value) {
    if (!std::isfinite(value.sum) || !std::isfinite(value.weight))
      fail("value '{}' is {} with weight {}", value.name, value.sum, value.weight);
    const auto found = std::ranges::find_if(
        all.values, [&](const EvaluationValue& v) { return v.group == value.group && v.name == value.name; });
    if (found == all.values.end()) return all.values.push_back(std::move(value));
    found->sum += value.sum;
    found->weight += value.weight;
  };
  sink.record = [&](EvaluationRecord record) { all.records.push_back(std::move(record)); };
  open.evaluate(batch, purpose, sink);
  std::ranges::sort(all.records, {}, [](const EvaluationRecord& r) { return std::tie(r.sample_id, r.key); });
  return all;
}

Evaluated evaluation_of(OpenTask& open, uint32_t purpose) {
  return evaluation_of(open, open.load(open.some_ids(), purpose), purpose);
}

bool contains(const Evaluated& all, std::string_view name) {
  return std::ranges::any_of(all.values,
                             [&](const EvaluationValue& v) { return v.group.empty() && v.name == name; });
}

double loss_of(OpenTask& open, const Batch& batch) {
  double loss = 0;
  for (const EvaluationValue& value : evaluation_of(open, batch, PL_PURPOSE_VALIDATE).values)
    if (value.name == "loss" && value.group.empty()) loss = value.sum;
  return loss;
}

double loss_of(OpenTask& open, const std::vector<uint64_t>& ids, uint32_t purpose = PL_PURPOSE_VALIDATE) {
  return loss_of(open, open.load(ids, purpose));
}

bool is_near(double seen, double expected) {
  constexpr double kRounding = 1e-3;
  return std::abs(seen - expected) <= kRounding * std::abs(expected);
}

// Two samples of the training split, or Skip.
std::vector<uint64_t> two_ids(const OpenTask& open) {
  std::vector<uint64_t> ids = open.some_ids();
  if (ids.size() < 2) throw Skip{"it has one sample"};
  return ids;
}

// The sums of all micro-batches are added: means would add up to too little, and depend on the micro-batch. A
// loss in which samples act upon each other need be neither.
void losses_are_sums(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = two_ids(open);
  const auto weight_of = [&](uint64_t id) { return open.load({id}).weight(); };
  const double first = loss_of(open, {ids[0]}), second = loss_of(open, {ids[1]}), both = loss_of(open, ids);
  const double a = weight_of(ids[0]), b = weight_of(ids[1]);
  if (!is_near(both, first + second) &&
      (is_near(both, (first + second) / 2) || is_near(both, (a * first + b * second) / (a + b))))
    fail(
        "the loss of two samples is {:.6g}, the mean of those that each has alone, {:.6g} and {:.6g}: it "
        "must be the sum over the batch",
        both, first, second);
  const auto trained = [&](const std::vector<uint64_t>& some) {
    open.train(open.load(some));
    return open.loss();
  };
  // Dropout has other masks for the second time, so this is not to the digit.
  const double once = trained(ids), twice = trained({ids[0], ids[1], ids[0], ids[1]});
  if (std::abs(twice - once) < 0.2 * std::abs(once))
    fail(
        "the loss that train gives of two samples is {:.6g}, and {:.6g} of the same ones twice: it must be "
        "the sum over the batch, not its mean",
        once, twice);
}

// A sample's results follow neither from where it stands in a batch nor from what else is in it.
void samples_follow_from_their_ids(const CheckArgs& args) {
  OpenTask open(args);
  const std::vector<uint64_t> ids = two_ids(open);
  const std::vector<uint64_t> four = open.some_ids(PL_SPLIT_TRAIN, 4);
  const uint64_t a = ids[0], b = ids[1];
  bool adds_up = false;
  for (const uint32_t purpose : {PL_PURPOSE_VALIDATE, PL_PURPOSE_TRAIN}) {
    const auto loss = [&](const std::vector<uint64_t>& some) { return loss_of(open, some, purpose); };
    const double both = loss({a, b}), turned = loss({b, a}), sum = loss({a}) + loss({b});
    if (!is_near(turned, both))
      fail(
          "the loss of samples {}, {} is {:.6g}, and {:.6g} in the other order: a sample must follow from "
          "its id, not from its place in the batch",
          a, b, both, turned);
    if (four.size() == 4 && both == loss({four[2], four[3]}) && both == loss({b, four[2]}) &&
        !is_near(both, sum))
      fail(
          "the loss of any two samples is {:.6g}, and {:.6g} in sum of two alone: a sample must follow from "
          "its id, not from its place in the batch",
          both, sum);
    if (purpose == PL_PURPOSE_VALIDATE) {
      adds_up = is_near(both, sum);
    } else if (adds_up && !is_near(both, sum)) {
      fail(
          "loaded for training, samples {}, {} have a loss of {:.6g}, and of {:.6g} each alone: what is "
          "random in a sample must follow from the run's seed, its id and the epoch",
          a, b, both, sum);
    }
  }
}

// A micro-batch, and an evaluation, leave nothing behind for the next.
void passes_leave_each_other_alone(const CheckArgs& args) {
  OpenTask open(args);
  std::vector<uint64_t> ids = open.some_ids();
  const Batch batch = open.load(ids), to_evaluate = open.load(ids, PL_PURPOSE_VALIDATE);
  std::ranges::reverse(ids);
  const Batch other = open.load(ids);
  const std::vector<float> alone = open.train(batch);
  open.train(other);
  if (!same_bits(open.train(batch), alone))
    throw Error("a micro-batch gives another loss or other gradients when another one was trained before it");
  const std::string state = open.task().extra_state();
  const double before = loss_of(open, to_evaluate);
  if (const double again = loss_of(open, to_evaluate); again != before)
    fail("the same batch was evaluated twice, with a loss of {} and {}", before, again);
  if (!same_bits(open.train(batch), alone))
    throw Error("training gives another loss or other gradients after an evaluation");
  if (const double after = loss_of(open, to_evaluate); after != before && open.task().extra_state() == state)
    fail("an evaluation has the loss {}, and {} after training that changed no value", before, after);
}

// While training a task may leave out costly values; a full evaluation has them all.
void evaluates(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = open.load(open.some_ids(), PL_PURPOSE_VALIDATE);
  const Evaluated between = evaluation_of(open, batch, PL_PURPOSE_VALIDATE);
  if (!contains(between, "loss")) throw Error("evaluate reported no value \"loss\"");
  for (const EvaluationValue& value : between.values)
    if (value.group.empty() && value.name == "loss" && !is_near(value.weight, batch.weight()))
      fail(
          "evaluate gives the loss a weight of {}, batch_info says {} for the same batch: both are what the "
          "sum is divided by",
          value.weight, batch.weight());
  const Evaluated all = evaluation_of(open, PL_PURPOSE_EVALUATE);
  if (!contains(all, "loss")) throw Error("a full evaluation reported no value \"loss\"");
  const std::vector<Metric> metrics = open.task().metrics();
  for (const Metric& metric : metrics)
    if (!contains(all, metric.source))
      fail("metric '{}' is computed from '{}', which a full evaluation did not report", metric.name,
           metric.source);
  if (open.task().has_report()) return;
  for (const EvaluationValue& value : all.values)
    if (value.name != "loss" && std::ranges::find(metrics, value.name, &Metric::source) == metrics.end())
      fail("evaluate reports the value '{}', which nothing uses: describe a metric of it, or write a report",
           value.name);
  if (!all.records.empty())
    fail("evaluate records '{}', and there is no report to receive it", all.records[0].key);
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

// Ranks make a report each for itself, and evaluations are added up where there are no data.
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

// The split that predictions are mostly made for, of those that have samples.
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
  const auto rows_of = [&](const std::vector<uint64_t>& ids) {
    std::map<uint64_t, std::string> rows;
    PredictionSink sink;
    sink.row = [&](uint64_t id, std::span<const std::string_view> fields) {
      if (open.task().sample_name(split, id).empty()) fail("sample_name of sample {} is empty", id);
      rows[id] = fmt::format("{}", fmt::join(fields, ", "));
    };
    open.predict(open.task().load({split, PL_PURPOSE_PREDICT, ids, 0}), sink);
    return rows;
  };
  std::vector<uint64_t> ids = open.some_ids(split, 3);
  rows_of(ids);
  rows_of({ids[0]});
  if (ids.size() < 2) return;
  const uint64_t a = ids[0], b = ids[1];
  auto rows = rows_of({a, b}), turned = rows_of({b, a});
  if (rows[a] != rows[b] && rows[a] == turned[b] && rows[b] == turned[a])
    fail(
        "samples {}, {} have the rows \"{}\" and \"{}\", and each the other's in the other order: a row is "
        "for the sample, not for its place in the batch",
        a, b, rows[a], rows[b]);
}

}  // namespace

std::vector<Promise> evaluation_promises() {
  return {{"evaluation reports the loss and what its metrics need", evaluates},
          {"the loss of a batch is a sum", losses_are_sums, kSame},
          {"a sample follows from its id", samples_follow_from_their_ids, kSame},
          {"training and evaluation leave each other alone", passes_leave_each_other_alone, kSame},
          {"a report is a function of the evaluation's values", reports_alike},
          {"a prediction has one row for each sample", predicts}};
}

}  // namespace pipeline::plugins
