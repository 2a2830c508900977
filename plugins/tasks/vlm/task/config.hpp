// The options of the vision-language task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "generation/decoding_options.hpp"
#include "language/loss_options.hpp"
#include "language/options.hpp"
#include "plugins/data/images/image.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/tasks/vlm/model/vlm.hpp"
#include "plugins/tasks/vlm/task/chat.hpp"
#include "plugins/tasks/vlm/task/picture_layout.hpp"
#include "tokenizer/tokenizer_options.hpp"
#include "transformer/cuda/kernels.hpp"

namespace pipeline::vlm {

struct DataConfig : sources::SplitOptions {
  std::filesystem::path images;
  std::string image_column = "image", caption_column = "caption", question_column = "question", id_column,
              answers_column = "answers", background = "white";
  std::string quotes = "auto";
  double max_broken_share = 0.01;
  int64_t max_pixels = static_cast<int64_t>(images::kMaxPixels);

  void describe(Options& o) {
    o("train", train,
      "what to learn from: captions or questions and answers (JSON, Parquet, CSV, TSV), conversations "
      "(LLaVA's "
      "JSON, Parquet), or WebDataset's shards (.tar); a file, a folder, or a pattern such as "
      "data/train-*.parquet");
    o.group("source", source);
    o("val", val, "the same, to evaluate during training; empty: none");
    o("validation_share", validation_share,
      "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the "
      "pictures' names, so that what is about one picture stays together")
        .min(0)
        .max(0.9);
    o("test", test, "the same, to evaluate or predict at the end; empty: none").may_change();
    o("images", images,
      "folder of the pictures that the files name, and of .tar archives with such; empty: each file's own "
      "folder")
        .may_change();
    o("image_column", image_column, "captions: column of the picture's path");
    o("caption_column", caption_column, "captions: column of the text");
    o("question_column", question_column,
      "captions: column of a question, where there is one; then the caption is its answer");
    o("id_column", id_column,
      "captions: column of the id; empty: `id` if present, else records are numbered");
    o("answers_column", answers_column,
      "JSON, Parquet: column of a list of what several people answered, all of which an answer is scored by; "
      "where there is no caption, most people's is learnt");
    o("quotes", quotes, text_pairs::kQuotesHelp).choices({"auto", "csv", "text"});
    o("background", background,
      "colour behind transparent pictures; drop: ignore transparency, as Pillow does")
        .choices({"white", "black", "grey", "drop"});
    o("max_broken_share", max_broken_share,
      "share of the pictures that may be missing or broken; each is named, and its sample skipped")
        .min(0)
        .max(1);
    o("max_pixels", max_pixels, "a picture with more is refused before it is decoded").unit("pixels").min(1);
  }
};

struct VisionOptions {
  vision::Config vision;
  double lr_multiplier = 1;
  std::string resize = "crop", resample = "bicubic";
  std::vector<std::string> grids;
  int64_t longest_edge = 0, shortest_edge = 0, max_patches = 256;
  bool split = true;
  std::filesystem::path init_from;
  int64_t cache_bytes = int64_t{4} << 30;

  void describe(Options& o) {
    o("init_from", init_from,
      "Hugging Face folder of a CLIP, SigLIP, DINOv2 or LLaVA model; empty: fresh weights");
    o("kind", vision.kind, "architecture; siglip2: NaFlex, SigLIP 2 of a fixed resolution is a siglip")
        .choices({"clip", "siglip", "idefics3", "siglip2", "dinov2"})
        .of_model();
    o("image_size", vision.image_size,
      "side of the square that a picture becomes; siglip2: of the one that has as many patches as there are "
      "positions")
        .unit("pixels")
        .min(1)
        .of_model();
    o("crop_size", vision.crop_size,
      "dinov2: side of the square that a picture becomes, if it is not image_size, to which positions are "
      "fitted; 0: image_size")
        .unit("pixels")
        .min(0)
        .max(1 << 14)
        .follows();
    o("patch_size", vision.patch_size, "side of a patch; what is left of a picture's side is not seen")
        .unit("pixels")
        .min(1)
        .of_model();
    o("hidden_size", vision.hidden_size, "width").min(1).of_model();
    o("num_hidden_layers", vision.num_hidden_layers, "layers").min(1).of_model();
    o("num_attention_heads", vision.num_attention_heads, "attention heads").min(1).of_model();
    o("intermediate_size", vision.intermediate_size, "width of the feed-forward layer").min(1).of_model();
    o("hidden_act", vision.hidden_act, "activation")
        .choices({"quick_gelu", "gelu", "gelu_pytorch_tanh"})
        .of_model();
    o("layer_norm_eps", vision.layer_norm_eps, "added to the variance").above(0).of_model();
    o("num_register_tokens", vision.num_register_tokens,
      "dinov2: learnt rows of a picture besides its patches, which the language model sees, too")
        .min(0)
        .max(1024)
        .of_model();
    o("initializer_range", vision.initializer_range, "standard deviation of initial weights")
        .above(0)
        .follows();
    o("resize", resize,
      "crop: shortest side to image_size, then the centre; squash: both sides; pad: to a square first")
        .choices({"crop", "squash", "pad"})
        .follows();
    o("shortest_edge", shortest_edge,
      "crop: the shortest side becomes this before the centre is cut, as DINOv2's does; 0: image_size")
        .unit("pixels")
        .min(0)
        .max(1 << 14)
        .follows();
    o("max_patches", max_patches,
      "siglip2: a picture is scaled to as many whole patches as there may be, and keeps its shape")
        .unit("patches")
        .min(1)
        .max(1 << 16)
        .follows();
    o("resample", resample, "how pictures are scaled; SigLIP 2's are bilinear, Idefics3's lanczos")
        .choices({"bicubic", "bilinear", "lanczos"})
        .follows();
    o("grids", grids,
      "LLaVA-NeXT's tiles: a picture is seen as a whole and, larger, in a grid of such squares; of these, "
      "rows by "
      "columns, the one that fits it best: [\"1x2\", \"2x1\", \"2x2\"]; empty: as a whole alone")
        .of_model();
    o("longest_edge", longest_edge,
      "Idefics3's tiles: a picture is scaled until its longest edge is this, and cut in squares, beside "
      "which it is "
      "seen as a whole; 0: as a whole alone")
        .unit("pixels")
        .min(0)
        .max(4096)
        .follows();
    o("split", split, "with longest_edge; false: not cut").follows();
    o("cache_bytes", cache_bytes,
      "what a frozen encoder makes of pictures is kept in run.cache_dir for other epochs, stages and runs, "
      "up "
      "to this much; 0: no")
        .unit("bytes")
        .min(0)
        .may_change();
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }

  images::TileOptions tiles() const;
  // `scale_factor`: of the projector.
  PictureLayout layout(int64_t scale_factor, PictureWords words = nullptr) const {
    return {tiles(), vision.side() / scale_factor, std::move(words), vision.num_register_tokens};
  }
  // Whether pictures differ in their rows.
  bool has_tiles() const { return !grids.empty() || longest_edge > 0 || vision.is_flexible(); }
  // What is another kind's.
  void check_kind(const ConfigErrors& errors) const;
};

struct ProjectorOptions {
  int64_t layers = 2, scale_factor = 1;
  bool bias = true;
  double lr_multiplier = 1;

  void describe(Options& o) {
    o("layers", layers, "1: linear; 2: with a GELU between").min(1).max(2).of_model();
    o("bias", bias, "whether its matrices have one").of_model();
    o("scale_factor", scale_factor,
      "Idefics3's pixel shuffle: so many patches a side become one row of the sequence, side by side")
        .min(1)
        .max(64)
        .of_model();
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }
};

struct LanguagePartOptions : language::LanguageOptions {
  std::filesystem::path init_from;
  double lr_multiplier = 1;

  void describe(Options& o) {
    o("init_from", init_from, "Hugging Face folder of a language model, or of a LLaVA; empty: fresh weights");
    LanguageOptions::describe(o);
    o("lr_multiplier", lr_multiplier, "times the learning rate").above(0);
  }
};

struct ChatOptions {
  std::string style = "auto";
  int64_t max_tokens = 512;

  void describe(Options& o) {
    o("template", style,
      "what stands around the turns: auto: the folder's own, else simple; plain: nothing, for captions")
        .choices({"auto", "plain", "simple", "vicuna", "chatml", "llama3"});
    o("max_tokens", max_tokens, "longer conversations are cut at a turn").unit("tokens").min(4).follows();
  }
};

struct GenerateOptions : generation::DecodingOptions, generation::ScoredSamples {
  int64_t retrieval = 100;

  GenerateOptions() { max_tokens = 32; }
  void describe(Options& o) {
    DecodingOptions::describe(o, "answer");
    ScoredSamples::describe(o, "samples answered");
    o("retrieval", retrieval,
      "captions, full evaluation: how many pictures and captions are told apart; 0: none")
        .unit("samples")
        .min(0)
        .max(1000)
        .may_change();
  }
};

struct AskOptions {
  std::filesystem::path image;
  std::vector<std::filesystem::path> images;
  std::string question;

  void describe(Options& o) {
    o("image", image, "predict: a picture to ask about, instead of the test file").may_change();
    o("images", images,
      "predict: several pictures to ask about; <image> in the question says where each stands, else they "
      "come "
      "before it")
        .may_change();
    o("question", question, "predict: what to ask").may_change();
  }
  bool any() const { return !image.empty() || !images.empty() || !question.empty(); }
  std::vector<std::filesystem::path> pictures() const {
    std::vector<std::filesystem::path> all = images;
    if (!image.empty()) all.insert(all.begin(), image);
    return all;
  }
};

struct VlmTaskConfig {
  DataConfig data;
  VisionOptions vision;
  ProjectorOptions projector;
  LanguagePartOptions language;
  text::TokenizerOptions tokenizer;
  ChatOptions chat;
  language::LossOptions loss;
  GenerateOptions generate;
  AskOptions ask;
  std::vector<std::string> freeze;
  std::string exported = "llava";
  bool cuda_kernels = true;  // without effect

  void describe(Options& o) {
    o("export", exported, "what `export` writes: the whole for LlavaForConditionalGeneration, or one part")
        .choices({"llava", "language"})
        .may_change();
    o("freeze", freeze,
      "parameters that are not trained, as patterns of names: [\"vision.*\", \"language.*\"]");
    o("cuda_kernels", cuda_kernels, transformer::cuda::kOptionHelp).may_change();
    o.group("data", data);
    o.group("vision", vision);
    o.group("projector", projector);
    o.group("language", language);
    o.group("tokenizer", tokenizer);
    o.group("chat", chat);
    o.group("loss", loss);
    o.group("generate", generate);
    o.group("ask", ask);
  }
  void validate(const ConfigErrors& errors) const {
    const vision::Config& v = vision.vision;
    if (v.image_size < v.patch_size)
      return errors("vision.patch_size",
                    "must not exceed task.vision.image_size (" + std::to_string(v.image_size) + ")");
    if (v.crop_size > 0 && v.crop_size < v.patch_size)
      return errors("vision.crop_size",
                    concat("must not be less than task.vision.patch_size (", v.patch_size, ")"));
    vision.check_kind(errors);
    if (v.hidden_size % v.num_attention_heads != 0)
      errors("vision.num_attention_heads",
             "must divide task.vision.hidden_size (" + std::to_string(v.hidden_size) + ")");
    if (chat.max_tokens > language.max_position_embeddings)
      errors("chat.max_tokens", concat("must not exceed task.language.max_position_embeddings (",
                                       language.max_position_embeddings, ")"));
    for (const std::string& grid : vision.grids)
      if (!images::grid_named(grid))
        return errors("vision.grids",
                      concat("\"", grid, "\" is no grid: must be rows x columns, such as 2x3"));
    if (vision.has_tiles() && !v.is_flexible() && vision.resize != "squash")
      errors("vision.resize",
             concat("must be \"squash\" with task.vision.", vision.grids.empty() ? "longest_edge" : "grids",
                    ": so the whole of a picture becomes a square, beside its parts"));
    if (!vision.grids.empty() && vision.longest_edge > 0)
      errors("vision.longest_edge",
             "is another way to cut pictures than task.vision.grids: leave one of them out");
    if (v.side() % projector.scale_factor != 0)
      return errors("projector.scale_factor",
                    concat("must divide the ", v.side(), " patches along a picture's side"));
    if (const int64_t rows = vision.layout(projector.scale_factor).most_rows();
        rows + generate.max_tokens >= chat.max_tokens)
      errors("chat.max_tokens",
             concat("must be more than a picture's ", rows, vision.has_tiles() ? " rows" : " patches",
                    " and task.generate.max_tokens (", generate.max_tokens, ") together"));
  }

  // What the folder of a LLaVA says, or of the towers; lengths are made to fit a picture and a conversation.
  static void read_model(const VlmTaskConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

  VlmConfig model(const language::VocabularyOf& vocabulary) const {
    return {.vision = vision.vision,
            .language = language.model(vocabulary),
            .lora = language.lora,
            .projector_layers = projector.layers,
            .grids = vision.tiles().grids,
            .scale_factor = projector.scale_factor,
            .projector_bias = projector.bias};
  }
};

}  // namespace pipeline::vlm
