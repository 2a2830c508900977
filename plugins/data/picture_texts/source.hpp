// For tasks: the files of each split, opened.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "plugins/data/images/image.hpp"
#include "plugins/data/picture_texts/conversation.hpp"
#include "plugins/data/picture_texts/pictures.hpp"
#include "plugins/data/sources/mixture.hpp"
#include "plugins/data/sources/source_options.hpp"

namespace pipeline::picture_texts {

// The options of such data. A task derives its own from this, and describes them.
struct PictureTextOptions : sources::SplitOptions {
  std::filesystem::path images;
  std::string image_column = "image", caption_column = "caption", id_column, background = "white";
  std::string quotes = "auto";
  double max_broken_share = 0.01;
  int64_t max_pixels = static_cast<int64_t>(images::kMaxPixels);

  PictureTextOptions() { content = sources::Content::kPictures; }

  // For help texts: what a task learns from; what becomes of a sample without its picture.
  struct Help {
    const char *train, *test, *broken;
  };
  void describe_files(Options& o, const Help& help);
  void describe_columns(Options& o);
  void describe_pictures(Options& o, const Help& help);
  void validate(const ConfigErrors& errors) const;

  // The columns, without those for a question and for answers of several people.
  CaptionColumns columns() const;
  images::DecodeOptions decode() const;
};

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
  files::SplitPart part = {};
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
