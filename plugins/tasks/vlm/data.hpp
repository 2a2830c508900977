// Conversations about pictures as batches, and all that decides what is in these.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/data/picture_texts/source.hpp"
#include "plugins/models/llava/batch.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/vlm/chat.hpp"
#include "plugins/tasks/vlm/config.hpp"
#include "plugins/tasks/vlm/feature_cache.hpp"

namespace pipeline::tasks::vlm {

using picture_texts::Pictures;
using picture_texts::PictureSource;

struct VlmTaskBatch : llava::VlmBatch {
  std::vector<uint64_t> ids;
  llava::PicturesOfBatch pictures;
  Split split = Split::kTrain;
  std::vector<size_t> sources;  // of each sample, where training has several
};

// Conversations that are longer than task.chat.max_tokens: names the first, and says at the end how often one
// was met. Safe for concurrent use.
class CutConversations {
 public:
  CutConversations(int64_t max_tokens, Context context) : max_tokens_(max_tokens), context_(context) {}
  ~CutConversations();

  void count(const std::string& name, const Sequence& sequence);

 private:
  const int64_t max_tokens_;
  const Context context_;
  std::mutex mutex_;
  uint64_t all_ = 0, cut_ = 0, lost_ = 0;
};

// Methods are called from the main thread, but for those marked [any-thread].
class Data {
 public:
  // All of it must outlive this.
  Data(const VlmTaskConfig& config, const Context& context, const ConfigErrors& errors,
       common::TaskTokenizer& tokenizer)
      : config_(config), context_(context), errors_(errors), tokenizer_(tokenizer) {}

  // Opens the files, and the tokenizer.
  void open_files();
  // Opens all else, and the files where another process has prepared them.
  void open();
  // Keeps what the model's encoder, which is frozen, makes of pictures.
  void keep_features(llava::Vlm& model, c10::Device device);

  // Whether one question, which the user has asked, is in place of the test file.
  bool is_asked() const { return context_.run().purpose == PL_PURPOSE_PREDICT && config_.ask.any(); }
  const sources::Mixed<PictureSource>& of(Split split) const { return sources_[static_cast<size_t>(split)]; }
  const Chat& chat() const { return *chat_; }
  std::string fingerprint() const;
  double cost(Split split, uint64_t id) const;  // of a sample, about its tokens. [any-thread]
  Conversation conversation(Split split, uint64_t id, uint64_t epoch = 0) const {  // [any-thread]
    return of(split).with(epoch, id,
                          [](const PictureSource& source, uint64_t i) { return source.conversations[i]; });
  }
  // Where the pictures of a sample are found. [any-thread]
  const Pictures& pictures(Split split, uint64_t id) const {
    return of(split).with(
        0, id, [](const PictureSource& source, uint64_t) -> const Pictures& { return *source.pictures; });
  }

  VlmTaskBatch batch(const LoadRequest& request) const;  // [any-thread]
  // The texts alone, as if there were no pictures.
  VlmTaskBatch batch_without_pictures(const std::vector<Conversation>& conversations,
                                      const LoadRequest& request) const {
    return batch_of(conversations, request, false);
  }
  // The pictures alone of a conversation that names them by paths of files.
  VlmTaskBatch batch_of_pictures(Conversation& conversation) const;

 private:
  void open_question();
  // Rows of features that a square has in the sequence.
  int64_t rows_of_square() const {
    return config_.vision.vision.rows() / (config_.projector.scale_factor * config_.projector.scale_factor);
  }
  std::optional<llava::SamplePicture> picture_of(const Pictures& pictures,
                                                 const messages::Picture& picture) const;
  VlmTaskBatch batch_of(const std::vector<Conversation>& conversations, const LoadRequest& request,
                        bool with_pictures) const;

  const VlmTaskConfig& config_;
  const Context& context_;
  const ConfigErrors& errors_;
  common::TaskTokenizer& tokenizer_;
  picture_texts::Splits sources_;
  bool is_open_ = false;
  std::optional<Chat> chat_;
  std::optional<llava::PictureLayout> layout_;
  std::shared_ptr<CutConversations> cut_;
  std::shared_ptr<FeatureCache> features_;  // of a frozen encoder
};

}  // namespace pipeline::tasks::vlm
