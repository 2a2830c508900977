#include "plugins/tasks/preference/losses.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/relu.h>

namespace pipeline::tasks::preference {
namespace {

LogProbabilities means(const LogProbabilities& sums, const Lengths& lengths) {
  return {sums.chosen / lengths.chosen, sums.rejected / lengths.rejected};
}
LogProbabilities less(const LogProbabilities& model, const LogProbabilities& reference) {
  return {model.chosen - reference.chosen, model.rejected - reference.rejected};
}
at::Tensor difference(const LogProbabilities& of) { return of.chosen - of.rejected; }

// log(p / (1 - p)) of p = exp(log_p).
at::Tensor log_odds(const at::Tensor& log_p) { return log_p - at::log1p(-log_p.exp()); }

}  // namespace

void LossOptions::describe(Options& o) {
  o("loss", loss,
    "dpo, ipo and hinge compare with a reference model; cpo, simpo and orpo do without one: see the task's "
    "README")
      .choices({"dpo", "ipo", "hinge", "cpo", "simpo", "orpo"});
  o("beta", beta,
    "how much a difference in log-probability counts; dpo: the strength of the tie to the reference; orpo: "
    "the weight of "
    "the odds, lambda in its paper; simpo's paper has 2 to 10")
      .above(0);
  o("label_smoothing", label_smoothing, "dpo: the share of pairs that are thought to be the wrong way round")
      .min(0)
      .below(0.5);
  o("gamma", gamma, "simpo: how much better the chosen answer has to be").min(0);
  o("sft_weight", sft_weight,
    "adds so much of the chosen answers' cross entropy, a mean over each one's tokens; 0: cpo and orpo 1, as "
    "their papers, "
    "the others none")
      .min(0);
}

void LossOptions::validate(const ConfigErrors& errors) const {
  const auto only = [&](const char* key, bool is_set, const char* of) {
    if (is_set && loss != of)
      errors(key, concat("is of task.preference.loss = \"", of, "\" alone, not of \"", loss, "\""));
  };
  only("label_smoothing", label_smoothing != LossOptions().label_smoothing, "dpo");
  only("gamma", gamma != LossOptions().gamma, "simpo");
}

double LossOptions::weight_of_sft() const {
  return sft_weight > 0 ? sft_weight : loss == "cpo" || loss == "orpo" ? 1 : 0;
}

at::Tensor pair_losses(const LossOptions& options, const LogProbabilities& model,
                       const LogProbabilities& reference, const Lengths& lengths) {
  const double beta = options.beta;
  at::Tensor loss;
  if (options.loss == "dpo") {
    const at::Tensor h = difference(less(model, reference)) * beta;
    loss = -(1 - options.label_smoothing) * at::log_sigmoid(h);
    if (options.label_smoothing > 0) loss = loss - options.label_smoothing * at::log_sigmoid(-h);
  } else if (options.loss == "ipo") {
    loss = (difference(means(less(model, reference), lengths)) - 1 / (2 * beta)).square();
  } else if (options.loss == "hinge") {
    loss = at::relu(1 - beta * difference(less(model, reference)));
  } else if (options.loss == "cpo") {
    loss = -at::log_sigmoid(beta * difference(model));
  } else if (options.loss == "simpo") {
    loss = -at::log_sigmoid(beta * difference(means(model, lengths)) - options.gamma);
  } else {
    const LogProbabilities mean = means(model, lengths);
    loss = -beta * at::log_sigmoid(log_odds(mean.chosen) - log_odds(mean.rejected));
  }
  const double sft = options.weight_of_sft();
  return sft > 0 ? loss - sft * (model.chosen / lengths.chosen) : loss;
}

LogProbabilities rewards(const LossOptions& options, const LogProbabilities& model,
                         const LogProbabilities& reference, const Lengths& lengths) {
  LogProbabilities of = reference.chosen.defined() ? less(model, reference) : model;
  if (options.loss == "simpo" || options.loss == "orpo") of = means(of, lengths);
  return {of.chosen * options.beta, of.rejected * options.beta};
}

}  // namespace pipeline::tasks::preference
