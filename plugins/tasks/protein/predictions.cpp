#include "plugins/tasks/protein/predictions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <pipeline/numbers.hpp>

#include "plugins/data/proteins/report_text.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/figures/svg.hpp"

namespace pipeline::tasks::protein {
namespace {

constexpr int kDecimals = 4;

const float* log_p_of(const Predicted& predicted, size_t i) {
  return &predicted.log_p[i * residues::kAminoAcidCount];
}

std::string place_of(const Predicted& predicted, size_t i) {
  return proteins::csv_field(predicted.chain_names[static_cast<size_t>(predicted.sample.chains[i])]) + "," +
         protein::place_of(predicted.sample, i);
}

double entropy_of(const float* log_p) {
  double entropy = 0;
  for (size_t a = 0; a < residues::kAminoAcidCount; ++a)
    entropy -= std::exp(static_cast<double>(log_p[a])) * static_cast<double>(log_p[a]);
  return entropy;
}

}  // namespace

std::string residue_table(const Predicted& predicted, int64_t top) {
  std::string csv = "chain,number,insertion,residue,probability";
  for (int64_t k = 1; k <= top; ++k) csv += ",top" + std::to_string(k) + ",p" + std::to_string(k);
  csv += ",entropy\n";
  for (size_t i = 0; i < predicted.sample.size(); ++i) {
    const float* const log_p = log_p_of(predicted, i);
    std::array<uint8_t, residues::kAminoAcidCount> order;
    std::iota(order.begin(), order.end(), uint8_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](uint8_t a, uint8_t b) { return Falling()(log_p[a], log_p[b]); });
    const auto probability = [&](uint8_t a) {
      return figures::decimal(std::exp(static_cast<double>(log_p[a])), kDecimals);
    };
    csv += place_of(predicted, i) + "," +
           (predicted.sample.is_known(i) ? probability(predicted.sample.codes[i]) : "");
    for (int64_t k = 0; k < top; ++k)
      csv += std::string(",") + residues::letter_of(order[static_cast<size_t>(k)]) + "," +
             probability(order[static_cast<size_t>(k)]);
    csv += "," + figures::decimal(entropy_of(log_p), kDecimals) + "\n";
  }
  return csv;
}

std::string mutation_table(const Predicted& predicted) {
  std::string csv = "chain,number,insertion,residue";
  for (const char letter : residues::kAminoAcids) csv += std::string(",") + letter;
  csv += "\n";
  for (size_t i = 0; i < predicted.sample.size(); ++i) {
    const float* const log_p = log_p_of(predicted, i);
    const uint8_t code = predicted.sample.codes[i];
    csv += place_of(predicted, i);
    for (size_t a = 0; a < residues::kAminoAcidCount; ++a)
      csv += "," + (predicted.sample.is_known(i)
                        ? figures::decimal(static_cast<double>(log_p[a] - log_p[code]), kDecimals)
                        : "");
    csv += "\n";
  }
  return csv;
}

std::string mutation_rows(const Predicted& predicted, const std::string& name, bool with_header) {
  std::string csv = with_header ? "id,chain,number,insertion,residue,mutant,log_odds\n" : "";
  for (size_t i = 0; i < predicted.sample.size(); ++i) {
    const float* const log_p = log_p_of(predicted, i);
    const uint8_t code = predicted.sample.codes[i];
    if (!predicted.sample.is_known(i)) continue;
    const std::string place = proteins::csv_field(name) + "," + place_of(predicted, i) + ",";
    for (size_t a = 0; a < residues::kAminoAcidCount; ++a)
      if (a != code)
        csv += place + residues::kAminoAcids[a] + "," +
               figures::decimal(static_cast<double>(log_p[a] - log_p[code]), kDecimals) + "\n";
  }
  return csv;
}

std::string mutation_picture(const Predicted& predicted, const std::string& name) {
  figures::HeatMap map{.title = name + ": log-odds of each substitution",
                       .low = -4,
                       .high = 4,
                       .from_middle = true,
                       .low_label = "-4: what is there is likelier",
                       .high_label = "+4: the substitution is",
                       .wrap = 80,
                       .column_title = "residue (chain, number); grey: the amino acid that is there"};
  const size_t residues = predicted.sample.size();
  for (const char letter : residues::kAminoAcids) map.rows.emplace_back(1, letter);
  for (size_t i = 0; i < residues; ++i)
    map.columns.push_back(predicted.chain_names[static_cast<size_t>(predicted.sample.chains[i])] +
                          std::to_string(predicted.sample.number(i)) + insertion_of(predicted.sample, i));
  for (size_t a = 0; a < residues::kAminoAcidCount; ++a)
    for (size_t i = 0; i < residues; ++i) {
      const uint8_t code = predicted.sample.codes[i];
      const float* const log_p = log_p_of(predicted, i);
      const bool empty = !predicted.sample.is_known(i) || code == a;
      map.values.push_back(empty ? std::nan("") : static_cast<double>(log_p[a] - log_p[code]));
    }
  return figures::draw(map);
}

Summary summarize(const Predicted& predicted) {
  Summary summary{.residues = static_cast<int64_t>(predicted.sample.size())};
  double nll = 0;
  for (size_t i = 0; i < predicted.sample.size(); ++i) {
    const float* const log_p = log_p_of(predicted, i);
    summary.entropy += entropy_of(log_p);
    const uint8_t right = predicted.sample.codes[i];
    if (!predicted.sample.is_known(i)) continue;
    ++summary.known;
    nll -= static_cast<double>(log_p[right]);
    summary.recovery += std::max_element(log_p, log_p + residues::kAminoAcidCount) == log_p + right ? 1 : 0;
  }
  const auto known = static_cast<double>(std::max<int64_t>(summary.known, 1));
  summary.recovery /= known;
  summary.perplexity = std::exp(nll / known);
  summary.entropy /= static_cast<double>(std::max<int64_t>(summary.residues, 1));
  return summary;
}

}  // namespace pipeline::tasks::protein
