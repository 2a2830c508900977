#include "core/train/validation.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/train/session/weights.hpp"

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

ModelSelection::Judgement ModelSelection::judge(const Evaluation& evaluation) {
  const std::string& name = options_.best_metric;
  const Figure& figure = *evaluation.find(name);
  const Figure* loss = evaluation.find("loss");
  const std::string problem = not_finite(evaluation, name);
  const bool is_finite = problem.empty(), higher_is_better = figure.better == PL_BETTER_HIGHER;
  state_.health.add_evaluation(
      state_.step, loss ? loss->value : figure.value,
      is_finite ? "" : fmt::format("the evaluation after step {} gave {}", state_.step, problem));
  // Other figures can look good where the loss is NaN.
  Judgement judgement{.metric = {name, is_finite ? figure.value : std::nan(""), higher_is_better}};
  judgement.is_best =
      is_finite &&
      (!state_.best || state_.best->metric != name ||
       (higher_is_better ? figure.value > state_.best->value : figure.value < state_.best->value));
  if (judgement.is_best) state_.best = Best{name, figure.value, state_.step, higher_is_better};
  count_for_patience(figure, is_finite);
  return judgement;
}

// An evaluation at the end of a run that goes on later does not count: without that end it would not be.
void ModelSelection::count_for_patience(const Figure& figure, bool is_finite) {
  if (options_.every == 0 || state_.step % options_.every != 0) return;
  std::optional<Patience>& patience = state_.patience;
  const auto gain = [&] {
    const double rise = figure.value - patience->reference;
    return figure.better == PL_BETTER_HIGHER ? rise : -rise;
  };
  const bool is_other = !patience || patience->metric != figure.name;
  if (is_finite && (is_other || gain() > options_.min_delta))
    patience = Patience{figure.name, figure.value, state_.step, 0};
  else if (!is_other)
    ++patience->waited;
}

bool ModelSelection::stops_early() const {
  return options_.patience > 0 && state_.patience && state_.patience->waited >= options_.patience;
}

std::string ModelSelection::why_it_stops() const {
  const Patience& patience = *state_.patience;
  return fmt::format(
      "{} evaluation{} in a row gave no better {} than {:.6g} of step {}{} (evaluate.patience)",
      patience.waited, patience.waited == 1 ? "" : "s", patience.metric, patience.reference, patience.step,
      options_.min_delta > 0 ? fmt::format(" by more than {:g}", options_.min_delta) : "");
}

Validation::Validation(Session& session, TrainState& state, RunActivity& activity)
    : session_(session),
      options_(session.options().evaluate),
      state_(state),
      activity_(activity),
      selection_(options_, state) {}

void Validation::check() const {
  const config::Config& config = session_.config();
  if (options_.ema) {
    if (config.options().average.decay == 0)
      throw config.error("evaluate.ema", "no moving average is kept: set optimizer.ema_decay");
    if (!session_.strategy().has_average())
      throw config.error("evaluate.ema", fmt::format("{} keeps no moving average: leave it out",
                                                     session_.strategy_plugin().label()));
  }
  if (session_.task().sample_count(PL_SPLIT_VAL) == 0) {
    if (options_.every > 0)
      throw config.error("evaluate.every", fmt::format("{} has no validation data: add some, or use 0",
                                                       session_.task_plugin().label()));
    session_.log().info("evaluation  none: there is no validation data to select a best checkpoint");
    return;
  }
  if (options_.patience > 0 && options_.every == 0)
    throw config.error("evaluate.patience", "nothing is evaluated during training: set evaluate.every");
  const std::string& name = options_.best_metric;
  const std::vector<plugins::Metric> metrics = session_.task().metrics();
  if (name == "loss" || std::ranges::find(metrics, name, &plugins::Metric::name) != metrics.end()) return;
  std::string names = "loss";
  for (const plugins::Metric& metric : metrics)
    if (metric.name != "loss") names += ", " + metric.name;
  throw config.error("evaluate.best_metric",
                     fmt::format("{} has no such figure; it has {}", session_.task_plugin().label(), names));
}

void Validation::begin(const RunFolder& folder, Records* records) {
  records_ = records;
  const auto was_evaluated = [&] {
    return observe::JsonLines::contains(folder.evaluations(), "step", state_.step) ? "yes" : "no";
  };
  if (session_.processes().on_first("looking for the evaluation", was_evaluated) == "yes" &&
      state_.health.bad_evaluation().empty())
    evaluated_step_ = state_.step;
}

bool Validation::due(bool last) const {
  if (evaluated_step_ == state_.step) return false;
  if (state_.step == 0) return options_.at_start;
  return (options_.every > 0 && state_.step % options_.every == 0) || (last && options_.at_end);
}

std::optional<checkpoint::Metric> Validation::metric() const {
  return metric_step_ == state_.step ? metric_ : std::nullopt;
}

void Validation::set_metric(std::optional<checkpoint::Metric> metric) {
  metric_ = std::move(metric);
  metric_step_ = state_.step;
}

bool Validation::evaluate(const std::function<void()>& save) {
  activity_.begin("evaluation", fmt::format("evaluation after step {}", state_.step));
  step_of_weights = state_.step;
  session_.log().console().status({});
  const observe::Elapsed time(session_.log().console(), activity_.phase());
  if (session_.task().sample_count(PL_SPLIT_VAL) == 0) return true;
  std::vector<std::string> shown;
  const std::optional<Evaluation> result = measure(save, shown);
  if (!result) return false;
  record(*result, save);
  if (state_.step == 0) {  // of weights that no step has made: it selects no checkpoint
    announce_result("before training", *result, "", shown);
    return true;
  }
  require_selecting_figure(*result, save);
  const ModelSelection::Judgement judgement = selection_.judge(*result);
  set_metric(judgement.metric);
  announce_result(fmt::format("after step {}{}", state_.step, uses_average() ? ", moving average" : ""),
                  *result, judgement.is_best ? fmt::format("; best {} so far", judgement.metric.name) : "",
                  shown);
  return true;
}

// Puts the samples that are shown with the model's answers into `shown`. nullopt: it was cut off.
std::optional<Evaluation> Validation::measure(const std::function<void()>& save,
                                              std::vector<std::string>& shown) {
  const auto put_back = [&] {
    session_.release_values();
    if (uses_average()) session_.strategy().swap_average();
  };
  if (uses_average()) session_.strategy().swap_average();
  try {
    session_.gather_values();
  } catch (const Error& error) {
    if (error.code() == PL_ERROR_OUT_OF_MEMORY) {  // as on all ranks
      put_back();
      save();
    }
    throw;
  }
  EvaluationRequest request = request_for(session_, PL_SPLIT_VAL, PL_PURPOSE_VALIDATE);
  request.progress = [&](uint64_t done, uint64_t total) {
    session_.log().console().progress(fmt::format("evaluating after step {}", state_.step), done, total);
  };
  request.show = [&](uint64_t, std::string_view text) { shown.emplace_back(text); };
  request.failed = [&] {
    put_back();
    save();
  };
  std::optional<Evaluation> result = train::evaluate(session_.processes(), session_.task(), request);
  put_back();
  session_.log().console().status({});
  return result;
}

void Validation::record(const Evaluation& result, const std::function<void()>& save) {
  nlohmann::ordered_json json{
      {"step", state_.step}, {"samples", result.samples}, {"seconds", result.seconds}};
  for (const Figure& figure : result.figures) {
    if (json.contains(figure.name)) {
      save();
      fail("{} has a figure '{}', a name reserved in eval.jsonl: rename it", session_.task_plugin().label(),
           figure.name);
    }
    json[figure.name] = figure.value;
  }
  if (records_) records_->evaluation(json);
  evaluated_step_ = state_.step;
}

// The task may have other figures than it said.
void Validation::require_selecting_figure(const Evaluation& result, const std::function<void()>& save) const {
  if (result.find(options_.best_metric) != nullptr) return;
  save();
  std::string names;
  for (const Figure& f : result.figures) names += (names.empty() ? "" : ", ") + f.name;
  throw session_.config().error("evaluate.best_metric",
                                fmt::format("this evaluation has no such figure; it has {}", names));
}

void Validation::announce_result(const std::string& when, const Evaluation& result, const std::string& more,
                                 const std::vector<std::string>& shown) const {
  observe::Log& log = session_.log();
  std::string text;
  for (const Figure& f : result.figures) text += fmt::format("  {} {:.4f}", f.name, f.value);
  log.info(fmt::format("evaluation {}:{}  ({} of {} samples in {:.1f} s{})", when, text, result.samples,
                       result.available, result.seconds, more));
  for (const std::string& lines : result.text) log.info(lines);
  for (const std::string& sample : shown) log.info(sample);
}

}  // namespace pipeline::train
