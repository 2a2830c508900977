#include "core/train/stages/stages.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/config/error.hpp"
#include "core/observe/format.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/train/results/result_files.hpp"
#include "core/train/session/session.hpp"
#include "core/train/stages/inference.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// The parts of the data that an evaluation scored.
std::set<std::string_view> groups_of(const KeptEvaluation& evaluation) {
  std::set<std::string_view> groups;
  for (const plugins::EvaluationValue& value : evaluation.sums.sums)
    if (!value.group.empty()) groups.insert(value.group);
  return groups;
}

bool same_figures(const plugins::Metric& a, const plugins::Metric& b) {
  return a.name == b.name && a.source == b.source && a.aggregate == b.aggregate && a.better == b.better;
}

// Throws unless an evaluation may be used, by itself and beside the first one.
void require_usable(const KeptEvaluation& one, const KeptEvaluation& first) {
  if (one.sums.samples < one.sums.available)
    fail(PL_ERROR_CONFIG,
         "{}: covers {} of the split's {} samples (evaluate.max_samples), but only whole evaluations can be "
         "pooled: set evaluate.max_samples = 0 for the stage '{}' and run it again",
         one.figures, one.sums.samples, one.sums.available, one.stage);
  if (one.sums.records > 0)
    fail(PL_ERROR_CONFIG,
         "{}: its report needs {} records of samples, which are not stored, so it cannot be pooled: leave "
         "out the stage '{}'",
         one.figures, one.sums.records, one.stage);
  if (first.sums.split != one.sums.split)
    fail(PL_ERROR_CONFIG, "{} is of split {}, {} of {}: only evaluations of one split can be pooled",
         first.figures, split_name(first.sums.split), one.figures, split_name(one.sums.split));
  if (!std::ranges::equal(first.sums.metrics, one.sums.metrics, same_figures))
    fail(PL_ERROR_CONFIG,
         "{} and {} differ in their figures or how they are computed: give the stages '{}' and '{}' the same "
         "task and task options, except the part of the data",
         first.figures, one.figures, first.stage, one.stage);
}

// The stages before `name` that evaluate, also where --stage has picked another one.
std::vector<config::Config> evaluations_before(const config::Config& whole, const std::string& name) {
  std::vector<config::Config> stages;
  for (const std::string& other : whole.all_stage_names()) {
    if (other == name) break;
    config::Config stage = whole.for_stage(other);
    if (stage.options().stage.kind == "evaluate") stages.push_back(std::move(stage));
  }
  return stages;
}

// Throws where the two differ, at the one that says something.
void require_same(const char* key, const config::Config& first, const config::Config& other,
                  const std::string& pool) {
  if (first.show(key) == other.show(key)) return;
  const bool at_other = other.is_set(key);
  const config::Config& here = at_other ? other : first;
  const config::Config& there = at_other ? first : other;
  throw here.error(
      key, fmt::format(
               "is of the stage '{}', but '{}' has {}: the stage '{}' pools both, so they must be the same",
               here.options().stage.name, there.options().stage.name, there.show(key), pool));
}

std::vector<KeptEvaluation> read_evaluations(const Workspace& workspace, const std::string& pool) {
  std::vector<KeptEvaluation> evaluations;
  const ValueSources sources(workspace.config);
  for (const config::Config& stage : evaluations_before(workspace.config, pool)) {
    const std::string& name = stage.options().stage.name;
    const RunFolder folder = RunFolder::of_first_rank(run_dir(workspace.config) / name);
    const auto finished = folder.finished();
    if (!finished)
      fail(PL_ERROR_CONFIG,
           "{}: is not finished, so its evaluation cannot be pooled: run the stage '{}' first",
           folder.path().string(), name);
    const Session now(stage, workspace.registry, workspace.log,
                      session_args(workspace, PL_PURPOSE_EVALUATE, folder.path(), sources.of(stage)));
    const std::string then = finished->substr(finished->find('\n') + 1);  // below the line that says of what
    if (const auto other = other_options(then, stage, now.plugin_configs()); !other.empty())
      workspace.log.warning(
          fmt::format("{} was made with other options than the stage '{}' has now ({}): run that stage again",
                      folder.path().string(), name, fmt::join(other, "; ")));
    evaluations.push_back(read_evaluation(
        name, folder.path() / fmt::format("evaluation-{}.json", stage.options().evaluate.split)));
  }
  return evaluations;
}

// What a stage adds up: by this, and by its options, a finished stage is recognized.
std::string mark_of(const std::vector<KeptEvaluation>& evaluations) {
  std::string text = "pool of\n";
  for (const KeptEvaluation& one : evaluations) {
    const std::string sums = sums_text(one.sums);
    text += fmt::format("{} (sums {:08x})\n", as_shown(one.figures),
                        safetensors::crc32c(0, std::as_bytes(std::span(sums))));
  }
  return text;
}

// Done on one rank: there is no more to it than reading and writing a few small files.
void add_up(Session& session, RunFolder& folder, const std::vector<KeptEvaluation>& evaluations) {
  observe::Log& log = session.log();
  require_poolable(evaluations);
  const uint32_t split = evaluations.front().sums.split;
  std::optional<EvaluationFiles> output(std::in_place,
                                        folder.path() / fmt::format("evaluation-{}.json", split_name(split)),
                                        "choose another run.dir");
  for (const std::string& doubt : doubts_about(evaluations)) log.warning(doubt);
  session.create_task();
  const Evaluation result = pool(session.task(), evaluations);
  log.info(fmt::format("pooled {} samples of {} evaluations", observe::grouped(result.samples),
                       evaluations.size()));
  std::vector<std::string> files;
  for (const KeptEvaluation& one : evaluations) files.push_back(as_shown(one.figures));
  tell_and_keep({{"evaluations", files}}, result, log, output);
}

}  // namespace

KeptEvaluation read_evaluation(const std::string& stage, const fs::path& figures) {
  const std::string remedy = fmt::format("run the stage '{0}' again, with --stage {0} --fresh", stage);
  return {stage, figures, read_sums(side_files_of(figures) / plugins::kSumsFile, remedy)};
}

void require_poolable(const std::vector<KeptEvaluation>& evaluations) {
  std::map<std::string_view, const KeptEvaluation*> scored;
  for (const KeptEvaluation& one : evaluations) {
    require_usable(one, evaluations.front());
    const KeptEvaluation* other = nullptr;
    std::vector<std::string_view> both;
    for (const std::string_view group : groups_of(one)) {
      const auto [at, is_new] = scored.emplace(group, &one);
      if (is_new || (other != nullptr && other != at->second)) continue;
      other = at->second;
      both.push_back(group);
    }
    if (other != nullptr)
      fail(PL_ERROR_CONFIG,
           "{} and {} both scored {}{}: each part of the data may count only once: have the stages '{}' and "
           "'{}' evaluate different parts, or leave one of them out",
           other->figures, one.figures, both.front(),
           both.size() == 1 ? "" : fmt::format(" (and {} more)", both.size() - 1), other->stage, one.stage);
  }
}

std::vector<std::string> doubts_about(const std::vector<KeptEvaluation>& evaluations) {
  std::vector<std::string> doubts;
  for (const KeptEvaluation& one : evaluations) {
    if (groups_of(one).empty() && evaluations.size() > 1)
      doubts.push_back(fmt::format(
          "{}: does not say which parts of the data it scored, so some may be counted twice", one.figures));
    for (const plugins::EvaluationValue& value : one.sums.sums)
      if (!std::isfinite(value.sum) || !std::isfinite(value.weight))
        doubts.push_back(fmt::format(
            "{}: '{}' is {} with weight {}, so figures from it are not finite: see the stage '{}'",
            one.figures, value.name, value.sum, value.weight, one.stage));
  }
  return doubts;
}

Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations) {
  EvaluationSums sums;
  uint64_t samples = 0;
  for (const KeptEvaluation& one : evaluations) {
    for (const plugins::EvaluationValue& value : one.sums.sums) sums.add(value);
    samples += one.sums.samples;
  }
  const Evaluation& first = evaluations.front().sums;
  Evaluation result = conclude(task, first.split, PL_PURPOSE_EVALUATE, sums, first.metrics, {});
  result.samples = result.available = samples;
  return result;
}

void check_pool(const config::Config& whole, const config::Config& stage) {
  const std::string& name = stage.options().stage.name;
  if (stage.is_set("stage.init_from"))
    throw stage.error("stage.init_from",
                      "has no effect in a pool stage, which uses no weights: leave it out");
  const std::vector<config::Config> evaluations = evaluations_before(whole, name);
  if (evaluations.empty())
    throw stage.error("stage.kind", "no stage before this one evaluates, so there is nothing to pool");
  for (const config::Config& one : evaluations) {
    for (const char* key : {"task.plugin", "evaluate.split"})
      require_same(key, evaluations.front(), one, name);
    if (one.options().evaluate.max_samples > 0)
      throw one.error("evaluate.max_samples",
                      fmt::format("may cut the stage '{0}' short, but the stage '{1}' pools whole "
                                  "evaluations: set it to 0 for '{0}' (in [stage.evaluate])",
                                  one.options().stage.name, name));
  }
  require_same("task.plugin", evaluations.front(), stage, name);
}

Outcome pool_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage,
                   const OnBegin& on_begin) {
  workspace.log.open_files(folder.path(), workspace.processes.world().rank);
  Session session(
      stage, workspace.registry, workspace.log,
      session_args(workspace, PL_PURPOSE_EVALUATE, folder.path(), ValueSources(workspace.config).of(stage)));
  workspace.processes.at("pooling evaluations", 0);
  return guard_work(
      session, [] { return std::string("pooling evaluations"); },
      [&] {
        workspace.processes.on_first("pooling evaluations", [&] {
          const std::vector<KeptEvaluation> evaluations =
              read_evaluations(workspace, stage.options().stage.name);
          const std::string mark = mark_of(evaluations);
          const auto before = folder.finished();
          if (before && before->starts_with(mark) &&
              other_options(before->substr(mark.size()), stage, session.plugin_configs()).empty()) {
            return workspace.log.info(fmt::format("{} is already finished", folder.path().string()));
          } else if (before) {
            workspace.log.info(fmt::format("{} was made with other options or evaluations: repeating it",
                                           folder.path().string()));
            folder.unmark_finished();
          }
          on_begin();
          add_up(session, folder, evaluations);
          folder.mark_finished(mark + session.resolved_toml());
        });
        return Outcome::finished;
      });
}

}  // namespace pipeline::train
