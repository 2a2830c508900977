// The options of a language model in a task, [task.language], and what of them follows from a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>
#include <pipeline/torch/forward.hpp>

#include "adapters/lora_options.hpp"
#include "language/config.hpp"
#include "transformer/cross_entropy_head.hpp"

namespace pipeline::language {

// What a model has to know of its tokenizer.
struct VocabularyOf {
  int64_t size, begin, end;  // how many tokens; those that begin and end a text
};

// A Config as options say it: vocab_size may be 0, and a 0 for intermediate_size is usual_inner().
struct LanguageOptions : Config {
  adapters::LoraOptions lora;

  LanguageOptions() {
    vocab_size = 0;
    max_position_embeddings = 2048;
  }
  // Options with the sizes of the smallest GPT-2.
  static LanguageOptions gpt2() {
    LanguageOptions options;
    options.architecture = "gpt2";
    options.max_position_embeddings = 1024;
    options.hidden_size = 768;
    options.num_hidden_layers = options.num_attention_heads = 12;
    return options;
  }
  bool operator==(const LanguageOptions&) const = default;
  void describe(Options& o);
  void validate(const ConfigErrors& errors) const;
  // Of a task's option that is a number of tokens: the model has to have so many positions.
  void require_positions(const ConfigErrors& errors, const char* key, int64_t tokens) const {
    if (tokens > max_position_embeddings)
      errors(key,
             concat("must not exceed task.language.max_position_embeddings (", max_position_embeddings, ")"));
  }
  Config model(const VocabularyOf& tokenizer) const;
};

// Says of the options below `table` ("language.") what `theirs`, read from the file `from`, has; `run`: as
// they are set.
void tell_options(const ModelOptions& say, const std::string& table, const std::filesystem::path& from,
                  const Config& theirs, const LanguageOptions& run);

// The options of a task's training loss, [task.loss].
struct LossOptions : transformer::LossTerms {
  void describe(Options& o) {
    o("z_loss", z_loss,
      "training adds this x logsumexp(logits)^2 of each target to its loss, which keeps logits near 0 (PaLM: "
      "1e-4); an evaluation's loss stays the plain cross entropy")
        .min(0);
    o("label_smoothing", label_smoothing,
      "in training this share of each target is spread over all tokens alike, as by PyTorch's cross_entropy; "
      "an evaluation's loss stays the plain cross entropy")
        .min(0)
        .below(1);
  }
  // The terms that are added in this pass.
  transformer::LossTerms of(const ForwardPass& pass) const {
    return pass.training ? static_cast<const transformer::LossTerms&>(*this) : transformer::LossTerms{};
  }
};

}  // namespace pipeline::language
