// Figures by step, as the lines of a file have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::report {

// What a column has where a line does not have the figure, or null: a NaN that is told from those that were
// computed.
double missing();
bool is_missing(double value);

struct Curve {
  std::vector<uint64_t> steps;  // ascending
  std::map<std::string, std::vector<double>> figures;

  const std::vector<double>* find(const std::string& name) const;
};

// Makes a curve of lines, in whatever order their steps are. Throws Error (PL_ERROR_CONFIG) with file and
// line for what cannot be read.
class CurveReader {
 public:
  // `step`, `loss`: how these are called there.
  CurveReader(std::string file, std::string step, std::string loss)
      : file_(std::move(file)), step_(std::move(step)), loss_(std::move(loss)) {}

  uint64_t step_of(size_t line, const nlohmann::ordered_json& object) const;
  // Takes all that is a number. The loss must be one, where there is one.
  void add(size_t line, const nlohmann::ordered_json& object);
  // No step may have come twice.
  Curve take();

 private:
  std::string file_, step_, loss_;
  Curve curve_;
  std::vector<size_t> lines_;  // of the steps
};

// metrics.jsonl or eval.jsonl of a run. A last line that is cut short does not count.
Curve read_curve(const std::filesystem::path& file);

}  // namespace pipeline::report
