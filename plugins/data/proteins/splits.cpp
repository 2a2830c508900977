#include "plugins/data/proteins/splits.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/records/csv_reader.hpp"
#include "plugins/data/records/input.hpp"
#include "plugins/data/records/table.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::proteins {
namespace {

using files::bytes_of;

// A file has blocks of rows, those of each part from a block of its own on; its summary is what is known of
// the parts.
constexpr stores::SampleKind kSplits{.name = "PLSPLITS", .version = 1};
constexpr uint64_t kRowsABlock = 64;

uint64_t blocks_of(uint64_t rows) { return (rows + kRowsABlock - 1) / kRowsABlock; }

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
      for (const char letter : letters) ++counts[residues::number_of(letter)];
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

using sources::Format;

// Whether a table has a row of names above it that has this one.
bool has_header(const std::string& path, const std::string& name) {
  records::Input input(path, nullptr);
  const std::string_view start = input.ahead();
  const auto names = records::header_names(start.substr(0, start.find_first_of("\r\n")), '\t');
  return std::ranges::find(names, name) != names.end();
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

std::string_view accession_of(std::string_view name) {
  const size_t first = name.find('|'), second = first == name.npos ? name.npos : name.find('|', first + 1);
  return second == name.npos ? std::string_view() : name.substr(first + 1, second - first - 1);
}

std::optional<Split> split_named(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, Split>, 8> kWords{{{"train", Split::kTrain},
                                                                      {"training", Split::kTrain},
                                                                      {"val", Split::kVal},
                                                                      {"valid", Split::kVal},
                                                                      {"validation", Split::kVal},
                                                                      {"dev", Split::kVal},
                                                                      {"test", Split::kTest},
                                                                      {"testing", Split::kTest}}};
  const auto same = [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a + ('a' - 'A') == b); };
  for (const auto& [name, split] : kWords)
    if (std::ranges::equal(word, name, same)) return split;
  return std::nullopt;
}

SplitList::SplitList(const ProteinData& options, const std::string& cache_folder, const files::Hooks& hooks) {
  if (options.split.list.empty()) return;
  is_there_ = true;
  const sources::SourceFiles source =
      sources::find_and_hash(options.split.list.string(), cache_folder, hooks);
  const bool by_clusters = options.split.by == "clusters";
  if (by_clusters && source.format == Format::kTsv &&
      !has_header(source.paths.front(), options.data.id_column)) {
    for (const std::string& path : source.paths) read_members(path);
    return;
  }
  using records::Column;
  records::SourceReport report;
  records::read_tables(
      source, {.quotes = records::quotes_named(options.data.quotes)}, report,
      [&](const std::string& path, records::RecordReport& of_file, const records::ReadOptions& read) {
        records::read_table(
            path, source.format,
            {{.name = options.data.id_column, .required = true, .takes = Column::kTextOrInteger},
             {.name = options.data.split_column, .required = !by_clusters, .takes = Column::kTextOrInteger},
             {.name = options.data.cluster_column, .required = by_clusters, .takes = Column::kTextOrInteger}},
            [&](records::Row&& row) {
              ++of_file.used;
              add(*row.fields[0], {.split = std::move(row.fields[1]), .cluster = std::move(row.fields[2])},
                  path + ":" + std::to_string(row.line));
            },
            of_file, read);
      });
  hooks.tell(report.table());
}

// Reads clusters as MMseqs2's createtsv and easy-cluster write them: representative, tab, member.
void SplitList::read_members(const std::string& path) {
  records::Input input(path, nullptr);
  records::CsvReader rows(input, {.separator = '\t', .quotes_are_text = true}, uint64_t{1} << 20);
  while (rows.next()) {
    const std::string where = path + ":" + std::to_string(rows.line());
    if (rows.field_count() != 2)
      throw files::DataError(where + ": has " + std::to_string(rows.field_count()) +
                             " fields, must have a cluster's representative and a member, or a header that "
                             "names the columns: see task.data.id_column and cluster_column");
    add(rows.fields()[1], {.split = {}, .cluster = rows.fields()[0]}, where);
  }
}

void SplitList::add(std::string_view name, const Samples::Words& words, const std::string& where) {
  const auto [entry, is_new] = by_name_.try_emplace(hash_of(name), Entry{hash_of(name), words});
  if (!is_new && (entry->second.words.split != words.split || entry->second.words.cluster != words.cluster))
    throw files::DataError(where + ": \"" + std::string(name) +
                           "\" was there before, and in another split or cluster: leave one of them out");
}

Samples::Words SplitList::words(const Samples& samples, uint64_t i) const {
  if (!is_there_) return samples.words(i);
  const std::string name = samples.name(i);
  for (const std::string_view one : {std::string_view(name), accession_of(name)}) {
    const auto found = by_name_.find(hash_of(one));
    if (found == by_name_.end()) continue;
    found->second.is_used = true;
    return found->second.words;
  }
  return {};
}

uint64_t SplitList::unused() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(by_name_, [](const auto& entry) { return !entry.second.is_used; }));
}

std::string SplitList::key(const ProteinData& options, const std::string& cache_folder,
                           const files::Hooks& hooks) {
  const SplitConfig& split = options.split;
  // Whatever `by` is, test data of their own are compared with these for their intervals.
  std::string key = concat(split.by, " ", split.folds, " ", split.fold, " ", split.exact_up_to, " ");
  key.append(files::bytes_of(split.identity)).append(files::bytes_of(split.coverage));  // with all digits
  if (!split.list.empty())
    key += " " + sources::find_and_hash(split.list.string(), cache_folder, hooks).hash.hex();
  for (const std::string& column :
       {options.data.id_column, options.data.split_column, options.data.cluster_column})
    key += "\n" + column;
  return key;
}

}  // namespace pipeline::proteins
