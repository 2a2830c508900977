// The conversations of a file in the cache, memory-mapped.
#pragma once

#include <functional>
#include <string>

#include "plugins/data/files/part.hpp"
#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/messages/conversation_file.hpp"
#include "plugins/data/record_store/record_store.hpp"
#include "plugins/data/text_pairs/input.hpp"

namespace pipeline::messages {

// How a store is made of a file.
struct Source {
  std::string path;
  std::string options;  // equal where the same file gives the same conversations
  std::function<void(const std::function<void(Conversation&&)>& sink, ReadReport& report,
                     const ReadHooks& hooks)>
      read;
  // What conversations that belong to one part of the data have in common.
  std::function<std::string(const Conversation&)> content;
  // The file with its hash, for which it may be read; whether it has changed since: throws DataError.
  std::function<text_pairs::SourceFile(const std::string& path,
                                       const std::function<void(uint64_t done, uint64_t total)>& on_block)>
      look = text_pairs::hash_source;
  std::function<void(const text_pairs::SourceFile& file)> check_unchanged = text_pairs::check_unchanged;
};

// Immutable; safe for concurrent use. Opening costs some 60 bytes a conversation, and processes share pages.
class ConversationStore {
 public:
  ConversationStore() = default;  // empty
  // Opens the store of a part of the source in the cache folder; makes it first if it is missing, damaged or
  // of another content. Of several processes that ask at once one makes it and the others wait. Throws
  // DataError, or Cancelled.
  ConversationStore(const std::string& folder, const Source& source, const files::Hooks& hooks,
                    const files::Part& part = {});

  uint64_t size() const { return size_; }
  Conversation operator[](uint64_t i) const;  // i < size(). DataError if the file was changed meanwhile
  size_t bytes(uint64_t i) const { return store_.records()[i].bytes; }
  // Equal where every conversation is.
  const std::string& fingerprint() const { return fingerprint_; }
  const std::string& report() const { return report_; }  // lines about what was dropped, in all of the file
  const std::string& notes() const { return notes_; }    // lines about how it was read

 private:
  bool open(const std::string& path, const files::Hash128& key);

  records::RecordStore store_;
  uint64_t size_ = 0;
  std::string fingerprint_, report_, notes_;
};

}  // namespace pipeline::messages
