#include "plugins/data/proteins/samples.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "plugins/data/files/folder_search.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/files/unique_names.hpp"
#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/sequences/sequence_store.hpp"
#include "plugins/data/structures/input_files.hpp"

namespace pipeline::proteins {
namespace {

namespace fs = std::filesystem;
using sources::Content;

enum OtherColumn : size_t { kSplitColumn, kClusterColumn, kLabelColumn };

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + "%"; }

sequences::SequenceStore open_store(const fs::path& named, const ProteinData& options,
                                    const Context& context) {
  const files::Hooks hooks = data_hooks(concat("reading ", named.filename().string()), context);
  const std::string folder = cache_folder(options, context);
  const auto source = sources::find_and_hash(named.string(), folder, hooks, Content::kSequences);
  std::vector<std::string> others{options.data.split_column, options.data.cluster_column};
  std::string listed;
  if (options.objective != residues::kMasked) others.push_back(options.label.column);
  if (options.objective != residues::kMasked && options.label.is_per_residue()) listed = options.label.column;
  auto store =
      sequences::SequenceStore::open(source,
                                     {.cache_folder = folder,
                                      .columns = {.sequence = options.data.sequence_column,
                                                  .id = options.data.id_column,
                                                  .others = std::move(others),
                                                  .listed = std::move(listed)},
                                      .read = {.quotes = records::quotes_named(options.data.quotes)}},
                                     hooks);
  const auto& report = store.report();
  const double share = static_cast<double>(report.dropped()) / static_cast<double>(report.records());
  if (share > options.data.max_unusable)
    throw files::DataError(
        concat(named.string(), ": ", report.dropped(), " of ", report.records(), " records cannot be used (",
               percent(share), "), at most ", percent(options.data.max_unusable),
               " may be (task.data.max_unusable): correct or remove them, or raise it\n", report.table()));
  if (!source.ignored.empty()) context.info("ignored ", source.ignored.text());
  context.info("sequences  ", store.size(), " in ", named.string(), ", ", store.residues(), " residues");
  files::for_each_line(report.table(), [&](const std::string& line) { context.warn(line); });
  for (const std::string& note : report.notes()) context.info(note);
  return store;
}

std::optional<std::string> text_of(std::optional<std::string_view> value) {
  return value ? std::optional(std::string(*value)) : std::nullopt;
}

// Chains whose residues have no coordinates and are numbered from 1. Memory does not grow with them.
class SequenceSamples : public Samples {
 public:
  SequenceSamples(const fs::path& named, const ProteinData& options, const Context& context)
      : store_(open_store(named, options, context)) {}

  uint64_t size() const override { return store_.size(); }
  const char* noun() const override { return "sequence"; }
  std::string fingerprint() const override { return store_.content().hex(); }
  Size size_of(uint64_t i) const override;
  Sample sample(uint64_t i) const override;
  std::string name(uint64_t i) const override { return std::string(store_[i].name()); }
  std::string file(uint64_t i) const override;
  std::string tensor(uint64_t i) const override;
  std::vector<std::string> chain_names(uint64_t /*i*/) const override { return {""}; }
  std::vector<uint64_t> keys(uint64_t i) const override;
  void each_chain(uint64_t i, const std::function<void(std::string_view)>& visit) const override;
  Words words(uint64_t i) const override;
  std::optional<std::string> label(uint64_t i) const override;

 private:
  bool has_twins(const std::string& file) const;

  sequences::SequenceStore store_;
  mutable std::once_flag looked_for_twins_;
  mutable std::vector<uint64_t>
      twins_;  // sorted hashes of file()s that several would have; found when first needed
};

Samples::Size SequenceSamples::size_of(uint64_t i) const {
  const sequences::StoredSequence sequence = store_[i];
  return {.residues = static_cast<uint32_t>(sequence.codes().size()), .known = sequence.known(), .chains = 1};
}

Sample SequenceSamples::sample(uint64_t i) const {
  const sequences::StoredSequence sequence = store_[i];
  return make_sample(sequence.codes());
}

bool SequenceSamples::has_twins(const std::string& file) const {
  std::call_once(looked_for_twins_, [&] {
    std::vector<uint64_t> all;
    for (uint64_t k = 0; k < size(); ++k) all.push_back(hash_of(files::file_names({name(k)}).front()));
    std::ranges::sort(all);
    for (size_t k = 1; k < all.size(); ++k)
      if (all[k] == all[k - 1] && (twins_.empty() || twins_.back() != all[k])) twins_.push_back(all[k]);
  });
  return std::ranges::binary_search(twins_, hash_of(file));
}

// Several sequences with one name, or whose names differ only in what a file's may not have, each get a mark
// that no file name has otherwise, and their own number.
std::string SequenceSamples::file(uint64_t i) const {
  const std::string file = files::file_names({name(i)}).front();
  return has_twins(file) ? concat(file, files::kNumberMark, i + 1) : file;
}

std::string SequenceSamples::tensor(uint64_t i) const {
  const std::string name = this->name(i);
  const bool is_its_own =
      name.find(files::kNumberMark) == name.npos && !has_twins(files::file_names({name}).front());
  return is_its_own ? name : file(i);
}

std::vector<uint64_t> SequenceSamples::keys(uint64_t i) const {
  const sequences::StoredSequence sequence = store_[i];
  return {content_key(sequence.codes())};
}

void SequenceSamples::each_chain(uint64_t i, const std::function<void(std::string_view)>& visit) const {
  std::string letters;
  const sequences::StoredSequence sequence = store_[i];
  for (const uint8_t code : sequence.codes()) letters += residues::letter_of(code);
  visit(letters);
}

Samples::Words SequenceSamples::words(uint64_t i) const {
  const sequences::StoredSequence sequence = store_[i];
  return {.split = text_of(sequence.other(kSplitColumn)), .cluster = text_of(sequence.other(kClusterColumn))};
}

std::optional<std::string> SequenceSamples::label(uint64_t i) const {
  return text_of(store_[i].other(kLabelColumn));
}

}  // namespace

std::unique_ptr<const Samples> open_sequences(const fs::path& named, const ProteinData& options,
                                              const Context& context) {
  return std::make_unique<SequenceSamples>(named, options, context);
}

bool are_sequences(const fs::path& named) {
  const std::string text = named.string();
  const auto is_one = [](const std::string& name) {
    return sources::format_named(name, Content::kSequences).has_value();
  };
  if (!fs::is_directory(named)) return is_one(text) && !structures::is_structure(text);
  bool has_sequences = false;
  const files::FolderContents structures = files::search_folder(named.string(), [&](const std::string& name) {
    has_sequences = has_sequences || is_one(name);
    return structures::is_structure(name) ? files::Use::kTake : files::Use::kPassOver;
  });
  return has_sequences && structures.files.empty();
}

std::string problem_of(const fs::path& named) {
  if (named.empty()) return "";
  return !fs::is_directory(named) && are_sequences(named)
             ? sources::problem_of(named.string(), Content::kSequences)
             : files::path_problem(named, "folder or file");
}

}  // namespace pipeline::proteins
