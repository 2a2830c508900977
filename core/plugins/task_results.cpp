// The half of plugins::Task that is about results: evaluation, metrics, prediction.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {
namespace {

void check_file_name(const std::string& plugin, std::string_view name) {
  if (!is_side_file_name(name))
    fail("{} gave '{}' as the name of a file: must be a plain file name", plugin, name);
}

std::span<const std::byte> file_bytes(const std::string& plugin, std::string_view name, const void* bytes,
                                      uint64_t size) {
  if (!bytes && size > 0) fail("{} gave the file '{}' as {} bytes at NULL", plugin, name, size);
  return {static_cast<const std::byte*>(bytes), size};
}

// What the `user` of a pl_evaluation_sink points to.
struct Values {
  const EvaluationSink& sink;
  const std::string& plugin;
  std::span<const uint64_t> ids;                       // of the batch
  std::set<std::pair<uint64_t, std::string>> records;  // so far
};

pl_error* on_value(void* user, pl_str group, pl_str name, double sum, double weight) noexcept {
  const auto& values = *static_cast<const Values*>(user);
  return call_back([&] {
    if (name.len == 0) fail("{}: evaluate gave a value without a name", values.plugin);
    if (values.sink.value)
      values.sink.value({std::string(view(group)), std::string(view(name)), sum, weight});
  });
}

pl_error* on_record(void* user, uint64_t sample_id, pl_str key, const void* bytes, uint64_t size) noexcept {
  auto& values = *static_cast<Values*>(user);
  return call_back([&] {
    const auto fail = [&](std::string_view problem) {
      pipeline::fail("{}: evaluate recorded '{}' of sample {}{}", values.plugin, view(key), sample_id,
                     problem);
    };
    if (std::ranges::find(values.ids, sample_id) == values.ids.end()) fail(", which is not in its batch");
    if (!bytes && size > 0) fail(fmt::format(" as {} bytes at NULL", size));
    if (!values.records.emplace(sample_id, view(key)).second) fail(" twice: must be once for each key");
    if (values.sink.record)
      values.sink.record(
          {sample_id, std::string(view(key)), std::string(static_cast<const char*>(bytes), size)});
  });
}

pl_error* on_sample(void* user, uint64_t sample_id, pl_str text) noexcept {
  const auto& values = *static_cast<const Values*>(user);
  return call_back([&] {
    if (values.sink.sample) values.sink.sample(sample_id, view(text));
  });
}

// What the `user` of a pl_report_sink points to.
struct Report {
  const ReportSink& sink;
  const std::string& plugin;
  std::set<std::string, std::less<>> files;  // so far
};

pl_error* on_figure(void* user, pl_str name, double value, uint32_t better) noexcept {
  const auto& report = *static_cast<const Report*>(user);
  return call_back([&] {
    if (name.len == 0) fail("{}: report gave a figure without a name", report.plugin);
    better = PL_CODE(better);
    if (better != PL_BETTER_LOWER && better != PL_BETTER_HIGHER)
      fail("{}: report: figure '{}': better {} is unknown", report.plugin, view(name), better);
    if (report.sink.figure) report.sink.figure(view(name), value, better);
  });
}

pl_error* on_text(void* user, pl_str lines) noexcept {
  const auto& report = *static_cast<const Report*>(user);
  return call_back([&] {
    if (report.sink.text) report.sink.text(view(lines));
  });
}

pl_error* on_report_file(void* user, pl_str name, const void* bytes, uint64_t size) noexcept {
  auto& report = *static_cast<Report*>(user);
  return call_back([&] {
    check_file_name(report.plugin, view(name));
    if (view(name) == kSumsFile)
      fail("{}: report gave a file the name '{}', which is the host's own: must be another", report.plugin,
           kSumsFile);
    if (!report.files.emplace(view(name)).second)
      fail("{}: report gave the file '{}' twice: each must have a name of its own", report.plugin,
           view(name));
    const auto content = file_bytes(report.plugin, view(name), bytes, size);
    if (report.sink.file) report.sink.file(view(name), content);
  });
}

// Holds a prediction against its batch: each sample gets one row, with a field for each column.
class RowCheck {
 public:
  RowCheck(const std::string& plugin, std::span<const uint64_t> ids, size_t columns)
      : plugin_(plugin), samples_(ids.size()), columns_(columns) {
    for (const uint64_t id : ids) ++missing_[id];
  }

  const std::string& plugin() const { return plugin_; }

  void check_sample(uint64_t id) const {
    if (!missing_.contains(id))
      fail("yielded something for sample {}, which is not one of the {} samples of its batch", id, samples_);
  }

  void add(uint64_t id, uint64_t fields) {
    check_sample(id);
    if (fields != columns_)
      fail("gave the row of sample {} {} fields, must give one for each of the {} prediction_columns", id,
           fields, columns_);
    if (missing_[id] == 0)
      fail("gave sample {} more than one row, must give each of the {} samples of its batch one", id,
           samples_);
    --missing_[id];
    ++rows_;
  }

  void finish() const {
    for (const auto& [id, rows] : missing_)
      if (rows > 0)
        fail("gave {} rows for the {} samples of its batch, none for sample {}: must give each one", rows_,
             samples_, id);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(fmt::format_string<const Parts&...> problem, const Parts&... parts) const {
    pipeline::fail("{}: predict {}", plugin_, fmt::format(problem, parts...));
  }

  const std::string& plugin_;
  const size_t samples_, columns_;
  uint64_t rows_ = 0;
  std::map<uint64_t, uint64_t> missing_;  // rows that each sample has yet to get
};

// What the `user` of a pl_prediction_sink points to.
struct Prediction {
  const PredictionSink& sink;
  RowCheck rows;
};

pl_error* on_row(void* user, uint64_t sample_id, const pl_str* fields, uint64_t count) noexcept {
  auto& prediction = *static_cast<Prediction*>(user);
  return call_back([&] {
    prediction.rows.add(sample_id, count);
    std::vector<std::string_view> views;
    for (uint64_t i = 0; i < count; ++i) views.push_back(view(fields[i]));
    if (prediction.sink.row) prediction.sink.row(sample_id, views);
  });
}

template <PredictionSink::OnBytes PredictionSink::*kTo>
pl_error* on_bytes(void* user, uint64_t sample_id, pl_str name, const void* bytes, uint64_t size) noexcept {
  const auto& prediction = *static_cast<const Prediction*>(user);
  return call_back([&] {
    prediction.rows.check_sample(sample_id);
    check_file_name(prediction.rows.plugin(), view(name));
    const auto content = file_bytes(prediction.rows.plugin(), view(name), bytes, size);
    if (const auto& to = prediction.sink.*kTo) to(sample_id, view(name), content);
  });
}

}  // namespace

void Task::evaluate(const Batch& batch, pl_evaluate_args args, const EvaluationSink& sink) {
  Values values{sink, call_.plugin().label(), batch.ids(), {}};
  auto raw = sized<pl_evaluation_sink>();
  raw.user = &values;
  raw.value = on_value;
  raw.record = on_record;
  raw.sample = on_sample;
  args.struct_size = sizeof args;
  call_.main("evaluate", [&] { return api_.evaluate(self_, batch.handle(), &args, &raw); });
}

void Task::report(uint32_t split, uint32_t purpose, std::span<const EvaluationValue> values,
                  std::span<const EvaluationRecord> records, const ReportSink& sink) {
  if (!api_.report) return;
  std::vector<pl_value> raw_values;
  for (const EvaluationValue& value : values) {
    auto& raw = raw_values.emplace_back(sized<pl_value>());
    raw.group = to_pl(value.group);
    raw.name = to_pl(value.name);
    raw.sum = value.sum;
    raw.weight = value.weight;
  }
  std::vector<pl_record> raw_records;
  for (const EvaluationRecord& record : records) {
    auto& raw = raw_records.emplace_back(sized<pl_record>());
    raw.sample_id = record.sample_id;
    raw.key = to_pl(record.key);
    raw.bytes = record.bytes.data();
    raw.size = record.bytes.size();
  }
  auto args = sized<pl_report_args>();
  args.split = split;
  args.purpose = purpose;
  args.values = raw_values.data();
  args.value_count = raw_values.size();
  args.records = raw_records.data();
  args.record_count = raw_records.size();
  Report report{sink, call_.plugin().label(), {}};
  auto raw = sized<pl_report_sink>();
  raw.user = &report;
  raw.figure = on_figure;
  raw.text = on_text;
  raw.file = on_report_file;
  call_.main("report", [&] { return api_.report(self_, &args, &raw); });
}

void Task::predict(const Batch& batch, pl_evaluate_args args, const PredictionSink& sink) {
  Prediction prediction{sink, {call_.plugin().label(), batch.ids(), prediction_columns().size()}};
  auto raw = sized<pl_prediction_sink>();
  raw.user = &prediction;
  raw.row = on_row;
  raw.file = on_bytes<&PredictionSink::file>;
  raw.append = on_bytes<&PredictionSink::append>;
  args.struct_size = sizeof args;
  call_.main("predict", [&] { return api_.predict(self_, batch.handle(), &args, &raw); });
  prediction.rows.finish();
}

void Task::finish_predictions(uint32_t split, const std::string& folder, const PredictionSink& sink) {
  if (!api_.finish_predictions) return;
  constexpr uint64_t kNoSample = 0;
  Prediction prediction{sink, {call_.plugin().label(), std::span(&kNoSample, 1), 0}};
  auto raw = sized<pl_prediction_sink>();
  raw.user = &prediction;
  raw.row = [](void*, uint64_t, const pl_str*, uint64_t) noexcept {
    return call_back([] { throw Error("finish_predictions gave a row, must give files alone"); });
  };
  raw.file = on_bytes<&PredictionSink::file>;
  raw.append = [](void*, uint64_t, pl_str, const void*, uint64_t) noexcept {
    return call_back(
        [] { throw Error("finish_predictions appended to a file, must give whole files alone"); });
  };
  call_.main("finish_predictions",
             [&] { return api_.finish_predictions(self_, split, to_pl(folder), &raw); });
}

void Task::reply(std::string_view messages, const std::function<void(std::string_view piece)>& on_text) {
  auto sink = sized<pl_reply_sink>();
  sink.user = const_cast<void*>(static_cast<const void*>(&on_text));
  sink.text = [](void* user, pl_str piece) {
    return guard([&] { (*static_cast<const std::function<void(std::string_view)>*>(user))(view(piece)); });
  };
  call_.main("reply", [&] { return api_.reply(self_, to_pl(messages), &sink); });
}

std::vector<Metric> Task::metrics() const {
  std::vector<Metric> metrics;
  if (!api_.metric_count) return metrics;
  const uint64_t count = call_.main("metric_count", [&] { return api_.metric_count(self_); });
  for (uint64_t i = 0; i < count; ++i) {
    auto raw = sized<pl_metric>();
    call_.main("metric", [&] { return api_.metric(self_, i, &raw); });
    Metric metric{std::string(view(raw.name)), std::string(view(raw.source)), std::string(view(raw.help)),
                  raw.aggregate, raw.better};
    if (metric.source.empty()) metric.source = metric.name;
    if (metric.name.empty()) fail("{}: metric {} has no name", call_.plugin().label(), i);
    metric.aggregate = PL_CODE(metric.aggregate);
    metric.better = PL_CODE(metric.better);
    if (metric.aggregate < PL_AGGREGATE_MEAN || metric.aggregate > PL_AGGREGATE_EXP_MEAN)
      fail("{}: metric '{}': aggregate {} is unknown", call_.plugin().label(), metric.name, metric.aggregate);
    if (metric.better != PL_BETTER_LOWER && metric.better != PL_BETTER_HIGHER)
      fail("{}: metric '{}': better {} is unknown", call_.plugin().label(), metric.name, metric.better);
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

std::vector<std::string> Task::prediction_columns() const {
  const pl_str* columns = nullptr;
  uint64_t count = 0;
  call_.main("prediction_columns", [&] { return api_.prediction_columns(self_, &columns, &count); });
  std::vector<std::string> names;
  for (uint64_t i = 0; i < count; ++i) names.emplace_back(view(columns[i]));
  return names;
}

std::string Task::sample_name(uint32_t split, uint64_t sample_id) const {
  if (!api_.sample_name) return std::to_string(sample_id);
  pl_str name{};
  call_.any("sample_name", [&] { return api_.sample_name(self_, split, sample_id, &name); });
  return std::string(view(name));
}

}  // namespace pipeline::plugins
