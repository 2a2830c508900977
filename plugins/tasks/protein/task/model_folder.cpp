// What options follow from the folder of a model.
#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/tasks/protein/esm2/folder.hpp"
#include "plugins/tasks/protein/model/encoder_decoder.hpp"
#include "plugins/tasks/protein/task/config.hpp"

namespace pipeline::protein {

void ProteinConfig::read_model(const ProteinConfig& config, const std::filesystem::path& init_from,
                               const ModelOptions& say) {
  if (init_from.empty()) return;
  const std::filesystem::path path = init_from / "config.json";
  const auto tell = [&](const std::string& key, const auto& value) { say(key, value, path); };
  // 0 and 4 x the width are one.
  const auto tell_inner = [&](const std::string& key, int64_t set, int64_t width, int64_t theirs) {
    const bool is_same = (set > 0 ? set : 4 * width) == (theirs > 0 ? theirs : 4 * width);
    tell(key, say.is_set(key) && is_same ? set : theirs);
  };
  const hugging_face::ConfigFile file(path.string());
  const std::string type = file.type({"esm", kEncoderDecoderType});
  hugging_face::check_weights(init_from.string());
  if (type == "esm") {
    const Esm2Config theirs = esm2::read_config(path.string());
    tell("model", std::string("esm2"));
    tell("esm2.num_layers", theirs.num_layers);
    tell("esm2.hidden_dim", theirs.hidden_dim);
    tell("esm2.num_heads", theirs.num_heads);
    tell_inner("esm2.intermediate_dim", config.esm2.model.intermediate, theirs.hidden_dim,
               theirs.intermediate);
    tell("esm2.layer_norm_epsilon", theirs.layer_norm_epsilon);
    tell("esm2.token_dropout", theirs.token_dropout);
    tell("esm2.hidden_dropout", theirs.hidden_dropout);
    tell("esm2.attention_dropout", theirs.attention_dropout);
    adapters::tell_adapter(say, "esm2.lora.", esm2::adapted_model(theirs), config.esm2.lora,
                           init_from.string());
    return;
  }
  tell("model", std::string("encoder-decoder"));
  EncoderDecoderConfig theirs;
  for (const auto& [key, value] : {std::pair("hidden_dim", &theirs.hidden_dim),
                                   {"num_encoder_layers", &theirs.num_encoder_layers},
                                   {"num_decoder_layers", &theirs.num_decoder_layers},
                                   {"num_heads", &theirs.num_heads},
                                   {"pair_dim", &theirs.pair_dim}}) {
    file.read(key, *value);
    tell(key, *value);
  }
  file.read("feed_forward_dim", theirs.feed_forward_dim);
  tell_inner("feed_forward_dim", config.model.feed_forward_dim, theirs.hidden_dim, theirs.feed_forward_dim);
}

}  // namespace pipeline::protein
