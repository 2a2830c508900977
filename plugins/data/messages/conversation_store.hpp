// The conversations of a source in the cache.
#pragma once

#include <functional>
#include <string>

#include "plugins/data/files/part.hpp"
#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/messages/conversation_file.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/stores/sample_store.hpp"

namespace pipeline::messages {

// How a store is made of a source.
struct Source {
  sources::SourceFiles files;
  std::string options;  // equal where the same files give the same conversations
  std::function<void(const Collector::Sink& sink, ReadReport& report, const ReadHooks& hooks)> read;
  // Conversations that have one of these in common belong to one part of the data: never none.
  std::function<std::vector<std::string>(const Conversation&)> contents;
  bool has_several = false;  // `contents` may give more than one, and the files are then read once more
};

// Immutable; safe for concurrent use. Memory does not grow with the data.
class ConversationStore {
 public:
  ConversationStore() = default;  // empty
  // Opens the store of a part of the source in the cache folder; makes it first if it is missing, damaged or
  // of another content. Of several processes that ask at once one makes it and the others wait. Throws
  // DataError, or Cancelled.
  ConversationStore(const std::string& folder, const Source& source, const files::Hooks& hooks,
                    const files::SplitPart& part = {});

  uint64_t size() const { return store_.size(); }
  Conversation operator[](uint64_t i) const;  // i < size(). DataError if the file was changed meanwhile
  size_t bytes(uint64_t i) const { return store_.bytes(i); }
  // Equal where every conversation is.
  std::string fingerprint() const { return store_.content().hex(); }
  const std::string& report() const { return report_; }  // lines about what was dropped, in all of the source
  const std::string& notes() const { return notes_; }    // lines about how it was read

 private:
  stores::SampleStore store_;
  std::string report_, notes_;
};

// The texts of all turns, for a tokenizer that is trained on them. Valid as long as the stores.
struct StoredTexts {
  std::string fingerprint;
  uint64_t conversations = 0;
  // Calls text() with each, and often read() with the number of conversations that are done.
  std::function<void(const std::function<void(std::string_view)>& text,
                     const std::function<void(uint64_t)>& read)>
      each;
};
StoredTexts texts_of(std::vector<const ConversationStore*> stores);

}  // namespace pipeline::messages
