// The options of the contrastive task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/images/image.hpp"
#include "plugins/data/images/resize.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/data/text_pairs/pairs.hpp"
#include "plugins/tasks/contrastive/model/two_towers.hpp"
#include "tokenizer/tokenizer_options.hpp"

namespace pipeline::contrastive {

struct DataConfig : sources::SplitOptions {
  std::filesystem::path images;
  std::string image_column = "image", caption_column = "caption", id_column, background = "white";
  std::string quotes = "auto";
  double max_broken_share = 0.01;
  int64_t max_pixels = static_cast<int64_t>(images::kMaxPixels);

  void describe(Options& o) {
    o("train", train,
      "pictures with captions to learn from: JSON, Parquet, CSV, TSV, or WebDataset's shards (.tar); a file, "
      "a "
      "folder, or a pattern such as data/train-*.parquet");
    o.group("source", source);
    o("val", val, "the same, to evaluate during training; empty: none");
    o("validation_share", validation_share,
      "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the "
      "pictures' names, so that what is about one picture stays together")
        .min(0)
        .max(0.9);
    o("test", test, "the same, to evaluate at the end; empty: none").may_change();
    o("images", images,
      "folder of the pictures that the files name, and of .tar archives with such; empty: each file's own "
      "folder")
        .may_change();
    o("image_column", image_column, "column of the picture's path");
    o("caption_column", caption_column, "column of the text");
    o("id_column", id_column, "column of the id; empty: `id` if present, else records are numbered");
    o("quotes", quotes, text_pairs::kQuotesHelp).choices({"auto", "csv", "text"});
    o("background", background,
      "colour behind transparent pictures; drop: ignore transparency, as Pillow does")
        .choices({"white", "black", "grey", "drop"});
    o("max_broken_share", max_broken_share,
      "share of the pictures that may be missing or broken; each is named, and its pair is no part of the "
      "loss")
        .min(0)
        .max(1);
    o("max_pixels", max_pixels, "a picture with more is refused before it is decoded").unit("pixels").min(1);
  }
};

struct VisionOptions {
  vision::Config vision;
  double lr_multiplier = 1;
  std::string resize = "crop", resample = "bicubic";

  void describe(Options& o) {
    o("image_size", vision.image_size, "side of the square that a picture becomes")
        .unit("pixels")
        .min(1)
        .of_model();
    o("patch_size", vision.patch_size, "side of a patch").unit("pixels").min(1).of_model();
    o("hidden_size", vision.hidden_size, "width").min(1).of_model();
    o("num_hidden_layers", vision.num_hidden_layers, "layers").min(1).of_model();
    o("num_attention_heads", vision.num_attention_heads, "attention heads").min(1).of_model();
    o("intermediate_size", vision.intermediate_size, "width of the feed-forward layer").min(1).of_model();
    o("hidden_act", vision.hidden_act, "activation")
        .choices({"quick_gelu", "gelu", "gelu_pytorch_tanh"})
        .of_model();
    o("layer_norm_eps", vision.layer_norm_eps, "added to the variance").above(0).of_model();
    o("initializer_range", vision.initializer_range, "standard deviation of initial weights")
        .above(0)
        .follows();
    o("resize", resize,
      "crop: shortest side to image_size, then the centre; squash: both sides; pad: to a square first")
        .choices({"crop", "squash", "pad"})
        .follows();
    o("resample", resample, "how pictures are scaled; SigLIP 2's are bilinear")
        .choices({"bicubic", "bilinear"})
        .follows();
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }
};

struct TextOptions {
  TextConfig text;
  double lr_multiplier = 1;

  void describe(Options& o) {
    o("max_position_embeddings", text.max_position_embeddings,
      "longer texts are cut; SigLIP pads all to this length")
        .unit("tokens")
        .min(2)
        .of_model();
    o("hidden_size", text.hidden_size, "width").min(1).of_model();
    o("num_hidden_layers", text.num_hidden_layers, "layers").min(1).of_model();
    o("num_attention_heads", text.num_attention_heads, "attention heads").min(1).of_model();
    o("intermediate_size", text.intermediate_size, "width of the feed-forward layer").min(1).of_model();
    o("hidden_act", text.hidden_act, "activation")
        .choices({"quick_gelu", "gelu", "gelu_pytorch_tanh"})
        .of_model();
    o("layer_norm_eps", text.layer_norm_eps, "added to the variance").above(0).of_model();
    o("initializer_range", text.initializer_range, "standard deviation of initial weights")
        .above(0)
        .follows();
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }
};

struct ContrastiveTaskConfig {
  std::string kind = "clip";
  int64_t projection_dim = 512;
  double logit_scale = 2.6592, logit_bias = -10;
  DataConfig data;
  VisionOptions vision;
  TextOptions text;
  text::TokenizerOptions tokenizer;
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
    o("logit_scale", logit_scale, "logarithm of what multiplies similarities at the start; it is learnt")
        .follows();
    o("logit_bias", logit_bias, "siglip: what is added to them at the start; it is learnt").follows();
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

  // What the folder of a CLIP or SigLIP says.
  static void read_model(const ContrastiveTaskConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

  bool is_clip() const { return kind == "clip"; }
  TwoTowersConfig model(int64_t vocab_size) const {
    TwoTowersConfig config{.vision = vision.vision,
                           .text = text.text,
                           .projection_dim = projection_dim,
                           .logit_scale = logit_scale,
                           .logit_bias = logit_bias};
    config.vision.kind = kind;
    config.text.vocab_size = vocab_size;
    return config;
  }
  images::DecodeOptions decode_options() const;
  images::ResizeOptions resize_options() const;
};

}  // namespace pipeline::contrastive
