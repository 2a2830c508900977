// What a teacher says of the training data: asked once, and kept in the cache.
#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "language/teacher.hpp"
#include "plugins/data/sources/mixture.hpp"
#include "plugins/data/stores/sample_store.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::text {

// How a teacher is asked.
struct Asking {
  const language::TeacherOptions& teacher;
  const Context& context;
  int64_t vocabulary;  // of the model that learns
  int64_t max_tokens;  // of a sequence
  std::string rules;   // what `sequences` depends on besides the sample
  std::function<std::vector<Sequence>(const stores::TokenSample& sample)> sequences;
};

// A teacher's likeliest tokens at every target of the training split, in a file for each source. Immutable;
// safe for concurrent use.
class TeacherStore {
 public:
  // Opens the files in the run's cache folder, and makes those that are missing: of several processes one
  // does so while the others wait, and a file has its name when it is complete. The teacher is in memory only
  // meanwhile. The log has what is left out of its probability. Throws DataError, or an Error. [main]
  TeacherStore(const Asking& asking, const Corpus& corpus);

  // At the targets of these samples, end to end. Throws DataError.
  transformer::LikeliestTokens of(const std::vector<sources::Mixture::Place>& samples) const;
  // Equal where teacher, data and options are, whatever device the teacher was asked on.
  const std::string& fingerprint() const { return fingerprint_; }

  // What a file has of a sample: of all its targets the log-probabilities, and then the tokens.
  struct Layout {
    int64_t vocabulary, k;

    int64_t columns() const { return k < vocabulary ? k + 1 : k; }  // of log-probabilities
    int64_t token_bytes() const { return vocabulary <= int64_t{1} << 16 ? 2 : 4; }
    int64_t target_bytes() const { return columns() * int64_t{sizeof(float)} + k * token_bytes(); }
    std::string packed(const transformer::LikeliestTokens& rows) const;  // on the CPU
    int64_t targets(std::string_view sample) const {
      return static_cast<int64_t>(sample.size()) / target_bytes();
    }
    void unpack(std::string_view sample, const transformer::LikeliestTokens& rows) const;  // fills them
  };

 private:
  Layout layout_;
  std::vector<stores::SampleStore> files_;
  std::string fingerprint_;
};

}  // namespace pipeline::tasks::text
