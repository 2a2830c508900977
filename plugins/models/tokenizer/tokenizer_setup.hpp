// Where a task's tokenizer comes from: files, a checkpoint, or training on the task's own texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <pipeline/context.hpp>
#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::tokenizer {

// The options of a task's tokenizer, [task.tokenizer].
struct TokenizerOptions {
  std::filesystem::path path;
  int64_t vocab_size = 8192;

  void describe(Options& o) {
    o("path", path,
      "tokenizer.json, tokenizer.model, or a folder with one of them or with vocab.json and merges.txt; "
      "empty: train on the data")
        .follows();
    o("vocab_size", vocab_size, "size of a trained tokenizer").unit("tokens").min(257).max(1 << 20);
  }
  void validate(const ConfigErrors& errors) const;
};

// Texts to train on.
struct TrainingTexts {
  std::string key;     // of the content: equal for equal texts; a plain file name
  uint64_t bytes = 0;  // for the progress
  std::string what;    // for the log: "59,551 pairs"
  // Calls text(...) for each, and now and then read(bytes so far).
  std::function<void(const std::function<void(std::string_view)>& text,
                     const std::function<void(uint64_t)>& read)>
      each;
};

// A byte-level BPE of `size` tokens trained on the texts; kept in the run's cache folder, as "tokenizer-KEY",
// for who asks again. Throws TokenizerError of this folder, std::filesystem's, or pipeline::Error when the
// run is cancelled. [main]
TokenizerPtr trained_tokenizer(const TrainingTexts& texts, int64_t size, const Context& context);

// A task's tokenizer: `kept`, which came with the weights, else the one that the options name, else one
// trained on what texts() gives. refuse() is told what is wrong with the options' path, and throws.
TokenizerPtr tokenizer_of_task(const TokenizerPtr& kept, const TokenizerOptions& options,
                               const std::function<TrainingTexts()>& texts, const Context& context,
                               const std::function<void(const std::string& problem)>& refuse);

// What is wrong with a configuration's path that is not there.
std::string missing_tokenizer(const std::filesystem::path& path);

// For read_model(), so that `check` says of the option tokenizer.path what the run would.
// What is there and cannot be a task's tokenizer is a problem of the option.
void check_tokenizer(const ModelOptions& say, const std::filesystem::path& path);
// The option follows a model's folder. Where it is not set, the folder must have a tokenizer that can be one.
void follow_tokenizer(const ModelOptions& say, const std::filesystem::path& folder, bool is_set);

// The tokenizer that a checkpoint carries as `state` (see Task::extra_state). `path`: what the configuration
// says, or empty; another tokenizer there is a problem, which refuse() is told, since the weights would read
// other words. When a model is only used, the path need not exist.
TokenizerPtr tokenizer_of_checkpoint(std::string_view state, const std::filesystem::path& path,
                                     const Context& context,
                                     const std::function<void(const std::string& problem)>& refuse);

}  // namespace pipeline::tokenizer
