// What is learnt from pairs of answers of which people prefer one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/options.hpp>

namespace pipeline::tasks::preference {

struct LossOptions {
  std::string loss = "dpo";
  double beta = 0.1, label_smoothing = 0, gamma = 1, sft_weight = 0, desirable_weight = 1,
         undesirable_weight = 1, center_rewards_coefficient = 0;

  void describe(Options& o);
  void validate(const ConfigErrors& errors) const;

  // Whether the loss compares with a reference model.
  bool has_reference() const { return loss == "dpo" || loss == "ipo" || loss == "hinge" || loss == "kto"; }
  // Whether the model scores answers, by a head in place of its output head.
  bool is_reward() const { return loss == "reward"; }
  // Whether each answer is judged by itself.
  bool is_unpaired() const { return loss == "kto"; }
  double weight_of_sft() const;
};

// Log-probabilities of answers, (pairs) float64 each, the sums over their tokens; or their scores.
struct LogProbabilities {
  at::Tensor chosen, rejected;
};

// How many tokens these are sums of, (pairs) float64 each.
using Lengths = LogProbabilities;

// The loss of each pair, (pairs) float64. reference: undefined where the loss has none. s: the sum over an
// answer, m: the mean; h: the difference of s(chosen) and s(rejected), less that of the reference.
//   dpo    -(1 - label_smoothing) log sigmoid(beta h) - label_smoothing log sigmoid(-beta h)
//          (Rafailov et al., arXiv 2305.18290; smoothing: Mitchell's conservative DPO)
//   ipo    (h - 1 / (2 beta))^2, h of the means (Azar et al., arXiv 2310.12036)
//   hinge  max(0, 1 - beta h) (Zhao et al., SLiC-HF, arXiv 2305.10425)
//   cpo    -log sigmoid(beta (s(chosen) - s(rejected))) (Xu et al., arXiv 2401.08417), and sft_weight 1
//   simpo  -log sigmoid(beta (m(chosen) - m(rejected)) - gamma) (Meng et al., arXiv 2405.14734)
//   orpo   -beta log sigmoid(log odds of e^m(chosen) less those of e^m(rejected)) (Hong et al., arXiv
//   2403.07691), and
//          sft_weight 1
//   reward -log sigmoid(score(chosen) - score(rejected)) (Bradley and Terry 1952), and
//          center_rewards_coefficient x (score(chosen) + score(rejected))^2 (Eisenstein et al., arXiv
//          2312.09244)
// To each but the last is added sft_weight x -m(chosen).
at::Tensor pair_losses(const LossOptions& options, const LogProbabilities& model,
                       const LogProbabilities& reference, const Lengths& lengths);

// KTO's loss of each answer, (answers) float64 (Ethayarajh et al., arXiv 2402.01306): desirable_weight
// x (1 - sigmoid(beta (r - z))) of one that is wanted, undesirable_weight x (1 - sigmoid(beta (z - r))) of
// another. r: what the model gives it more than the reference; z, a scalar: the reference point. wanted:
// (answers) 1 or 0.
at::Tensor kto_losses(const LossOptions& options, const at::Tensor& r, const at::Tensor& z,
                      const at::Tensor& wanted);

// beta x what the model gives each answer more than the reference, (answers) as all arguments; without a
// reference, beta x its log-probability, of simpo and orpo the mean; of reward the score.
at::Tensor rewards(const LossOptions& options, const at::Tensor& model, const at::Tensor& reference,
                   const at::Tensor& lengths);

}  // namespace pipeline::tasks::preference
