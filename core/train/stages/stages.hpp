// Runs what a configuration says: its stages in order, or one verb on what an earlier run left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// What all verbs share.
struct Workspace {
  const config::Config& config;
  plugins::Registry& registry;
  observe::Log& log;
  ProcessGroup& processes;
};

// Where a run (with stages: the folder that has theirs in it) lives: run.dir, or runs/NAME.
std::filesystem::path run_dir(const config::Config& config);

// A name to which a suffix can be added.
std::filesystem::path without_trailing_slash(const std::filesystem::path& path);

// The arguments of a session in `folder` that a signal stops.
SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const std::filesystem::path& folder,
                         ValueSource values);

// Each stage's own configuration, in order; `whole` itself where there is no [[stage]].
std::vector<config::Config> stages_of(const config::Config& whole);

// Where the weights of `stage`, of `whole`, come from: the folder of another stage, another path, or
// nothing. Absolute.
std::string init_from(const config::Config& whole, const config::Config& stage);

// Where the values of each stage come from: its own checkpoints, another stage, what init_from names.
class ValueSources {
 public:
  // `fresh`: older results are about to be moved aside.
  explicit ValueSources(const config::Config& whole, bool fresh = false) : whole_(whole), fresh_(fresh) {}
  ValueSource of(const config::Config& stage) const;
  // The session's stage is yet to run; others may begin with what it will leave.
  void add_planned(const Session& session);

 private:
  const config::Config& whole_;
  bool fresh_;
  std::map<std::string, ValueSource> planned_;  // by the stage's folder
};

// Key and absolute path of what the options name, of those that are set.
std::vector<std::pair<std::string, std::string>> set_paths(const config::Settings& options);

// Whether the task names something in the folder of a stage before its own, which is yet to write it: what
// there is to check shows when the stage begins.
bool reads_of_stage_before(const config::Config& whole, const Session& session);

// PL_PURPOSE_... of stage.kind.
uint32_t purpose_of_stage(const config::Config& stage);

// Throws ConfigError for stages that cannot do what they are for, so that this shows before anything is
// trained.
void check_stages(const config::Config& whole);

// Is told what begins: the folder of the run or of a stage of it, and its kind.
using OnStage = std::function<void(const std::filesystem::path& folder, const std::string& kind)>;

// Trains, evaluates, predicts, exports, adds up: every stage that is not finished yet, or the one that
// --stage names. `fresh`: older results are moved aside first.
Outcome run_stages(const Workspace& workspace, bool fresh, const OnStage& on_stage);

// Is told, by rank 0, that there is something to do, and that nothing speaks against it.
using OnBegin = std::function<void()>;

// Trains, or goes on, in the folder; nothing where the same is finished there. `weights`: what it begins
// from, as find_origin() takes it.
Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                    const std::string& weights, const OnBegin& on_begin);

// Does `work` of a verb or a stage. A cancellation that a signal asked for is logged and becomes
// Outcome::interrupted; running out of memory, in whatever form, becomes one error (PL_ERROR_OUT_OF_MEMORY)
// that says in which phase, how much there is, and which keys need less. `work_phase` says what is being done
// at the moment: "training step 12"; while the session is set up, that is known here.
Outcome guard_work(const Session& session, const std::function<std::string()>& work_phase,
                   const std::function<Outcome()>& work);

struct VerbArgs {
  std::string checkpoint = "best";  // best, last, or a path, also of another tool's model folder
  uint64_t average = 1;             // of so many checkpoints, up to this one, the mean of the weights
  bool ema = false;                 // their moving average instead
  std::string split;                // empty: evaluate.split
  std::filesystem::path output;     // empty: in the run's folder
  uint64_t samples = 0;             // to predict: the first so many; 0: all
  bool asked = false;               // to predict about one thing that the command line names
};

// Where `export` writes with these arguments.
std::filesystem::path export_folder(const config::Config& config, const VerbArgs& args);

// "evaluate", "predict" or "export", on a finished or unfinished run.
Outcome run_verb(std::string_view verb, const Workspace& workspace, const VerbArgs& args);

// Writes the answer to a conversation, a JSON array of messages, in pieces.
using Reply = std::function<void(const std::string& messages,
                                 const std::function<void(std::string_view piece)>& on_text)>;

// Calls talk() with the weights that the verb's arguments name, in one process.
Outcome converse(const Workspace& workspace, const VerbArgs& args,
                 const std::function<void(const Reply& reply)>& talk);

// A stage of kind "pool": adds up the evaluations of the stages before it, each of another part of the data,
// to the figures of all their samples together.

// Throws ConfigError for a stage of kind "pool" of `whole` that cannot be right, before anything is trained.
void check_pool(const config::Config& whole, const config::Config& stage);

// Adds up, unless the same was added up with these options before. `stage`: of workspace.config.
Outcome pool_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage,
                   const OnBegin& on_begin);

// A finished evaluation and where it was kept.
struct KeptEvaluation {
  std::string stage;    // that made it
  std::string figures;  // evaluation-SPLIT.json
  Evaluation sums;      // from beside it
};

// Throws Error for one that is damaged or not there.
KeptEvaluation read_evaluation(const std::string& stage, const std::filesystem::path& figures);
// Throws Error unless they may be added up: all whole, of one split, with the same figures, and no part of
// the data in two of them.
void require_poolable(const std::vector<KeptEvaluation>& evaluations);
// What cannot be seen from the evaluations, or spoils figures; for whoever reads these.
std::vector<std::string> doubts_about(const std::vector<KeptEvaluation>& evaluations);
// The sum of at least one. The task's report is asked; the task needs no data for it.
Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations);

}  // namespace pipeline::train
