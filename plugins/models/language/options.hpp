// The options of a language model in a task, [task.language], and what of them follows from a folder.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "adapters/lora_options.hpp"
#include "language/config.hpp"

namespace pipeline::language {

struct RopeScalingOptions : RopeScaling {
  bool operator==(const RopeScalingOptions&) const = default;
  void describe(Options& o) {
    o("type", type,
      "how rotary positions are stretched; linear: all divided by factor; dynamic: beyond "
      "max_position_embeddings alone, so that nothing changes here; llama3: as in Llama 3.1; yarn: as in "
      "Qwen2.5's instructions for long texts; longrope: each pair of channels by a number of its own")
        .choices({kRopeTypes.begin(), kRopeTypes.end()})
        .of_model();
    o("factor", factor,
      "linear, dynamic, llama3, yarn: slow angles are divided by this; longrope: attention_factor follows")
        .min(1)
        .of_model();
    o("short_factor", short_factor, "longrope: the numbers, for sequences of up to the original length")
        .of_model();
    o("long_factor", long_factor, "longrope: the numbers, for longer sequences").of_model();
    o("low_freq_factor", low_freq_factor, "llama3: turns in the original length below which all is divided")
        .above(0)
        .of_model();
    o("high_freq_factor", high_freq_factor, "llama3: turns above which nothing is").above(0).of_model();
    o("beta_slow", beta_slow, "yarn: turns in the original length below which all is divided")
        .above(0)
        .of_model();
    o("beta_fast", beta_fast, "yarn: turns above which nothing is").above(0).of_model();
    o("truncate", truncate, "yarn: these limits fall between pairs of channels, not on one").of_model();
    o("attention_factor", attention_factor,
      "yarn, longrope: what cosines and sines are multiplied by; 0: yarn's is 0.1 ln(factor) + 1, longrope's "
      "sqrt(1 + ln(factor) / ln(original length))")
        .min(0)
        .of_model();
    o("original_max_position_embeddings", original_max_position_embeddings,
      "llama3, yarn, longrope: the original length")
        .unit("tokens")
        .min(1)
        .max(1 << 24)
        .of_model();
  }
  void validate(const ConfigErrors& errors) const {
    if (high_freq_factor <= low_freq_factor)
      errors("high_freq_factor", concat("must be above low_freq_factor (", low_freq_factor, ")"));
    if (beta_fast < beta_slow) errors("beta_fast", concat("must not be below beta_slow (", beta_slow, ")"));
  }
};

// What a model has to know of its tokenizer.
struct VocabularyOf {
  int64_t size, begin, end;  // how many tokens; those that begin and end a text
};

// One set of names for all architectures, as Config's.
struct LanguageOptions {
  std::string architecture = "llama";
  int64_t vocab_size = 0, hidden_size = 576, num_hidden_layers = 30, num_attention_heads = 9,
          num_key_value_heads = 0, head_dim = 0, intermediate_size = 0, max_position_embeddings = 2048,
          sliding_window = 0, max_window_layers = 0, full_attention_every = 0, query_pre_attn_scalar = 0;
  double norm_eps = 1e-5, rope_theta = 10000, initializer_range = 0.02, dropout = 0, rope_local_theta = 0,
         attn_logit_softcapping = 0, final_logit_softcapping = 0;
  std::vector<std::string> layer_types;
  bool tie_word_embeddings = true, attention_bias = false, mlp_bias = false;
  adapters::LoraOptions lora;
  RopeScalingOptions rope_scaling;

  bool operator==(const LanguageOptions&) const = default;
  void describe(Options& o);
  void validate(const ConfigErrors& errors) const;
  Config model(const VocabularyOf& tokenizer) const;
  int64_t inner() const;  // intermediate_size, or what 0 stands for
};

// Says of the options below `table` ("language.") what `theirs`, read from the file `from`, has; `run`: as
// they are set.
void tell_options(const ModelOptions& say, const std::string& table, const std::filesystem::path& from,
                  const Config& theirs, const LanguageOptions& run);

}  // namespace pipeline::language
