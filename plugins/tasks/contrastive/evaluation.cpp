// What an evaluation measures besides the loss: how often pictures and texts find each other in the whole
// split.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <pipeline/numbers.hpp>

#include <cstdio>
#include <map>

#include "files/hash128.hpp"
#include "plugins/scores/recall/recall.hpp"
#include "plugins/tasks/contrastive/task.hpp"

namespace pipeline::tasks::contrastive {
namespace {

constexpr const char* kPairRecord = "pair";

// How many pairs are each other's nearest, of (pictures, texts); one that is so in one direction counts half.
double nearest_share(const at::Tensor& similar, const at::Tensor& valid) {
  const at::Tensor pairs = at::mm(valid, valid.t()), own = similar.diagonal();
  const auto nearest = [&](const at::Tensor& logits) {
    return ((logits >= own.unsqueeze(1)) * pairs).sum(1) == 1;
  };
  return (nearest(similar).sum() + nearest(similar.t()).sum()).item<double>() / 2;
}

std::string percent_line(const char* what, const recall::Recall& recall) {
  std::string line;
  char text[64];
  std::snprintf(text, sizeof text, "\n  %-20s", what);
  line += text;
  for (size_t k = 0; k < recall::kRecallAt.size(); ++k) {
    const auto [low, high] = recall.interval(k);
    std::snprintf(text, sizeof text, "  %5.1f%% (%4.1f-%4.1f)", 100 * recall.at[k], 100 * low, 100 * high);
    line += text;
  }
  std::snprintf(text, sizeof text, "  %11.0f", recall.median_rank);
  return line + text;
}

}  // namespace

void ContrastiveTask::evaluate(const ContrastiveBatch& batch, EvaluationSink& sink) {
  const at::Tensor rows = outputs(batch).to(at::kFloat);
  const int64_t width = config().projection_dim;
  const at::Tensor pictures = rows.narrow(1, 0, width), texts = rows.narrow(1, width + 1, width);
  {
    const AutocastScope in_float32({rows.device().type(), false});
    sink.value("loss", global_loss(rows).sum().item<double>(), batch.pairs);
    sink.value("accuracy", nearest_share(at::mm(pictures, texts.t()), batch.valid), batch.pairs);
  }
  const at::Tensor embedded = at::stack({pictures / pictures.norm(2, 1, true), texts}, 1).cpu().contiguous(),
                   valid = batch.valid.cpu();
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (valid[static_cast<int64_t>(i)].item<float>() == 0) continue;
    const files::Hash128 picture =
        with(batch.split, batch.ids[i], 0, [](const PictureSource& source, uint64_t record) {
          return files::hash128(
              picture_texts::shared_contents(source.conversations[record], source.images).front());
        });
    const at::Tensor both = embedded[static_cast<int64_t>(i)];
    if (sink.purpose() == Purpose::kEvaluate)
      require_numbers(std::span(both.const_data_ptr<float>(), static_cast<size_t>(both.numel())),
                      sample_name(batch.split, batch.ids[i]), "embedding");
    sink.record(batch.ids[i], kPairRecord,
                picture.hex() + std::string(static_cast<const char*>(both.const_data_ptr()), both.nbytes()));
  }
}

std::vector<Metric> ContrastiveTask::metrics() {
  return {
      {.name = "loss",
       .help = "of a pair among those of its evaluation batch (train.micro_batch samples), in nats"},
      {.name = "accuracy",
       .help = "share of pictures whose own text is the nearest in that batch, and of texts whose picture is",
       .better = PL_BETTER_HIGHER}};
}

void ContrastiveTask::report(const Report& report, const ReportSink& sink) {
  const int64_t width = config().projection_dim;
  const size_t key_bytes = files::Hash128().hex().size(),
               vectors = 2 * static_cast<size_t>(width) * sizeof(float);
  std::vector<float> values;
  std::vector<int64_t> picture_of;
  std::map<std::string_view, int64_t> numbers;
  for (const EvaluationRecord& record : report.records) {
    if (record.key != kPairRecord || record.bytes.size() != key_bytes + vectors) continue;
    const auto [found, is_new] =
        numbers.try_emplace(record.bytes.substr(0, key_bytes), static_cast<int64_t>(numbers.size()));
    picture_of.push_back(found->second);
    const size_t before = values.size();
    values.resize(before + vectors / sizeof(float));
    std::memcpy(values.data() + before, record.bytes.data() + key_bytes, vectors);
  }
  if (numbers.size() < 2) return;
  const at::Tensor both =
      at::from_blob(values.data(), {static_cast<int64_t>(picture_of.size()), 2, width}, at::kFloat);
  const recall::Retrieval retrieval =
      recall::retrieve(both.select(1, 0).contiguous(), both.select(1, 1).contiguous(), picture_of);
  for (size_t k = 0; k < recall::kRecallAt.size(); ++k) {
    sink.figure(concat("text_recall_", recall::kRecallAt[k]), retrieval.texts.at[k], PL_BETTER_HIGHER);
    sink.figure(concat("picture_recall_", recall::kRecallAt[k]), retrieval.pictures.at[k], PL_BETTER_HIGHER);
  }
  char line[160];
  std::snprintf(line, sizeof line,
                "retrieval              recall at 1 (95%%)    at 5                at 10         median rank");
  std::string text = line;
  text += percent_line("text of a picture", retrieval.texts) +
          percent_line("picture of a text", retrieval.pictures);
  std::snprintf(line, sizeof line,
                "\n  by chance, among %-5lld %3.1f%%               %4.1f%%               %4.1f%%",
                static_cast<long long>(retrieval.pictures.among), 100.0 / double(retrieval.pictures.among),
                500.0 / double(retrieval.pictures.among), 1000.0 / double(retrieval.pictures.among));
  sink.text(text + line);
}

}  // namespace pipeline::tasks::contrastive
