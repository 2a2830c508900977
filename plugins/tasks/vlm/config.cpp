// What options follow from the folders of a LLaVA or of its parts, and the files that say what a folder has
// of pictures.
#include <algorithm>

#include <nlohmann/json.hpp>
#include "hugging_face/config_fields.hpp"

#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/models/llava/folders.hpp"
#include "plugins/models/pictures/picture_options.hpp"
#include "plugins/tasks/vlm/config.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::vlm {
namespace {

namespace fs = std::filesystem;
using picture_texts::kImageMark;

// `may_leave_out`: the last layers.
void tell_vision(const hugging_face::FolderOptions& tell, const vision::Config& theirs, vision::Config& run,
                 bool may_leave_out) {
  tell("kind", theirs.kind);
  pictures::tell_encoder(tell, theirs, run.num_hidden_layers, may_leave_out);
  tell("num_register_tokens", theirs.num_register_tokens);
  const int64_t crop = run.crop_size;  // the image processor says it
  run = theirs;
  run.crop_size = crop;
}

// What the user has not set follows the folder; what cannot be followed is refused. `pads`: as config.json
// says, which LLaVA's own code goes by; the image processor that transformers puts beside it may say
// otherwise. `grids`: of config.json. `run`: its pictures, with the folder's encoder.
void tell_pictures(const ModelOptions& say, const fs::path& folder, const std::vector<std::string>& grids,
                   bool pads, VisionOptions& run) {
  vision::Config theirs = run.vision;
  theirs.crop_size = 0;
  VisionOptions ours;
  ours.vision = theirs;
  ours.grids = grids;
  const auto processor = pictures::read_image_processor(folder, ours.tiles(), theirs.kind);
  const fs::path from = processor ? processor->file : folder / "config.json";
  const auto follow = [&](const char* key, auto& value, const auto& there) {
    say(std::string("vision.") + key, there, from);
    if (!say.is_set(std::string("vision.") + key)) value = there;
  };
  const bool splits = theirs.has_last_norm();
  if (pads || (!processor && (splits || !grids.empty())))
    say("vision.resize", std::string(pads ? "pad" : "squash"), folder / "config.json");
  if (splits) {  // transformers' defaults, where no file says otherwise
    follow("longest_edge", run.longest_edge, processor ? processor->longest_edge : 4 * theirs.image_size);
    follow("split", run.split, processor ? processor->split : true);
    if (!processor) say("vision.resample", std::string("lanczos"), from);
  }
  if (theirs.is_flexible()) {
    follow("max_patches", run.max_patches, processor ? processor->max_patches : 256);
    if (!processor) say("vision.resample", std::string("bilinear"), from);
  }
  if (!processor) return;
  if (theirs.is_dino()) {
    follow("crop_size", run.vision.crop_size, processor->crop_size);
    follow("shortest_edge", run.shortest_edge, processor->shortest_edge);
  }
  if (!pads) say("vision.resize", processor->resize, processor->file);
  say("vision.resample", processor->resample, processor->file);
}

// Refuses a tokenizer in which the token that stands for a picture in `folder` is one of text.
void check_image_token(const ModelOptions& say, const fs::path& folder, const fs::path& tokenizer) {
  const auto [key, token] = llava::read_image_token(hugging_face::ConfigFile(folder / "config.json"));
  try {
    const tokenizer::TokenizerPtr words =
        tokenizer::load_tokenizer((tokenizer.empty() ? folder : tokenizer).string());
    const auto mark = words->special_token(kImageMark);
    if (token >= 0 && token < words->vocab_size() && (!mark || token != *mark))
      say.problem("tokenizer.path",
                  concat((folder / "config.json").string(), ": ", key, " = ", token,
                         ": is a token of text in this tokenizer: must be the number of ", kImageMark,
                         mark ? concat(", ", *mark) : " or one that it does not have"));
  } catch (const tokenizer::TokenizerError&) {  // check_tokenizer() says what is wrong with it
  }
}

// The configuration without its last row where that is the token for a picture and the tokenizer has none, as
// in a folder that export_llava() has made: the row is of zeros and no text has it.
language::Config without_image_token(language::Config theirs, const fs::path& folder,
                                     const fs::path& tokenizer) {
  if (llava::read_image_token(hugging_face::ConfigFile(folder / "config.json")).second + 1 !=
      theirs.vocab_size)
    return theirs;
  try {
    if (!tokenizer::load_tokenizer((tokenizer.empty() ? folder : tokenizer).string())
             ->special_token(kImageMark))
      --theirs.vocab_size;
  } catch (const tokenizer::TokenizerError&) {  // check_tokenizer() says what is wrong with it
  }
  return theirs;
}

}  // namespace

void VisionOptions::check_kind(const ConfigErrors& errors) const {
  const auto only = [&](const char* key, bool is_set, bool is_its, const char* kind) {
    if (is_set && !is_its)
      errors(key,
             concat("is of task.vision.kind = \"", kind, "\" alone: must be 0 for \"", vision.kind, "\""));
  };
  only("vision.crop_size", vision.crop_size > 0, vision.is_dino(), "dinov2");
  only("vision.num_register_tokens", vision.num_register_tokens > 0, vision.is_dino(), "dinov2");
  if (vision.is_dino() && vision.intermediate_size % vision.hidden_size != 0)
    errors("vision.intermediate_size", concat("must be a multiple of task.vision.hidden_size (",
                                              vision.hidden_size, "), as DINOv2 has it"));
  if (vision.is_flexible() && vision.image_size % vision.patch_size != 0)
    errors("vision.image_size",
           concat("must be a multiple of task.vision.patch_size (", vision.patch_size, ") for siglip2"));
  if ((vision.is_flexible() || vision.num_register_tokens > 0) && (!grids.empty() || longest_edge > 0))
    errors(
        grids.empty() ? "vision.longest_edge" : "vision.grids",
        "goes with no NaFlex, whose pictures are not cut, and no registers, which have no place in a grid: "
        "leave it out");
  if (shortest_edge > 0 && resize == "squash")
    errors("vision.shortest_edge", "must be 0 with task.vision.resize = \"squash\", which scales both sides");
}

void VlmTaskConfig::read_model(const VlmTaskConfig& config, const fs::path& init_from,
                               const ModelOptions& say) {
  tokenizer::check_tokenizer(say, config.tokenizer.path);
  VisionOptions pictures = config.vision;
  int64_t factor = config.projector.scale_factor;
  int64_t positions = config.language.max_position_embeddings;
  const auto read_language = [&](const fs::path& folder, const language::Config& theirs) {
    language::tell_options(say, "language.", folder / "config.json", theirs, config.language);
    const int64_t longest = theirs.max_position_embeddings;
    positions = say.is_set("language.max_position_embeddings") ? std::min(positions, longest) : longest;
    tokenizer::follow_tokenizer(say, folder, !config.tokenizer.path.empty());
  };
  const fs::path &of_vision = config.vision.init_from, &of_language = config.language.init_from;
  if (!init_from.empty()) {
    const llava::VlmConfig theirs = llava::read_llava_config(init_from.string());
    for (const auto& [key, folder] :
         {std::pair("vision.init_from", of_vision), {"language.init_from", of_language}})
      if (!folder.empty())
        say.problem(
            key, concat(init_from.string(), " has this part, too: leave one of the two out, this one with ",
                        "--set 'task.", key, "=\"\"'"));
    tell_vision(hugging_face::FolderOptions(say, "vision.", init_from / "config.json"), theirs.vision,
                pictures.vision, false);
    pictures.grids.clear();
    for (const images::Grid& grid : theirs.grids) pictures.grids.push_back(images::name_of(grid));
    say("vision.grids", pictures.grids, init_from / "config.json");
    tell_pictures(say, init_from, pictures.grids, llava::pads_pictures(init_from.string()), pictures);
    say("projector.scale_factor", factor = theirs.scale_factor, init_from / "config.json");
    say("projector.bias", theirs.projector_bias, init_from / "config.json");
    read_language(init_from, without_image_token(theirs.language, init_from, config.tokenizer.path));
    adapters::tell_adapter(say, "language.lora.", llava::adapted_llava(theirs.language, theirs.vision),
                           config.language.lora, init_from.string());
    check_image_token(say, init_from, config.tokenizer.path);
    say("projector.layers", theirs.projector_layers, init_from / "config.json");
  } else {
    if (!of_vision.empty()) {
      const vision::Config theirs = llava::read_vision_folder(of_vision.string());
      tell_vision(hugging_face::FolderOptions(say, "vision.", of_vision / "config.json"), theirs,
                  pictures.vision, true);
      tell_pictures(say, of_vision, {}, llava::pads_pictures(of_vision.string()), pictures);
    }
    if (!of_language.empty()) {
      const language::Config theirs = llava::read_language_folder(of_language.string());
      read_language(of_language, llava::is_llava(of_language.string())
                                     ? without_image_token(theirs, of_language, config.tokenizer.path)
                                     : theirs);
      adapters::tell_adapter(say, "language.lora.", llava::adapted_llava(theirs, pictures.vision),
                             config.language.lora, "");
    }
    if (of_vision.empty() && of_language.empty()) return;
  }
  for (const fs::path& folder : {init_from, of_vision, of_language})
    if (!folder.empty()) hugging_face::check_weights(folder.string());

  // A picture, a question and an answer, where the defaults leave no room for them.
  const fs::path from = (!init_from.empty()   ? init_from
                         : !of_vision.empty() ? of_vision
                                              : of_language) /
                        "config.json";
  const int64_t rows = pictures.layout(factor).most_rows(), written = config.generate.max_tokens;
  int64_t tokens = config.chat.max_tokens;
  if (!say.is_set("chat.max_tokens")) {
    if (rows + written >= tokens) tokens += rows;
    say("chat.max_tokens", tokens = std::min(tokens, positions), from);
  }
  if (rows + written >= tokens && tokens > rows + 1) say("generate.max_tokens", (tokens - rows) / 2, from);
}

bool is_smol(const tokenizer::Files& carried) {
  return pictures::object_in(carried, "processor_config.json").value("processor_class", "") ==
             "SmolVLMProcessor" ||
         pictures::object_in(carried, "preprocessor_config.json").value("processor_class", "") ==
             "SmolVLMProcessor";
}

tokenizer::Files processor_files(const VisionOptions& options, int64_t scale_factor,
                                 const tokenizer::Files& carried, const std::string& image_token,
                                 bool is_whole) {
  constexpr const char *kImages = "preprocessor_config.json", *kWhole = "processor_config.json";
  tokenizer::Files files = pictures::image_processor_files(carried, options, is_smol(carried));
  const nlohmann::json before = pictures::object_in(files, kWhole);
  if (before.empty() && (image_token.empty() || (is_whole && carried.contains(kImages)))) return files;
  nlohmann::json values;
  if (options.vision.has_last_norm()) {
    values = {{"processor_class", is_smol(carried) ? "SmolVLMProcessor" : "Idefics3Processor"},
              {"image_seq_len", options.vision.patches() / (scale_factor * scale_factor)}};
  } else {
    const bool has_class = options.vision.has_class();  // the class token is not used
    values = {{"processor_class", options.grids.empty() ? "LlavaProcessor" : "LlavaNextProcessor"},
              {"patch_size", options.vision.patch_size},
              {"vision_feature_select_strategy", has_class ? "default" : "full"},
              {"num_additional_image_tokens", options.vision.tokens() - options.vision.patches()}};
    if (!image_token.empty()) values["image_token"] = image_token;
  }
  nlohmann::json whole = before;
  for (const auto& [key, value] : values.items())
    if (!is_whole || whole.empty() || whole.contains(key)) whole[key] = value;
  if (whole != before) files[kWhole] = whole.dump(2) + "\n";
  return files;
}

}  // namespace pipeline::tasks::vlm
