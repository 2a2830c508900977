#include "plugins/tasks/vlm/task.hpp"

#include <unistd.h>

#include <torch/version.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "adapters/lora_options.hpp"
#include "files/data_errors.hpp"
#include "files/regular_file.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/models/llava/folders.hpp"
#include "plugins/tasks/vlm/picture_options.hpp"
#include "transformer/kernels/kernels.hpp"

namespace pipeline::tasks::vlm {
namespace fs = std::filesystem;

namespace {

tokenizer::Files files_of(const fs::path& folder, std::initializer_list<const char*> names) {
  return files::with_data_errors([&] { return tokenizer::files_of(folder, names); });
}

}  // namespace

// One question in place of the test file.
void VlmTask::open_question() {
  const AskOptions& ask = config().ask;
  const std::vector<fs::path> pictures = ask.pictures();
  for (const fs::path& picture : pictures)
    if (const std::string problem = files::path_problem(picture, "file"); !problem.empty())
      config_error(ask.images.empty() ? "ask.image" : "ask.images", problem);
  const size_t marks = marks_in(ask.question);
  if (pictures.empty() && marks > 0)
    config_error("ask.question", "has <image>, and there is no picture: give task.ask.image");
  if (pictures.size() == 1 && marks > 0)
    config_error("ask.question", "must not have <image>: the picture is put before it");
  if (marks > 0 && marks != pictures.size())
    config_error("ask.question",
                 concat("has <image> ", marks, " times for ", pictures.size(),
                        " pictures: write it once for each, or leave it out, and they are put "
                        "before the question"));
  nlohmann::json object{
      {"id", pictures.empty() ? "question" : pictures.front().filename().string()},
      {"conversations", {{{"from", "human"}, {"value", ask_about_pictures(ask.question, pictures.size())}}}}};
  // One is shown by its name, several, which may be in several folders, by their paths.
  fs::path folder = pictures.size() > 1 ? "/" : ".";
  if (pictures.size() == 1) {
    object["image"] = pictures.front().filename().string();
    if (pictures.front().has_parent_path()) folder = pictures.front().parent_path();
  } else {
    for (const fs::path& picture : pictures)
      object["images"].push_back(fs::absolute(picture).lexically_normal().string());
  }
  const std::string text = nlohmann::json::array({object}).dump();
  const fs::path cache(std::string(view(run().cache_dir)));
  fs::create_directories(cache);
  const fs::path file = cache / ("asked-" + files::hash128(text).hex() + ".json");
  const fs::path unfinished = file.string() + "." + std::to_string(::getpid());  // ranks write the same
  std::ofstream stream(unfinished, std::ios::binary);
  if (!(stream << text).flush())
    throw files::system_error(unfinished.string(), "the cache folder must be writable and have room");
  fs::rename(unfinished, file);
  std::vector<PictureSource> asked;
  asked.push_back(picture_texts::open_source(context(), config().data, file.string(), folder,
                                             {.split = Split::kTest,
                                              .columns = config().data.columns(/*answer_required=*/false),
                                              .tiles = config().vision.tiles(),
                                              .is_asked = true}));
  sources_[static_cast<size_t>(Split::kTest)] = {std::move(asked), {"question"}, {}, 0};
}

void VlmTask::open_files() {
  files::with_data_errors([&] {
    sources_ = picture_texts::open_splits(
        context(), config().data,
        {.is_left_out =
             [&](Split split) {
               return tokenizer_.is_kept() ? run().purpose == PL_PURPOSE_EXPORT || is_asked()
                                           : is_asked() && split == Split::kTest;
             },
         .may_be_missing = run().purpose != PL_PURPOSE_TRAIN && tokenizer_.is_kept(),
         .columns = [&](Split split) { return config().data.columns(split != Split::kTest); },
         .tiles = config().vision.tiles(),
         .config_error = [&](const char* key, const std::string& problem) { config_error(key, problem); }});
    if (is_asked()) open_question();
    tokenizer_.open([&] {
      return common::training_texts(picture_texts::texts_of(training()), config().tokenizer.vocab_size,
                                    "conversations");
    });
  });
  is_open_ = true;
}

void VlmTask::open_data() {
  if (!is_open_) open_files();  // another process has prepared
  tokenizer_.require_end_of_text("which an answer ends with");
  chat_.emplace(config().chat.style, tokenizer_.shared(), config().chat.max_tokens);
  const bool has_words = config().vision.vision.has_last_norm();  // Idefics3's
  layout_.emplace(config().vision.layout(
      config().projector.scale_factor,
      has_words ? [this](const std::string& text) { return chat_->format().picture_tokens(text); }
                : PictureWords()));
  cut_ = std::make_shared<CutConversations>(config().chat.max_tokens, context());
  tokenizer_.set_end(chat_->end_token());
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  context().info("data       ", sample_count(Split::kTrain), " training, ", sample_count(Split::kVal),
                 " validation, ", sample_count(Split::kTest), " test samples; ",
                 config().vision.has_tiles() ? "up to " : "", layout_->most_rows(),
                 config().vision.has_tiles() || config().projector.scale_factor > 1 ? " rows" : " patches",
                 " a picture; ", tokenizer_.size_text());
  for (const std::string& line : training().lines()) context().info(line);
}

std::shared_ptr<llava::Vlm> VlmTask::build_model() {
  const int32_t end = tokenizer_->eot();
  const llava::VlmConfig config = this->config().model(
      {.size = tokenizer_->vocab_size(), .begin = tokenizer_->bos().value_or(end), .end = end});
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
  if (model->vision_is_frozen() && this->config().vision.cache_bytes > 0) open_features(*model);
  start_from_adapter(*model);
  if (tokenizer_.is_kept()) return model;  // the weights come from a checkpoint
  const auto announce = [&](const char* part, const fs::path& folder) {
    int64_t count = 0;
    for (const ParameterRegistry::Declared& parameter : model->parameters())
      if (parameter.name.starts_with(part)) count += parameter.tensor.numel();
    context().info("weights    ", count, " parameters of ", part, "* from ", folder.string());
  };
  if (!vision.empty()) {
    llava::import_vision(vision.string(), *model);
    announce("vision.", vision);
    tokenizer_.carry(vision, files_of(vision, tokenizer::kVisionModelFiles));
  }
  if (!language.empty()) {
    check_tokens(language, *model, llava::import_language(language.string(), *model));
    announce("language.", language);
    tokenizer::Files files = llava::language_part(files_of(language, tokenizer::kLanguageModelFiles));
    files[hugging_face::kWeightsText] = llava::kept_language(language.string(), *model);
    tokenizer_.carry(language, files);
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
  tokenizer_.require_path(folder);
  const int64_t size = tokenizer_->vocab_size();
  const int64_t kept = std::min<int64_t>(size - model.language().config().vocab_size, 0);
  for (const std::string& note :
       {language::note_of_vocabulary(folder.string(), size, count, /*are_kept=*/false),
        language::note_of_vocabulary(folder.string(), size, kept)})
    if (!note.empty()) context().info(note);
}

// Kernels other than ours may round a picture's features in the last bit as its neighbours in the batch have
// it.
void VlmTask::open_features(llava::Vlm& model) {
  const at::ScalarType compute = to_torch(run().compute_dtype);
  if (context().reproducible() && (device().is_cuda() || compute != at::kFloat)) return;
  const VisionOptions& options = config().vision;
  features_ = std::make_shared<FeatureCache>(FeatureCache::Options{
      .folder = std::string(view(run().cache_dir)),
      .settings = concat(options.key(), " ", config().data.background, " ", at::toString(compute), " ",
                         device().is_cuda() ? "cuda" : transformer::kernels().name, " ", TORCH_VERSION),
      .most_bytes = static_cast<uint64_t>(options.cache_bytes),
      .note = [context = context()](const std::string& line) { context.info(line); },
      .warn = [context = context()](const std::string& line) { context.warn(line); }});
  model.set_cache(features_);
}

void VlmTask::import_model(const fs::path& folder) {
  check_tokens(folder, model(), llava::import_llava(folder.string(), model()));
  start_from_adapter(model());
  tokenizer::Files files = files_of(folder, tokenizer::kModelFiles);
  files[hugging_face::kWeightsText] = llava::kept_llava(folder.string(), model());
  tokenizer_.carry(folder, files);
}

void VlmTask::export_model(const fs::path& folder) {
  const tokenizer::Files& files = tokenizer_->files();
  const adapters::LoraOptions& lora = config().language.lora;
  const auto log = [this](const std::string& note) { context().info(note); };
  if (const std::string note = lora.export_note(); !note.empty()) log(note);
  tokenizer_->save(folder.string());
  if (config().exported == "llava" && lora.exports_adapter())  // without config.json, which is the model's
    return adapters::export_adapter(folder.string(), model().parameters(), lora,
                                    llava::adapted_llava(model().config().language, model().config().vision),
                                    lora.base_model);
  if (config().exported == "language") {
    for (const std::string& note : llava::export_language(folder.string(), model(), files)) log(note);
  } else {
    const auto mark = tokenizer_->special_token(kImageMark);
    for (const std::string& note : llava::export_llava(folder.string(), model(), mark, is_smol(files), files))
      log(note);
    const bool is_whole = !llava::came_as_llava(model().config(), files).config.is_null();
    for (const auto& [name, text] : processor_files(config().vision, config().projector.scale_factor, files,
                                                    mark ? std::string(kImageMark) : "", is_whole))
      hugging_face::write_text((folder / name).string(), text);
  }
  hugging_face::write_token_ids(folder.string(), files, tokenizer_.own_tokens());
}

std::string VlmTask::data_fingerprint() {
  return std::to_string(tokenizer_->fingerprint()) + picture_texts::fingerprint_of(context(), sources_);
}

}  // namespace pipeline::tasks::vlm

PIPELINE_TASK(pipeline::tasks::vlm::VlmTask, "vlm", "1.0.0",
              "A vision encoder and a language model learn to caption pictures and to answer questions about "
              "them. Weight decay: matrices and embeddings; not biases and norms")
