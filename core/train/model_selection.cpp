#include "core/train/model_selection.hpp"

#include <cmath>

#include <fmt/format.h>

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
  if (judgement.is_best) state_.best = Best{name, figure.value, state_.step};
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

}  // namespace pipeline::train
