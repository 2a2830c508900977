#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/files/part.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/stores/token_store.hpp"

namespace pipeline::records {

// All that decides which pairs there are; with columns.second empty and not required, which texts.
struct PairSource {
  sources::SourceFiles files;
  Columns columns;
  uint64_t max_record_bytes = ReadOptions{}.max_record_bytes;
  Quotes quotes = Quotes::kAuto;
  TextUnit text_unit = TextUnit::kFile;
  files::SplitPart part;  // of the files' records, by their first texts

  // Equal where the same files and part give the same pairs.
  std::string options() const;
  // Calls text() with all texts, and often read() with the bytes that are done. Throws DataError.
  void each_text(const std::function<void(std::string_view)>& text,
                 const std::function<void(uint64_t)>& read) const;
  // Calls take() with all pairs in order, as many at a time as make some work for a thread. Throws DataError,
  // or Cancelled.
  stores::TokenReport read(const files::Hooks& hooks,
                           const std::function<void(std::vector<Pair>&&)>& take) const;

  // The same, with work() done for each pair on `hooks.threads` threads; take() has the results in order, on
  // this one. Memory stays bounded by the pairs at hand (a few MiB for each thread, or one record).
  template <class Result>
  stores::TokenReport read_on_threads(const files::Hooks& hooks,
                                      const std::function<Result(const Pair&)>& work,
                                      const std::function<void(Result&&)>& take) const {
    files::OrderedWork<std::vector<Pair>, std::vector<Result>> ordered(
        hooks.threads,
        [&](std::vector<Pair>&& pairs) {
          std::vector<Result> results;
          for (const Pair& pair : pairs) results.push_back(work(pair));
          return results;
        },
        [&](std::vector<Result>&& results) {
          hooks.throw_if_cancelled();
          for (Result& result : results) take(std::move(result));
        });
    stores::TokenReport report =
        read(hooks, [&](std::vector<Pair>&& pairs) { ordered.add(std::move(pairs)); });
    ordered.finish();
    return report;
  }
};

}  // namespace pipeline::records
