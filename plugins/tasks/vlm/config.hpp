// The options of the vision-language task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "generation/generate.hpp"
#include "language/options.hpp"
#include "plugins/data/picture_texts/source.hpp"
#include "plugins/models/llava/batch.hpp"
#include "plugins/models/pictures/picture_options.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::vlm {

struct DataConfig : picture_texts::PictureTextOptions {
  std::string question_column = "question", answers_column = "answers";

  void describe(Options& o) {
    const Help help{
        .train =
            "what to learn from: captions or questions and answers (JSON, Parquet, CSV, TSV), "
            "conversations (LLaVA's JSON, Parquet), or WebDataset's shards (.tar); a file, a folder, or a "
            "pattern such as data/train-*.parquet",
        .test = "the same, to evaluate or predict at the end; empty: none",
        .broken =
            "share of the pictures that may be missing or broken; each is named, and its sample skipped"};
    describe_files(o, help);
    describe_columns(o);
    o("question_column", question_column,
      "captions: column of a question, where there is one; then the caption is its answer");
    o("answers_column", answers_column,
      "JSON, Parquet: column of a list of what several people answered, all of which an answer is scored by; "
      "where there is no caption, most people's is learnt; empty: none");
    describe_pictures(o, help);
  }
  picture_texts::CaptionColumns columns(bool answer_required) const {
    picture_texts::CaptionColumns columns = PictureTextOptions::columns();
    columns.question = question_column;
    columns.answers = answers_column;
    columns.answer_required = answer_required;
    return columns;
  }
};

struct VisionOptions : pictures::PictureOptions {
  std::filesystem::path init_from;
  int64_t cache_bytes = int64_t{4} << 30;

  void describe(Options& o) {
    o("init_from", init_from,
      "Hugging Face folder of a CLIP, SigLIP, DINOv2 or LLaVA model; empty: fresh weights");
    o("kind", vision.kind, "architecture; siglip2: NaFlex, SigLIP 2 of a fixed resolution is a siglip")
        .choices({"clip", "siglip", "idefics3", "siglip2", "dinov2"})
        .of_model();
    describe_encoder(o);
    o("crop_size", vision.crop_size,
      "dinov2: side of the square that a picture becomes, if it is not image_size, to which positions are "
      "fitted; 0: image_size")
        .unit("pixels")
        .min(0)
        .max(1 << 14)
        .follows();
    o("num_register_tokens", vision.num_register_tokens,
      "dinov2: learnt rows of a picture besides its patches, which the language model sees, too")
        .min(0)
        .max(1024)
        .of_model();
    describe_squares(o);
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
    describe_rate(o);
  }

  // `scale_factor`: of the projector.
  llava::PictureLayout layout(int64_t scale_factor, llava::PictureWords words = nullptr) const {
    return {tiles(), vision.side() / scale_factor, std::move(words), vision.num_register_tokens};
  }
  // Whether pictures differ in their rows.
  bool has_tiles() const { return !grids.empty() || longest_edge > 0 || vision.is_flexible(); }
  // Refuses options of another kind.
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
  tokenizer::TokenizerOptions tokenizer;
  ChatOptions chat;
  language::LossOptions loss;
  GenerateOptions generate;
  AskOptions ask;
  std::vector<std::string> freeze;
  std::string exported = "llava";

  void describe(Options& o) {
    o("export", exported, "what `export` writes: the whole for LlavaForConditionalGeneration, or one part")
        .choices({"llava", "language"})
        .may_change();
    o("freeze", freeze,
      "parameters that are not trained, as patterns of names: [\"vision.*\", \"language.*\"]");
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
    language.require_positions(errors, "chat.max_tokens", chat.max_tokens);
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

  // Tells what the folder of a LLaVA or of the towers says; lengths are made to fit picture and conversation.
  static void read_model(const VlmTaskConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say);

  llava::VlmConfig model(const language::VocabularyOf& vocabulary) const {
    return {.vision = vision.vision,
            .language = language.model(vocabulary),
            .lora = language.lora,
            .projector_layers = projector.layers,
            .grids = vision.tiles().grids,
            .scale_factor = projector.scale_factor,
            .projector_bias = projector.bias};
  }
};

// Whether the files of the model's folder are SmolVLM's, which is an Idefics3 by another name.
bool is_smol(const tokenizer::Files& carried);

// preprocessor_config.json and processor_config.json, with which transformers makes the same pixels, and as
// many tokens of them: those that were `carried` from the model's folder, with the configuration's values
// where these differ; `is_whole`: that folder is of the whole model, and has all that it needs.
// The second needs a token that stands for a picture; empty: there is none.
tokenizer::Files processor_files(const VisionOptions& options, int64_t scale_factor,
                                 const tokenizer::Files& carried, const std::string& image_token,
                                 bool is_whole);

}  // namespace pipeline::tasks::vlm
