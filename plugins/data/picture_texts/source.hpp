// For tasks: the files of each split, opened.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "plugins/data/picture_texts/options.hpp"
#include "plugins/data/picture_texts/pictures.hpp"
#include "plugins/data/sources/mixed.hpp"

namespace pipeline::picture_texts {

// Conversations, and the pictures that they name.
struct PictureSource {
  ConversationStore conversations;
  std::filesystem::path images;  // the pictures' folder
  std::shared_ptr<const Pictures> pictures;

  uint64_t size() const { return conversations.size(); }
  std::string fingerprint() const { return conversations.fingerprint(); }
};

// How files are opened.
struct Opening {
  Split split = Split::kTrain;
  files::Part part = {};
  CaptionColumns columns;
  images::TileOptions tiles;
  bool is_asked = false;  // there is one picture alone, which somebody has named
};
// The log has what becomes of records, once a run. Throws files::DataError.
PictureSource open_source(const Context& context, const PictureTextOptions& options, const std::string& named,
                          const std::filesystem::path& images, const Opening& how);

using Splits = std::array<sources::Mixed<PictureSource>, 3>;

struct SplitsWanted {
  std::function<bool(Split split)> is_left_out;
  bool may_be_missing = false;  // files that are not there are named, and nothing more
  std::function<CaptionColumns(Split split)> columns;
  images::TileOptions tiles;
  // Throws an error of the task's option `key`.
  std::function<void(const char* key, const std::string& problem)> config_error;
};
// All that the options name. Throws files::DataError.
Splits open_splits(const Context& context, const PictureTextOptions& options, const SplitsWanted& wanted);

// The texts of all conversations, for a tokenizer that is trained on them.
messages::StoredTexts texts_of(const sources::Mixed<PictureSource>& sources);

// The test data may change in a continued run, and training does not see them.
std::string fingerprint_of(const Context& context, const Splits& splits);

}  // namespace pipeline::picture_texts
