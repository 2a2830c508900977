// Pairs of document and summary as samples of tokens: part 0 is the document, part 1 the summary, and the id
// is beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/part.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::tasks::summarization {

// All that decides which pairs there are.
struct PairSource {
  sources::SourceFiles files;
  records::Columns columns;
  uint64_t max_record_bytes = records::ReadOptions{}.max_record_bytes;
  records::Quotes quotes = records::Quotes::kAuto;
  files::Part part;  // of the files' records, by their documents

  // Equal where the same files and part give the same pairs.
  std::string options() const;
  // Calls text() with all documents and summaries, and often read() with the bytes that are done. Throws
  // DataError.
  void each_text(const std::function<void(std::string_view)>& text,
                 const std::function<void(uint64_t)>& read) const;
};

// How a text becomes tokens. [any-thread]
struct Encoder {
  std::function<std::vector<int32_t>(std::string_view)> encode;
  uint32_t vocabulary_size = 0;
};

// Reads the pairs and calls add() with a sample of each, in order. Texts become tokens on `hooks.threads`
// threads. Memory stays bounded by the batches of texts at hand (a few MiB each, or one record). Throws
// DataError, or Cancelled.
stores::TokenReport read_samples(const PairSource& source, const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add);

}  // namespace pipeline::tasks::summarization
