#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/file_lock.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"
#include "core/train/results/evaluation.hpp"

namespace pipeline::train {

// A file that is there whole or not at all; opened before the work that fills it, so that a wrong path shows
// at once.
class ResultFile {
 public:
  // `remedy`: what the user can do about a path that cannot be written, as in "choose another --output".
  // Throws Error with path, cause and remedy.
  ResultFile(std::filesystem::path path, std::string remedy);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view text);

 private:
  std::filesystem::path path_, temporary_;
  std::string remedy_;
};

// Throw what a ResultFile would, or a folder that is filled as `path`.tmp and then renamed: for work that
// makes them at its end. What they try leaves nothing but the folders above.
void require_file_place(const std::filesystem::path& path, const std::string& remedy);
void require_folder_place(const std::filesystem::path& path, const std::string& remedy);

// Files that a task makes beside a result: pictures, tables.

// For results/x.csv: results/x-files.
std::filesystem::path side_files_of(const std::filesystem::path& output);

// Makes the folder if need be; replaces a file of that name. Throws Error with path and cause.
void write_side_file(const std::filesystem::path& folder, std::string_view name,
                     std::span<const std::byte> bytes);

// Which side files the predictions of one result have written, so that a later one can remove what is not of
// its own, and nothing of anybody else's. Kept in their folder, as a line a name, with an empty line where
// another prediction begins; a prediction that is killed and goes on is one. Throws Error with path and
// cause.
class SideFileRecord {
 public:
  explicit SideFileRecord(const std::filesystem::path& output);

  // A prediction starts, from the first sample on.
  void begin();
  // The prediction is about to write these files.
  void add(const std::vector<std::string>& names);
  // The prediction has written all its files: those of earlier ones go, but for what another result with the
  // same folder has, too.
  void remove_others();

 private:
  using Names = std::set<std::string, std::less<>>;
  struct Content {
    Names before, now;
  };
  static Content read(const std::filesystem::path& file);
  void append(const std::string& text);
  Names of_other_results() const;

  std::filesystem::path folder_, file_;
  bool is_whole_ = false;  // the last line of the file ends
};

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

// What `export` writes for a task that has no form of its own, into a folder that is there: the parameters as
// model.safetensors, the task's extra state, if it has any, as extra_state.bin, and a README.md that says
// what they are. The same bytes whatever strategy and number of processes the checkpoint is from. Throws
// Error with path, cause and `remedy`. `values` reads a parameter's value, as Checkpoint::read() does.
void export_parameters(const checkpoint::Checkpoint& from, const plugins::PieceReader& values,
                       plugins::Task& task, const std::filesystem::path& folder, std::string_view remedy);

}  // namespace pipeline::train
