#include "plugins/data/picture_texts/options.hpp"

#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/records/pairs.hpp"

namespace pipeline::picture_texts {

void PictureTextOptions::describe_files(Options& o, const Help& help) {
  o("train", train, help.train);
  o.group("source", source);
  o("val", val, "the same, to evaluate during training; empty: none");
  o("validation_share", validation_share,
    "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the "
    "pictures' names, so that samples that share a picture stay together")
      .min(0)
      .max(0.9);
  o("test", test, help.test).may_change();
  o("images", images,
    "folder of the pictures that the files name, and of .tar archives with such; empty: each file's own "
    "folder")
      .may_change();
}

void PictureTextOptions::describe_columns(Options& o) {
  o("image_column", image_column, "captions: column of the picture's path");
  o("caption_column", caption_column, "captions: column of the text");
  o("id_column", id_column, "captions: column of the id; empty: `id` if present, else records are numbered");
  o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
}

void PictureTextOptions::describe_pictures(Options& o, const Help& help) {
  o("background", background, "colour behind transparent pictures; drop: ignore transparency, as Pillow does")
      .choices({"white", "black", "grey", "drop"});
  o("max_broken_share", max_broken_share, help.broken).min(0).max(1);
  o("max_pixels", max_pixels, "a picture with more is refused before it is decoded").unit("pixels").min(1);
}

void PictureTextOptions::validate(const ConfigErrors& errors) const {
  SplitOptions::validate(errors);
  if (!errors.trains() || images.empty()) return;
  if (const std::string problem = files::path_problem(images, "folder"); !problem.empty())
    errors("images", problem);
}

CaptionColumns PictureTextOptions::columns() const {
  return {.image = image_column,
          .caption = caption_column,
          .question = caption_column,  // there are none
          .id = id_column,
          .answers = "",
          .quotes = records::quotes_named(quotes)};
}

images::DecodeOptions PictureTextOptions::decode() const {
  images::DecodeOptions options;
  options.max_pixels = static_cast<uint64_t>(max_pixels);
  if (background == "drop") {
    options.background.reset();
  } else {
    const uint8_t level = background == "white" ? 255 : background == "black" ? 0 : 128;
    options.background = {level, level, level};
  }
  return options;
}

}  // namespace pipeline::picture_texts
