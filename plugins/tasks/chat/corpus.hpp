// The data of a run: a tokenizer, the format of its conversations, and the conversations of each split.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "plugins/data/messages/conversation_store.hpp"
#include "plugins/data/sources/mixed.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/tasks/chat/config.hpp"
#include "plugins/tasks/chat/sequence.hpp"
#include "plugins/tasks/common/language_task.hpp"

namespace pipeline::tasks::chat {

class Corpus {
 public:
  // Opens the tokenizer, which carries the template from then on, and the stores in the run's cache folder,
  // and makes those that are missing; to use a model, each when it is first asked for. Says what it dropped
  // from the files. refuse(key, problem) throws. `tokenizer` must outlive this. [main]
  Corpus(const ChatConfig& config, const Context& context, common::TaskTokenizer& tokenizer,
         const std::function<void(const char* key, const std::string& problem)>& refuse);

  const ChatFormat& format() const { return *format_; }

  uint64_t size(Split split) const { return is_asked(split) ? 1 : store(split).size(); }  // [main]
  size_t bytes(Split split, uint64_t id) const;                                   // about [any-thread]
  Conversation conversation(Split split, uint64_t id, uint64_t epoch = 0) const;  // [any-thread]
  const sources::Mixed<messages::ConversationStore>& training() const { return store(Split::kTrain); }
  std::string fingerprint(std::initializer_list<Split> splits) const;  // of these, tokenizer and template

 private:
  void open(Split split, const ChatFormat* format) const;
  void open_format();
  bool is_asked(Split split) const { return split == Split::kTest && !asked_.turns.empty(); }
  using Conversations = sources::Mixed<messages::ConversationStore>;
  const Conversations& store(Split split) const;

  const ChatConfig& config_;
  Context context_;
  std::function<void(const char* key, const std::string& problem)> refuse_;
  common::TaskTokenizer& tokenizer_;
  std::unique_ptr<const ChatFormat> format_;
  mutable std::array<Conversations, 3> stores_;
  mutable std::array<bool, 3> is_open_{};
  Conversation asked_;  // in place of the test file
};

}  // namespace pipeline::tasks::chat
