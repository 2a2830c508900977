#include "plugins/data/picture_texts/source.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace pipeline::picture_texts {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSplits{Split::kTrain, Split::kVal, Split::kTest};

void say_lines(const std::string& text, const std::function<void(const std::string&)>& say) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) say(line);
}

}  // namespace

PictureSource open_source(const Context& context, const PictureTextOptions& options, const std::string& named,
                          const fs::path& given_images, const Opening& how) {
  const pl_run_info& run = context.run();
  const std::string what = "reading " + fs::path(named).filename().string(), cache(view(run.cache_dir));
  const files::Hooks hooks{
      .threads = std::max(1u, run.threads),
      .progress = [&](uint64_t done, uint64_t total) { context.progress(what, done, total); },
      .note = [&](const std::string& line) { context.info(line); },
      .cancelled = [&] { return context.cancelled(); }};
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
    say_lines(source.conversations.report(), [&](const std::string& line) { context.warn(line); });
    say_lines(source.conversations.notes(), [&](const std::string& line) { context.info(line); });
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
