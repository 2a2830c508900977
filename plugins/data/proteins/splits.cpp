#include "plugins/data/proteins/splits.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/stores/sample_writer.hpp"

namespace pipeline::proteins {
namespace {

using files::bytes_of;

// A file has blocks of rows, those of each part from a block of its own on; its summary is what is known of
// the parts.
constexpr stores::SampleKind kSplits{.name = "PLSPLITS", .version = 1};
constexpr uint64_t kRowsABlock = 64;

uint64_t blocks_of(uint64_t rows) { return (rows + kRowsABlock - 1) / kRowsABlock; }

constexpr std::array<uint8_t, 256> make_numbers() {
  std::array<uint8_t, 256> numbers{};
  numbers.fill(residues::kUnknown);
  for (size_t a = 0; a < residues::kAminoAcids.size(); ++a)
    numbers[static_cast<unsigned char>(residues::kAminoAcids[a])] = static_cast<uint8_t>(a);
  return numbers;
}
constexpr std::array<uint8_t, 256> kNumbers = make_numbers();  // by letter

PartTotals add_up(const std::vector<SplitRow>& rows, const Samples& samples, const files::Hooks& hooks) {
  constexpr size_t kRowsBetweenLooks = 1024, kKeysAtOnce = size_t{1} << 16;
  PartTotals totals{.rows = rows.size()};
  std::vector<uint64_t> clusters, keys;
  std::array<uint64_t, residues::kUnknown + 1> counts{};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % kRowsBetweenLooks == 0) hooks.throw_if_cancelled();
    totals.residues += rows[i].residues;
    clusters.push_back(rows[i].cluster_key);
    samples.each_chain(rows[i].sample, [&](std::string_view letters) {
      for (const char letter : letters) ++counts[kNumbers[static_cast<unsigned char>(letter)]];
    });
    for (const uint64_t key : samples.keys(rows[i].sample)) keys.push_back(key);
    if (keys.size() >= kKeysAtOnce || i + 1 == rows.size()) totals.keys.add(std::exchange(keys, {}));
  }
  std::copy_n(counts.begin(), totals.amino_acids.size(), totals.amino_acids.begin());
  std::ranges::sort(clusters);
  totals.clusters = static_cast<uint64_t>(std::unique(clusters.begin(), clusters.end()) - clusters.begin());
  return totals;
}

std::string pack(const PartTotals& totals) {
  std::string bytes;
  for (const uint64_t number : {totals.rows, totals.residues, totals.clusters}) bytes += bytes_of(number);
  bytes += bytes_of(totals.amino_acids);
  bytes += bytes_of(totals.keys.bound());
  bytes += bytes_of(uint64_t{totals.keys.keys().size()});
  for (const uint64_t key : totals.keys.keys()) bytes += bytes_of(key);
  return bytes;
}

bool unpack(std::string_view& bytes, PartTotals& totals) {
  uint64_t bound = 0, count = 0;
  if (!files::take(bytes, totals.rows) || !files::take(bytes, totals.residues) ||
      !files::take(bytes, totals.clusters) || !files::take(bytes, totals.amino_acids) ||
      !files::take(bytes, bound) || !files::take(bytes, count) || count > bytes.size() / sizeof(uint64_t))
    return false;
  std::vector<uint64_t> keys(count);
  for (uint64_t& key : keys) files::take(bytes, key);
  totals.keys = ContentKeys(keys, bound);
  return true;
}

}  // namespace

std::string_view text_of(Reason reason) {
  switch (reason) {
    case Reason::kFold:
      return "the part of its cluster";
    case Reason::kLikeTraining:
      return "like training data";
    case Reason::kLikeTest:
      return "like test data";
    case Reason::kColumn:
      return "its column says so";
    case Reason::kOwnTest:
      return "of task.test_path";
    case Reason::kTooFew:
      return "fewer known residues than task.data.min_residues";
    case Reason::kNoWord:
      return "nothing says its split";
    case Reason::kNoLabel:
      return "no label";
  }
  return "";
}

Splits::Splits(SplitRows rows, const Samples& samples) : rows_(std::move(rows)) {
  for (size_t part = 0; part < kParts; ++part) totals_[part] = add_up(rows_[part], samples, {});
}

Splits::Splits(stores::SampleStore store) : store_(std::move(store)) {
  std::string_view summary = store_.summary();
  for (PartTotals& totals : totals_)
    if (!unpack(summary, totals))
      throw files::DataError(store_.path() + ": its summary is damaged: remove it, it is made again");
}

Splits Splits::in_file(const std::string& path, const files::Hash128& key, const Samples& samples,
                       const files::Hooks& hooks, const std::function<SplitRows()>& make) {
  return Splits(
      stores::open_or_fill(path, kSplits, key, "dividing " + path, hooks, [&](stores::SampleWriter& writer) {
        std::string summary;
        const SplitRows rows = make();
        for (const std::vector<SplitRow>& part : rows) {
          for (size_t begin = 0; begin < part.size(); begin += kRowsABlock) {
            const size_t count = std::min<size_t>(kRowsABlock, part.size() - begin);
            writer.append({reinterpret_cast<const char*>(&part[begin]), count * sizeof(SplitRow)});
          }
          summary += pack(add_up(part, samples, hooks));
        }
        return summary;
      }));
}

SplitRow Splits::row(size_t part, uint64_t i) const {
  if (!rows_[part].empty()) return rows_[part][i];
  uint64_t block = i / kRowsABlock;
  for (size_t before = 0; before < part; ++before) block += blocks_of(totals_[before].rows);
  const stores::Sample sample = store_[block];
  SplitRow row;
  const size_t begin = i % kRowsABlock * sizeof row;
  if (begin + sizeof row > sample.payload().size())
    throw files::DataError(store_.path() + ": has too few rows: remove it, it is made again");
  std::memcpy(&row, sample.payload().data() + begin, sizeof row);
  return row;
}

}  // namespace pipeline::proteins
