#include "tokenizer/tokenizer_setup.hpp"

#include "core/base/foreign.hpp"
#include "files/cache_folder.hpp"
#include "files/regular_file.hpp"
#include "tokenizer/bpe_trainer.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;

ByteLevelBpe train(const TrainingTexts& texts, int64_t size, const Context& context) {
  BpeTrainer trainer;
  texts.each([&](std::string_view text) { trainer.add(text); },
             [&](uint64_t done) {
               context.throw_if_cancelled();
               context.progress("reading text for the tokenizer", done, texts.bytes);
             });
  context.info("training a tokenizer of ", size, " tokens on ", texts.what);
  return trainer.train({.vocab_size = static_cast<int32_t>(size), .on_token = [&](int32_t tokens) {
                          context.throw_if_cancelled();
                          context.progress("training the tokenizer", static_cast<uint64_t>(tokens),
                                           static_cast<uint64_t>(size));
                        }});
}

// Nothing where it is missing or damaged; the log says the latter.
std::optional<ByteLevelBpe> load_trained(const fs::path& folder, const Context& context) {
  if (!fs::exists(folder)) return std::nullopt;
  try {
    // Made without its files, it is the same as just after training.
    ByteLevelBpe tokenizer(parse_vocabulary(read_byte_level_files(folder.string())));
    files::mark_used(folder.string());
    return tokenizer;
  } catch (const TokenizerError& error) {
    context.warn(error.what(), ": training the tokenizer again");
    return std::nullopt;
  }
}

// Keeps it whole or not at all: a folder cut short by a kill has another name.
void keep(const ByteLevelBpe& tokenizer, const fs::path& folder) {
  const fs::path temporary = folder.string() + ".tmp";
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  tokenizer.save(temporary.string());
  fs::remove_all(folder);
  fs::rename(temporary, folder);
}

}  // namespace

void TokenizerOptions::validate(const ConfigErrors& errors) const {
  // What follows a folder is in it when the run begins, and need not be there when it goes on.
  if (errors.trains() && errors.is_set("path") && !path.empty() && !files::path_problem(path, "").empty())
    errors("path", missing_tokenizer(path));
}

TokenizerPtr trained_tokenizer(const TrainingTexts& texts, int64_t size, const Context& context) {
  const fs::path folder = fs::path(std::string(view(context.run().cache_dir))) / ("tokenizer-" + texts.key);
  auto tokenizer = load_trained(folder, context);
  if (!tokenizer) {
    tokenizer = train(texts, size, context);
    keep(*tokenizer, folder);
  }
  return std::make_shared<const ByteLevelBpe>(*std::move(tokenizer));
}

TokenizerPtr tokenizer_of_task(const TokenizerPtr& kept, const TokenizerOptions& options,
                               const std::function<TrainingTexts()>& texts, const Context& context,
                               const std::function<void(const std::string& problem)>& refuse) {
  if (kept) return kept;
  if (options.path.empty()) return trained_tokenizer(texts(), options.vocab_size, context);
  if (!files::path_problem(options.path, "").empty()) refuse(missing_tokenizer(options.path));
  return load_tokenizer(options.path.string());
}

std::string missing_tokenizer(const fs::path& path) {
  const std::string remedy = foreign::hub_remedy(path);
  return files::path_problem(path, "file or folder") + (remedy.empty() ? "" : "; " + remedy);
}

void check_tokenizer(const ModelOptions& say, const fs::path& path) {
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored)) return;
  try {
    if (!load_tokenizer(path.string())->has_eot())
      say.problem(
          "tokenizer.path",
          "the tokenizer names no token that ends a text (eos_token), which each text here ends with");
  } catch (const files::DataError& error) {
    say.problem("tokenizer.path", error.what());
  }
}

void follow_tokenizer(const ModelOptions& say, const fs::path& folder, bool is_set) {
  if (has_tokenizer(folder)) {
    say("tokenizer.path", folder, folder / "config.json");
    if (!is_set) check_tokenizer(say, folder);
  } else if (!is_set) {
    say.problem("tokenizer.path",
                concat("there is no tokenizer in ", folder.string(), ": name the one of these weights"));
  }
}

TokenizerPtr tokenizer_of_checkpoint(std::string_view state, const fs::path& path, const Context& context,
                                     const std::function<void(const std::string& problem)>& refuse) {
  TokenizerPtr kept = tokenizer_of_state(state, "the checkpoint's tokenizer");
  if (path.empty()) return kept;
  const bool is_there = files::path_problem(path, "").empty();
  if (context.run().purpose != PL_PURPOSE_TRAIN && !is_there) {
    context.info(path.string(), " is not there: using the tokenizer that came with the weights");
    return kept;
  }
  if (!is_there) {
    refuse(missing_tokenizer(path));
    return kept;
  }
  try {
    TokenizerPtr there = load_tokenizer(path.string());
    // Older checkpoints had no files.
    if (there->fingerprint() == kept->fingerprint()) return kept->files().empty() ? there : kept;
    refuse(
        "is not the tokenizer that the weights were trained with, so they would read other words: use that "
        "one, or leave the key out to use the checkpoint's");
  } catch (const TokenizerError& error) {
    refuse(error.what());
  }
  return kept;
}

}  // namespace pipeline::tokenizer
