// The options of the preference task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "generation/generate.hpp"
#include "plugins/tasks/conversation/format.hpp"
#include "plugins/tasks/preference/losses.hpp"

namespace pipeline::tasks::preference {

struct DataOptions : sources::SplitOptions {
  std::string prompt_column = "prompt", chosen_column = "chosen", rejected_column = "rejected",
              completion_column = "completion", label_column = "label";

  void describe(Options& o);
};

struct PreferenceOptions : LossOptions {
  std::filesystem::path reference;
  int64_t padding = -1;

  void describe(Options& o) {
    LossOptions::describe(o);
    o("reference", reference,
      "folder of the reference model; empty: with LoRA the model without it, else the folder that "
      "train.init_from names");
    o("padding", padding,
      "reward: where answers end with this token, the score is that of the one before, as transformers reads "
      "folders whose pad_token_id this is; -1: there is none")
        .min(-1)
        .follows();
  }
};

// Samples of an evaluation are shown, not scored.
struct AskOptions {
  std::string prompt;

  void describe(Options& o) {
    o("prompt", prompt, "predict: a question to answer, instead of the test file").may_change();
  }
};

struct GenerateOptions : generation::DecodingOptions {
  void describe(Options& o) { DecodingOptions::describe(o, "answer"); }
};

struct PreferenceConfig {
  DataOptions data;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language;
  conversation::TemplateOptions chat;
  PreferenceOptions preference;
  GenerateOptions generate;
  AskOptions ask;

  void describe(Options& o) {
    o.group("data", data);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
    o.group("chat", chat);
    o.group("preference", preference);
    o.group("generate", generate);
    o.group("ask", ask);
  }
  void validate(const ConfigErrors& errors) const;

  // Whether there is a second model, which is frozen.
  bool has_second_model() const {
    return preference.has_reference() && (language.lora.rank == 0 || !preference.reference.empty());
  }

  static void read_model(const PreferenceConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::tasks::preference
