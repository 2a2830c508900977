// The options of data that are pictures with texts.
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "plugins/data/images/image.hpp"
#include "plugins/data/picture_texts/conversation.hpp"
#include "plugins/data/sources/source_options.hpp"

namespace pipeline::picture_texts {

// A task derives its own from this, and describes them.
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

}  // namespace pipeline::picture_texts
