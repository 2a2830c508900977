// What options follow from the folders of a LLaVA or of its parts.
#include <algorithm>

#include "hugging_face/weights.hpp"
#include "plugins/tasks/vlm/model/folders.hpp"
#include "plugins/tasks/vlm/task/config.hpp"
#include "plugins/tasks/vlm/task/image_processor.hpp"
#include "plugins/tasks/vlm/task/picture_options.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::vlm {
namespace {

namespace fs = std::filesystem;

// Tells of the options below `table` what the folder's config.json says.
class Teller {
 public:
  Teller(const ModelOptions& say, std::string table, const fs::path& folder)
      : say_(say), table_(std::move(table)), file_(folder / "config.json") {}

  template <class T>
  void operator()(const char* key, const T& value) const {
    say_(table_ + key, value, file_);
  }
  // `set` is as good as `value`, where the user has set it.
  template <class T>
  void operator()(const char* key, const T& value, const T& set, bool is_as_good) const {
    (*this)(key, say_.is_set(table_ + key) && is_as_good ? set : value);
  }
  bool is_set(const char* key) const { return say_.is_set(table_ + key); }
  std::string file() const { return file_.string(); }
  void problem(const char* key, const std::string& text) const { say_.problem(table_ + key, text); }

 private:
  const ModelOptions& say_;
  std::string table_;
  fs::path file_;
};

// `may_leave_out`: the last layers.
void tell_vision(const Teller& tell, const vision::Config& theirs, vision::Config& run, bool may_leave_out) {
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

// What the user has not set follows the folder; what cannot be followed is refused.
void tell_pictures(const ModelOptions& say, const fs::path& folder, const vision::Config& theirs) {
  const images::ResizeOptions ours = resize_options({.vision = theirs});
  const auto processor = read_image_processor(folder, ours, theirs.is_clip());
  if (!processor) return;
  say("vision.resize", processor->resize, processor->file);
  say("vision.resample", processor->resample, processor->file);
}

void tell_rope(const Teller& tell, const language::RopeScaling& theirs) {
  tell("rope_scaling.type", theirs.type);
  if (theirs.type == "default") return;
  tell("rope_scaling.factor", theirs.factor);
  if (theirs.type != "llama3") return;
  tell("rope_scaling.low_freq_factor", theirs.low_freq_factor);
  tell("rope_scaling.high_freq_factor", theirs.high_freq_factor);
  tell("rope_scaling.original_max_position_embeddings", theirs.original_max_position_embeddings);
}

void tell_language(const Teller& tell, const language::LlamaConfig& theirs, const LanguageOptions& run) {
  language::LlamaConfig same = theirs;  // of what 0 stands for
  tell("architecture", std::string("llama"));
  tell("hidden_size", theirs.hidden_size);
  tell("num_hidden_layers", theirs.num_hidden_layers);
  tell("num_attention_heads", theirs.num_attention_heads);
  tell("num_key_value_heads", theirs.num_key_value_heads, run.num_key_value_heads,
       run.num_key_value_heads == 0 && theirs.num_key_value_heads == theirs.num_attention_heads);
  same.head_dim = 0;
  tell("head_dim",
       same.hidden_size % same.num_attention_heads == 0 && same.head_width() == theirs.head_width()
           ? int64_t{0}
           : theirs.head_dim,
       run.head_dim, run.head_dim == theirs.head_width());
  tell("intermediate_size", theirs.intermediate_size, run.intermediate_size,
       run.intermediate_size == 0 &&
           LanguageOptions::llama_inner(theirs.hidden_size) == theirs.intermediate_size);
  tell("max_position_embeddings", theirs.max_position_embeddings, run.max_position_embeddings,
       run.max_position_embeddings < theirs.max_position_embeddings);
  tell("norm_eps", theirs.rms_norm_eps);
  tell("rope_theta", theirs.rope_theta);
  tell_rope(tell, theirs.rope_scaling);
  tell("tie_word_embeddings", theirs.tie_word_embeddings);
  tell("dropout", theirs.attention_dropout);
  tell("initializer_range", theirs.initializer_range);
}

void tell_language(const Teller& tell, const language::Gpt2Config& theirs, const LanguageOptions& run) {
  language::Gpt2Config same = theirs;
  same.n_inner = run.intermediate_size;
  tell("architecture", std::string("gpt2"));
  tell("hidden_size", theirs.n_embd);
  tell("num_hidden_layers", theirs.n_layer);
  tell("num_attention_heads", theirs.n_head);
  tell("intermediate_size", theirs.n_inner, run.intermediate_size, same.inner() == theirs.inner());
  tell("max_position_embeddings", theirs.n_positions);
  tell("norm_eps", theirs.layer_norm_epsilon);
  tell("initializer_range", theirs.initializer_range);
  if (theirs.embd_pdrop == theirs.attn_pdrop && theirs.attn_pdrop == theirs.resid_pdrop)
    tell("dropout", theirs.embd_pdrop);
  else if (!tell.is_set("dropout"))
    tell.problem("dropout", concat(tell.file(), " has three: embd_pdrop ", theirs.embd_pdrop, ", attn_pdrop ",
                                   theirs.attn_pdrop, ", resid_pdrop ", theirs.resid_pdrop,
                                   ": set the one to train with"));
}

int64_t positions_of(const LanguageConfig& config) {
  const auto* llama = std::get_if<language::LlamaConfig>(&config);
  return llama != nullptr ? llama->max_position_embeddings
                          : std::get<language::Gpt2Config>(config).n_positions;
}

// Where text has the token that stands for a picture in `folder`, the text would mean something else there.
void check_image_token(const ModelOptions& say, const fs::path& folder, const fs::path& tokenizer) {
  const int64_t token = read_image_token(folder.string());
  try {
    const text::TokenizerPtr words = text::load_tokenizer((tokenizer.empty() ? folder : tokenizer).string());
    const auto mark = words->special_token(kImageMark);
    if (token >= 0 && token < words->vocab_size() && (!mark || token != *mark))
      say.problem("tokenizer.path",
                  concat((folder / "config.json").string(), ": image_token_index = ", token,
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
  int64_t positions = config.language.max_position_embeddings;
  const auto read_language = [&](const fs::path& folder, const LanguageConfig& theirs) {
    const Teller tell(say, "language.", folder);
    std::visit([&](const auto& of) { tell_language(tell, of, config.language); }, theirs);
    positions = say.is_set("language.max_position_embeddings") ? std::min(positions, positions_of(theirs))
                                                               : positions_of(theirs);
    text::follow_tokenizer(say, folder, !config.tokenizer.path.empty());
  };
  const fs::path &of_vision = config.vision.init_from, &of_language = config.language.init_from;
  if (!init_from.empty()) {
    const VlmConfig theirs = read_llava_config(init_from.string());
    for (const auto& [key, folder] :
         {std::pair("vision.init_from", of_vision), {"language.init_from", of_language}})
      if (!folder.empty()) say.problem(key, "train.init_from has this part, too: leave one of the two out");
    tell_vision(Teller(say, "vision.", init_from), theirs.vision, vision, false);
    tell_pictures(say, init_from, theirs.vision);
    read_language(init_from, theirs.language);
    check_image_token(say, init_from, config.tokenizer.path);
    say("projector.layers", theirs.projector_layers, init_from / "config.json");
  } else {
    if (!of_vision.empty()) {
      const vision::Config theirs = read_vision_folder(of_vision.string());
      tell_vision(Teller(say, "vision.", of_vision), theirs, vision, true);
      tell_pictures(say, of_vision, theirs);
    }
    if (!of_language.empty()) read_language(of_language, read_language_folder(of_language.string()));
    if (of_vision.empty() && of_language.empty()) return;
  }
  for (const fs::path& folder : {init_from, of_vision, of_language})
    if (!folder.empty()) hugging_face::check_weights(folder.string());

  // A picture, a question and an answer, where the defaults leave no room for them.
  const fs::path from = (!init_from.empty()   ? init_from
                         : !of_vision.empty() ? of_vision
                                              : of_language) /
                        "config.json";
  int64_t tokens = config.chat.max_tokens, written = config.generate.max_tokens;
  if (!say.is_set("chat.max_tokens")) {
    if (vision.patches() + written >= tokens) tokens += vision.patches();
    say("chat.max_tokens", tokens = std::min(tokens, positions), from);
  }
  if (vision.patches() + written >= tokens && tokens > vision.patches() + 1)
    say("generate.max_tokens", (tokens - vision.patches()) / 2, from);
}

}  // namespace pipeline::vlm
