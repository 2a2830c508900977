#include "plugins/tasks/protein/task/variants.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "plugins/data/sources/source_files.hpp"
#include "plugins/tasks/protein/data/comparison.hpp"
#include "plugins/tasks/protein/data/split_list.hpp"

namespace pipeline::protein {
namespace {

using files::DataError;

// The amino acid of a letter, capital or small; kUnknown: none.
uint8_t amino_acid_of(char letter) {
  const size_t at = kAminoAcids.find(upper(letter));
  return at == std::string_view::npos ? kUnknown : static_cast<uint8_t>(at);
}

Substitution substitution_of(std::string_view text, const std::string& chain, const Sample& sample,
                             std::span<const std::string> chain_names) {
  const std::string shown(text);
  const auto fail = [&](const std::string& problem) -> DataError {
    return DataError(shown + ": " + problem);
  };
  constexpr size_t kShortest = 3;
  if (text.size() < kShortest) throw fail("must be as A23V: what is there, its number, what takes its place");
  const uint8_t from = amino_acid_of(text.front()), to = amino_acid_of(text.back());
  std::string_view middle = text.substr(1, text.size() - 2);
  int32_t number = 0;
  const auto [end, error] = std::from_chars(middle.data(), middle.data() + middle.size(), number);
  const std::string_view rest = middle.substr(static_cast<size_t>(end - middle.data()));
  if (error != std::errc() || rest.size() > 1 || from == kUnknown || to == kUnknown)
    throw fail("must be as A23V, or A23bV with an insertion code, of the twenty amino acids");
  const char insertion = rest.empty() ? ' ' : rest.front();
  if (!chain.empty() && std::ranges::find(chain_names, chain) == chain_names.end()) {
    std::string there;
    for (const std::string& name : chain_names) there += (there.empty() ? "" : ", ") + name;
    throw fail("there is no chain " + chain + (there.empty() ? "" : "; there is " + there));
  }
  std::optional<size_t> place;
  for (size_t i = 0; i < sample.residues.size(); ++i) {
    const Residue& residue = sample.residues[i];
    const std::string& own = chain_names[static_cast<size_t>(sample.chains[i])];
    if (residue.number != number || upper(residue.insertion) != upper(insertion)) continue;
    if (!chain.empty() && own != chain) continue;
    if (place)
      throw fail("residue " + std::string(middle) +
                 " is there in several chains: name one in the column chain");
    place = i;
  }
  if (!place) {
    const auto [least, most] = std::ranges::minmax(sample.residues, {}, &Residue::number);
    throw fail("there is no residue " + std::string(middle) + (chain.empty() ? "" : " in chain " + chain) +
               "; they are numbered " + std::to_string(least.number) + " to " + std::to_string(most.number));
  }
  const uint8_t there = sample.residues[*place].amino_acid;
  if (there != from)
    throw fail("residue " + std::string(middle) + " is " + letter_of(there) + ", not " + letter_of(from));
  return {.place = *place, .from = from, .to = to};
}

}  // namespace

std::vector<Substitution> substitutions_of(const Variant& variant, const Sample& sample,
                                           std::span<const std::string> chain_names) {
  constexpr std::string_view kBetween = ":,;/+ ";
  std::vector<Substitution> all;
  std::set<size_t> places;
  std::string_view rest = variant.mutation;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(kBetween), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    all.push_back(substitution_of(one, variant.chain, sample, chain_names));
    if (!places.insert(all.back().place).second)
      throw DataError(variant.mutation + ": a residue is in it twice");
  }
  if (all.empty()) throw DataError("\"" + variant.mutation + "\": there is no mutation, as in A23V");
  return all;
}

Variants::Variants(const std::filesystem::path& path, const VariantColumns& columns,
                   text_pairs::Quotes quotes, const std::string& cache_folder, const files::Hooks& hooks) {
  using text_pairs::Column;
  const sources::SourceFiles source = sources::find_and_hash(path.string(), cache_folder, hooks);
  text_pairs::SourceReport report;
  text_pairs::ReadOptions options{.quotes = quotes};
  options.remedy = "name yours by task.predict.mutation_column, measured_column and task.data.id_column";
  text_pairs::read_tables(
      source, options, report,
      [&](const std::string& file, text_pairs::RecordReport& of_file, const text_pairs::ReadOptions& read) {
        text_pairs::read_table(
            file, source.format,
            {{.name = columns.mutation, .required = true},
             {.name = columns.id, .takes = Column::kTextOrInteger},
             {.name = columns.chain, .takes = Column::kTextOrInteger},
             {.name = columns.measured,
              .required = !columns.measured.empty(),
              .may_be_null = true,
              .takes = Column::kNumbers}},
            [&](text_pairs::Row&& row) {
              ++of_file.used;
              const std::string where = file + ":" + std::to_string(row.line);
              add(std::move(row), where);
            },
            of_file, read);
      });
  hooks.tell(report.table());
  const auto named = static_cast<uint64_t>(
      std::ranges::count_if(all_, [](const Variant& variant) { return !variant.id.empty(); }));
  has_names_ = named > 0;
  if (named > 0 && named < all_.size())
    throw DataError(path.string() + ": " + std::to_string(all_.size() - named) + " of its " +
                    std::to_string(all_.size()) +
                    " rows do not say of which protein they are: fill the column \"" + columns.id + "\"");
}

void Variants::add(text_pairs::Row&& row, const std::string& where) {
  Variant variant{.row = all_.size(),
                  .id = row.fields[1].value_or(""),
                  .mutation = *row.fields[0],
                  .chain = row.fields[2].value_or(""),
                  .measured = {}};
  std::string text = row.fields[3].value_or("");
  std::erase(text, ' ');
  if (!text.empty()) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value))
      variant.measured = value;
    else if (not_numbers_++ == 0)
      first_not_number_ = "\"" + text + "\", " + where;
  }
  by_name_[hash_of(variant.id)].push_back(variant.row);
  all_.push_back(std::move(variant));
}

std::vector<const Variant*> Variants::of(std::string_view name, std::string_view chain) const {
  std::set<uint64_t> rows;
  const auto take = [&](std::string_view id, const auto& wanted) {
    const auto found = by_name_.find(hash_of(id));
    if (found == by_name_.end()) return;
    for (const uint64_t row : found->second)
      if (wanted(all_[row])) rows.insert(row);
  };
  const auto any = [](const Variant&) { return true; };
  take(has_names_ ? name : std::string_view(), any);
  if (const std::string_view accession = accession_of(name); has_names_ && !accession.empty())
    take(accession, any);
  const std::string suffix = "_" + std::string(chain);
  if (has_names_ && !chain.empty() && name.ends_with(suffix))
    take(name.substr(0, name.size() - suffix.size()),
         [&](const Variant& variant) { return variant.chain == chain; });
  std::vector<const Variant*> variants;
  for (const uint64_t row : rows) variants.push_back(&all_[row]);
  return variants;
}

}  // namespace pipeline::protein
