// Figures, and tables of predictions.
#include <algorithm>
#include <cmath>
#include <span>

#include <pipeline/numbers.hpp>

#include "core/base/csv.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/labels/confusion.hpp"
#include "plugins/scores/labels/report.hpp"
#include "plugins/tasks/labels/task.hpp"

namespace pipeline::tasks::labels {
namespace {

constexpr int kProbabilityDigits = 6;

std::string probability(double value) { return figures::decimal(value, kProbabilityDigits); }

}  // namespace

at::Tensor Labels::told(const LabelsBatch& batch, at::Tensor* losses) {
  const at::NoGradGuard no_grad;
  return model()
      .with_labels(batch.packed, batch.types, pass(),
                   [&](const at::Tensor& outputs) {
                     if (losses != nullptr)
                       *losses = heads::row_losses(form_, outputs, batch.right).to(at::kCPU, at::kDouble);
                     return heads::told(form_, outputs);
                   })
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

std::vector<Metric> Labels::metrics() {
  return {{.name = "loss",
           .help = config().are_numbers()   ? "squared error over the variance of the training data"
                   : config().are_several() ? "binary cross-entropy, the mean over classes, in nats"
                   : config().are_tags()    ? "cross-entropy per word, in nats"
                                            : "cross-entropy per text, in nats"}};
}

void Labels::evaluate(const LabelsBatch& batch, EvaluationSink& sink) {
  at::Tensor losses;
  const at::Tensor all = told(batch, &losses);
  const at::Tensor right = batch.right.to(at::kCPU).contiguous();
  const auto outputs = static_cast<size_t>(form_.outputs());
  pipeline::labels::Confusion confusion(form_.are_several ? 0 : form_.classes.size());
  size_t row = 0;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const uint64_t id = batch.ids[i];
    pipeline::labels::LabelRecord record{.group = id};
    if (form_.are_numbers)
      record.right = {*records::label_number(required_label(corpus_->sample(batch.split, id)))};
    double loss = 0;
    if (sink.purpose() == Purpose::kEvaluate)
      require_numbers(std::span(all.const_data_ptr<float>() + row * outputs, batch.rows[i] * outputs),
                      sample_name(batch.split, id), "prediction");
    for (const size_t end = row + batch.rows[i]; row < end; ++row) {
      const std::span told(all.const_data_ptr<float>() + row * outputs, outputs);
      if (form_.are_several) {
        const float* const is = right.const_data_ptr<float>() + row * outputs;
        record.values.insert(record.values.end(), is, is + outputs);
      } else if (!form_.are_numbers) {
        const auto is = static_cast<size_t>(right.const_data_ptr<int64_t>()[row]);
        confusion.add(is, static_cast<size_t>(std::ranges::max_element(told) - told.begin()));
        record.values.push_back(static_cast<float>(is));
      }
      record.values.insert(record.values.end(), told.begin(), told.end());
      loss += losses.const_data_ptr<double>()[row];
    }
    sink.value("loss", loss, static_cast<double>(batch.rows[i]));
    sink.record(id, pipeline::labels::LabelRecord::kKey, record.pack());
  }
  send_confusion(sink, confusion);
  pipeline::labels::send_predicted(
      sink, {.classes = scale_->classes,
             .usual = scale_->usual,
             .deviation = scale_->deviation,
             .training_mean = scale_->count > 0 ? std::optional(scale_->mean) : std::nullopt});
}

void Labels::report(const Report& report, const ReportSink& sink) {
  using What = pipeline::labels::Predicted::What;
  pipeline::labels::report_labels({.what = config().are_numbers()   ? What::kNumbers
                                           : config().are_several() ? What::kSeveral
                                                                    : What::kClasses,
                                   .noun = config().are_tags() ? "word" : "text",
                                   .group = "text"},
                                  report, sink);
}

std::vector<std::string> Labels::prediction_columns() {
  std::vector<std::string> columns{"text", "prediction"};
  if (form_.of == heads::LabelForm::Of::kSamples)
    for (const std::string& name : form_.classes) columns.push_back("p_" + name);
  columns.emplace_back("label");
  return columns;
}

std::vector<std::string> Labels::prediction_fields(std::span<const float> told) const {
  if (form_.are_numbers) return {exactly(form_.number(told[0]))};
  std::vector<std::string> fields(1);
  for (size_t k = 0; k < told.size(); ++k) {
    if (form_.are_several && told[k] > 0) fields[0] += (fields[0].empty() ? "" : ",") + form_.classes[k];
    const auto of_class = static_cast<double>(told[k]);
    fields.push_back(probability(form_.are_several ? 1 / (1 + std::exp(-of_class)) : std::exp(of_class)));
  }
  if (!form_.are_several)
    fields[0] = form_.classes[static_cast<size_t>(std::ranges::max_element(told) - told.begin())];
  return fields;
}

// Of words a row of each in a table beside that of texts, whose labels are then with blanks between.
void Labels::predict(const LabelsBatch& batch, const PredictionSink& sink) {
  const at::Tensor all = told(batch);
  const auto outputs = static_cast<size_t>(form_.outputs());
  const bool are_tags = form_.of == heads::LabelForm::Of::kParts;
  size_t row = 0;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const uint64_t id = batch.ids[i];
    const TokenSample sample = corpus_->sample(batch.split, id);
    const std::vector<std::string> words = words_of(sample), right = sample.has_target()
                                                                         ? labels_of(sample)
                                                                         : std::vector<std::string>();
    const std::string name = name_of(sample);
    require_numbers(std::span(all.const_data_ptr<float>() + row * outputs, batch.rows[i] * outputs), name,
                    "prediction");
    std::string table, text, tags;
    if (are_tags && id == 0) {
      table = "id,word,prediction";
      for (const std::string& of_class : form_.classes) table += "," + csv_field("p_" + of_class);
      table += ",label\n";
    }
    std::vector<std::string> fields;
    for (size_t word = 0; word < batch.rows[i]; ++word, ++row) {
      const std::span told(all.const_data_ptr<float>() + row * outputs, outputs);
      fields = prediction_fields(told);
      if (!are_tags) continue;
      table += csv_field(name) + "," + csv_field(words[word]);
      for (const std::string& field : fields) table += "," + csv_field(field);
      table += "," + csv_field(word < right.size() ? right[word] : "") + "\n";
      text += (word > 0 ? " " : "") + words[word];
      tags += (word > 0 ? " " : "") + fields[0];
    }
    if (are_tags) {
      sink.append(id, "labels.csv", table);
      fields = {text, tags};
    } else {
      fields.insert(fields.begin(), words.front());
    }
    fields.push_back(sample.has_target() ? written_label(sample) : "");
    sink.row(id, fields);
  }
}

// The label of a text as people write it.
std::string Labels::written_label(const TokenSample& sample) const {
  if (config().are_numbers()) return required_label(sample);
  const char* const between = config().are_tags() ? " " : ",";
  std::string written;
  for (const std::string& one : labels_of(sample))
    for (const std::string& name : names_in(one))
      written += (written.empty() ? "" : between) + (name.empty() ? "-" : names_.meant(name));
  return written;
}

}  // namespace pipeline::tasks::labels
