#include "plugins/data/picture_texts/source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/records/pairs.hpp"

namespace pipeline::picture_texts {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSplits{Split::kTrain, Split::kVal, Split::kTest};

}  // namespace

void PictureTextOptions::describe_files(Options& o, const Help& help) {
  o("train", train, help.train);
  o.group("source", source);
  describe_others(
      o,
      "in place of val: this share of train is evaluated and not learnt from; chosen by a hash of the "
      "pictures' names, so that samples that share a picture stay together",
      help.test);
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

PictureSource open_source(const Context& context, const PictureTextOptions& options, const std::string& named,
                          const fs::path& given_images, const Opening& how) {
  const pl_run_info& run = context.run();
  const std::string what = "reading " + fs::path(named).filename().string(), cache(view(run.cache_dir));
  const files::Hooks hooks = files::hooks_of(context, what, run.threads);
  const sources::SourceFiles files = sources::find_and_hash(named, cache, hooks, sources::Content::kPictures);
  const bool is_folder = files.format == sources::Format::kPictures;
  const fs::path images = is_folder ? fs::path(named) : given_images;
  PictureSource source{
      .conversations = ConversationStore(cache, source_of(files, how.columns, images), hooks, how.part),
      .images = images,
      .pictures = nullptr};
  // What training has said of its files is not said again.
  const bool is_known = how.split == Split::kTrain ? run.purpose != PL_PURPOSE_TRAIN : how.part.is_validation;
  if (!is_known) {
    files::for_each_line(source.conversations.report(), [&](const std::string& line) { context.warn(line); });
    files::for_each_line(source.conversations.notes(), [&](const std::string& line) { context.info(line); });
  }
  std::vector<fs::path> archives;  // shards hold their pictures: what else lies beside them is none of theirs
  if (files.format == sources::Format::kTar)
    archives.assign(files.paths.begin(), files.paths.end());
  else if (!how.is_asked && !is_folder)
    archives = tar_archives(images);
  source.pictures = std::make_shared<const Pictures>(
      Pictures::Options{.folder = images,
                        .archives = std::move(archives),
                        .decode = options.decode(),
                        .tiles = how.tiles,
                        .most_broken = static_cast<uint64_t>(
                            options.max_broken_share * static_cast<double>(source.conversations.size())),
                        .is_asked = how.is_asked,
                        .warn = [context](const std::string& line) { context.warn(line); }},
      hooks);
  return source;
}

Splits open_splits(const Context& context, const PictureTextOptions& options, const SplitsWanted& wanted) {
  Splits splits;
  for (const Split split : kSplits) {
    if (wanted.is_left_out(split)) continue;
    const sources::SplitOptions::Sources of = options.of(split);
    std::vector<PictureSource> found;
    for (const std::string& named : of.named) {
      if (const std::string problem = sources::problem_of(named, options.content); !problem.empty()) {
        if (!wanted.may_be_missing) wanted.config_error(of.key, problem);
        context.warn(named, " is not there: going on without it");
        continue;
      }
      const fs::path own = fs::is_directory(named) ? fs::path(named) : fs::path(named).parent_path();
      if (options.images.empty() && own.string().find_first_of("*?[{") != std::string::npos &&
          !fs::exists(own))
        wanted.config_error("data.images",
                            concat("must be given with ", named, ", whose files are in several folders"));
      found.push_back(open_source(
          context, options, named, options.images.empty() ? own : options.images,
          {.split = split, .part = of.part, .columns = wanted.columns(split), .tiles = wanted.tiles}));
    }
    if (found.size() == of.named.size())
      splits[static_cast<size_t>(split)] = {std::move(found), of.names, of.shares, context.seed("mixture")};
  }
  if (const uint64_t learnt = splits[static_cast<size_t>(Split::kTrain)].records(),
      held_out = splits[static_cast<size_t>(Split::kVal)].records();
      options.validation_share > 0 && learnt + held_out > 0)
    context.info(
        files::held_out_text(options.named_for_training(), options.validation_share, learnt, held_out));
  return splits;
}

messages::StoredTexts texts_of(const sources::Mixed<PictureSource>& sources) {
  std::vector<const ConversationStore*> stores;
  for (const PictureSource& source : sources.stores()) stores.push_back(&source.conversations);
  return messages::texts_of(std::move(stores));
}

std::string fingerprint_of(const Context& context, const Splits& splits) {
  std::string result;
  for (const Split split : kSplits)
    if (split != Split::kTest || context.run().purpose != PL_PURPOSE_TRAIN)
      result += " " + splits[static_cast<size_t>(split)].fingerprint();
  return result;
}

}  // namespace pipeline::picture_texts
