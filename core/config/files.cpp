#include "core/config/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/config/error.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargest = 1 << 20;  // bytes: hundreds of times any real configuration
constexpr size_t kLongestChain = 16;  // of files that extend each other

// "did you mean configs/summarization.toml?", or where to look.
std::string near_files(const fs::path& file) {
  const fs::path folder = file.parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) return "there is no folder " + folder.string();
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.empty() ? "." : folder, error))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  const std::string wanted = file.filename().string();
  std::string near =
      std::ranges::find(names, wanted + ".toml") != names.end() ? wanted + ".toml" : closest(wanted, names);
  if (near.empty()) near = closest(wanted + ".toml", names);
  if (!near.empty()) return "did you mean " + (folder / near).string() + "?";
  return names.empty() ? "there are no .toml files in that folder" : "there is " + alternatives(names);
}

// A file being read, and those that it was reached from.
struct Chain {
  std::vector<std::string> files;  // as shown
  std::vector<fs::path> real;

  std::string describe(const std::string& next) const {
    std::string text;
    for (const std::string& file : files) text += file + " -> ";
    return text + next;
  }
};

Document read(const std::string& file, const std::string& problem_prefix, Chain& chain) {
  const std::string text = read_file(file, problem_prefix);
  Document document = parse(text, file, static_cast<int>(chain.files.size()));
  if (!document.extends) return document;

  const Entry& extends = *document.extends;
  const auto fail = [&](const std::string& problem) {
    return ConfigError(format_problem(extends.origin, "extends", shown(extends.value), problem));
  };
  if (extends.value.kind != Literal::Kind::kString || extends.value.text.empty())
    throw fail("must be the name of one file, relative to this one, is " +
               (extends.value.kind == Literal::Kind::kString ? "empty" : kind_name(extends.value)));
  const std::string base = (fs::path(file).parent_path() / extends.value.text).lexically_normal().string();

  std::error_code error;
  chain.files.push_back(file);
  chain.real.push_back(fs::weakly_canonical(file, error));
  if (std::ranges::find(chain.real, fs::weakly_canonical(base, error)) != chain.real.end())
    throw fail("the files extend each other in a circle: " + chain.describe(base));
  if (chain.files.size() >= kLongestChain)
    throw fail("more than " + std::to_string(kLongestChain) +
               " files extend each other: " + chain.describe(base));

  Document merged = read(base, format_problem(extends.origin, "extends", shown(extends.value), ""), chain);
  merged.root.merge(document.root);
  if (document.stages || document.stage_value || document.resolved_stage) {
    merged.stages = document.stages;
    merged.stage_value = document.stage_value;
    merged.resolved_stage = document.resolved_stage;
  }
  return merged;
}

}  // namespace

std::string read_file(const std::string& file, const std::string& problem_prefix) {
  const auto fail = [&](const std::string& problem) {
    return ConfigError(problem_prefix + file + ": " + problem);
  };
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) throw fail("no such file: " + near_files(file));
  if (fs::is_directory(status)) throw fail("is a folder: name a .toml file in it");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw fail(std::string("cannot be read: ") + std::strerror(errno));
  std::string text(kLargest + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw fail(std::string("cannot be read: ") + std::strerror(errno));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kLargest) throw fail("is larger than 1 MiB: this is not a configuration file");
  return text;
}

Document read_with_bases(const std::string& file) {
  Chain chain;
  return read(file, "", chain);
}

}  // namespace pipeline::config
