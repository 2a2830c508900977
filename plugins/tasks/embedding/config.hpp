// The options of the embedding task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "language/options.hpp"
#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/models/encoder/text_options.hpp"
#include "plugins/models/sentence_encoder/losses.hpp"
#include "plugins/models/sentence_encoder/sentence_encoder.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::embedding {

struct DataOptions : sources::SplitOptions {
  std::string query_column, positive_column, negative_column, score_column = "score", id_column,
                                                              quotes = "auto";
  int64_t negatives = 1, max_record_bytes = 16 << 20;

  void describe(Options& o) {
    o("train", train, "pairs of texts: JSON, Parquet, CSV or TSV; a file, a pattern or a folder");
    o.group("source", source);
    describe_others(
        o,
        "in place of val: this share of the pairs of train is evaluated and not learnt from; "
        "chosen by a hash of their first texts, so that equal ones stay together",
        "the same, to evaluate or predict at the end; or a folder as BEIR has them, with corpus.jsonl, "
        "queries.jsonl and qrels/test.tsv; empty: none",
        "the same, or a folder as BEIR has them (qrels/dev.tsv), to evaluate during training; "
        "empty: none");
    o("query_column", query_column,
      "column of the first texts; empty: \"anchor\", or \"sentence1\" with task.objective = \"similarity\"");
    o("positive_column", positive_column,
      "column of the texts that belong to them, or lists of such, of which one is drawn each epoch; empty: "
      "\"positive\", or \"sentence2\"");
    o("negative_column", negative_column,
      "column of texts that do not, though they seem to, or lists of such; empty: there are none");
    o("score_column", score_column, "of similarity: the column of how alike the two are");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("negatives", negatives,
      "how many of a record's negatives are used at a time; of more, others are drawn each epoch")
        .min(1)
        .max(1024);
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("max_record_bytes", max_record_bytes, "longer records are dropped")
        .unit("bytes")
        .min(1024)
        .max(64 << 20);
  }
};

struct ModelConfig : encoder::TextEncoderOptions {
  std::string pooling, projection_activation = "none";
  int64_t projection_dim = 0;
  bool projection_bias = true, normalize = true;

  void describe(Options& o) {
    TextEncoderOptions::describe(o);
    o("pooling", pooling,
      "which tokens of the last layer become the vector: the mean of all, the first, or the last; empty: the "
      "mean, of a language model the last")
        .choices({"", "mean", "cls", "lasttoken"})
        .follows();
    o("projection_dim", projection_dim, "width of a linear layer behind it; 0: there is none")
        .min(0)
        .of_model();
    o("projection_activation", projection_activation, "of that layer").choices({"none", "tanh"}).follows();
    o("projection_bias", projection_bias, "whether that layer has a bias").of_model();
    o("normalize", normalize, "vectors have length 1").follows();
  }
};

struct TextOptions {
  int64_t max_tokens = 512;
  std::string query_prompt, passage_prompt;

  void describe(Options& o) {
    o("max_tokens", max_tokens, "longer texts are cut at their end").unit("tokens").min(3).follows();
    o("query_prompt", query_prompt, "stands before each first text, such as \"query: \"").follows();
    o("passage_prompt", passage_prompt, "stands before each other text, such as \"passage: \"").follows();
  }
};

struct LossConfig {
  double temperature = 0.05;
  bool symmetric = false;
  std::vector<int64_t> matryoshka;

  void describe(Options& o) {
    o("temperature", temperature, "divides cosines").above(0);
    o("symmetric", symmetric,
      "of ranking: the mean of finding the text that belongs to a query among all, and the query of a text");
    o("matryoshka", matryoshka,
      "widths to which vectors may be cut later, such as [768, 256, 64]: the losses at all of them add up; "
      "empty: "
      "the whole width");
  }
};

struct PredictOptions {
  std::string side = "query";
  std::vector<std::string> formats = {"safetensors"};

  void describe(Options& o) {
    o("side", side, "whose prompt the texts get").choices({"query", "passage"}).may_change();
    o("formats", formats, "of the vectors").choices({"safetensors", "parquet"}).may_change();
  }
};

struct EmbeddingConfig {
  std::string objective = "ranking", family = "encoder";
  DataOptions data;
  ModelConfig model;
  TextOptions text;
  LossConfig loss;
  PredictOptions predict;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language;

  void describe(Options& o) {
    o("objective", objective,
      "ranking: the text that belongs to a query is to be nearer than all others of the step (InfoNCE); "
      "similarity: of two pairs, the one with the higher score (CoSENT)")
        .choices({"ranking", "similarity"});
    o("family", family,
      "encoder: BERT and its kin, [task.model]; language: a causal language model without its output head, "
      "[task.language]")
        .choices({"encoder", "language"})
        .of_model();
    o.group("data", data);
    o.group("model", model);
    o.group("text", text);
    o.group("loss", loss);
    o.group("predict", predict);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
  }
  void validate(const ConfigErrors& errors) const;

  bool is_ranking() const { return objective == "ranking"; }
  std::string query_column() const {
    return !data.query_column.empty() ? data.query_column : is_ranking() ? "anchor" : "sentence1";
  }
  std::string positive_column() const {
    return !data.positive_column.empty() ? data.positive_column : is_ranking() ? "positive" : "sentence2";
  }
  // Texts of a row of outputs that are negatives.
  int64_t negatives() const { return data.negative_column.empty() ? 0 : data.negatives; }
  bool is_language() const { return family == "language"; }
  // That LoRA starts from; empty: none. `family` may follow a folder, so that both are looked at.
  std::filesystem::path adapter() const {
    return model.lora.init_from.empty() ? language.lora.init_from : model.lora.init_from;
  }
  std::string pooling() const {
    return !model.pooling.empty() ? model.pooling : is_language() ? "lasttoken" : "mean";
  }
  sentence_encoder::Config encoder(const language::VocabularyOf& tokens) const;
  sentence_encoder::LossOptions loss_options() const {
    return {.temperature = loss.temperature, .is_symmetric = loss.symmetric, .dimensions = loss.matryoshka};
  }

  // Tells what the folder says that the run starts from.
  static void read_model(const EmbeddingConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::tasks::embedding
