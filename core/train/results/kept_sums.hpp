// What an evaluation leaves behind so that evaluations can be added up: the file sums.json beside its
// figures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugins/task.hpp"
#include "core/train/results/evaluation.hpp"

namespace pipeline::train {

struct KeptSums {
  uint32_t split = PL_SPLIT_TEST;
  uint64_t samples = 0;
  uint64_t available = 0;                // in the split
  std::vector<plugins::Metric> metrics;  // without their help
  std::vector<plugins::EvaluationValue> values;
  uint64_t records = 0;            // of samples, that the report got and that are not kept
  std::vector<std::string> files;  // names of those that lie beside it, itself left out

  static KeptSums of(const Evaluation& evaluation, uint32_t split);
};

// JSON; doubles come back to the bit, those that are not finite, too.
std::string to_text(const KeptSums& sums);
// Throws Error that says what is wrong at which key, `context` in front.
KeptSums parse_sums(std::string_view text, const std::string& context);
// Throws Error for a file that is not there or cannot be read, and what parse_sums() does; `remedy` at the
// end.
KeptSums read_sums(const std::filesystem::path& file, std::string_view remedy);

}  // namespace pipeline::train
