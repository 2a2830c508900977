// Figures, and tables of predictions.
#include <algorithm>
#include <cmath>
#include <span>

#include <pipeline/numbers.hpp>

#include "core/base/csv.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/labels/report.hpp"
#include "plugins/tasks/labels/task.hpp"

namespace pipeline::tasks::labels {
namespace {

constexpr int kProbabilityDigits = 6;

std::string probability(double value) { return figures::decimal(value, kProbabilityDigits); }

}  // namespace

at::Tensor Labels::told(const LabelsBatch& batch) {
  const at::NoGradGuard no_grad;
  return model()
      .with_labels(batch.packed, pass(),
                   [&](const at::Tensor& outputs) { return heads::told(form_, outputs); })
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

std::vector<Metric> Labels::metrics() {
  return {{.name = "loss",
           .help = config().are_numbers()   ? "squared error over the variance of the training data"
                   : config().are_several() ? "binary cross-entropy, the mean over classes, in nats"
                                            : "cross-entropy per text, in nats"}};
}

void Labels::evaluate(const LabelsBatch& batch, EvaluationSink& sink) {
  const at::NoGradGuard no_grad;
  at::Tensor losses;
  const at::Tensor all =
      model()
          .with_labels(batch.packed, pass(),
                       [&](const at::Tensor& outputs) {
                         losses = heads::row_losses(form_, outputs, batch.right).to(at::kCPU, at::kDouble);
                         return heads::told(form_, outputs);
                       })
          .to(at::kCPU, at::kFloat)
          .contiguous();
  const at::Tensor right = batch.right.to(at::kCPU).contiguous();
  const auto outputs = static_cast<size_t>(form_.outputs());
  pipeline::labels::Confusion confusion(form_.are_several ? 0 : form_.classes.size());
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const std::span told(all.const_data_ptr<float>() + i * outputs, outputs);
    const uint64_t id = batch.ids[i];
    if (sink.purpose() == Purpose::kEvaluate)
      require_numbers(told, sample_name(batch.split, id), "prediction");
    pipeline::labels::LabelRecord record{.group = id};
    if (form_.are_numbers) {
      record.right = {*records::label_number(required_label(corpus_->sample(batch.split, id)))};
    } else if (form_.are_several) {
      const float* const is = right.const_data_ptr<float>() + i * outputs;
      record.values.assign(is, is + outputs);
    } else {
      const auto is = static_cast<size_t>(right.const_data_ptr<int64_t>()[i]);
      confusion.add(is, static_cast<size_t>(std::ranges::max_element(told) - told.begin()));
      record.values = {static_cast<float>(is)};
    }
    record.values.insert(record.values.end(), told.begin(), told.end());
    sink.value("loss", losses.const_data_ptr<double>()[i], 1);
    sink.record(id, pipeline::labels::LabelRecord::kKey, record.pack());
  }
  send_confusion(sink, confusion);
}

void Labels::report(const Report& report, const ReportSink& sink) {
  using What = pipeline::labels::Predicted::What;
  const records::LabelScale scale = scale_.value_or(records::LabelScale());
  pipeline::labels::report_labels(
      {.what = form_.are_numbers   ? What::kNumbers
               : form_.are_several ? What::kSeveral
                                   : What::kClasses,
       .classes = scale.classes,
       .usual = scale.usual,
       .deviation = scale.deviation,
       .training_mean = scale.count > 0 ? std::optional(scale.mean) : std::nullopt,
       .noun = "text",
       .group = "text"},
      report, sink);
}

std::vector<std::string> Labels::prediction_columns() {
  std::vector<std::string> columns{"text", "prediction"};
  for (const std::string& name : form_.classes) columns.push_back("p_" + name);
  columns.emplace_back("label");
  return columns;
}

void Labels::predict(const LabelsBatch& batch, const PredictionSink& sink) {
  const at::Tensor all = told(batch);
  const auto outputs = static_cast<size_t>(form_.outputs());
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const std::span told(all.const_data_ptr<float>() + i * outputs, outputs);
    const TokenSample sample = corpus_->sample(batch.split, batch.ids[i]);
    require_numbers(told, name_of(sample), "prediction");
    std::vector<std::string> row{tokenizer()->decode(sample.parts.at(0).all<int32_t>())};
    if (form_.are_numbers) {
      row.push_back(exactly(form_.number(told[0])));
    } else if (form_.are_several) {
      std::string names;
      for (size_t k = 0; k < outputs; ++k)
        if (told[k] > 0) names += (names.empty() ? "" : ",") + form_.classes[k];
      row.push_back(names);
      for (const float odds : told)
        row.push_back(probability(1 / (1 + std::exp(-static_cast<double>(odds)))));
    } else {
      row.push_back(form_.classes[static_cast<size_t>(std::ranges::max_element(told) - told.begin())]);
      for (const float logp : told) row.push_back(probability(std::exp(static_cast<double>(logp))));
    }
    row.push_back(label_of(sample).value_or(""));
    sink.row(batch.ids[i], row);
  }
}

}  // namespace pipeline::tasks::labels
