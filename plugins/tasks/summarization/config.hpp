// The options of the summarization task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "generation/generate.hpp"
#include "language/options.hpp"
#include "language/teacher.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/tasks/summarization/data.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::summarization {

struct DataConfig : sources::SplitOptions {
  std::string document_column = "document", summary_column = "summary", id_column, quotes = "auto";
  int64_t max_record_bytes = 16 << 20;

  void describe(Options& o) {
    o("train", train,
      "pairs to learn from: JSON, Parquet, CSV or TSV; a file, a folder, or a pattern such as "
      "data/train-*.parquet");
    o.group("source", source);
    describe_others(
        o,
        "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the "
        "documents, so that equal ones stay together",
        "pairs to evaluate or predict at the end; empty: none",
        "pairs to evaluate during training; empty: none");
    o("document_column", document_column, "column of the text to summarize");
    o("summary_column", summary_column, "column of the summary; not needed in a test file for predictions");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("max_record_bytes", max_record_bytes, "longer records are dropped")
        .unit("bytes")
        .min(1024)
        .max(64 << 20);
  }
};

struct SequenceConfig {
  int64_t max_tokens = 512, max_summary_tokens = 64;
  std::string separator = "\nTL;DR:\n", loss = "summary";

  void describe(Options& o) {
    o("max_tokens", max_tokens,
      "limit for document, separator, summary and what begins a text; the document is cut to fit")
        .unit("tokens")
        .min(8)
        .follows();
    o("max_summary_tokens", max_summary_tokens, "a longer summary is cut").unit("tokens").min(1).follows();
    o("separator", separator, "text between document and summary");
    o("loss", loss, "loss over the summary, or over the whole text").choices({"summary", "all"});
  }
};

struct GenerateConfig : generation::DecodingOptions {
  void describe(Options& o) { DecodingOptions::describe(o, "summary"); }
};

struct AskConfig {
  std::string prompt, show = "texts";

  void describe(Options& o) {
    o("prompt", prompt, "predict: a document to summarize, instead of the test file").may_change();
    o("show", show, "predict: texts; or logits: what the model says behind each token, for pipeline verify")
        .choices({"texts", "logits"})
        .may_change();
  }
};

struct RougeConfig : generation::ScoredSamples {
  int64_t lead_words = 12;

  void describe(Options& o) {
    ScoredSamples::describe(o, "summaries generated");
    o("lead_words", lead_words, "the baseline: the document's first words").unit("words").min(1).may_change();
  }
};

struct SummarizationConfig {
  DataConfig data;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language = language::LanguageOptions::gpt2();
  SequenceConfig sequence;
  language::LossOptions loss;
  language::TeacherOptions teacher;
  GenerateConfig generate;
  RougeConfig rouge;
  AskConfig ask;

  void describe(Options& o) {
    o.group("data", data);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
    o.group("sequence", sequence);
    o.group("loss", loss);
    o.group("teacher", teacher);
    o.group("generate", generate);
    o.group("rouge", rouge);
    o.group("ask", ask);
  }
  void validate(const ConfigErrors& errors) const {
    language.require_positions(errors, "sequence.max_tokens", sequence.max_tokens);
    // How many tokens the separator has, only the tokenizer knows; it has one at least.
    if (const std::string problem = writing_problem(1); !problem.empty())
      errors("generate.max_tokens", problem);
  }

  // Tells what the folder says that the run starts from; lengths are made to fit into its positions.
  static void read_model(const SummarizationConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

  // What is wrong with generate.max_tokens beside a separator of so many tokens; empty: nothing.
  std::string writing_problem(int64_t separator) const {
    const int64_t whole = sequence.max_tokens, written = generate.max_tokens;
    const int64_t most = longest_writing(whole, sequence.max_summary_tokens, separator);
    if (written <= most) return "";
    return concat("with task.sequence.max_tokens = ", whole, ", of which the separator takes ", separator,
                  ", this leaves ", std::max<int64_t>(whole - separator - written, 0),
                  " tokens of a document to write a summary from, less than half of the ",
                  std::max<int64_t>(whole - separator - sequence.max_summary_tokens, 1),
                  " that training keeps: use at most ", most, ", or task.sequence.max_tokens = ",
                  separator + std::max(2 * written - sequence.max_summary_tokens, written + 1), " or more");
  }
};

}  // namespace pipeline::tasks::summarization
