// What options follow from the folders of a LLaVA or of its parts.
#include <algorithm>

#include "hugging_face/folder_teller.hpp"
#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "plugins/tasks/vlm/model/folders.hpp"
#include "plugins/tasks/vlm/task/config.hpp"
#include "plugins/tasks/vlm/task/image_processor.hpp"
#include "plugins/tasks/vlm/task/picture_options.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::vlm {
namespace {

namespace fs = std::filesystem;

// `may_leave_out`: the last layers.
void tell_vision(const hugging_face::FolderTeller& tell, const vision::Config& theirs, vision::Config& run,
                 bool may_leave_out) {
  tell("kind", theirs.kind);
  tell("image_size", theirs.image_size);
  tell("patch_size", theirs.patch_size);
  tell("hidden_size", theirs.hidden_size);
  tell("num_hidden_layers", theirs.num_hidden_layers, run.num_hidden_layers,
       may_leave_out && run.num_hidden_layers < theirs.num_hidden_layers);
  tell("num_attention_heads", theirs.num_attention_heads);
  tell("intermediate_size", theirs.intermediate_size);
  tell("hidden_act", theirs.hidden_act);
  tell("layer_norm_eps", theirs.layer_norm_eps);
  tell("initializer_range", theirs.initializer_range);
  run = theirs;
}

// What the user has not set follows the folder; what cannot be followed is refused. `pads`: as config.json
// says, which LLaVA's own code goes by; the image processor that transformers puts beside it may say
// otherwise.
void tell_pictures(const ModelOptions& say, const fs::path& folder, const vision::Config& theirs,
                   const std::vector<std::string>& grids, bool pads, int64_t& edge, bool& split) {
  const VisionOptions ours{.vision = theirs, .grids = grids};
  const auto processor = read_image_processor(folder, ours.tiles(), theirs.is_clip());
  const bool splits = theirs.has_last_norm();
  if (pads || (!processor && (splits || !grids.empty())))
    say("vision.resize", std::string(pads ? "pad" : "squash"), folder / "config.json");
  if (splits) {  // transformers' defaults, where no file says otherwise
    const fs::path from = processor ? processor->file : folder / "config.json";
    say("vision.longest_edge", edge = processor ? processor->longest_edge : 4 * theirs.image_size, from);
    say("vision.split", split = processor ? processor->split : true, from);
    if (!processor) say("vision.resample", std::string("lanczos"), from);
  }
  if (!processor) return;
  if (!pads) say("vision.resize", processor->resize, processor->file);
  say("vision.resample", processor->resample, processor->file);
}

// Where text has the token that stands for a picture in `folder`, the text would mean something else there.
void check_image_token(const ModelOptions& say, const fs::path& folder, const fs::path& tokenizer) {
  const auto [key, token] = read_image_token(folder.string());
  try {
    const text::TokenizerPtr words = text::load_tokenizer((tokenizer.empty() ? folder : tokenizer).string());
    const auto mark = words->special_token(kImageMark);
    if (token >= 0 && token < words->vocab_size() && (!mark || token != *mark))
      say.problem("tokenizer.path",
                  concat((folder / "config.json").string(), ": ", key, " = ", token,
                         ": is a token of text in this tokenizer: must be the number of ", kImageMark,
                         mark ? concat(", ", *mark) : " or one that it does not have"));
  } catch (const text::Error&) {  // check_tokenizer() says what is wrong with it
  }
}

}  // namespace

void VlmTaskConfig::read_model(const VlmTaskConfig& config, const fs::path& init_from,
                               const ModelOptions& say) {
  text::check_tokenizer(say, config.tokenizer.path);
  vision::Config vision = config.vision.vision;
  std::vector<std::string> grids;
  int64_t factor = config.projector.scale_factor, edge = config.vision.longest_edge;
  bool split = config.vision.split;
  int64_t positions = config.language.max_position_embeddings;
  const auto read_language = [&](const fs::path& folder, const language::Config& theirs) {
    language::tell_options(say, "language.", folder / "config.json", theirs, config.language);
    const int64_t longest = theirs.max_position_embeddings;
    positions = say.is_set("language.max_position_embeddings") ? std::min(positions, longest) : longest;
    text::follow_tokenizer(say, folder, !config.tokenizer.path.empty());
  };
  const fs::path &of_vision = config.vision.init_from, &of_language = config.language.init_from;
  if (!init_from.empty()) {
    const VlmConfig theirs = read_llava_config(init_from.string());
    for (const auto& [key, folder] :
         {std::pair("vision.init_from", of_vision), {"language.init_from", of_language}})
      if (!folder.empty())
        say.problem(
            key, concat(init_from.string(), " has this part, too: leave one of the two out, this one with ",
                        "--set 'task.", key, "=\"\"'"));
    tell_vision(hugging_face::FolderTeller(say, "vision.", init_from / "config.json"), theirs.vision, vision,
                false);
    for (const images::Grid& grid : theirs.grids) grids.push_back(images::name_of(grid));
    say("vision.grids", grids, init_from / "config.json");
    tell_pictures(say, init_from, theirs.vision, grids, pads_pictures(init_from.string()), edge, split);
    say("projector.scale_factor", factor = theirs.scale_factor, init_from / "config.json");
    say("projector.bias", theirs.projector_bias, init_from / "config.json");
    read_language(init_from, theirs.language);
    adapters::tell_adapter(say, "language.lora.", adapted_llava(theirs.language, theirs.vision),
                           config.language.lora, init_from.string());
    check_image_token(say, init_from, config.tokenizer.path);
    say("projector.layers", theirs.projector_layers, init_from / "config.json");
  } else {
    if (!of_vision.empty()) {
      const vision::Config theirs = read_vision_folder(of_vision.string());
      tell_vision(hugging_face::FolderTeller(say, "vision.", of_vision / "config.json"), theirs, vision,
                  true);
      tell_pictures(say, of_vision, theirs, {}, pads_pictures(of_vision.string()), edge, split);
    }
    if (!of_language.empty()) {
      const language::Config theirs = read_language_folder(of_language.string());
      read_language(of_language, theirs);
      adapters::tell_adapter(say, "language.lora.", adapted_llava(theirs, vision), config.language.lora, "");
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
  const VisionOptions pictures{
      .vision = vision,
      .grids = init_from.empty() ? config.vision.grids : grids,
      .longest_edge = say.is_set("vision.longest_edge") ? config.vision.longest_edge : edge,
      .split = say.is_set("vision.split") ? config.vision.split : split};
  const int64_t rows = pictures.layout(factor).most_rows(), written = config.generate.max_tokens;
  int64_t tokens = config.chat.max_tokens;
  if (!say.is_set("chat.max_tokens")) {
    if (rows + written >= tokens) tokens += rows;
    say("chat.max_tokens", tokens = std::min(tokens, positions), from);
  }
  if (rows + written >= tokens && tokens > rows + 1) say("generate.max_tokens", (tokens - rows) / 2, from);
}

}  // namespace pipeline::vlm
