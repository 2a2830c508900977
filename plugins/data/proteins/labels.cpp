#include "plugins/data/proteins/labels.hpp"

#include <pipeline/error.hpp>

#include <algorithm>

#include "plugins/data/files/texts.hpp"
#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/structures/secondary_structure.hpp"

namespace pipeline::proteins {
namespace {

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(between, begin), text.size());
    parts.push_back(files::trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::string Labels::key() const {
  constexpr int kReading = 4;  // raise it whenever the same text would be read otherwise
  if (!is_wanted()) return "";
  std::string key = concat(kReading, " ", objective_, " ", options_.per, " ", options_.source, " ",
                           options_.column, " ", options_.missing);
  for (const std::string& name : options_.classes) key += concat("\n", name.size(), " ", name);
  return key;
}

// Where labels are numbers, -100 may be one.
bool Labels::is_word_for_none(std::string_view text) const {
  if (std::ranges::find(options_.classes, text) != options_.classes.end()) return false;
  if (records::is_word_for_none(text)) return true;
  if (!are_numbers()) return records::label_number(text) == records::kIgnoreIndex;
  const std::optional<double> value = records::written_number(text);
  return value && std::isnan(*value);
}

SampleLabels Labels::of(const Samples& samples, uint64_t i) const {
  if (is_from_structures()) return from_backbone(samples, i);
  const std::optional<std::string> text = samples.label(i);
  SampleLabels none;
  none.problem = concat("nothing in column \"", options_.column, "\"");
  return text ? from_text(*text, samples.size_of(i).residues) : none;
}

SampleLabels Labels::from_text(const std::string& whole, size_t residues) const {
  SampleLabels labels;
  // Blanks may be letters, as DSSP's of coils are.
  const bool fits = options_.is_per_residue() && whole.size() == residues;
  const std::string_view text = fits ? std::string_view(whole) : files::trimmed(whole);
  const auto is_missing = [&](std::string_view one) { return one.empty() || one == options_.missing; };
  if (is_missing(files::trimmed(text))) {
    labels.problem = concat("nothing in column \"", options_.column, "\"");
    return labels;
  }
  if (is_word_for_none(text)) {
    ++labels.passed_over[std::string(text)];
    labels.problem = concat("\"", text, "\" in column \"", options_.column, "\", which stands for no label");
    return labels;
  }
  std::vector<std::string_view> parts{text};
  if (options_.is_per_residue()) {
    const bool has_commas = text.find(',') != std::string_view::npos;
    if (auto list = fits ? std::nullopt : records::printed_list(text)) {
      parts = *std::move(list);
    } else if (has_commas || are_numbers() || residues == 1) {
      parts = parts_of(text, has_commas ? ',' : ' ');
    } else {
      parts.clear();
      for (size_t n = 0; n < text.size(); ++n) parts.push_back(text.substr(n, 1));
    }
    if (parts.size() != residues) {
      labels.problem = concat(counted(parts.size(), "label"), " for ", counted(residues, "residue"));
      return labels;
    }
  }
  for (size_t n = 0; n < parts.size(); ++n) {
    if (is_missing(parts[n])) continue;
    if (is_word_for_none(parts[n])) {
      ++labels.passed_over[std::string(parts[n])];
      continue;
    }
    if (are_numbers()) {
      const std::optional<double> value = records::label_number(parts[n]);
      if (!value) {
        labels.problem = concat("\"", parts[n].substr(0, 40), "\" in column \"", options_.column,
                                "\" is no number, or too large a one");
        return labels;
      }
      labels.numbers.push_back(*value);
      labels.texts.emplace_back(parts[n]);
    } else {
      labels.classes.emplace_back(parts[n]);
    }
    labels.places.push_back(static_cast<int64_t>(n));
  }
  if (labels.places.empty()) labels.problem = concat("nothing in column \"", options_.column, "\"");
  return labels;
}

SampleLabels Labels::from_backbone(const Samples& samples, uint64_t i) const {
  const Sample sample = samples.sample(i);
  SampleLabels labels;
  const std::vector<structures::SecondaryStructure> states =
      are_contacts() ? std::vector<structures::SecondaryStructure>()
                     : structures::secondary_structure_of(sample.backbone);
  for (size_t n = 0; n < sample.backbone.size(); ++n) {
    const bool has_one =
        are_contacts() ? sample.has_frame(n) : states[n] != structures::SecondaryStructure::kNotKnown;
    if (!has_one) continue;
    labels.places.push_back(static_cast<int64_t>(n));
    if (!are_contacts()) labels.classes.emplace_back(1, structures::letter_of(states[n]));
  }
  if (are_contacts()) labels.contacts = structures::contacts_of(sample.backbone, residues::kLeastApart);
  const bool has_pairs =
      !labels.places.empty() && labels.places.back() - labels.places.front() >= residues::kLeastApart;
  if (labels.places.empty() || (are_contacts() && !has_pairs)) labels.problem = "no backbone";
  return labels;
}

void add(const SampleLabels& labels, bool is_training, records::LabelCounts& counts) {
  for (const auto& [word, count] : labels.passed_over) counts.pass_over(word, count);
  for (const double number : labels.numbers) counts.add(number, is_training);
  for (const std::string& name : labels.classes) counts.add(name, is_training);
}

}  // namespace pipeline::proteins
