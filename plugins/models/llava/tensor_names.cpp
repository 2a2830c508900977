#include "plugins/models/llava/tensor_names.hpp"

#include "language/architecture.hpp"
#include "language/folder.hpp"
#include "vision/folder.hpp"

namespace pipeline::llava {
namespace {

using hugging_face::Piece;

constexpr std::string_view kOfLanguage = "language_model.";
constexpr std::string_view kConnector = "model.connector.modality_projection.proj.weight";

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  return name.replace(name.find(from), from.size(), to);
}

std::vector<Piece> projector_pieces(const Parameter& parameter) {
  if (parameter.name == "projector.image_newline") return {{.name = "image_newline"}};
  return {{.name = "multi_modal_projector." + after(parameter.name, kProjector),
           .transposed = parameter.name.ends_with(".weight")}};
}

}  // namespace

std::string after(const std::string& name, std::string_view prefix) { return name.substr(prefix.size()); }

std::string tower_prefix(const vision::Config& vision) {
  return vision.is_dino() ? "vision_tower." : "vision_tower.vision_model.";
}

std::string old_name(const std::string& name) {
  if (name.starts_with("model.vision_model.")) return "vision_tower." + after(name, "model.");
  if (name.starts_with("model.text_model."))
    return "language_model.model." + after(name, "model.text_model.");
  if (name == kConnector) return "multi_modal_projector.linear_1.weight";
  for (const std::string_view part : {"vision_tower.", "multi_modal_projector.", "image_newline"})
    if (name.starts_with("model." + std::string(part))) return after(name, "model.");
  if (name.starts_with("model.language_model."))
    return "language_model." + replaced(name, "language_model.", "");
  return name == "lm_head.weight" ? "language_model." + name : name;
}

std::string new_name(const std::string& name) {
  if (!name.starts_with("language_model.")) return "model." + name;
  const std::string own = after(name, "language_model.");
  return own.starts_with("model.") ? "model.language_model." + after(own, "model.") : own;
}

std::string idefics_name(const std::string& name) {
  if (name.starts_with("vision_tower.")) return "model." + after(name, "vision_tower.");
  if (name.starts_with("language_model.model."))
    return "model.text_model." + after(name, "language_model.model.");
  if (name.starts_with("language_model.")) return after(name, "language_model.");
  return name == "multi_modal_projector.linear_1.weight" ? std::string(kConnector) : name;
}

std::vector<Piece> llava_pieces(const Parameter& parameter, const language::Config& language,
                                const vision::Config& vision, int64_t more_tokens) {
  if (parameter.name.starts_with(kVision))
    return vision::pieces(after(parameter.name, kVision), parameter, vision, tower_prefix(vision));
  if (parameter.name.starts_with(kProjector)) return projector_pieces(parameter);
  std::vector<Piece> pieces = language::pieces(parameter, language, std::string(kLanguage), more_tokens);
  for (Piece& piece : pieces) piece.name = "language_model." + piece.name;
  return pieces;
}

hugging_face::NameMap llava_map(const Vlm& model, int64_t more_tokens, bool by_own_names) {
  const bool is_tied = model.config().language.tie_word_embeddings;
  const std::string embedding = model.language().architecture().names.embedding;
  return {.pieces =
              [&model, more_tokens, by_own_names](const Parameter& parameter) {
                const VlmConfig& config = model.config();
                auto pieces = llava_pieces(parameter, config.language, config.vision, more_tokens);
                if (by_own_names && config.vision.has_last_norm())
                  for (Piece& piece : pieces) piece.name = idefics_name(piece.name);
                return pieces;
              },
          .plain_name =
              [&model](const std::string& given) {
                const std::string name = old_name(given);
                if (const auto vision = vision::plain_name(name, true))
                  return vision::is_unused(*vision, model.config().vision)
                             ? std::string()
                             : tower_prefix(model.config().vision) + *vision;
                const auto plain_name = model.language().architecture().names.plain;
                if (plain_name == nullptr || !name.starts_with(kOfLanguage)) return name;
                const std::string plain = plain_name(after(name, kOfLanguage));
                return plain.empty() ? plain : concat(kOfLanguage, plain);
              },
          .value =
              [&model](const ParameterRegistry::Declared& parameter) {
                return model.language().merged(parameter);
              },
          .head = is_tied ? concat(kOfLanguage, language::kHead) : "",
          .tied_to = is_tied ? concat(kOfLanguage, embedding) : ""};
}

}  // namespace pipeline::llava
