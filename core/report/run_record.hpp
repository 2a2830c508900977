// What a run left behind, read for comparing and showing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

namespace pipeline::report {

// What a column has where a line does not have the figure, or null: a NaN that is told from those that were
// computed.
double missing();
bool is_missing(double value);

// Figures by step, as the lines of a file have them.
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

// The last steps in such a file, at least one where there is one: what it takes does not grow with the run.
// The lines before them are not looked at.
Curve read_last_steps(const std::filesystem::path& file);

// The object in a file of a run's folder. Throws Error (PL_ERROR_CONFIG) with the file for anything else.
nlohmann::ordered_json read_object(const std::filesystem::path& file);

// summary.json, checked for what is asked of it here and in a page.
nlohmann::ordered_json read_summary(const std::filesystem::path& file);

struct RunRecord {
  std::string name;            // short, for legends
  std::filesystem::path path;  // of the folder or file
  Curve training, evaluations;
  std::map<std::string, std::string> options;  // as resolved: "train.global_batch" -> "32"
  nlohmann::ordered_json summary;              // summary.json; null before the run trains
  bool finished = false;
  // What became of a run that was to be made for a comparison.
  enum class Made { yes, failed, no } made = Made::yes;
  std::string why_not;  // "exited with code 2"

  uint64_t last_step() const { return training.steps.empty() ? 0 : training.steps.back(); }
  // Tokens, or else samples, in a second: the median over the steps, which starts and other work on the
  // machine do not move.
  double throughput() const;
  std::string_view throughput_unit() const;  // "tokens" or "samples"
  uint64_t peak_host_memory() const;         // bytes, of the rank with most; 0: not known
  uint64_t processes() const;                // 0: not known

  // The best evaluation so far, by evaluate.best_metric.
  struct Best {
    std::string metric;
    double value = 0;
    uint64_t step = 0;
    bool higher_is_better = false;

    std::string checkpoint() const;  // below the run's folder, where it may not be kept
  };
  std::optional<Best> best() const;  // nullopt: there is none, or it is not known

  // The rank that works longest, in loading, forward and backward passes and updates, while the others wait
  // for it.
  struct Straggler {
    size_t rank = 0;
    double excess = 0;  // over the mean of all ranks: 0.1 is 10% more
  };
  std::optional<Straggler> straggler() const;  // nullopt: one rank, or not known

  // The ranks' devices, as NVML saw them.
  struct DeviceUse {
    double mean = 0, least = 0;  // share of the time in which something ran on them
    size_t least_rank = 0;
    uint64_t memory = 0;  // bytes, of the one with most, all processes together, at most
    bool operator==(const DeviceUse&) const = default;
  };
  std::optional<DeviceUse> device_use() const;  // nullopt: not known
};

// Whether a file of a run's folder is a table that `predict` wrote, and not one of `csv`.
bool is_prediction(const std::filesystem::path& file);
// Whether evaluations or predictions have left results there.
bool has_results(const std::filesystem::path& folder);
// Whether it is the folder of a run, or of a stage of it, that has begun to train.
bool has_steps(const std::filesystem::path& folder);

// `folder`: one that has_steps(). Throws Error (PL_ERROR_CONFIG) if not, and for what cannot be read in it.
RunRecord read_run(const std::filesystem::path& folder, std::string name);

// The folders of the runs in `folder`: itself, or those of its stages in the order in which they began; empty
// where none has begun.
std::vector<std::filesystem::path> find_stages(const std::filesystem::path& folder);
// Returns find_stages(); throws Error where there are none.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

// Losses by step, as another program has written them.
struct LossFile {
  RunRecord run;
  std::string how_read;  // "theirs.csv: the step is iter, the loss train_loss"
};

// JSON objects a line, or CSV with a header. The step is the column `step`, `global_step`, `_step`, `iter` or
// `iteration`, the loss `loss`, `train_loss`, `train/loss` or `training_loss`, the first that there is. A
// line of JSON without a loss is of something else, such as an evaluation; one where it is empty, null or NaN
// is of a loss that is no number, unless its step has one in another line. Throws Error with file and line
// for what is none of this, or with the names of the columns where there is no step or no loss among them.
LossFile read_losses(const std::filesystem::path& file, std::string name);

// What has become of a run: for `status` and `ls`.

// Of numbers in them the smaller one first: run-9, run-10.
bool comes_before(const std::filesystem::path& a, const std::filesystem::path& b);

// begun: by a process that is gone, before its first step. running: on this host; of a run on another host
// that shares the folder it cannot be seen. stopped: by a signal, after it was saved. cut_off: it failed or
// was killed; what was not saved will be done again. diverged: diverged.txt says how.
enum class RunState { begun, running, finished, diverged, stopped, cut_off };

std::string_view name_of(RunState state);  // "cut off"
RunState state_of(const std::filesystem::path& folder);

// "step-00000100"; empty: there is none.
std::string last_checkpoint(const std::filesystem::path& folder);

// The folders of the runs and their stages in `folder`, itself included, by name.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

struct RunList {
  // A line for each: state, step, loss, best evaluation, speed of the last steps, last checkpoint, when it
  // last wrote.
  std::string table;
  std::vector<std::string> problems;  // of the runs whose state is "unreadable"
};

// `folders` as find_runs() gives them. `best_first`: runs with better evaluations before others, and those
// without behind them.
RunList list_runs(const std::vector<std::filesystem::path>& folders, bool best_first = false);

}  // namespace pipeline::report
