#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/base/file_lock.hpp"
#include "core/observe/log.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/results/result_files.hpp"

namespace pipeline::train {

// What is kept of an evaluation: a file with its figures, and beside it a folder with its sums (sums.json, by
// which evaluations can be added up) and the files of the task's report. A later one takes the place of both
// whole: at no moment are figures, sums or files of two of them side by side.
class EvaluationFiles {
 public:
  // To be made before the work, so that a place that cannot be used shows at once. `remedy`: see ResultFile.
  // Throws Error, also where the folder holds files that no evaluation has put there.
  EvaluationFiles(std::filesystem::path output, const std::string& remedy);

  const std::filesystem::path& output() const { return figures_.path(); }
  const std::filesystem::path& folder() const { return folder_; }
  void write(const std::string& figures, const Evaluation& evaluation);

 private:
  std::string remedy_;
  std::filesystem::path folder_;
  OutputLock lock_;  // goes last
  ResultFile figures_;
};

// sums.json: JSON with a checksum. Doubles come back to the bit, those that are not finite, too.
std::string sums_text(const Evaluation& evaluation);
// Split, counts, metrics without their help, sums, and files by their names alone. Throws Error with `remedy`
// at its end for a file that is not there, or is not as it was written.
Evaluation read_sums(const std::filesystem::path& file, std::string_view remedy);

// Writes to the log and, where there is an output (rank 0), to its files. `origin`: what was evaluated.
void tell_and_keep(nlohmann::ordered_json origin, const Evaluation& evaluation, observe::Log& log,
                   std::optional<EvaluationFiles>& output);

}  // namespace pipeline::train
