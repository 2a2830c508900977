// The options of the labels task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heads/label_form.hpp"
#include "language/options.hpp"
#include "plugins/data/records/pair_source.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/models/encoder/text_options.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::labels {

struct DataOptions : sources::SplitOptions {
  std::string text_column = "text", pair_column, id_column, quotes = "auto";
  int64_t max_record_bytes = 16 << 20;

  void describe(Options& o) {
    o("train", train, "texts with labels: JSON, Parquet, CSV or TSV; a file, a pattern or a folder");
    o.group("source", source);
    describe_others(o,
                    "in place of val: this share of the texts of train is evaluated and not learnt from; "
                    "chosen by a hash of each, so that equal ones stay together",
                    "the same, to evaluate or predict at the end; the label may be missing; empty: none");
    o("text_column", text_column,
      "column of the texts; for tags of their words, as a list or with blanks between");
    o("pair_column", pair_column,
      "column of a second text, such as a premise's hypothesis or a question's answer; it follows the first "
      "as the tokenizer joins two; empty: there is none");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
    o("max_record_bytes", max_record_bytes, "longer records are dropped")
        .unit("bytes")
        .min(1024)
        .max(64 << 20);
  }
};

struct LabelOptions {
  std::string column = "label", missing, class_weights = "none";
  std::vector<std::string> classes;

  void describe(Options& o) {
    o("column", column,
      "the column: a number, the name or number of a class, or, of multi_label, a list of classes, also with "
      "commas between them; an empty list is none of them; of tags, a class for each word, as the words are "
      "written");
    o("missing", missing,
      "what stands for no label; so do an empty field, pandas' words for what is missing (nan, None, <NA>, "
      "...) and, of classes, -100");
    o("classes", classes,
      "their names, in order, also such as stand for no label otherwise; empty: those that the data has, "
      "sorted. Where the data has numbers in place of names, they count from 0 here")
        .follows();
    o("class_weights", class_weights,
      "balanced: training's losses count as much for each class in all, however rare it is; of multi_label, "
      "as "
      "much for the texts that have it as for the others; figures and an evaluation's loss are not weighted")
        .choices({"none", "balanced"});
  }
};

struct SequenceOptions {
  int64_t max_tokens = 512;

  void describe(Options& o) {
    o("max_tokens", max_tokens, "longer texts are cut at their end, of two the longer one first")
        .unit("tokens")
        .min(8)
        .follows();
  }
};

struct LabelsConfig {
  std::string objective = "classification", family = "language";
  DataOptions data;
  LabelOptions label;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language;
  encoder::TextEncoderOptions encoder{.table = "encoder"};
  SequenceOptions sequence;

  void describe(Options& o) {
    o("objective", objective,
      "what is learnt of a text: its class; multi_label, several of them at once; a number; or tags, a class "
      "of each word")
        .choices({"classification", "multi_label", "regression", "tags"})
        .follows();
    o("family", family,
      "language: a causal language model, [task.language]; encoder: BERT and its kin, [task.encoder]")
        .choices({"language", "encoder"})
        .of_model();
    o.group("data", data);
    o.group("label", label);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
    o.group("encoder", encoder);
    o.group("sequence", sequence);
  }
  void validate(const ConfigErrors& errors) const;

  bool is_language() const { return family == "language"; }
  bool are_numbers() const { return objective == "regression"; }
  bool are_several() const { return objective == "multi_label"; }
  bool are_tags() const { return objective == "tags"; }

  // Tells what the folder says that the run starts from; lengths are made to fit into its positions.
  static void read_model(const LabelsConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::tasks::labels
