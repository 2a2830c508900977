#include "plugins/data/structures/structure_library.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <unordered_map>

#include <unistd.h>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/unique_names.hpp"
#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures {
namespace {

std::string table_of(const std::vector<FileNote>& files, size_t most, const std::string& all_path) {
  constexpr size_t kWidest = 60;  // longer paths push their text to the right
  const size_t shown = std::min(most, files.size());
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) {
    const size_t size = printable_path(files[i].path).size();
    if (size <= kWidest) width = std::max(width, size);
  }
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    const std::string path = printable_path(files[i].path);
    text += "  " + path + std::string(path.size() < width ? width - path.size() + 2 : 2, ' ') +
            files[i].text + "\n";
  }
  if (shown < files.size())
    text += "  and " + std::to_string(files.size() - shown) + " more: see " + all_path + "\n";
  return text;
}

constexpr size_t kRowsShown = 20, kCopiesShown = 10;
// The share of a structure's residues that may be without a frame: more are odd.
constexpr double kMostWithoutFrame = 0.05;

// Relative paths without endings where that tells them apart, else the whole paths; in UTF-8, numbered where
// that makes two the same.
std::vector<std::string> names_of(const std::vector<InputFile>& inputs) {
  std::vector<std::string> names, paths;
  for (const InputFile& input : inputs) {
    names.push_back(without_ending(input.relative));
    paths.push_back(input.relative);
  }
  names = files::tell_apart(names, paths);
  for (std::string& name : names) name = files::utf8_name(name);
  return files::tell_apart(names, names);
}

// What is odd about the chains of a structure; empty if nothing is.
std::string frames_remark(std::span<const ChainView> chains) {
  size_t residues = 0, without = 0;
  for (const ChainView& chain : chains) {
    residues += chain.residues.size();
    for (const residues::Residue& residue : chain.residues) without += residue.has_frame() ? 0 : 1;
  }
  if (static_cast<double>(without) <= kMostWithoutFrame * static_cast<double>(residues)) return "";
  return "of " + std::to_string(residues) + (residues == 1 ? " residue " : " residues ") +
         std::to_string(without) + (without == 1 ? " has" : " have") +
         " no N, CA and C that make a backbone: the model sees no frame there";
}

std::string report_path_of(const LibraryOptions& options, const std::string& root) {
  return (std::filesystem::path(options.cache_dir) /
          ("protein-unusable-" + files::hash128(root).hex().substr(0, 8) + ".txt"))
      .string();
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + "%"; }

}  // namespace

std::string library_report(const std::vector<FileNote>& unusable, const std::vector<FileNote>& odd,
                           size_t most, const std::string& all_path) {
  std::string text = table_of(unusable, most, all_path);
  if (odd.empty()) return text;
  return text + std::to_string(odd.size()) + (odd.size() == 1 ? " file is" : " files are") +
         " used but odd:\n" + table_of(odd, most, all_path);
}

std::string printable_path(const std::string& path) {
  std::string text = files::utf8_name(path);
  for (char& c : text) c = c >= 0 && c < ' ' ? '?' : c;
  return text;
}

std::string copies_report(const std::vector<FileNote>& copies) {
  if (copies.empty()) return "";
  return std::to_string(copies.size()) +
         (copies.size() == 1 ? " file is a copy of another" : " files are copies of others") + ":\n" +
         table_of(copies, std::numeric_limits<size_t>::max(), "");
}

bool write_report(const std::string& text, const std::string& path) {
  if (text.empty()) return std::remove(path.c_str()) == 0 || errno == ENOENT;
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    std::ifstream present(path, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(present), {}) == text) return true;
  }
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";  // others may write the same
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (stream && std::rename(part.c_str(), path.c_str()) == 0) return true;
  std::remove(part.c_str());
  return false;
}

StructureLibrary StructureLibrary::open(const LibraryOptions& options, const files::Hooks& hooks) {
  const InputFiles inputs = find_inputs(options.root, [&] { hooks.throw_if_cancelled(); });
  if (!inputs.ignored.empty()) hooks.tell("ignored " + inputs.ignored.text());
  Built built = build_library(inputs, options, hooks);

  StructureLibrary library;
  library.cache_ = std::move(built.cache);
  library.report_path_ = report_path_of(options, inputs.root);
  library.unusable_ = inputs.unreadable;
  LibraryCounts& counts = library.counts_;
  counts.files = inputs.files.size() + inputs.unreadable.size();
  counts.ignored = inputs.ignored.count();
  counts.read = built.read;
  counts.parsed = built.parsed;
  const auto names = names_of(inputs.files);
  // The first file with these chains, by their hash.
  std::unordered_map<files::Hash128, size_t> seen;
  for (size_t i = 0; i < inputs.files.size(); ++i) {
    const FileIndex::Entry& outcome = built.outcomes[i];
    const stores::Record* record = outcome.is_read() ? library.cache_.find(outcome.is.hash) : nullptr;
    const auto stored = record == nullptr ? std::nullopt : StoredFile::of(library.cache_, *record);
    if (outcome.is_read() && !stored) {
      throw files::DataError(structures_path(options.cache_dir) +
                             ": damaged since it was written a moment ago: check the disk");
    }
    const std::string& path = inputs.files[i].relative;
    if (!stored || !stored->is_structure()) {
      library.unusable_.push_back({path, stored ? std::string(stored->text()) : outcome.reason});
    } else if (const auto [of, is_new] = seen.try_emplace(stored->chains_hash(), i); !is_new) {
      library.copies_.push_back({path, "is a copy of " + printable_path(inputs.files[of->second].relative)});
    } else {
      const size_t first = library.chains_.size();
      stored->append_chains(library.chains_);
      const std::span<const ChainView> chains = std::span(library.chains_).subspan(first);
      library.structures_.push_back({names[i], outcome.is.hash, first, chains.size()});
      std::string remark(stored->text());
      const std::string frames = frames_remark(chains);
      if (!frames.empty()) remark += (remark.empty() ? "" : "; ") + frames;
      if (!remark.empty()) library.odd_.push_back({path, std::move(remark)});
    }
  }
  std::sort(library.unusable_.begin(), library.unusable_.end(),
            [](const FileNote& a, const FileNote& b) { return a.path < b.path; });
  counts.odd = library.odd_.size();
  counts.duplicates = library.copies_.size();
  counts.structures = library.structures_.size();
  counts.unusable = library.unusable_.size();
  for (const ChainView& chain : library.chains_) counts.residues += chain.residues.size();
  std::sort(library.structures_.begin(), library.structures_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });

  files::Hasher128 hasher;
  hasher.update(std::to_string(kParserVersion));
  for (const Entry& entry : library.structures_)
    hasher.update(" ").update_text(entry.name).update(entry.key.hex());
  library.fingerprint_ = hasher.finish();

  const std::string all = library_report(library.unusable_, library.odd_, std::numeric_limits<size_t>::max(),
                                         library.report_path_) +
                          copies_report(library.copies_);
  if (!write_report(all, library.report_path_)) {
    hooks.tell(library.report_path_ +
               ": the table of unusable files cannot be written there: the cache folder must be writable, "
               "and this no folder");
  }
  library.note_copies(hooks);
  const double share = static_cast<double>(counts.unusable) / static_cast<double>(counts.files);
  if (counts.structures == 0 || share > options.max_unusable_share) {
    const std::string most = counts.structures == 0
                                 ? "none is left: correct them"
                                 : "at most " + percent(options.max_unusable_share) + " may be (" +
                                       options.max_unusable_option + "): correct or remove them, or raise it";
    throw files::DataError(options.root + ": " + std::to_string(counts.unusable) + " of " +
                           std::to_string(counts.files) + (counts.files == 1 ? " file" : " files") +
                           " cannot be used (" + percent(share) + "), " + most + "\n" + library.report());
  }
  return library;
}

void StructureLibrary::note_copies(const files::Hooks& hooks) const {
  const size_t shown = std::min(copies_.size(), kCopiesShown);
  for (size_t i = 0; i < shown; ++i) hooks.tell(printable_path(copies_[i].path) + " " + copies_[i].text);
  if (shown < copies_.size())
    hooks.tell("and " + std::to_string(copies_.size() - shown) + " more copies: see " + report_path_);
}

StructureView StructureLibrary::structure(uint64_t i) const {
  const Entry& entry = structures_[i];
  cache_.check(*cache_.find(entry.key));
  return {entry.name, entry.key, std::span(chains_).subspan(entry.first_chain, entry.chains)};
}

std::string StructureLibrary::report() const {
  return library_report(unusable_, odd_, kRowsShown, report_path_);
}

}  // namespace pipeline::structures
