#include "core/train/results/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"

namespace pipeline::plugins {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EvaluationValue, group, name, sum, weight)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EvaluationRecord, sample_id, key, bytes)

}  // namespace pipeline::plugins

namespace pipeline::train {
namespace {

double aggregate(const plugins::EvaluationValue& sum, uint32_t how) {
  if (how == PL_AGGREGATE_SUM) return sum.sum;
  const double mean = sum.weight > 0 ? sum.sum / sum.weight : std::nan("");
  return how == PL_AGGREGATE_EXP_MEAN ? std::exp(mean) : mean;
}

std::string_view source_of(const plugins::Metric& metric) {
  return metric.source.empty() ? metric.name : metric.source;
}

// "loss", and the figures that the task describes.
std::vector<Figure> figures(const std::vector<plugins::EvaluationValue>& sums,
                            const std::vector<plugins::Metric>& metrics) {
  std::vector<Figure> result;
  const auto add = [&](const plugins::Metric& metric) {
    const auto sum = std::ranges::find_if(sums, [&](const plugins::EvaluationValue& s) {
      return s.group.empty() && s.name == source_of(metric);
    });
    if (sum != sums.end())
      result.push_back(
          {metric.name, observe::without_sign_if_nan(aggregate(*sum, metric.aggregate)), metric.better});
  };
  const bool loss_described =
      std::any_of(metrics.begin(), metrics.end(), [](const auto& m) { return m.name == "loss"; });
  if (!loss_described) add({.name = "loss"});
  for (const plugins::Metric& metric : metrics) add(metric);
  return result;
}

// What a task reports and nothing uses would be lost in silence.
void require_use(const plugins::Task& task, const std::vector<plugins::EvaluationValue>& sums,
                 const std::vector<plugins::Metric>& metrics, size_t records) {
  if (task.has_report()) return;
  const auto fail = [&](std::string_view what) {
    pipeline::fail(
        "{}: evaluate reports {}, which nothing uses: the task must have a metric of it, or a report",
        task.plugin().label(), what);
  };
  for (const plugins::EvaluationValue& sum : sums) {
    const bool described = sum.name == "loss" || std::ranges::any_of(metrics, [&](const auto& m) {
                             return source_of(m) == sum.name;
                           });
    if (!sum.group.empty() || !described)
      fail(fmt::format("the value '{}'{}", sum.name, sum.group.empty() ? "" : " of groups"));
  }
  if (records > 0) fail(fmt::format("{} records", records));
}

// What one rank makes of its batches of a round.
struct Share {
  struct Batch {
    uint64_t samples = 0;
    std::vector<plugins::EvaluationValue> values;  // as the task reported them
    std::vector<plugins::EvaluationRecord> records;
    std::vector<std::pair<uint64_t, std::string>> shown;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(Batch, samples, values, records, shown)
  };
  bool cancelled = false;
  bool failed = false;
  std::vector<Batch> batches;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Share, cancelled, failed, batches)
};

constexpr uint64_t kBatchesPerRound = 4;  // evens out that some take longer

// A model that computes no number for a sample gives figures that are none, or seem to be good. Between steps
// that is the run's affair, which has diverged.
void require_number(const plugins::Task& task, const EvaluationRequest& request, const plugins::Batch& batch,
                    const plugins::EvaluationValue& value) {
  if (!std::isnan(value.sum) || request.purpose != PL_PURPOSE_EVALUATE) return;
  std::vector<std::string> names;
  for (const uint64_t id : batch.ids()) names.push_back(task.sample_name(request.split, id));
  fail(PL_ERROR_CONFIG,
       "evaluate: sample{} {}: {} is nan, must be a number: the model computes none for {}. Are its weights "
       "ruined (try an earlier --checkpoint), or is train.precision too narrow (try \"fp32\")?{}",
       names.size() == 1 ? "" : "s", observe::listed(names), value.name,
       names.size() == 1 ? "it" : "one of them",
       names.size() == 1 ? "" : " With train.micro_batch = 1 the sample is named.");
}

Share::Batch run(plugins::Task& task, const EvaluationRequest& request, const plugins::Batch& batch,
                 uint64_t begin) {
  Share::Batch result{.samples = batch.info().samples};
  pl_evaluate_args args{};
  args.purpose = request.purpose;
  // Samples are shown by place, not by what others have shown: the same on any number of ranks.
  args.samples_to_show = request.shown > begin ? request.shown - begin : 0;
  task.evaluate(
      batch, args,
      {.value =
           [&](plugins::EvaluationValue value) {
             require_number(task, request, batch, value);
             result.values.push_back(std::move(value));
           },
       .record = [&](plugins::EvaluationRecord record) { result.records.push_back(std::move(record)); },
       .sample =
           [&](uint64_t id, std::string_view text) {
             if (result.shown.size() < args.samples_to_show) result.shown.emplace_back(id, text);
           }});
  return result;
}

// What all ranks made of a round, by rank.
std::vector<Share> exchange(ProcessGroup& processes, Share mine) {
  std::vector<Share> all;
  if (processes.world().size == 1) {
    all.push_back(std::move(mine));
  } else {
    std::string bytes;
    nlohmann::json::to_cbor(nlohmann::json(mine), bytes);  // may be of any length: records
    for (const std::string& share : processes.gather("evaluate", bytes, ProcessGroup::To::all))
      all.push_back(nlohmann::json::from_cbor(share).get<Share>());
  }
  return all;
}

// Does this rank's part of a round. Where the task fails on any rank, all end together.
std::vector<Share> do_round(ProcessGroup& processes, const EvaluationRequest& request,
                            const std::function<void(Share&)>& part) {
  Share mine;
  std::exception_ptr failure;
  try {
    part(mine);
  } catch (const Error&) {
    failure = std::current_exception();
    mine.failed = true;
  }
  std::vector<Share> all = exchange(processes, std::move(mine));
  const auto failed = std::ranges::find_if(all, &Share::failed);
  if (failed == all.end()) return all;
  if (request.failed) request.failed();
  if (failure) std::rethrow_exception(failure);
  fail(PL_ERROR_PEER, "the evaluation failed on rank {}", failed - all.begin());
}

// The batches of a round in the order of their samples.
std::vector<Share::Batch> merge(std::vector<Share> all) {
  std::vector<Share::Batch> batches;
  for (uint64_t i = 0; i < kBatchesPerRound; ++i)
    for (Share& share : all)
      if (i < share.batches.size()) batches.push_back(std::move(share.batches[i]));
  return batches;
}

// What the task makes of the sums.
void report(plugins::Task& task, uint32_t split, uint32_t purpose,
            const std::vector<plugins::EvaluationRecord>& records, Evaluation& result) {
  task.report(
      split, purpose, result.sums, records,
      {.figure =
           [&](std::string_view name, double value, uint32_t better) {
             if (result.find(name) != nullptr)
               fail("{}: report gave the figure '{}', which is there already", task.plugin().label(), name);
             result.figures.push_back({std::string(name), observe::without_sign_if_nan(value), better});
           },
       .text = [&](std::string_view lines) { result.text.emplace_back(lines); },
       .file =
           [&](std::string_view name, std::span<const std::byte> bytes) {
             result.files.push_back(
                 {std::string(name), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
           }});
}

}  // namespace

EvaluationRequest request_for(const Session& session, uint32_t split, uint32_t purpose) {
  const config::EvaluateOptions& options = session.options().evaluate;
  return {.split = split,
          .purpose = purpose,
          .samples = options.max_samples,
          .batch = session.plan().micro_batch,
          .workers = session.workers(),
          .prefetch = session.options().loader.prefetch,
          .shown = options.samples,
          .cancelled = session.args().cancelled};
}

DealtBatches::DealtBatches(ProcessGroup& processes, const plugins::Task& task, EvaluationRequest request,
                           uint64_t first, uint64_t end)
    : processes_(processes),
      request_(std::move(request)),
      begin_(first + static_cast<uint64_t>(processes.world().rank) * request_.batch),
      stride_(static_cast<uint64_t>(processes.world().size) * request_.batch),
      end_(end),
      batches_(task,
               {.split = request_.split,
                .purpose = request_.purpose,
                .workers = request_.workers,
                .ahead = 1 + request_.workers * request_.prefetch},
               [this](uint64_t index) -> std::optional<LoadRequest> {
                 LoadRequest load;
                 for (uint64_t id = begin_of(index); id < std::min(begin_of(index) + request_.batch, end_);
                      ++id)
                   load.ids.push_back(id);
                 return load.ids.empty() ? std::nullopt : std::optional(std::move(load));
               }) {}

bool DealtBatches::next(const std::function<void(const plugins::Batch&, uint64_t)>& work) {
  const auto cancelled = [this] { return request_.cancelled && request_.cancelled(); };
  if (cancelled()) return false;
  try {
    if (const auto batch = batches_.next()) work(*batch, begin_of(next_++));
  } catch (const Error& error) {
    if (error.code() != PL_ERROR_CANCELLED || !cancelled()) throw;
    return false;
  }
  processes_.peers().progress();
  return true;
}

const Figure* Evaluation::find(std::string_view name) const {
  const auto found =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

void EvaluationSums::add(const plugins::EvaluationValue& value) {
  const auto [at, is_new] = index_.try_emplace({value.group, value.name}, all_.size());
  if (is_new) {
    all_.push_back(value);
  } else {
    all_[at->second].sum += value.sum;
    all_[at->second].weight += value.weight;
  }
}

Evaluation conclude(plugins::Task& task, uint32_t split, uint32_t purpose, const EvaluationSums& sums,
                    std::vector<plugins::Metric> metrics, std::vector<plugins::EvaluationRecord> records) {
  require_use(task, sums.all(), metrics, records.size());
  std::ranges::sort(records, {},
                    [](const plugins::EvaluationRecord& r) { return std::tie(r.sample_id, r.key); });
  Evaluation result;
  result.split = split;
  result.records = records.size();
  result.sums = sums.all();
  result.metrics = std::move(metrics);
  result.figures = figures(result.sums, result.metrics);
  report(task, split, purpose, records, result);
  return result;
}

std::optional<Evaluation> evaluate(ProcessGroup& processes, plugins::Task& task,
                                   const EvaluationRequest& request) {
  const double began = now_seconds();
  const uint64_t available = task.sample_count(request.split);
  const uint64_t total = request.samples == 0 ? available : std::min(request.samples, available);
  const uint64_t round = kBatchesPerRound * static_cast<uint64_t>(processes.world().size) * request.batch;
  DealtBatches dealt(processes, task, request, 0, total);
  EvaluationSums sums;
  std::vector<plugins::EvaluationRecord> records;
  uint64_t samples = 0;
  for (uint64_t begin = 0; begin < total; begin += round) {
    std::vector<Share> shares = do_round(processes, request, [&](Share& mine) {
      for (uint64_t i = 0; i < kBatchesPerRound && !mine.cancelled; ++i)
        mine.cancelled = !dealt.next([&](const plugins::Batch& batch, uint64_t first) {
          mine.batches.push_back(run(task, request, batch, first));
        });
    });
    if (std::ranges::any_of(shares, &Share::cancelled)) return std::nullopt;
    for (Share::Batch& batch : merge(std::move(shares))) {
      for (const plugins::EvaluationValue& value : batch.values) sums.add(value);
      std::ranges::move(batch.records, std::back_inserter(records));
      for (const auto& [id, text] : batch.shown)
        if (request.show) request.show(id, text);
      samples += batch.samples;
    }
    if (request.progress) request.progress(samples, total);
  }
  Evaluation result;
  do_round(processes, request, [&](Share&) {
    result = conclude(task, request.split, request.purpose, sums, task.metrics(), std::move(records));
  });
  result.samples = total;
  result.available = available;
  result.seconds = now_seconds() - began;
  return result;
}

uint32_t split_code(std::string_view name) {
  if (name == "train") return PL_SPLIT_TRAIN;
  if (name == "val") return PL_SPLIT_VAL;
  if (name == "test") return PL_SPLIT_TEST;
  fail(PL_ERROR_CONFIG, "split '{}': must be train, val or test", name);
}

std::string_view split_name(uint32_t code) {
  return code == PL_SPLIT_TRAIN ? "train" : code == PL_SPLIT_VAL ? "val" : "test";
}

}  // namespace pipeline::train
