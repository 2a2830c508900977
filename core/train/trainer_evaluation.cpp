// The trainer's evaluations: when one is due is the loop's to say.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/train/session/step_of_weights.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {
namespace {

// The figures that a run goes by, its loss and the one that selects the best checkpoint, where they are not
// finite: "loss nan".
std::string not_finite(const Evaluation& evaluation, const std::string& selecting) {
  std::string text;
  for (const Figure& figure : evaluation.figures)
    if ((figure.name == "loss" || figure.name == selecting) && !std::isfinite(figure.value))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", figure.name, figure.value);
  return text;
}

}  // namespace

bool Trainer::evaluate_now() {
  reports_.collect_all();
  at("evaluation", fmt::format("evaluation after step {}", state_.step));
  step_of_weights = state_.step;
  log_.console().status({});
  const observe::Elapsed time(log_.console(), phase_);
  const uint64_t available = session_.task().sample_count(PL_SPLIT_VAL);
  if (available == 0) return true;
  std::vector<std::string> shown;
  const bool averaged = options_.evaluate.ema && state_.step > 0;
  const auto put_back = [&] {
    session_.release_values();
    if (averaged) session_.strategy().swap_average();
  };
  if (averaged) session_.strategy().swap_average();
  try {
    session_.gather_values();
  } catch (const Error& error) {
    if (error.code() == PL_ERROR_OUT_OF_MEMORY) {  // as on all ranks: nor is what was trained lost to that
      put_back();
      save(true);
    }
    throw;
  }
  EvaluationRequest request = request_for(session_, PL_SPLIT_VAL, PL_PURPOSE_VALIDATE);
  request.progress = [&](uint64_t done, uint64_t total) {
    log_.console().progress(fmt::format("evaluating after step {}", state_.step), done, total);
  };
  request.show = [&](uint64_t, std::string_view text) { shown.emplace_back(text); };
  request.failed = [&] {
    put_back();
    save(true);  // what was trained is not lost to an error in the evaluation
  };
  const auto result = evaluate(processes_, session_.task(), request);
  put_back();
  log_.console().status({});
  if (!result) return false;

  record_evaluation(*result);
  if (state_.step == 0) {  // of weights that no step has made: it selects no checkpoint
    tell_evaluation("before training", *result, "", shown);
    return true;
  }
  const std::string& name = options_.evaluate.best_metric;
  const Figure* figure = result->find(name);
  if (figure == nullptr) {
    save(true);  // nor to a misspelt name
    std::string names;
    for (const Figure& f : result->figures) names += (names.empty() ? "" : ", ") + f.name;
    throw config_.error("evaluate.best_metric",
                        fmt::format("this evaluation has no such figure; it has {}", names));
  }
  const std::string problem = not_finite(*result, name);
  const Figure* loss = result->find("loss");
  state_.health.add_evaluation(
      state_.step, loss ? loss->value : figure->value,
      problem.empty() ? "" : fmt::format("the evaluation after step {} gave {}", state_.step, problem));
  // Other figures can look good where the loss is NaN.
  metric_ = checkpoint::Metric{name, problem.empty() ? figure->value : std::nan(""),
                               figure->better == PL_BETTER_HIGHER};
  const bool better =
      problem.empty() &&
      (!state_.best || state_.best->metric != name ||
       (metric_->higher_is_better ? figure->value > state_.best->value : figure->value < state_.best->value));
  if (better) state_.best = Best{name, figure->value, state_.step};
  be_patient(*figure, problem.empty());
  tell_evaluation(fmt::format("after step {}{}", state_.step, averaged ? ", moving average" : ""), *result,
                  better ? fmt::format("; best {} so far", name) : "", shown);
  return true;
}

// An evaluation at the end of a run that goes on later does not count: without that end it would not be.
void Trainer::be_patient(const Figure& figure, bool is_finite) {
  const uint64_t between = options_.evaluate.every;
  if (between == 0 || state_.step % between != 0) return;
  std::optional<Patience>& patience = state_.patience;
  const double least = options_.evaluate.min_delta;
  const auto gain = [&] {
    const double rise = figure.value - patience->reference;
    return figure.better == PL_BETTER_HIGHER ? rise : -rise;
  };
  const bool is_other = !patience || patience->metric != figure.name;
  if (is_finite && (is_other || gain() > least))
    patience = Patience{figure.name, figure.value, state_.step, 0};
  else if (!is_other)
    ++patience->waited;
}

bool Trainer::has_lost_patience() const {
  const uint64_t most = options_.evaluate.patience;
  return most > 0 && state_.patience && state_.patience->waited >= most;
}

std::string Trainer::patience_text() const {
  const Patience& patience = *state_.patience;
  const double least = options_.evaluate.min_delta;
  return fmt::format(
      "{} evaluation{} in a row gave no better {} than {:.6g} of step {}{} (evaluate.patience)",
      patience.waited, patience.waited == 1 ? "" : "s", patience.metric, patience.reference, patience.step,
      least > 0 ? fmt::format(" by more than {:g}", least) : "");
}

void Trainer::tell_evaluation(const std::string& when, const Evaluation& result, const std::string& more,
                              const std::vector<std::string>& shown) {
  std::string text;
  for (const Figure& f : result.figures) text += fmt::format("  {} {:.4f}", f.name, f.value);
  log_.info(fmt::format("evaluation {}:{}  ({} of {} samples in {:.1f} s{})", when, text, result.samples,
                        result.available, result.seconds, more));
  for (const std::string& lines : result.text) log_.info(lines);
  for (const std::string& sample : shown) log_.info(sample);
}

void Trainer::record_evaluation(const Evaluation& result) {
  nlohmann::ordered_json json{
      {"step", state_.step}, {"samples", result.samples}, {"seconds", result.seconds}};
  for (const Figure& figure : result.figures) {
    if (json.contains(figure.name)) {
      save(true);
      throw Error(fmt::format("{} has a figure '{}', a name reserved in eval.jsonl: rename it",
                              session_.task_plugin().label(), figure.name));
    }
    json[figure.name] = figure.value;
  }
  if (records_) records_->evaluation(json);
  evaluated_step_ = state_.step;
}

// What would otherwise show up only after hours of training.
void Trainer::check_evaluation() const {
  if (options_.evaluate.ema) {
    if (options_.average.decay == 0)
      throw config_.error("evaluate.ema", "no moving average is kept: set optimizer.ema_decay");
    if (!session_.strategy().has_average())
      throw config_.error("evaluate.ema",
                          fmt::format("{} has no {}: leave it out", session_.strategy_plugin().label(),
                                      PL_EXTENSION_AVERAGE));
  }
  if (session_.task().sample_count(PL_SPLIT_VAL) == 0) {
    if (options_.evaluate.every > 0)
      throw config_.error("evaluate.every", fmt::format("{} has no validation data: add some, or use 0",
                                                        session_.task_plugin().label()));
    log_.info("evaluation  none: there is no validation data to select a best checkpoint");
    return;
  }
  if (options_.evaluate.patience > 0 && options_.evaluate.every == 0)
    throw config_.error("evaluate.patience", "nothing is evaluated during training: set evaluate.every");
  const std::string& name = options_.evaluate.best_metric;
  const std::vector<plugins::Metric> metrics = session_.task().metrics();
  if (name == "loss" ||
      std::ranges::any_of(metrics, [&](const plugins::Metric& metric) { return metric.name == name; }))
    return;
  std::string names = "loss";
  for (const plugins::Metric& metric : metrics)
    if (metric.name != "loss") names += ", " + metric.name;
  throw config_.error("evaluate.best_metric",
                      fmt::format("{} has no such figure; it has {}", session_.task_plugin().label(), names));
}

}  // namespace pipeline::train
