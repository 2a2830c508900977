#include "plugins/tasks/protein/label_files.hpp"

#include <algorithm>
#include <cmath>

#include <pipeline/numbers.hpp>

#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/tasks/protein/predictions.hpp"

namespace pipeline::tasks::protein {
namespace {

using Of = LabelForm::Of;

constexpr int kProbabilityDigits = 6;

double probability(float log_odds) { return 1 / (1 + std::exp(-static_cast<double>(log_odds))); }

// What is predicted for the k-th label: the likeliest class, or the number.
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

std::string residue_rows(const LabelForm& form, const LabelledSample& one) {
  std::string csv;
  if (one.id == 0) {
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

// visit(i, j, log-odds) for pairs i < j that are far enough apart to be judged.
template <class Visit>
void each_pair(const LabelledSample& one, const Visit& visit) {
  const proteins::Sample& sample = one.sample;
  for (uint32_t i = 0; i < sample.size(); ++i)
    for (uint32_t j = i + 1; j < sample.size(); ++j)
      if (sample.position(j) - sample.position(i) >= residues::kLeastApart)
        visit(i, j, one.predicted[i * sample.size() + j]);
}

std::string pair_rows(const LabelledSample& one) {
  constexpr size_t kPerResidue = 5;
  const proteins::Sample& sample = one.sample;
  struct Pair {
    uint32_t i, j;
    float log_odds;
  };
  std::vector<Pair> pairs;
  each_pair(one, [&](uint32_t i, uint32_t j, float log_odds) { pairs.push_back({i, j, log_odds}); });
  std::ranges::stable_sort(pairs, Falling(), &Pair::log_odds);
  pairs.resize(std::min(pairs.size(), kPerResidue * sample.size()));
  std::string csv;
  if (one.id == 0)
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
  each_pair(one, [&](size_t i, size_t j, float log_odds) {
    raise(i, j, probability(log_odds));
    if (!is_known) raise(j, i, probability(log_odds));
  });
  if (is_known)
    for (const auto& [i, j] : one.labels.contacts) raise(j, i, 1);
  return figures::draw(map);
}

class ChainLabelFiles : public LabelFiles {
 public:
  explicit ChainLabelFiles(LabelForm form) : form_(std::move(form)) {}

  std::vector<std::string> columns() const override {
    std::vector<std::string> columns = LabelFiles::columns();
    columns.emplace_back("prediction");
    for (const std::string& name : form_.classes) columns.push_back("p_" + name);
    columns.emplace_back("label");
    return columns;
  }
  std::vector<std::string> row(const LabelledSample& one) const override {
    std::vector<std::string> fields = LabelFiles::row(one);
    fields.push_back(prediction_of(form_, one.predicted, 0));
    for (std::string& field : probabilities_of(form_, one.predicted, 0)) fields.push_back(std::move(field));
    fields.push_back(right_at(form_, one.labels, 0));
    return fields;
  }

 private:
  const LabelForm form_;
};

class ResidueLabelFiles : public LabelFiles {
 public:
  explicit ResidueLabelFiles(LabelForm form)
      : form_(std::move(form)),
        are_letters_(!form_.classes.empty() &&
                     std::ranges::all_of(form_.classes, [](const auto& name) { return name.size() == 1; })) {}

  std::vector<std::string> columns() const override {
    std::vector<std::string> columns = LabelFiles::columns();
    if (are_letters_) columns.emplace_back("prediction");
    return columns;
  }
  std::vector<std::string> row(const LabelledSample& one) const override {
    std::vector<std::string> fields = LabelFiles::row(one);
    if (are_letters_) fields.emplace_back();
    for (size_t n = 0; are_letters_ && n < one.sample.size(); ++n)
      fields.back() += prediction_of(form_, one.predicted, n);
    return fields;
  }
  void write(const LabelledSample& one, const PredictionSink& sink) const override {
    sink.append(one.id, "labels.csv", residue_rows(form_, one));
  }

 private:
  const LabelForm form_;
  const bool are_letters_;
};

class ContactFiles : public LabelFiles {
 public:
  std::vector<std::string> columns() const override {
    std::vector<std::string> columns = LabelFiles::columns();
    columns.emplace_back("contacts");
    return columns;
  }
  std::vector<std::string> row(const LabelledSample& one) const override {
    double expected = 0;
    each_pair(one, [&](size_t, size_t, float log_odds) { expected += probability(log_odds); });
    std::vector<std::string> fields = LabelFiles::row(one);
    fields.push_back(figures::decimal(expected, 1));
    return fields;
  }
  void write(const LabelledSample& one, const PredictionSink& sink) const override {
    sink.append(one.id, "contacts.csv", pair_rows(one));
    if (!one.file.empty()) sink.file(one.id, one.file + "-contacts.svg", contact_picture(one));
  }
};

}  // namespace

std::unique_ptr<LabelFiles> label_files_of(const LabelForm& form) {
  if (form.of == Of::kSamples) return std::make_unique<ChainLabelFiles>(form);
  if (form.of == Of::kParts) return std::make_unique<ResidueLabelFiles>(form);
  return std::make_unique<ContactFiles>();
}

std::vector<std::string> LabelFiles::row(const LabelledSample& one) const {
  const auto known =
      std::ranges::count_if(one.sample.codes, [](uint8_t code) { return code < residues::kAminoAcidCount; });
  return {std::to_string(one.sample.size()), std::to_string(known)};
}

}  // namespace pipeline::tasks::protein
