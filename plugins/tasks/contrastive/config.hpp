// The options of the contrastive task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/picture_texts/source.hpp"
#include "plugins/models/pictures/picture_options.hpp"
#include "plugins/models/two_towers/two_towers.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::contrastive {

struct DataConfig : picture_texts::PictureTextOptions {
  void describe(Options& o) {
    const Help help{
        .train =
            "pictures with captions to learn from: JSON, Parquet, CSV, TSV, or WebDataset's shards "
            "(.tar); a file, a folder, or a pattern such as data/train-*.parquet",
        .test = "the same, to evaluate at the end; empty: none",
        .broken =
            "share of the pictures that may be missing or broken; each is named, and its pair is "
            "no part of the loss"};
    describe_files(o, help);
    describe_columns(o);
    describe_pictures(o, help);
  }
};

struct VisionOptions : pictures::PictureOptions {
  void describe(Options& o) {
    describe_encoder(o);
    describe_squares(o);
    describe_rate(o);
  }
};

struct TextOptions {
  encoder::Config text{.vocab_size = 0};
  double lr_multiplier = 1;

  void describe(Options& o) {
    hugging_face::describe_fields(o, encoder::text_tower(true).fields, text);
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }
};

struct ContrastiveTaskConfig {
  std::string kind = "clip";
  int64_t projection_dim = 512;
  double logit_scale = 2.6592, logit_bias = -10, max_logit_scale = 0;
  DataConfig data;
  VisionOptions vision;
  TextOptions text;
  tokenizer::TokenizerOptions tokenizer;
  std::vector<std::string> freeze;

  void describe(Options& o) {
    o("kind", kind,
      "clip: softmax over all texts and all pictures of the batch; siglip: a sigmoid for each pair; with the "
      "towers of that name")
        .choices({"clip", "siglip"})
        .of_model();
    o("projection_dim", projection_dim,
      "width of the space in which pictures and texts are compared; siglip: vision.hidden_size")
        .min(1)
        .of_model();
    o("logit_scale", logit_scale,
      "logarithm of what multiplies similarities at the start; it is learnt. Set beside a folder, training "
      "begins with it in place of the folder's")
        .follows();
    o("logit_bias", logit_bias, "siglip: what is added to them at the start; it is learnt. The same")
        .follows();
    o("max_logit_scale", max_logit_scale,
      "logit_scale counts at most as this; CLIP's limit is 4.6052, a factor of 100; 0: no limit")
        .min(0);
    o("freeze", freeze, "parameters that are not trained, as patterns of names: [\"vision_model.*\"]");
    o.group("data", data);
    o.group("vision", vision);
    o.group("text", text);
    o.group("tokenizer", tokenizer);
  }
  void validate(const ConfigErrors& errors) const {
    const vision::Config& v = vision.vision;
    const auto divides = [&](const char* key, int64_t part, const char* whole, int64_t of) {
      if (of % part != 0) errors(key, concat("must divide task.", whole, " (", of, ")"));
    };
    divides("vision.patch_size", v.patch_size, "vision.image_size", v.image_size);
    divides("vision.num_attention_heads", v.num_attention_heads, "vision.hidden_size", v.hidden_size);
    divides("text.num_attention_heads", text.text.num_attention_heads, "text.hidden_size",
            text.text.hidden_size);
    if (kind == "siglip" && projection_dim != v.hidden_size)
      errors("projection_dim",
             concat("of siglip it is that of pictures, task.vision.hidden_size (", v.hidden_size, ")"));
  }

  // Tells what the folder of a CLIP or SigLIP says.
  static void read_model(const ContrastiveTaskConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

  bool is_clip() const { return kind == "clip"; }
  // `tokens`: how many the tokenizer has.
  two_towers::TwoTowersConfig model(int64_t tokens) const {
    two_towers::TwoTowersConfig config{.vision = {},
                                       .text = text.text,
                                       .projection_dim = projection_dim,
                                       .logit_scale = logit_scale,
                                       .logit_bias = logit_bias,
                                       .max_logit_scale = max_logit_scale};
    config.vision = pictures().vision;
    config.text.vocab_size = std::max(tokens, text.text.vocab_size);
    return config;
  }
  // The options of pictures, of the kind that both towers are.
  pictures::PictureOptions pictures() const {
    pictures::PictureOptions options = vision;
    options.vision.kind = kind;
    return options;
  }
};

}  // namespace pipeline::tasks::contrastive
