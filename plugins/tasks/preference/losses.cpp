#include "plugins/tasks/preference/losses.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>

#include <tuple>

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
    "dpo, ipo, hinge and kto compare with a reference model; cpo, simpo and orpo do without one; reward "
    "trains a model that scores answers: see the task's README")
      .choices({"dpo", "ipo", "hinge", "kto", "cpo", "simpo", "orpo", "reward"})
      .follows();
  o("beta", beta,
    "how much a difference in log-probability counts; dpo: the strength of the tie to the reference; orpo: "
    "the weight of the odds, lambda in its paper; simpo's paper has 2 to 10")
      .above(0);
  o("label_smoothing", label_smoothing, "dpo: the share of pairs that are thought to be the wrong way round")
      .min(0)
      .below(0.5);
  o("gamma", gamma, "simpo: how much better the chosen answer has to be").min(0);
  o("desirable_weight", desirable_weight, "kto: of answers that are wanted").min(0);
  o("undesirable_weight", undesirable_weight,
    "kto: of the others; the sums of both weights over the data are to be alike")
      .min(0);
  o("sft_weight", sft_weight,
    "adds so much of the chosen answers' cross entropy, a mean over each one's tokens; 0: cpo and orpo 1, as "
    "their papers, the others none")
      .min(0);
  o("center_rewards_coefficient", center_rewards_coefficient,
    "reward: adds so much of the square of a pair's summed scores, which keeps them around 0")
      .min(0);
}

void LossOptions::validate(const ConfigErrors& errors) const {
  const auto only = [&](const char* key, bool is_set, const char* of) {
    if (is_set && loss != of)
      errors(key, concat("is of task.preference.loss = \"", of, "\" alone, not of \"", loss, "\""));
  };
  only("label_smoothing", label_smoothing != LossOptions().label_smoothing, "dpo");
  only("desirable_weight", desirable_weight != LossOptions().desirable_weight, "kto");
  only("undesirable_weight", undesirable_weight != LossOptions().undesirable_weight, "kto");
  only("gamma", gamma != LossOptions().gamma, "simpo");
  only("center_rewards_coefficient", center_rewards_coefficient > 0, "reward");
  for (const auto& [key, value, otherwise] :
       {std::tuple("beta", beta, LossOptions().beta), {"sft_weight", sft_weight, LossOptions().sft_weight}})
    if (is_reward() && value != otherwise)
      errors(key, "is of no use with task.preference.loss = \"reward\", which knows scores alone");
}

double LossOptions::weight_of_sft() const {
  return sft_weight > 0 ? sft_weight : loss == "cpo" || loss == "orpo" ? 1 : 0;
}

at::Tensor pair_losses(const LossOptions& options, const LogProbabilities& model,
                       const LogProbabilities& reference, const Lengths& lengths) {
  const double beta = options.beta;
  if (options.is_reward())
    return options.center_rewards_coefficient * (model.chosen + model.rejected).square() -
           at::log_sigmoid(difference(model));
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

at::Tensor kto_losses(const LossOptions& options, const at::Tensor& r, const at::Tensor& z,
                      const at::Tensor& wanted) {
  const at::Tensor weight = wanted * options.desirable_weight + (1 - wanted) * options.undesirable_weight;
  return weight * at::sigmoid((1 - 2 * wanted) * options.beta * (r - z));
}

at::Tensor rewards(const LossOptions& options, const at::Tensor& model, const at::Tensor& reference,
                   const at::Tensor& lengths) {
  if (options.is_reward()) return model;
  const at::Tensor of = reference.defined() ? model - reference : model;
  return options.beta * (options.loss == "simpo" || options.loss == "orpo" ? of / lengths : of);
}

}  // namespace pipeline::tasks::preference
