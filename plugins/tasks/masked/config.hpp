// The options of the masked task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "plugins/models/encoder/text_options.hpp"
#include "plugins/tasks/text/documents.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::masked {

struct SequenceOptions {
  int64_t max_tokens = 128;

  void describe(Options& o) {
    o("max_tokens", max_tokens,
      "documents are cut into pieces of this many tokens, what begins and ends each included; a piece is a "
      "sample")
        .unit("tokens")
        .min(8)
        .follows();
  }
};

struct MaskOptions {
  double ratio = 0.15, shown = 0.1, random = 0.1;

  void describe(Options& o) {
    o("ratio", ratio, "share of a piece's tokens that are to be told, other ones in each epoch; at least one")
        .above(0)
        .max(0.9);
    o("shown", shown, "share of these that stay as they are").min(0).max(1);
    o("random", random, "share of these that become another token; the rest become the mask").min(0).max(1);
  }
  void validate(const ConfigErrors& errors) const {
    if (shown + random > 1) errors("random", concat("with task.mask.shown = ", shown, " is more than 1"));
  }
};

struct MaskedConfig {
  text::DocumentOptions data;
  encoder::TextEncoderOptions model;
  tokenizer::TokenizerOptions tokenizer;
  SequenceOptions sequence;
  MaskOptions mask;

  void describe(Options& o) {
    o.group("data", data);
    o.group("model", model);
    o.group("tokenizer", tokenizer);
    o.group("sequence", sequence);
    o.group("mask", mask);
  }
  void validate(const ConfigErrors& errors) const {
    model.require_positions(errors, "sequence.max_tokens", sequence.max_tokens);
  }

  // Tells what the folder says that the run starts from.
  static void read_model(const MaskedConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);
};

}  // namespace pipeline::tasks::masked
