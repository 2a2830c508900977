// Figures, and predicted vectors.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <pipeline/numbers.hpp>

#include "files/data_errors.hpp"
#include "plugins/data/files/texts.hpp"
#include "plugins/scores/intervals/interval.hpp"
#include "plugins/scores/labels/figure.hpp"
#include "plugins/scores/labels/labels.hpp"
#include "plugins/scores/recall/ranking.hpp"
#include "plugins/tasks/embedding/task.hpp"

namespace pipeline::tasks::embedding {
namespace {

// Of a sample that has a second text: its key and vector, and the judgements. Of each text that can be found:
// key and vector. Of a scored pair: score and cosine.
constexpr const char *kQuery = "query", *kTexts = "texts", *kScored = "scored";

std::span<const float> row_of(const at::Tensor& vectors, size_t row) {
  const auto width = static_cast<size_t>(vectors.size(1));
  return {vectors.const_data_ptr<float>() + row * width, width};
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Figures, a line each.
class Lines {
 public:
  explicit Lines(const ReportSink& sink) : sink_(sink) {}

  void operator()(const std::string& name, double value, const std::optional<intervals::Interval>& bounds) {
    const std::string text = labels::write_figure(sink_, name, PL_BETTER_HIGHER, value, bounds);
    all_ += concat("\n  ", name, std::string(12 - std::min<size_t>(name.size(), 11), ' '), text);
  }
  void send(const std::string& head) { sink_.text(head + all_); }

 private:
  const ReportSink& sink_;
  std::string all_;
};

}  // namespace

std::vector<Metric> Embedding::metrics() {
  if (!config().is_ranking())
    return {{.name = "loss", .help = "of an evaluation batch (train.micro_batch pairs), in nats"}};
  return {{.name = "loss",
           .help = "of a pair among those of its evaluation batch (train.micro_batch samples), in nats"},
          {.name = "accuracy",
           .help = "share of queries whose own text is nearer than all others in that batch",
           .better = PL_BETTER_HIGHER}};
}

void Embedding::evaluate(const EmbeddingBatch& batch, EvaluationSink& sink) {
  const at::NoGradGuard no_grad;
  const at::Tensor on_device = model().vectors(batch.texts, pass());
  const at::Tensor vectors = on_device.to(at::kCPU).contiguous();
  const bool are_numbers = vectors.isfinite().all().item<bool>();
  const auto pairs = static_cast<double>(batch.pairs());
  EmbeddingBatch paired = batch;  // without documents that stand alone
  std::vector<size_t> queries;
  std::vector<int64_t> rows;
  paired.ids.clear(), paired.counts.clear(), paired.scores.clear();
  size_t row = 0;
  for (size_t i = 0; i < batch.ids.size(); row += batch.counts[i++]) {
    if (sink.purpose() == Purpose::kEvaluate && !are_numbers)
      for (size_t text = 0; text < batch.counts[i]; ++text)
        require_numbers(row_of(vectors, row + text), sample_name(batch.split, batch.ids[i]), "vector");
    if (batch.counts[i] < 2) continue;
    queries.push_back(row);
    paired.ids.push_back(batch.ids[i]);
    paired.counts.push_back(batch.counts[i]);
    if (!batch.scores.empty()) paired.scores.push_back(batch.scores[i]);
    for (size_t text = 0; text < batch.counts[i]; ++text) rows.push_back(static_cast<int64_t>(row + text));
  }
  double loss = 0, nearest = 0;
  if (!queries.empty()) {
    const AutocastScope in_float32({on_device.device().type(), false});
    const at::Tensor index = transformer::to_device(rows, on_device.device());
    paired.columns = batch.columns.index_select(0, index);
    loss = global_loss(rows_of(paired, on_device.index_select(0, index))).sum().item<double>();
    if (config().is_ranking()) nearest = static_cast<double>(ranking().nearest());
  }
  sink.value("loss", loss, pairs);
  if (config().is_ranking()) sink.value("accuracy", nearest, pairs);
  row = 0;
  for (size_t i = 0; i < batch.ids.size(); row += batch.counts[i++]) {
    const uint64_t id = batch.ids[i];
    if (!config().is_ranking()) {
      const at::Tensor cosine =
          sentence_encoder::of_length_1(vectors.narrow(0, static_cast<int64_t>(row), 2)).prod(0).sum();
      const std::vector<float> both{batch.scores[i], cosine.item<float>()};
      sink.record(id, kScored, bytes_of(both));
      continue;
    }
    const size_t first = batch.counts[i] > 1 ? 1 : 0;
    std::string texts;
    for (size_t text = first; text < batch.counts[i]; ++text)
      texts.append(files::bytes_of(batch.keys[row + text])).append(bytes_of(row_of(vectors, row + text)));
    sink.record(id, kTexts, texts);
    if (first == 0) continue;
    Facts facts = facts_of(corpus_->sample(batch.split, id));
    std::vector<Judgement>& judgements = facts.judgements;
    const bool is_collection = !judgements.empty();
    if (!is_collection) judgements.push_back({batch.keys[row + 1], 1});
    std::string query(files::bytes_of(batch.keys[row]));
    query.append(bytes_of(row_of(vectors, row)))
        .append(files::bytes_of(facts.documents))
        .append(files::bytes_of(judgements));
    sink.record(id, kQuery, query);
  }
}

void Embedding::report(const Report& report, const ReportSink& sink) {
  config().is_ranking() ? report_ranking(report, sink) : report_similarity(report, sink);
}

void Embedding::report_ranking(const Report& report, const ReportSink& sink) const {
  const auto vector_bytes = static_cast<size_t>(width()) * sizeof(float);
  std::unordered_map<Hash128, int64_t> documents, queries;
  std::vector<float> of_documents, of_queries;
  // Takes a key and a vector off the bytes; the number of that key.
  const auto take = [&](std::string_view& bytes, auto& numbers, std::vector<float>& vectors) {
    Hash128 key;
    files::take(bytes, key);
    const auto [found, is_new] = numbers.emplace(key, static_cast<int64_t>(numbers.size()));
    if (is_new) {
      vectors.resize(vectors.size() + static_cast<size_t>(width()));
      std::memcpy(vectors.data() + vectors.size() - static_cast<size_t>(width()), bytes.data(), vector_bytes);
    }
    bytes.remove_prefix(vector_bytes);
    return found;
  };
  const size_t one = sizeof(Hash128) + vector_bytes;
  for (const EvaluationRecord& record : report.records)
    for (std::string_view bytes = record.bytes; record.key == kTexts && bytes.size() >= one;)
      take(bytes, documents, of_documents);
  recall::JudgedQueries judged;
  std::vector<std::map<int64_t, double>>
      grades;  // of each query, by document: what is said twice counts once
  for (const EvaluationRecord& record : report.records) {
    std::string_view bytes = record.bytes;
    if (record.key != kQuery || bytes.size() < one) continue;
    const auto query = take(bytes, queries, of_queries);
    const auto number = static_cast<size_t>(query->second);
    if (grades.size() <= number) {
      grades.emplace_back();
      judged.left_out.push_back(-1);
    }
    uint64_t collection = 0;
    files::take(bytes, collection);
    if (collection > documents.size())
      return sink.text(concat("the collection has ", collection, " documents, of which ", documents.size(),
                              " were evaluated: it is judged whole, with evaluate.max_samples = 0"));
    // Who searches a collection does not look for the query itself.
    if (const auto self = documents.find(query->first); collection > 0 && self != documents.end())
      judged.left_out[number] = self->second;
    for (Judgement judgement{}; files::take(bytes, judgement);)
      if (const auto found = documents.find(judgement.document); found != documents.end())
        grades[number][found->second] = judgement.grade;
  }
  if (queries.empty()) return;
  for (const auto& of_query : grades) judged.grades.emplace_back(of_query.begin(), of_query.end());
  const auto tensor = [&](std::vector<float>& values) {
    return sentence_encoder::of_length_1(
        at::from_blob(values.data(), {static_cast<int64_t>(values.size()) / width(), width()}, at::kFloat));
  };
  judged.queries = tensor(of_queries);
  judged.documents = tensor(of_documents);
  const recall::RankingFigures figures = recall::rank(judged);
  const bool is_full = report.purpose == Purpose::kEvaluate;
  Lines write(sink);
  const auto figure = [&](const std::string& name, const recall::RankingFigures::Mean& mean) {
    write(name, mean.value, is_full ? mean.interval : std::nullopt);
  };
  figure("ndcg_10", figures.ndcg_10);
  figure("mrr_10", figures.mrr_10);
  for (size_t k = 0; k < recall::kRankedAt.size(); ++k)
    figure(concat("recall_", recall::kRankedAt[k]), figures.recall[k]);
  write.send(concat(queries.size(), queries.size() == 1 ? " query" : " queries", " among ",
                    files::counted(documents.size(), "text"),
                    is_full ? "; 95% intervals over queries:" : ""));
}

void Embedding::report_similarity(const Report& report, const ReportSink& sink) const {
  std::vector<double> scores, cosines;
  std::vector<uint64_t> each;
  for (const EvaluationRecord& record : report.records) {
    std::array<float, 2> both{};
    if (record.key != kScored || record.bytes.size() != sizeof both) continue;
    std::memcpy(both.data(), record.bytes.data(), sizeof both);
    each.push_back(scores.size());
    scores.push_back(static_cast<double>(both[0]));
    cosines.push_back(static_cast<double>(both[1]));
  }
  const auto of = [&](std::span<const size_t> which) {
    std::vector<double> a, b;
    for (const size_t i : which) {
      a.push_back(scores[i]);
      b.push_back(cosines[i]);
    }
    return labels::spearman(a, b);
  };
  const std::vector<size_t> all(each.begin(), each.end());
  const auto value = of(all);
  if (!value) return;
  const bool has_interval =
      report.purpose == Purpose::kEvaluate && scores.size() <= intervals::kMostResampled;
  Lines write(sink);
  write("spearman", *value, has_interval ? intervals::resampled(each, of) : std::nullopt);
  write.send(
      concat(files::counted(scores.size(), "pair"), has_interval ? "; 95% intervals over pairs:" : ""));
}

void Embedding::open_vector_files(Split split) {
  if (!files_.empty()) return;
  const auto facts = [this, split](uint64_t id) { return facts_of(corpus_->sample(split, id)); };
  common::Vectors what{.samples = corpus_->size(split),
                       .width = width(),
                       .name = "embeddings",
                       .metadata = {{"model", config().model.kind},
                                    {"pooling", config().model.pooling},
                                    {"order", "of the prediction's table"}},
                       .columns = {{.name = "id"}, {.name = "text"}},
                       .add_rows = [facts](parquet::ParquetWriter& table, uint64_t id) {
                         const Facts of = facts(id);
                         table.text(of.name).text(of.text).end_row();
                       }};
  const std::vector<std::string>& formats = config().predict.formats;
  for (const std::string& format : std::set(formats.begin(), formats.end()))
    files_.push_back(common::vector_files(format, what));
}

void Embedding::predict(const EmbeddingBatch& batch, const PredictionSink& sink) {
  const at::NoGradGuard no_grad;
  open_vector_files(batch.split);
  const at::Tensor vectors = model().vectors(batch.texts, pass()).to(at::kCPU).contiguous();
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const uint64_t id = batch.ids[i];
    const Facts facts = facts_of(corpus_->sample(batch.split, id));
    require_numbers(row_of(vectors, i), facts.name, "vector");
    files::with_data_errors([&] {
      for (const auto& file : files_) file->add(id, vectors[static_cast<int64_t>(i)], sink);
    });
    sink.row(id, {facts.text});
  }
}

}  // namespace pipeline::tasks::embedding
