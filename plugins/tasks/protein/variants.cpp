#include "plugins/tasks/protein/variants.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plugins/data/proteins/comparison.hpp"
#include "plugins/data/proteins/splits.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/structures/structure.hpp"

namespace pipeline::tasks::protein {
namespace {

using files::DataError;

// The amino acid of a letter, or of three, capital or small; kUnknown: none.
uint8_t amino_acid_of(std::string_view name) {
  if (name.size() == 1) {
    const size_t at = residues::kAminoAcids.find(structures::upper(name.front()));
    return at == std::string_view::npos ? residues::kUnknown : static_cast<uint8_t>(at);
  }
  for (uint8_t a = 0; a < residues::kAminoAcidCount; ++a)
    if (std::ranges::equal(name, structures::three_letters_of(a), {}, structures::upper)) return a;
  return residues::kUnknown;
}

// A change as it is written.
struct Change {
  uint8_t from = 0, to = 0;
  int32_t number = 0;
  char insertion = ' ';
  std::string place;  // number and insertion
};

// HGVS has "p." before it, and brackets around what is predicted, or several. "p.Ala23=": it is not changed.
Change change_of(std::string_view text) {
  const std::string shown(text);
  const auto is_bracket = [](char c) { return std::string_view("()[]").find(c) != std::string_view::npos; };
  if (text.starts_with("p.")) text.remove_prefix(2);
  while (!text.empty() && is_bracket(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_bracket(text.back())) text.remove_suffix(1);
  const size_t digits = std::min(text.find_first_of("-0123456789"), text.size());
  Change change{.from = amino_acid_of(text.substr(0, digits))};
  const std::string_view behind = text.substr(digits);
  const auto [end, error] = std::from_chars(behind.data(), behind.data() + behind.size(), change.number);
  std::string_view rest = behind.substr(static_cast<size_t>(end - behind.data()));
  const bool is_same = rest.ends_with('=');
  const size_t letters = std::min(is_same ? size_t{1} : digits, rest.size());
  change.to = is_same ? change.from : amino_acid_of(rest.substr(rest.size() - letters));
  rest.remove_suffix(letters);
  if (error != std::errc() || rest.size() > 1 || change.from == residues::kUnknown ||
      change.to == residues::kUnknown)
    throw DataError(shown +
                    ": must be as A23V, A23bV with an insertion code, or p.Ala23Val, of the twenty amino "
                    "acids; WT is the sequence itself");
  change.insertion = rest.empty() ? ' ' : rest.front();
  change.place = behind.substr(0, behind.size() - letters);
  return change;
}

std::vector<Change> changes_of(std::string_view mutation) {
  constexpr std::string_view kBetween = ":,;/+ ",
                             kWildType[] = {"wt",        "_wt", "wildtype", "wild-type", "wild_type",
                                            "wild type", "p.=", "p.(=)",    "="};
  std::string_view rest = mutation;
  if (const size_t hgvs = rest.find(":p."); hgvs != rest.npos) rest.remove_prefix(hgvs + 1);  // whose it is
  const auto is_rest = [&](std::string_view word) {
    return std::ranges::equal(rest, word, {}, structures::upper, structures::upper);
  };
  if (std::ranges::any_of(kWildType, is_rest)) return {};
  std::vector<Change> all;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(kBetween), rest.size());
    if (end > 0) all.push_back(change_of(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (all.empty()) throw DataError("\"" + std::string(mutation) + "\": there is no mutation, as in A23V");
  return all;
}

std::set<int32_t> numbers_of(const proteins::Sample& sample) {
  std::set<int32_t> numbers;
  for (size_t i = 0; i < sample.size(); ++i) numbers.insert(sample.number(i));
  return numbers;
}

Substitution substitution_of(const Change& change, const std::string& shown, const std::string& chain,
                             const proteins::Sample& sample, std::span<const std::string> chain_names,
                             int32_t offset) {
  const auto fail = [&](const std::string& problem) -> DataError {
    return DataError(shown + ": " + problem);
  };
  const int64_t number = int64_t{change.number} + offset;
  const std::string named =
      offset == 0
          ? change.place
          : std::to_string(number) + (change.insertion == ' ' ? "" : std::string(1, change.insertion));
  if (!chain.empty() && std::ranges::find(chain_names, chain) == chain_names.end()) {
    std::string there;
    for (const std::string& name : chain_names) there += (there.empty() ? "" : ", ") + name;
    throw fail("there is no chain " + chain + (there.empty() ? "" : "; there is " + there));
  }
  std::optional<size_t> place;
  for (size_t i = 0; i < sample.size(); ++i) {
    const std::string& own = chain_names[static_cast<size_t>(sample.chains[i])];
    if (sample.number(i) != number ||
        structures::upper(sample.insertion(i)) != structures::upper(change.insertion))
      continue;
    if (!chain.empty() && own != chain) continue;
    if (place) throw fail("residue " + named + " is there in several chains: name one in the column chain");
    place = i;
  }
  if (!place) {
    const std::set<int32_t> numbers = numbers_of(sample);
    throw fail("there is no residue " + named + (chain.empty() ? "" : " in chain " + chain) +
               "; they are numbered " + std::to_string(*numbers.begin()) + " to " +
               std::to_string(*numbers.rbegin()));
  }
  const uint8_t there = sample.codes[*place];
  if (there != change.from)
    throw fail("residue " + named + " is " + residues::letter_of(there) + ", not " +
               residues::letter_of(change.from));
  return {.place = *place, .from = change.from, .to = change.to};
}

}  // namespace

std::vector<Substitution> substitutions_of(const Variant& variant, const proteins::Sample& sample,
                                           std::span<const std::string> chain_names, int32_t offset) {
  std::vector<Substitution> all;
  std::set<size_t> places;
  for (const Change& change : changes_of(variant.mutation)) {
    all.push_back(substitution_of(change, variant.mutation, variant.chain, sample, chain_names, offset));
    if (!places.insert(all.back().place).second)
      throw DataError(variant.mutation + ": a residue is in it twice");
  }
  return all;
}

std::optional<int32_t> fitting_offset(std::span<const Variant* const> variants,
                                      const proteins::Sample& sample,
                                      std::span<const std::string> chain_names) {
  std::map<std::tuple<int32_t, char, uint8_t>, std::pair<Change, const Variant*>>
      wanted;  // each residue once
  for (const Variant* variant : variants) try {
      for (const Change& change : changes_of(variant->mutation))
        wanted.try_emplace({change.number, structures::upper(change.insertion), change.from}, change,
                           variant);
    } catch (const DataError&) {  // it is none at any offset
    }
  if (wanted.empty()) return std::nullopt;
  const int32_t first = std::get<0>(wanted.begin()->first);
  const auto fits = [&](int32_t offset) {
    return std::ranges::all_of(wanted, [&](const auto& one) {
      const auto& [change, variant] = one.second;
      try {
        substitution_of(change, variant->mutation, variant->chain, sample, chain_names, offset);
        return true;
      } catch (const DataError&) {
        return false;
      }
    });
  };
  std::set<int32_t> fitting;
  for (const int32_t number : numbers_of(sample))
    if (fits(number - first)) fitting.insert(number - first);
  return fitting.size() == 1 ? std::optional(*fitting.begin()) : std::nullopt;
}

std::optional<double> number_in(std::string_view field) {
  std::string text(field);
  std::erase(text, ' ');
  double value = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  const bool is_one = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return is_one ? std::optional(value) : std::nullopt;
}

Variants::Variants(const std::filesystem::path& path, const VariantColumns& columns, records::Quotes quotes,
                   const std::string& cache_folder, const files::Hooks& hooks) {
  using records::Column;
  const sources::SourceFiles source = sources::find_and_hash(path.string(), cache_folder, hooks);
  records::SourceReport report;
  records::ReadOptions options{.quotes = quotes};
  options.remedy = "name yours by task.predict.mutation_column, measured_column and task.data.id_column";
  records::read_tables(
      source, options, report,
      [&](const std::string& file, records::RecordReport& of_file, const records::ReadOptions& read) {
        records::read_table(
            file, source.format,
            {{.name = columns.mutation, .required = true},
             {.name = columns.id, .takes = Column::kTextOrInteger},
             {.name = columns.chain, .takes = Column::kTextOrInteger},
             {.name = columns.measured,
              .required = !columns.measured.empty(),
              .may_be_null = true,
              .takes = Column::kValues}},
            [&](records::Row&& row) {
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

void Variants::add(records::Row&& row, const std::string& where) {
  Variant variant{.row = all_.size(),
                  .id = row.fields[1].value_or(""),
                  .mutation = *row.fields[0],
                  .chain = row.fields[2].value_or(""),
                  .measured = {},
                  .measured_text = row.fields[3].value_or("")};
  const std::string& text = variant.measured_text;
  variant.measured = number_in(text);
  if (!variant.measured && text.find_first_not_of(' ') != text.npos && not_numbers_++ == 0)
    first_not_number_ = "\"" + text + "\", " + where;
  by_name_[proteins::hash_of(variant.id)].push_back(variant.row);
  all_.push_back(std::move(variant));
}

std::vector<const Variant*> Variants::of(std::string_view name, std::string_view chain) const {
  std::set<uint64_t> rows;
  const auto take = [&](std::string_view id, const auto& wanted) {
    const auto found = by_name_.find(proteins::hash_of(id));
    if (found == by_name_.end()) return;
    for (const uint64_t row : found->second)
      if (wanted(all_[row])) rows.insert(row);
  };
  const auto any = [](const Variant&) { return true; };
  take(has_names_ ? name : std::string_view(), any);
  if (const std::string_view accession = proteins::accession_of(name); has_names_ && !accession.empty())
    take(accession, any);
  const std::string suffix = "_" + std::string(chain);
  if (has_names_ && !chain.empty() && name.ends_with(suffix))
    take(name.substr(0, name.size() - suffix.size()),
         [&](const Variant& variant) { return variant.chain == chain; });
  std::vector<const Variant*> variants;
  for (const uint64_t row : rows) variants.push_back(&all_[row]);
  return variants;
}

}  // namespace pipeline::tasks::protein
