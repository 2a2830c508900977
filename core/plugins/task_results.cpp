// The half of plugins::Task that is about results: evaluation, metrics, prediction.
#include <fmt/format.h>

#include "core/plugins/str.hpp"
#include "core/plugins/struct_copy.hpp"
#include "core/plugins/task.hpp"

namespace pipeline::plugins {
namespace {

// What the C sinks' `user` points to.
template <class Sink>
struct Receiver {
  const Sink& sink;
  const pl_context& context;
};

template <class Sink, class Function>
pl_error* receive(void* user, Function&& function) noexcept {
  const auto& receiver = *static_cast<Receiver<Sink>*>(user);
  return call_back(receiver.context, [&] { function(receiver.sink); });
}

pl_error* on_value(void* user, pl_str name, double sum, double weight) noexcept {
  return receive<EvaluationSink>(user, [&](const EvaluationSink& sink) {
    if (sink.value) sink.value(view(name), sum, weight);
  });
}

pl_error* on_sample(void* user, std::uint64_t sample_id, pl_str text) noexcept {
  return receive<EvaluationSink>(user, [&](const EvaluationSink& sink) {
    if (sink.sample) sink.sample(sample_id, view(text));
  });
}

pl_error* on_row(void* user, std::uint64_t sample_id, const pl_str* fields, std::uint64_t count) noexcept {
  return receive<PredictionSink>(user, [&](const PredictionSink& sink) {
    std::vector<std::string_view> views;
    for (std::uint64_t i = 0; i < count; ++i) views.push_back(view(fields[i]));
    if (sink.row) sink.row(sample_id, views);
  });
}

pl_error* on_file(void* user, std::uint64_t sample_id, pl_str name, const void* bytes,
                  std::uint64_t size) noexcept {
  return receive<PredictionSink>(user, [&](const PredictionSink& sink) {
    if (sink.file) sink.file(sample_id, view(name), {static_cast<const std::byte*>(bytes), size});
  });
}

}  // namespace

void Task::evaluate(const Batch& batch, pl_evaluate_args args, const EvaluationSink& sink) {
  Receiver<EvaluationSink> receiver{sink, call_.context()};
  auto raw = sized<pl_evaluation_sink>();
  raw.user = &receiver;
  raw.value = on_value;
  raw.sample = on_sample;
  args.struct_size = sizeof args;
  call_.main("evaluate", [&] { return api_.evaluate(self_, batch.handle(), &args, &raw); });
}

void Task::predict(const Batch& batch, pl_evaluate_args args, const PredictionSink& sink) {
  Receiver<PredictionSink> receiver{sink, call_.context()};
  auto raw = sized<pl_prediction_sink>();
  raw.user = &receiver;
  raw.row = on_row;
  raw.file = on_file;
  args.struct_size = sizeof args;
  call_.main("predict", [&] { return api_.predict(self_, batch.handle(), &args, &raw); });
}

std::vector<Metric> Task::metrics() const {
  std::vector<Metric> metrics;
  if (!api_.metric_count) return metrics;
  call_.check_main("metric_count");
  const std::uint64_t count = api_.metric_count(self_);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto raw = sized<pl_metric>();
    call_.main("metric", [&] { return api_.metric(self_, i, &raw); });
    Metric metric{std::string(view(raw.name)), std::string(view(raw.source)), std::string(view(raw.help)),
                  raw.aggregate, raw.better};
    if (metric.source.empty()) metric.source = metric.name;
    if (metric.name.empty()) throw Error(fmt::format("{}: metric {} has no name", call_.plugin().label(), i));
    if (metric.aggregate < PL_AGGREGATE_MEAN || metric.aggregate > PL_AGGREGATE_EXP_MEAN)
      throw Error(fmt::format("{}: metric '{}': aggregate {} is unknown", call_.plugin().label(), metric.name,
                              metric.aggregate));
    if (metric.better != PL_BETTER_LOWER && metric.better != PL_BETTER_HIGHER)
      throw Error(fmt::format("{}: metric '{}': better {} is unknown", call_.plugin().label(), metric.name,
                              metric.better));
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

std::vector<std::string> Task::prediction_columns() const {
  const pl_str* columns = nullptr;
  std::uint64_t count = 0;
  call_.main("prediction_columns", [&] { return api_.prediction_columns(self_, &columns, &count); });
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) names.emplace_back(view(columns[i]));
  return names;
}

std::string Task::sample_name(std::uint32_t split, std::uint64_t sample_id) const {
  pl_str name{};
  call_.any("sample_name", [&] { return api_.sample_name(self_, split, sample_id, &name); });
  return std::string(view(name));
}

}  // namespace pipeline::plugins
