// What options follow from the folder of a CLIP or SigLIP.
#include "plugins/tasks/contrastive/config.hpp"
#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/models/pictures/picture_options.hpp"
#include "plugins/models/two_towers/folder.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::contrastive {

namespace fs = std::filesystem;

void ContrastiveTaskConfig::read_model(const ContrastiveTaskConfig& config, const fs::path& init_from,
                                       const ModelOptions& say) {
  tokenizer::check_tokenizer(say, config.tokenizer.path);
  if (init_from.empty()) return;
  const two_towers::TwoTowersConfig theirs = two_towers::read_config(init_from.string());
  const hugging_face::FolderOptions whole(say, "", init_from / "config.json"),
      pictures_of(say, "vision.", init_from / "config.json"), texts(say, "text.", init_from / "config.json");
  whole("kind", theirs.vision.kind);
  whole("projection_dim", theirs.projection_dim);
  whole("logit_scale", theirs.logit_scale);
  pictures::tell_encoder(pictures_of, theirs.vision, config.vision.vision.num_hidden_layers, false);
  hugging_face::tell_fields(texts, encoder::text_tower(true).fields, theirs.text, config.text.text);
  pictures::PictureOptions as_there = config.vision;
  as_there.vision = theirs.vision;
  if (const auto pictures = pictures::read_image_processor(init_from, as_there.tiles(), theirs.vision.kind)) {
    say("vision.resize", pictures->resize, pictures->file);
    say("vision.resample", pictures->resample, pictures->file);
  }
  tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));
  hugging_face::check_weights(init_from.string());
}

}  // namespace pipeline::tasks::contrastive
