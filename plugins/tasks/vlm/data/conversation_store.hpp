// The conversations of a file in the cache, memory-mapped.
#pragma once

#include <functional>
#include <string>

#include "plugins/data/files/part.hpp"
#include "plugins/data/record_store/record_store.hpp"
#include "plugins/tasks/vlm/data/conversation.hpp"

namespace pipeline::vlm {

// Immutable; safe for concurrent use. Opening costs some 60 bytes a conversation, and processes share pages.
class ConversationStore {
 public:
  ConversationStore() = default;  // empty
  // Opens the store of a part of `source` in the cache folder; makes it first if it is missing, damaged or of
  // another content. Of several processes that ask at once one makes it and the others wait. `images`: the
  // folder of the pictures. Throws DataError, or Cancelled.
  ConversationStore(const std::string& folder, const std::string& source, const CaptionColumns& columns,
                    const files::Hooks& hooks, const files::Part& part = {},
                    const std::filesystem::path& images = {});

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

}  // namespace pipeline::vlm
