#include "plugins/tasks/vlm/data.hpp"

#include <unistd.h>

#include <torch/version.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "files/data_errors.hpp"
#include "files/regular_file.hpp"
#include "transformer/kernels/kernels.hpp"

namespace pipeline::tasks::vlm {

namespace fs = std::filesystem;
using llava::BatchBuilder;
using llava::SamplePicture;

void CutConversations::count(const std::string& name, const chat::Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  ++all_;
  if (!sequence.is_cut) return;
  const bool is_lost = !sequence.has_target();
  if (cut_ + lost_ == 0)
    context_.warn("conversation ", printable(name, ""),
                  " is longer than task.chat.max_tokens = ", max_tokens_,
                  is_lost ? " before its first answer: nothing of it is learnt"
                          : ": it is cut at a turn, with the pictures behind that",
                  "; others like it are counted");
  ++(is_lost ? lost_ : cut_);
}

CutConversations::~CutConversations() {
  if (cut_ + lost_ > 0)
    context_.info("cut        ", cut_ + lost_, " of ", all_,
                  " times a conversation was longer than task.chat.max_tokens = ", max_tokens_, ": ", cut_,
                  " times it was cut at a turn, ", lost_, " times nothing of it was left to learn");
}

// One question in place of the test file.
void Data::open_question() {
  const AskOptions& ask = config_.ask;
  const std::vector<fs::path> pictures = ask.pictures();
  for (const fs::path& picture : pictures)
    if (const std::string problem = files::path_problem(picture, "file"); !problem.empty())
      errors_(ask.images.empty() ? "ask.image" : "ask.images", problem);
  const size_t marks = marks_in(ask.question);
  if (pictures.empty() && marks > 0)
    errors_("ask.question", "has <image>, and there is no picture: give task.ask.image");
  if (pictures.size() == 1 && marks > 0)
    errors_("ask.question", "must not have <image>: the picture is put before it");
  if (marks > 0 && marks != pictures.size())
    errors_("ask.question", concat("has <image> ", marks, " times for ", pictures.size(),
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
  const fs::path cache(std::string(view(context_.run().cache_dir)));
  fs::create_directories(cache);
  const fs::path file = cache / ("asked-" + files::hash128(text).hex() + ".json");
  const fs::path unfinished = file.string() + "." + std::to_string(::getpid());  // ranks write the same
  std::ofstream stream(unfinished, std::ios::binary);
  if (!(stream << text).flush())
    throw files::system_error(unfinished.string(), "the cache folder must be writable and have room");
  fs::rename(unfinished, file);
  std::vector<PictureSource> asked;
  asked.push_back(picture_texts::open_source(context_, config_.data, file.string(), folder,
                                             {.split = Split::kTest,
                                              .columns = config_.data.columns(/*answer_required=*/false),
                                              .tiles = config_.vision.tiles(),
                                              .is_asked = true}));
  sources_[static_cast<size_t>(Split::kTest)] = {std::move(asked), {"question"}, {}, 0};
}

void Data::open_files() {
  files::with_data_errors([&] {
    sources_ = picture_texts::open_splits(
        context_, config_.data,
        {.is_left_out =
             [&](Split split) {
               return tokenizer_.is_kept() ? context_.run().purpose == PL_PURPOSE_EXPORT || is_asked()
                                           : is_asked() && split == Split::kTest;
             },
         .may_be_missing = context_.run().purpose != PL_PURPOSE_TRAIN && tokenizer_.is_kept(),
         .columns = [&](Split split) { return config_.data.columns(split != Split::kTest); },
         .tiles = config_.vision.tiles(),
         .config_error = [&](const char* key, const std::string& problem) { errors_(key, problem); }});
    if (is_asked()) open_question();
    tokenizer_.open([&] {
      return common::training_texts(picture_texts::texts_of(of(Split::kTrain)), config_.tokenizer.vocab_size,
                                    "conversations");
    });
  });
  is_open_ = true;
}

void Data::open() {
  if (!is_open_) open_files();  // another process has prepared
  tokenizer_.require_end_of_text("which an answer ends with");
  chat_.emplace(config_.chat.style, tokenizer_.shared(), config_.chat.max_tokens);
  const bool has_words = config_.vision.vision.has_last_norm();  // Idefics3's
  layout_.emplace(config_.vision.layout(
      config_.projector.scale_factor,
      has_words ? [this](const std::string& text) { return chat_->format().picture_tokens(text); }
                : llava::PictureWords()));
  cut_ = std::make_shared<CutConversations>(config_.chat.max_tokens, context_);
  tokenizer_.set_end(chat_->end_token());
  if (context_.run().purpose == PL_PURPOSE_EXPORT) return;
  context_.info("data       ", of(Split::kTrain).size(), " training, ", of(Split::kVal).size(),
                " validation, ", of(Split::kTest).size(), " test samples; ",
                config_.vision.has_tiles() ? "up to " : "", layout_->most_rows(),
                config_.vision.has_tiles() || config_.projector.scale_factor > 1 ? " rows" : " patches",
                " a picture; ", tokenizer_.size_text());
  for (const std::string& line : of(Split::kTrain).lines()) context_.info(line);
}

// Kernels other than ours may round a picture's features in the last bit as its neighbours in the batch have
// it.
void Data::keep_features(llava::Vlm& model, c10::Device device) {
  const at::ScalarType compute = to_torch(context_.run().compute_dtype);
  if (context_.reproducible() && (device.is_cuda() || compute != at::kFloat)) return;
  const VisionOptions& options = config_.vision;
  features_ = std::make_shared<FeatureCache>(FeatureCache::Options{
      .folder = std::string(view(context_.run().cache_dir)),
      .settings = concat(options.key(), " ", config_.data.background, " ", at::toString(compute), " ",
                         device.is_cuda() ? "cuda" : transformer::kernels().name, " ", TORCH_VERSION),
      .most_bytes = static_cast<uint64_t>(options.cache_bytes),
      .note = [context = context_](const std::string& line) { context.info(line); },
      .warn = [context = context_](const std::string& line) { context.warn(line); }});
  model.set_cache(features_);
}

// Texts have about a token in four bytes.
double Data::cost(Split split, uint64_t id) const {
  const auto bytes = of(split).with(
      0, id, [](const PictureSource& source, uint64_t i) { return source.conversations.bytes(i); });
  return static_cast<double>(bytes) / 4 + static_cast<double>(layout_->most_rows());
}

// The picture as the model is given it; nothing where it cannot be used.
std::optional<SamplePicture> Data::picture_of(const Pictures& pictures,
                                              const messages::Picture& picture) const {
  SamplePicture result;
  const auto is_known = [&](const files::Hash128& content) {
    result.key = content;
    if (features_) result.features = features_->find(content);
    if (!result.is_known()) return false;
    // Features of another form are not used, whatever is in the cache.
    const llava::PictureFeatures& found = result.features;
    const vision::Config& vision = config_.vision.vision;
    if (found.width < 1 || found.height < 1 || found.squares.size(1) != vision.rows() ||
        found.squares.size(2) != vision.hidden_size ||
        found.squares.size(0) != layout_->of(found.width, found.height).squares)
      result.features = {};
    return result.is_known();
  };
  auto loaded = pictures.load(picture, is_known);
  if (!loaded) return std::nullopt;
  if (!result.is_known()) {
    result.features = {.squares = {}, .width = loaded->width, .height = loaded->height};
    result.pixels = std::move(loaded->pixels);
  }
  result.shape = layout_->of(result.features.width, result.features.height);
  return result;
}

VlmTaskBatch Data::batch_of(const std::vector<Conversation>& conversations, const LoadRequest& request,
                            bool with_pictures) const {
  VlmTaskBatch batch;
  batch.ids = {request.ids.begin(), request.ids.end()};
  batch.split = request.split;
  if (features_) features_->begin_epoch(request.epoch);
  BatchBuilder builder(config_.vision.vision.square(), rows_of_square(), features_ != nullptr,
                       request.purpose != Purpose::kTrain);
  for (size_t i = 0; i < conversations.size(); ++i) {
    const Conversation& conversation = conversations[i];
    std::vector<SamplePicture> found;
    PictureTokens tokens;
    bool is_broken = false;
    for (size_t p = 0; with_pictures && !is_broken && p < conversation.images.size(); ++p) {
      auto one = picture_of(pictures(request.split, request.ids[i]), conversation.images[p]);
      is_broken = !one;
      if (is_broken) break;
      tokens.push_back(one->shape.tokens);
      found.push_back(std::move(*one));
    }
    if (is_broken) found.clear(), tokens.clear();
    Sequence chat = chat_->sequence(conversation, tokens);
    if (is_broken)  // its answers are about what is not shown
      chat.targets.assign(chat.targets.size(), -1);
    else if (with_pictures)
      cut_->count(conversation.id, chat);
    builder.add(std::move(chat), std::move(found), is_broken);
  }
  builder.finish(batch, batch.pictures);
  require_ids(batch.packed.tokens, tokenizer_->vocab_size(), "token");
  require_ids(batch.packed.targets, tokenizer_->vocab_size(), "target");
  return batch;
}

VlmTaskBatch Data::batch(const LoadRequest& request) const {
  return files::with_data_errors([&] {
    std::vector<Conversation> conversations;
    for (const uint64_t id : request.ids)
      conversations.push_back(conversation(request.split, id, request.epoch));
    VlmTaskBatch batch = batch_of(conversations, request, true);
    if (request.split == Split::kTrain) batch.sources = of(Split::kTrain).sources_of(request.ids);
    return batch;
  });
}

VlmTaskBatch Data::batch_of_pictures(Conversation& conversation) const {
  for (messages::Picture& picture : conversation.images)
    if (picture.bytes.empty()) picture.name = fs::absolute(picture.name).string();
  const Pictures pictures({.folder = "/",
                           .archives = {},
                           .decode = config_.data.decode(),
                           .tiles = config_.vision.tiles(),
                           .most_broken = 0,
                           .is_asked = true,
                           .warn = [&](const std::string& line) { context_.warn(line); }});
  BatchBuilder builder(config_.vision.vision.square(), rows_of_square(), features_ != nullptr, true);
  std::vector<SamplePicture> shown;
  for (const messages::Picture& picture : conversation.images)
    shown.push_back(*picture_of(pictures, picture));
  builder.add({.tokens = {0}, .targets = {-1}}, std::move(shown), false);
  VlmTaskBatch batch;
  builder.finish(batch, batch.pictures);
  return batch;
}

std::string Data::fingerprint() const {
  return std::to_string(tokenizer_->fingerprint()) + picture_texts::fingerprint_of(context_, sources_);
}

}  // namespace pipeline::tasks::vlm
