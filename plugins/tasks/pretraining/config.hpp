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
#include "plugins/tasks/text/documents.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::pretraining {

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
  std::string prompt, show = "texts";

  void describe(Options& o) {
    o("prompt", prompt, "predict: a text to continue, instead of the test files").may_change();
    o("show", show, "predict: texts; or logits: what the model says behind each token, for pipeline verify")
        .choices({"texts", "logits"})
        .may_change();
  }
};

struct PretrainingConfig {
  text::DocumentOptions data;
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
