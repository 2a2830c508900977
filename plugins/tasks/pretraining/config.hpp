// The options of the pretraining task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "generation/generate.hpp"
#include "language/options.hpp"
#include "language/teacher.hpp"
#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::pretraining {

struct DataOptions : sources::SplitOptions {
  std::string text_column = "text", id_column, document = "file", quotes = "auto";
  int64_t max_record_bytes = 16 << 20;

  DataOptions() { content = sources::Content::kTexts; }
  void describe(Options& o) {
    o("train", train,
      "texts to learn from: plain text, or JSON, Parquet, CSV or TSV with a column of texts; a file, a "
      "folder with all below it, or a pattern such as books/*.txt");
    o.group("source", source);
    describe_others(
        o,
        "in place of val: this share of the documents of train is evaluated and not learnt from; chosen by a "
        "hash of each, so that equal ones stay together",
        "the same, to evaluate or continue at the end; empty: none");
    o("text_column", text_column, "column of the texts; plain text has none");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("document", document,
      "what a document is in plain text: the file, each line, or what blank lines divide; a record of JSON "
      "and the like is one")
        .choices({"file", "line", "paragraph"});
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("max_record_bytes", max_record_bytes, "longer records are dropped; not so whole files of plain text")
        .unit("bytes")
        .min(1024)
        .max(64 << 20);
  }
  records::PairSource source_of(const sources::SourceFiles& files, const files::SplitPart& part) const;
};

struct SequenceOptions {
  int64_t max_tokens = 512;

  void describe(Options& o) {
    o("max_tokens", max_tokens,
      "documents are laid end to end and cut into blocks of this many, which are the samples; within a block "
      "no document sees another")
        .unit("tokens")
        .min(8)
        .follows();
  }
};

// Nothing is scored: what is written is only shown.
struct GenerateOptions : generation::DecodingOptions {
  int64_t prompt_tokens = 32;

  void describe(Options& o) {
    DecodingOptions::describe(o, "continuation");
    o("prompt_tokens", prompt_tokens, "how much of a block's first document is continued, at most half of it")
        .unit("tokens")
        .min(1)
        .follows()
        .may_change();
  }
};

struct AskOptions {
  std::string prompt;

  void describe(Options& o) {
    o("prompt", prompt, "predict: a text to continue, instead of the test files").may_change();
  }
};

struct PretrainingConfig {
  DataOptions data;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language;
  SequenceOptions sequence;
  language::LossOptions loss;
  language::TeacherOptions teacher;
  GenerateOptions generate;
  AskOptions ask;

  void describe(Options& o) {
    o.group("data", data);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
    o.group("sequence", sequence);
    o.group("loss", loss);
    o.group("teacher", teacher);
    o.group("generate", generate);
    o.group("ask", ask);
  }
  void validate(const ConfigErrors& errors) const {
    language.require_positions(errors, "sequence.max_tokens", sequence.max_tokens);
    const int64_t most = language.max_position_embeddings;
    if (const int64_t all = generate.prompt_tokens + generate.max_tokens; all > most)
      errors("generate.max_tokens",
             concat("with task.generate.prompt_tokens = ", generate.prompt_tokens, " makes ", all,
                    ", and the model has ", most, " positions (task.language.max_position_embeddings)"));
  }

  // Tells what the folder says that the run starts from; lengths are made to fit into its positions.
  static void read_model(const PretrainingConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::tasks::pretraining
