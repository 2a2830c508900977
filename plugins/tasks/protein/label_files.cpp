#include "plugins/tasks/protein/label_files.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <pipeline/numbers.hpp>

#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/heat_map.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

using Of = LabelForm::Of;

constexpr int kProbabilityDigits = 6;

bool are_letters(const LabelForm& form) {
  return !form.classes.empty() &&
         std::ranges::all_of(form.classes, [](const std::string& name) { return name.size() == 1; });
}

double probability(float log_odds) { return 1 / (1 + std::exp(-static_cast<double>(log_odds))); }

// Of the k-th label in `predicted`: the likeliest class, or the number.
std::string prediction_of(const LabelForm& form, std::span<const float> predicted, size_t k) {
  if (form.are_numbers) return proteins::exactly(form.number(predicted[k]));
  const auto row = predicted.subspan(k * form.classes.size(), form.classes.size());
  return form.classes[static_cast<size_t>(std::ranges::max_element(row) - row.begin())];
}

std::vector<std::string> probabilities_of(const LabelForm& form, std::span<const float> predicted, size_t k) {
  std::vector<std::string> fields;
  for (size_t c = 0; c < form.classes.size(); ++c)
    fields.push_back(figures::decimal(std::exp(static_cast<double>(predicted[k * form.classes.size() + c])),
                                      kProbabilityDigits));
  return fields;
}

// What is right at a place; empty where nobody knows.
std::string right_at(const LabelForm& form, const proteins::SampleLabels& labels, int64_t place) {
  const auto found = std::ranges::lower_bound(labels.places, place);
  if (!labels.problem.empty() || found == labels.places.end() || *found != place) return "";
  const auto k = static_cast<size_t>(found - labels.places.begin());
  return form.are_numbers ? labels.texts[k] : labels.classes[k];
}

std::string residue_rows(const LabelForm& form, const LabelledSample& one, bool with_header) {
  std::string csv;
  if (with_header) {
    csv = "id,chain,number,insertion,residue,prediction";
    for (const std::string& name : form.classes) csv += "," + proteins::csv_field("p_" + name);
    csv += ",label\n";
  }
  for (size_t n = 0; n < one.sample.size(); ++n) {
    csv += proteins::csv_field(one.name) + "," + proteins::csv_field(one.chain) + "," +
           place_of(one.sample, n) + "," + proteins::csv_field(prediction_of(form, one.predicted, n));
    for (const std::string& field : probabilities_of(form, one.predicted, n)) csv += "," + field;
    csv += "," + proteins::csv_field(right_at(form, one.labels, static_cast<int64_t>(n))) + "\n";
  }
  return csv;
}

std::string pair_rows(const LabelledSample& one, bool with_header) {
  constexpr size_t kPerResidue = 5;
  const proteins::Sample& sample = one.sample;
  struct Pair {
    uint32_t i, j;
    float log_odds;
  };
  std::vector<Pair> pairs;
  for (uint32_t i = 0; i < sample.size(); ++i)
    for (uint32_t j = i + 1; j < sample.size(); ++j)
      if (sample.position(j) - sample.position(i) >= proteins::kLeastApart)
        pairs.push_back({i, j, one.predicted[i * sample.size() + j]});
  std::ranges::stable_sort(pairs, Falling(), &Pair::log_odds);
  pairs.resize(std::min(pairs.size(), kPerResidue * sample.size()));
  std::string csv;
  if (with_header)
    csv =
        "id,chain,number,insertion,residue,other_number,other_insertion,other_residue,probability,contact\n";
  const bool is_known = one.labels.problem.empty();
  for (const Pair& pair : pairs) {
    const bool has_both = is_known && sample.has_frame(pair.i) && sample.has_frame(pair.j);
    const bool is_contact =
        has_both && std::ranges::binary_search(one.labels.contacts, std::pair(pair.i, pair.j));
    csv += proteins::csv_field(one.name) + "," + proteins::csv_field(one.chain) + "," +
           place_of(sample, pair.i) + "," + place_of(sample, pair.j) + "," +
           figures::decimal(probability(pair.log_odds), kProbabilityDigits) + "," +
           (has_both ? is_contact ? "1" : "0" : "") + "\n";
  }
  return csv;
}

}  // namespace

std::vector<std::string> label_columns(const LabelForm& form) {
  std::vector<std::string> columns{"residues", "known"};
  if (form.of == Of::kPairs) columns.emplace_back("contacts");
  if (form.of == Of::kResidues && are_letters(form)) columns.emplace_back("prediction");
  if (form.of != Of::kChains) return columns;
  columns.emplace_back("prediction");
  for (const std::string& name : form.classes) columns.push_back("p_" + name);
  columns.emplace_back("label");
  return columns;
}

std::vector<std::string> label_row(const LabelForm& form, const LabelledSample& one) {
  const proteins::Sample& sample = one.sample;
  const auto known =
      std::ranges::count_if(sample.codes, [](uint8_t code) { return code < residues::kAminoAcidCount; });
  std::vector<std::string> fields{std::to_string(sample.size()), std::to_string(known)};
  if (form.of == Of::kPairs) {
    double expected = 0;
    for (size_t i = 0; i < sample.size(); ++i)
      for (size_t j = i + 1; j < sample.size(); ++j)
        if (sample.position(j) - sample.position(i) >= proteins::kLeastApart)
          expected += probability(one.predicted[i * sample.size() + j]);
    fields.push_back(figures::decimal(expected, 1));
  }
  if (form.of == Of::kResidues && are_letters(form)) {
    std::string letters;
    for (size_t n = 0; n < sample.size(); ++n) letters += prediction_of(form, one.predicted, n);
    fields.push_back(letters);
  }
  if (form.of != Of::kChains) return fields;
  fields.push_back(prediction_of(form, one.predicted, 0));
  for (std::string& field : probabilities_of(form, one.predicted, 0)) fields.push_back(std::move(field));
  fields.push_back(right_at(form, one.labels, 0));
  return fields;
}

std::string label_rows(const LabelForm& form, const LabelledSample& one, bool with_header) {
  return form.of == Of::kPairs ? pair_rows(one, with_header) : residue_rows(form, one, with_header);
}

std::string contact_picture(const LabelledSample& one) {
  constexpr size_t kMostCells = 120;
  const proteins::Sample& sample = one.sample;
  const size_t length = sample.size(), block = (length + kMostCells - 1) / kMostCells,
               cells = (length + block - 1) / block;
  const bool is_known = one.labels.problem.empty();
  figures::HeatMap map{
      .title = one.name + ": contacts" +
               (block > 1 ? ", the likeliest of each " + std::to_string(block) + " x " +
                                std::to_string(block) + " pairs"
                          : ""),
      .low = 0,
      .high = 1,
      .low_label = "probability 0",
      .high_label = "1",
      .column_title = is_known ? "above the diagonal: predicted; below: in the structure" : "predicted"};
  map.values.assign(cells * cells, 0);
  for (size_t c = 0; c < cells; ++c) {
    map.rows.push_back(c % 10 == 0 ? std::to_string(sample.number(c * block)) : "");
    map.columns.push_back(map.rows.back());
  }
  const auto raise = [&](size_t i, size_t j, double value) {
    double& cell = map.values[i / block * cells + j / block];
    cell = std::max(cell, value);
  };
  for (size_t i = 0; i < length; ++i)
    for (size_t j = i + 1; j < length; ++j) {
      if (sample.position(j) - sample.position(i) < proteins::kLeastApart) continue;
      const double value = probability(one.predicted[i * length + j]);
      raise(i, j, value);
      if (!is_known) raise(j, i, value);
    }
  if (is_known)
    for (const auto& [i, j] : one.labels.contacts) raise(j, i, 1);
  return figures::draw(map);
}

}  // namespace pipeline::tasks::protein
