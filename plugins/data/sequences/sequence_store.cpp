#include "plugins/data/sequences/sequence_store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::sequences {
namespace {

using files::bytes_of;

void write(std::string& sample, const Sequence& sequence) {
  sample.clear();
  const auto known =
      std::ranges::count_if(sequence.codes, [](uint8_t code) { return code < residues::kAminoAcidCount; });
  sample += bytes_of(StoredHead{static_cast<uint32_t>(sequence.codes.size()), static_cast<uint32_t>(known),
                                static_cast<uint32_t>(sequence.name.size()),
                                static_cast<uint32_t>(sequence.others.size())});
  for (const auto& other : sequence.others)
    sample += bytes_of(other ? static_cast<uint32_t>(other->size()) : kAbsent);
  sample.append(reinterpret_cast<const char*>(sequence.codes.data()), sequence.codes.size());
  sample += sequence.name;
  for (const auto& other : sequence.others) sample += other.value_or("");
}

// Fills a store whose lock the caller holds. Returns the summary.
std::string fill(stores::SampleWriter& writer, const sources::SourceFiles& source,
                 const StoreOptions& options, const files::Hooks& hooks) {
  ReadOptions read = options.read;
  read.on_block = [&](uint64_t bytes) {
    hooks.throw_if_cancelled();
    hooks.report(bytes, source.bytes);
  };
  uint64_t residues = 0;
  std::string sample;
  SourceReport report;
  read_sequences(
      source, options.columns,
      [&](const Sequence& sequence) {
        write(sample, sequence);
        writer.append(sample);
        residues += sequence.codes.size();
      },
      report, read);
  check_unchanged(source);
  return std::string(bytes_of(residues)) + report.to_json();
}

files::Hash128 key_of(const sources::SourceFiles& source, const StoreOptions& options) {
  files::Hasher128 hasher;
  const auto add = [&](const std::string& text) { hasher.update_text(text); };
  add(std::to_string(kSequences.version));
  add(source.hash.hex());
  add(options.columns.sequence);
  add(options.columns.id);
  for (const std::string& name : options.columns.others) add(name);
  add("lists of " + options.columns.listed);
  add(std::to_string(options.read.max_record_bytes) + " " +
      std::to_string(static_cast<int>(options.read.quotes)));
  return hasher.finish();
}

}  // namespace

StoredSequence::StoredSequence(stores::Sample bytes, const std::string& path) : bytes_(std::move(bytes)) {
  std::string_view rest = bytes_.payload();
  const auto take = [&](uint64_t size) {
    if (rest.size() < size)
      throw files::DataError(path + ": a sequence in it is damaged: remove it, it is made again");
    return std::exchange(rest, rest.substr(size)).substr(0, size);
  };
  const std::string_view head = take(sizeof head_);
  std::memcpy(&head_, head.data(), sizeof head_);
  sizes_ = take(uint64_t{head_.others} * sizeof(uint32_t));
  const std::string_view codes = take(head_.residues);
  codes_ = {reinterpret_cast<const uint8_t*>(codes.data()), codes.size()};
  name_ = take(head_.name_bytes);
  values_ = rest;
}

std::optional<std::string_view> StoredSequence::other(size_t i) const {
  uint64_t before = 0;
  for (size_t k = 0; k <= i && k < head_.others; ++k) {
    uint32_t size = 0;
    std::memcpy(&size, sizes_.data() + k * sizeof size, sizeof size);
    if (k == i) return size == kAbsent ? std::nullopt : std::optional(values_.substr(before, size));
    before += size == kAbsent ? 0 : size;
  }
  return std::nullopt;
}

SequenceStore::SequenceStore(stores::SampleStore store) : store_(std::move(store)) {
  std::string_view summary = store_.summary();
  if (!files::take(summary, residues_))
    throw files::DataError(store_.path() + ": its summary is damaged: remove it, it is made again");
  report_ = SourceReport::from_json(std::string(summary));
}

StoredSequence SequenceStore::operator[](uint64_t i) const {
  return StoredSequence(store_[i], store_.path());
}

SequenceStore SequenceStore::open(const sources::SourceFiles& source, const StoreOptions& options,
                                  const files::Hooks& hooks) {
  const stores::SampleSource file{.folder = options.cache_folder,
                                  .name = source.stem(),
                                  .key = key_of(source, options),
                                  .what = "reading " + source.named};
  return SequenceStore(stores::open_or_fill(file, kSequences, hooks, [&](stores::SampleWriter& writer) {
    return fill(writer, source, options, hooks);
  }));
}

}  // namespace pipeline::sequences
