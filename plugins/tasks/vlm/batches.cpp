// Samples of a split as batches.
#include "files/data_errors.hpp"
#include "plugins/tasks/vlm/batch.hpp"
#include "plugins/tasks/vlm/task.hpp"

namespace pipeline::tasks::vlm {

// About the tokens: of four bytes each, and a picture's.
double VlmTask::sample_cost(Split split, uint64_t id) const {
  const auto bytes = sources_[static_cast<size_t>(split)].with(
      0, id, [](const PictureSource& source, uint64_t i) { return source.conversations.bytes(i); });
  return static_cast<double>(bytes) / 4 + static_cast<double>(layout_->most_rows());
}

// The picture as the model is given it; nothing where it cannot be used.
std::optional<SamplePicture> VlmTask::picture_of(const Pictures& pictures,
                                                 const messages::Picture& picture) const {
  SamplePicture result;
  const auto is_known = [&](const files::Hash128& content) {
    result.key = content;
    if (features_) result.features = features_->find(content);
    if (!result.is_known()) return false;
    // Features of another form are not used, whatever is in the cache.
    const llava::PictureFeatures& found = result.features;
    const vision::Config& vision = config().vision.vision;
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

VlmTaskBatch VlmTask::batch_of(const std::vector<Conversation>& conversations, const LoadRequest& request,
                               bool with_pictures) const {
  VlmTaskBatch batch;
  batch.ids = {request.ids.begin(), request.ids.end()};
  batch.split = request.split;
  if (features_) features_->begin_epoch(request.epoch);
  BatchBuilder builder(config().vision.vision.square(), model_rows(), features_ != nullptr,
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

VlmTaskBatch VlmTask::make_batch(const LoadRequest& request) const {
  return files::with_data_errors([&] {
    std::vector<Conversation> conversations;
    for (const uint64_t id : request.ids)
      conversations.push_back(conversation(request.split, id, request.epoch));
    VlmTaskBatch batch = batch_of(conversations, request, true);
    if (request.split == Split::kTrain) batch.sources = training().sources_of(request.ids);
    return batch;
  });
}

BatchInfo VlmTask::batch_info(const VlmTaskBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(batch.packed.target_rows.size()),
          .samples = batch.ids.size(),
          .tokens = rows,
          .positions = rows};
}

}  // namespace pipeline::tasks::vlm
