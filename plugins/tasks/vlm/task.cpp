#include "plugins/tasks/vlm/task.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "adapters/lora_options.hpp"
#include "files/data_errors.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/models/llava/folders.hpp"

namespace pipeline::tasks::vlm {
namespace fs = std::filesystem;

namespace {

tokenizer::Files files_of(const fs::path& folder, std::initializer_list<const char*> names) {
  return files::with_data_errors([&] { return tokenizer::files_of(folder, names); });
}

}  // namespace

std::shared_ptr<llava::Vlm> VlmTask::build_model() {
  const int32_t end = tokenizer()->eot();
  const llava::VlmConfig config = this->config().model(
      {.size = tokenizer()->vocab_size(), .begin = tokenizer()->bos().value_or(end), .end = end});
  adapters::Freeze is_frozen(this->config().freeze);
  const auto rule = [&](Parameter& parameter) {
    parameter.trainable = !is_frozen(parameter.name) && (!parameter.name.starts_with("language.") ||
                                                         adapters::is_trained(parameter, config.lora));
    parameter.lr_multiplier = parameter.name.starts_with("vision.") ? this->config().vision.lr_multiplier
                              : parameter.name.starts_with("projector.")
                                  ? this->config().projector.lr_multiplier
                                  : this->config().language.lr_multiplier;
  };
  auto model = std::make_shared<llava::Vlm>(config, rule);
  if (const std::string problem = is_frozen.problem(model->parameters()); !problem.empty())
    config_error("freeze", problem);
  const fs::path &vision = this->config().vision.init_from, &language = this->config().language.init_from;
  if (model->vision_is_frozen() && this->config().vision.cache_bytes > 0)
    data_.keep_features(*model, device());
  start_from_adapter(*model);
  if (tokenizer().is_kept()) return model;  // the weights come from a checkpoint
  const auto announce = [&](const char* part, const fs::path& folder) {
    int64_t count = 0;
    for (const ParameterRegistry::Declared& parameter : model->parameters())
      if (parameter.name.starts_with(part)) count += parameter.tensor.numel();
    context().info("weights    ", count, " parameters of ", part, "* from ", folder.string());
  };
  if (!vision.empty()) {
    llava::import_vision(vision.string(), *model);
    announce("vision.", vision);
    tokenizer().carry(vision, files_of(vision, tokenizer::kVisionModelFiles));
  }
  if (!language.empty()) {
    check_tokens(language, *model, llava::import_language(language.string(), *model));
    announce("language.", language);
    tokenizer::Files files = llava::language_part(files_of(language, tokenizer::kLanguageModelFiles));
    files[hugging_face::kWeightsText] = llava::kept_language(language.string(), *model);
    tokenizer().carry(language, files);
  }
  start_from_adapter(*model);
  return model;
}

// Comes after an import, which is of the whole model.
void VlmTask::start_from_adapter(llava::Vlm& model) const {
  const adapters::LoraOptions& lora = config().language.lora;
  if (!lora.init_from.empty())
    adapters::start_from_adapter(lora.init_from.string(), model.parameters(),
                                 llava::adapted_llava(model.config().language, model.config().vision));
}

void VlmTask::check_tokens(const fs::path& folder, const llava::Vlm& model, int64_t count) const {
  tokenizer().require_path(folder);
  const int64_t size = tokenizer()->vocab_size();
  const int64_t kept = std::min<int64_t>(size - model.language().config().vocab_size, 0);
  for (const std::string& note :
       {language::note_of_vocabulary(folder.string(), size, count, /*are_kept=*/false),
        language::note_of_vocabulary(folder.string(), size, kept)})
    if (!note.empty()) context().info(note);
}

void VlmTask::import_model(const fs::path& folder) {
  check_tokens(folder, model(), llava::import_llava(folder.string(), model()));
  start_from_adapter(model());
  tokenizer::Files files = files_of(folder, tokenizer::kModelFiles);
  files[hugging_face::kWeightsText] = llava::kept_llava(folder.string(), model());
  tokenizer().carry(folder, files);
}

void VlmTask::export_model(const fs::path& folder) {
  const tokenizer::Files& files = tokenizer()->files();
  const adapters::LoraOptions& lora = config().language.lora;
  const auto log = [this](const std::string& note) { context().info(note); };
  if (const std::string note = lora.export_note(); !note.empty()) log(note);
  tokenizer()->save(folder.string());
  if (config().exported == "llava" && lora.exports_adapter())  // without config.json, which is the model's
    return adapters::export_adapter(folder.string(), model().parameters(), lora,
                                    llava::adapted_llava(model().config().language, model().config().vision),
                                    lora.base_model);
  if (config().exported == "language") {
    for (const std::string& note : llava::export_language(folder.string(), model(), files)) log(note);
  } else {
    const auto mark = tokenizer()->special_token(kImageMark);
    for (const std::string& note : llava::export_llava(folder.string(), model(), mark, is_smol(files), files))
      log(note);
    const bool is_whole = !llava::came_as_llava(model().config(), files).config.is_null();
    for (const auto& [name, text] : processor_files(config().vision, config().projector.scale_factor, files,
                                                    mark ? std::string(kImageMark) : "", is_whole))
      hugging_face::write_text((folder / name).string(), text);
  }
  hugging_face::write_token_ids(folder.string(), files, tokenizer().own_tokens());
}

}  // namespace pipeline::tasks::vlm

PIPELINE_TASK(pipeline::tasks::vlm::VlmTask, "vlm", "1.0.0",
              "A vision encoder and a language model learn to caption pictures and to answer questions about "
              "them. Weight decay: matrices and embeddings; not biases and norms")
