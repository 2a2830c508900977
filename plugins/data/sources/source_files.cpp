#include "plugins/data/sources/source_files.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/sources/names.hpp"
#include "plugins/data/stores/record_store.hpp"

namespace pipeline::sources {
namespace {

namespace fs = std::filesystem;

struct KnownFormat {
  Format format;
  bool of_records, of_sequences, of_texts;
  std::array<std::string_view, 9> endings;
};
constexpr KnownFormat kFormats[] = {
    {Format::kJson, true, true, true, {".jsonl", ".ndjson", ".json"}},
    {Format::kCsv, true, true, true, {".csv"}},
    {Format::kTsv, true, true, true, {".tsv"}},
    {Format::kParquet, true, true, true, {".parquet"}},
    {Format::kText, false, false, true, {".txt", ".text", ".md"}},
    {Format::kTar, true, false, false, {".tar"}},
    {Format::kFasta,
     false,
     true,
     false,
     {".fasta", ".fa", ".faa", ".fas", ".fsa", ".pep", ".afa", ".a2m", ".a3m"}},
    {Format::kStockholm, false, true, false, {".sto", ".stk", ".stockholm"}}};

bool is_of(const KnownFormat& known, Content content) {
  return content == Content::kSequences ? known.of_sequences
         : content == Content::kTexts   ? known.of_texts
                                        : known.of_records;
}
// Whether the folders within a folder belong to it.
bool is_deep(Content content) { return content == Content::kSequences || content == Content::kTexts; }

// Words in the names of a data set's files, and the parts that it is published in.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSplitWords = {
    {{"train", "train"},
     {"training", "train"},
     {"test", "test"},
     {"val", "validation"},
     {"valid", "validation"},
     {"validation", "validation"},
     {"dev", "validation"}}};

constexpr stores::Kind kKnown{.name = "PLSOURCE", .version = 1, .remedy = "the files are read again"};

// `between`: what is between words.
std::string_view split_in(std::string_view name, const char* between) {
  const std::string small = files::in_small_letters(name);
  for (size_t begin = 0; begin < small.size();) {
    const size_t end = std::min(small.find_first_of(between, begin), small.size());
    for (const auto& [word, split] : kSplitWords)
      if (std::string_view(small).substr(begin, end - begin) == word) return split;
    begin = end + 1;
  }
  return "";
}

bool has_wildcard(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }
bool is_pattern(const std::string& named) {
  return has_wildcard(named) || (named.find('{') != std::string::npos && expand_braces(named).size() > 1);
}

std::vector<std::string> matches_of_one(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i)
      if (!fs::is_directory(found.gl_pathv[i])) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::ranges::sort(paths);
  return paths;
}

// The files that a pattern with braces names, in its order; `missing`: the first name without a file.
std::vector<std::string> matches_of(const std::string& pattern, std::string& missing) {
  std::vector<std::string> paths;
  for (const std::string& one : expand_braces(pattern)) {
    std::vector<std::string> found{one};
    if (has_wildcard(one))
      found = matches_of_one(one);
    else if (!fs::exists(one))
      found.clear();
    if (found.empty() && missing.empty()) missing = one;
    std::ranges::move(found, std::back_inserter(paths));
  }
  return paths;
}

std::string no_match(const std::string& named, const std::string& missing) {
  return missing == named ? "no file matches this pattern"
                          : "there is no " + missing + ", which this pattern names";
}

// The files of a folder, also those of its partitions.
void add_files_of(const fs::path& folder, Content content, int depth, std::vector<std::string>& paths,
                  bool& has_arrow) {
  constexpr int kDeepest = 16;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (depth < kDeepest && entry.is_directory() && is_partition(name))
      add_files_of(entry.path(), content, depth + 1, paths, has_arrow);
    has_arrow = has_arrow || name.ends_with(".arrow");
    if (!name.starts_with('.') && format_named(name, content) && !entry.is_directory())
      paths.push_back(entry.path());
  }
}

std::vector<std::string> files_of_folder(const std::string& folder, Content content) {
  if (content == Content::kPictures)
    if (std::vector<std::string> paths = pictures_with_texts(folder); !paths.empty()) return paths;
  std::vector<std::string> paths;
  bool has_arrow = false;
  add_files_of(folder, content, 0, paths, has_arrow);
  // Files that describe archives may lie beside them.
  const auto is_tar = [](const std::string& path) { return format_named(path) == Format::kTar; };
  if (std::ranges::any_of(paths, is_tar)) std::erase_if(paths, std::not_fn(is_tar));
  if (has_arrow)
    throw DataError(folder + ": is what datasets' save_to_disk() writes: write it with to_parquet()");
  if (paths.empty())
    throw DataError(folder + ": there is no file in this folder that can be read (" + known_endings(content) +
                    ")");
  std::ranges::sort(paths);
  return paths;
}

// The files in a folder and in the folders within.
std::vector<std::string> files_below(const std::string& folder, Content content,
                                     files::IgnoredFiles& ignored) {
  files::FolderContents found = files::search_folder(folder, [&](const std::string& name) {
    return format_named(name, content) ? files::Use::kTake : files::Use::kIgnore;
  });
  for (const auto& [relative, reason] : found.unreadable)
    throw DataError((fs::path(folder) / relative).string() + ": " + reason);
  ignored = std::move(found.ignored);
  if (found.files.empty())
    throw DataError(folder + ": there is no file in this folder, or below it, that can be read (" +
                    known_endings(content) + "), but " + (ignored.empty() ? "nothing" : ignored.text()));
  std::vector<std::string> paths;
  for (const files::FoundFile& file : found.files) paths.push_back(fs::path(folder) / file.relative);
  return paths;
}

std::vector<std::string> paths_of(const std::string& named, Content content, files::IgnoredFiles& ignored) {
  if (fs::is_directory(named))
    return is_deep(content) ? files_below(named, content, ignored) : files_of_folder(named, content);
  if (fs::exists(named) || !is_pattern(named)) return {named};
  std::string missing;
  std::vector<std::string> paths = matches_of(named, missing);
  if (!missing.empty()) throw DataError(named + ": " + no_match(named, missing) + ": check it");
  return paths;
}

Format format_of(const std::string& path, Content content) {
  if (const std::optional<Format> format = format_named(path, content)) return *format;
  std::string start(files::kStartOfText, '\0');
  start.resize(files::PackedFile(path).read(start.data(), start.size()));
  if (const auto format = format_that_begins(start); format && content == Content::kSequences) return *format;
  const std::string known = files::why_no_text(start);
  throw DataError(
      path + ": " +
      (!known.empty() ? known
       : format_named(path, Content::kTexts) == Format::kText
           ? "is plain text, which the task pretraining reads: this one reads " + known_endings(content)
           : "the kind of file cannot be told from its name: it must end in " + known_endings(content)));
}

std::string file_name(const std::string& path) { return fs::path(path).filename(); }

// How each of several files is called among them.
std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return {""};
  std::map<std::string, size_t> count;
  std::vector<std::string> names;
  for (const std::string& path : paths) ++count[names.emplace_back(file_name(path))];
  for (size_t i = 0; i < paths.size(); ++i)
    if (count.at(names[i]) > 1) names[i] = paths[i];
  return names;
}

void check_alike(const SourceFiles& source) {
  const std::string& first = source.paths.front();
  const bool is_folder = fs::is_directory(source.named);
  const auto below = [&](const std::string& path) {
    return is_folder ? fs::path(path).lexically_relative(source.named).string() : file_name(path);
  };
  // Tasks that read sequences ask for each row's split, whether a column or a partition says it. A text may
  // have any title.
  const char* const between = source.format == Format::kText ? "./" : "-_. /=";
  const auto split_of = [&](const std::string& path) {
    std::string text;
    for (const fs::path& part : fs::path(below(path)))
      if (source.content != Content::kSequences || !is_partition(part.string())) text += part.string() + "/";
    return split_in(text, between);
  };
  std::map<std::string, std::string> archives;  // by name
  for (const std::string& path : source.paths) {
    if (format_of(path, source.content) != source.format)
      throw DataError(source.named + ": has files of several formats (" + below(first) + ", " + below(path) +
                      "): name those to be read, as in \"folder/*.jsonl\"");
    const std::string_view one = split_of(first), other = split_of(path);
    if (const auto [known, is_new] = archives.emplace(file_name(path), path);
        source.format == Format::kTar && !is_new)
      throw DataError(source.named + ": has two archives that are called " + known->first + " (" +
                      known->second + ", " + path +
                      "), by whose names their pictures are found: give them different ones");
    if (!is_pattern(source.named) && one != other)
      throw DataError(source.named + ": has files of several splits (" + below(first) + ", " + below(path) +
                      "): name those to be read, as in \"folder/train-*\"");
  }
}

// Names, sizes, times. A file that cannot be looked at has none: those who open it say why.
std::string state_of(const std::vector<std::string>& paths, uint64_t& bytes, timespec& newest) {
  std::string state;
  bytes = 0;
  for (const std::string& path : paths) {
    struct stat status {};
    state += path;
    if (::stat(path.c_str(), &status) == 0) {
      for (const auto number :
           {static_cast<int64_t>(status.st_ino), static_cast<int64_t>(status.st_size), status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec})
        state += " " + std::to_string(number);
      bytes += static_cast<uint64_t>(status.st_size);
      if (status.st_ctim.tv_sec > newest.tv_sec) newest = status.st_ctim;
    }
    state += "\n";
  }
  return state;
}

void add_content(const std::string& path, files::Hasher128& hasher,
                 const std::function<void(uint64_t)>& on_bytes) {
  const Descriptor file(files::open_regular(path, O_RDONLY));
  if (!file) throw files::system_error(path, "check the path and its permissions");
  uint64_t bytes = 0;
  for (std::vector<char> block(size_t{1} << 18);;) {
    const uint64_t got = files::read_at(file.fd(), bytes, block.data(), block.size(), path,
                                        "the file cannot be read; check that it is on a healthy disk");
    if (got == 0) break;
    hasher.update({block.data(), got});
    bytes += got;
    on_bytes(got);
  }
  hasher.update(files::bytes_of(bytes));
}

Hash128 content_of(const SourceFiles& source, const files::Hooks& hooks) {
  files::Hasher128 hasher;
  uint64_t done = 0;
  for (size_t i = 0; i < source.paths.size(); ++i) {
    hasher.update(source.name_of(i));  // ids have it
    for (const auto& [key, value] : partition_of(source.paths[i])) hasher.update(key + "=" + value + "/");
    add_content(source.paths[i], hasher, [&](uint64_t bytes) {
      hooks.throw_if_cancelled();
      hooks.report(done += bytes, source.bytes);
    });
  }
  return hasher.finish();
}

// The hash of the content, which the cache remembers for as long as the files look the same. Of several
// processes one reads and the others wait. A cache that cannot be written to remembers nothing.
Hash128 known_content(const SourceFiles& source, const std::string& cache_folder, const files::Hooks& hooks) {
  const Hash128 key = files::hash128(source.state);
  const std::string known = (fs::path(cache_folder) / ("source-" + key.hex() + ".hash")).string();
  bool has_problem = false;
  const auto remembered = [&]() -> std::optional<Hash128> {
    const auto bytes = stores::load(known, kKnown, key, has_problem);
    Hash128 content;
    std::string_view rest;
    if (bytes) rest = *bytes;
    if (!files::take(rest, content)) return std::nullopt;
    files::mark_used(known);
    return content;
  };
  if (const auto content = remembered()) return *content;
  std::optional<files::FileLock> lock;
  try {
    lock.emplace(known + ".lock", nullptr, hooks.cancelled);
  } catch (const DataError&) {
    return content_of(source, hooks);
  }
  if (const auto content = remembered()) return *content;
  timespec now{}, newest{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const Hash128 content = content_of(source, hooks);
  uint64_t size = 0;
  const bool is_same = state_of(source.paths, size, newest) == source.state;
  // A change within the same tick of the clock would not show in the times.
  constexpr time_t kSettled = 2;  // seconds
  if (is_same && newest.tv_sec + kSettled < now.tv_sec)
    stores::save(known, kKnown, key, files::bytes_of(content));
  return content;
}

}  // namespace

std::optional<Format> format_named(std::string_view name, Content content) {
  const std::string small = files::in_small_letters(files::without_packing(name));
  for (const KnownFormat& known : kFormats)
    if (is_of(known, content))
      for (const std::string_view ending : known.endings)
        if (!ending.empty() && small.ends_with(ending)) return known.format;
  return std::nullopt;
}

std::optional<Format> format_that_begins(std::string_view start) {
  if (start.starts_with('>')) return Format::kFasta;
  if (start.starts_with("# STOCKHOLM")) return Format::kStockholm;
  return std::nullopt;
}

std::string known_endings(Content content) {
  if (content == Content::kSequences)
    return ".fasta, .fa, .faa, .a3m, .sto, .csv, .tsv, .jsonl, .json, with .gz or .zst behind it where it is "
           "packed, or .parquet";
  if (content == Content::kTexts)
    return ".txt, .md, .jsonl, .json, .csv, .tsv, with .gz or .zst behind it where it is packed, or .parquet";
  return ".jsonl, .ndjson, .json, .csv, .tsv, with .gz or .zst behind it where it is packed, .parquet or "
         ".tar";
}

std::string name_of(const fs::path& named) {
  return (named.has_filename() ? named : named.parent_path()).filename();
}

std::string SourceFiles::stem() const {
  std::string stem = fs::path(files::without_packing(name())).stem();
  std::ranges::replace_if(
      stem, [](char c) { return std::string_view("*?[]").find(c) != std::string_view::npos; }, '_');
  return stem;
}

std::string problem_of(const std::string& named, Content content) try {
  if (std::error_code ignored; content != Content::kSequences && fs::is_directory(named, ignored)) {
    // A folder may have a million pictures, which are not listed for this.
    const auto has_picture = [](const auto& entry) { return is_picture(entry.path().native()); };
    if (content != Content::kPictures ||
        std::none_of(fs::directory_iterator(named), fs::directory_iterator(), has_picture))
      find(named, content);
    return "";
  }
  std::string problem = files::path_problem(named, "file");
  if (problem.empty() || !is_pattern(named)) return problem;
  std::string missing;
  matches_of(named, missing);
  return missing.empty() ? "" : no_match(named, missing);
} catch (const std::exception& error) {  // a pattern that means more than can be read; a folder
  const std::string problem = error.what(), prefix = named + ": ";
  return problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem;
}

SourceFiles find(const std::string& named, Content content) {
  SourceFiles source{
      .named = named, .paths = {}, .names = {}, .content = content, .ignored = {}, .state = {}, .hash = {}};
  source.paths = paths_of(named, content, source.ignored);
  if (content == Content::kPictures && fs::is_directory(named) &&
      std::ranges::any_of(source.paths, is_picture)) {
    source.format = Format::kPictures;
  } else {
    source.format = format_of(source.paths.front(), content);
    check_alike(source);
  }
  source.names = names_of(source.paths);
  timespec newest{};
  source.state = state_of(source.paths, source.bytes, newest);
  return source;
}

SourceFiles find_and_hash(const std::string& named, const std::string& cache_folder,
                          const files::Hooks& hooks, Content content) {
  SourceFiles source = find(named, content);
  files::Hasher128 hasher;
  hasher.update(files::bytes_of(source.format));
  hasher.update(files::bytes_of(known_content(source, cache_folder, hooks)));
  if (source.format == Format::kTar ||
      source.format == Format::kPictures)  // names tell what belongs together
    for (const std::string& path : source.paths) hasher.update(file_name(path) + "\n");
  source.hash = hasher.finish();
  return source;
}

Hash128 hash_of_files(const std::vector<std::string>& paths, const std::string& cache_folder,
                      const files::Hooks& hooks) {
  SourceFiles source{.named = {}, .paths = paths, .names = {}, .ignored = {}, .state = {}, .hash = {}};
  source.names.resize(paths.size());
  timespec newest{};
  source.state = state_of(source.paths, source.bytes, newest);
  return known_content(source, cache_folder, hooks);
}

void check_unchanged(const SourceFiles& source) {
  uint64_t bytes = 0;
  timespec newest{};
  files::IgnoredFiles ignored;
  if (state_of(paths_of(source.named, source.content, ignored), bytes, newest) != source.state)
    throw DataError(source.named + ": changed while it was being read: start again when it is complete");
}

}  // namespace pipeline::sources
