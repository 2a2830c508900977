// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024): the direction is the
// momentum's nearest orthogonal matrix, by Newton-Schulz iterations. Its size is 0.2 sqrt(max(rows,
// columns)), as large as an update of AdamW (Liu et al., "Muon is scalable for LLM training", arXiv
// 2502.16982, section 2.2), so that one learning rate and weight decay are right for both. As
// torch.optim.Muon with adjust_lr_fn="match_rms_adamw".
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ops/addmm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>

namespace pipeline::strategies {
namespace {

// Of the quintic polynomial that moves all singular values towards 1 (Jordan et al.).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-7;

// In bfloat16, as PyTorch has it: where processors compute in it the products take a quarter of the time, and
// a rounding error of the direction does not add up.
at::Tensor orthogonal(const at::Tensor& matrix, int64_t steps) {
  at::Tensor x = matrix.to(at::kBFloat16);
  const bool is_tall = x.size(0) > x.size(1);
  if (is_tall) x = x.t();
  x.div_(x.norm().clamp_min(kLeastNorm));
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA, 1);
  }
  return (is_tall ? x.t() : x).to(matrix.scalar_type());
}

class Muon : public TensorRule {
 public:
  explicit Muon(const OptimizerRule& rule) {
    rule.require_options({"momentum", "steps", "weight_decay"});
    momentum_ = rule.option("momentum"), weight_decay_ = rule.option("weight_decay");
    steps_ = static_cast<int64_t>(rule.option("steps"));
    require_option(momentum_ >= 0 && momentum_ < 1, "muon_momentum", momentum_, "at least 0 and below 1");
    require_option(steps_ >= 1, "muon_steps", rule.option("steps"), "1 or more");
    require_option(weight_decay_ >= 0, "weight_decay", weight_decay_, "0 or more");
  }

  std::vector<StateKind> kinds() const override { return {{"momentum"}}; }

  std::vector<at::Tensor> directions(const Update& update) const override {
    const std::optional<at::Tensor>&divisor = update.scale.divisor, &found_inf = update.scale.found_inf;
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < update.weights.size(); ++i) {
      at::Tensor momentum = update.state[0][i].values;
      const at::Tensor gradient = divisor ? update.gradients[i] / *divisor : update.gradients[i];
      const at::Tensor moved = at::lerp(momentum, gradient, 1 - momentum_);
      momentum.copy_(found_inf ? at::where(found_inf->gt(0), momentum, moved) : moved);
      all.push_back(at::lerp(gradient, moved, momentum_));  // Nesterov's
    }
    return all;
  }

  at::Tensor transformed(const at::Tensor& directions) const override {
    const auto longest = static_cast<double>(std::max(directions.size(0), directions.size(1)));
    return orthogonal(directions, steps_).mul(0.2 * std::sqrt(longest)).contiguous();
  }

  void move(const Update& update, const std::vector<at::Tensor>& transformed) const override {
    const std::optional<at::Tensor>& found_inf = update.scale.found_inf;
    for (size_t i = 0; i < update.weights.size(); ++i) {
      at::Tensor weights = update.weights[i];
      const at::Tensor next =
          (weights * (1 - update.learning_rate * weight_decay_)).sub_(transformed[i], update.learning_rate);
      weights.copy_(found_inf ? at::where(found_inf->gt(0), weights, next) : next);
    }
  }

 private:
  double momentum_, weight_decay_;
  int64_t steps_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_muon(const OptimizerRule& options) {
  return std::make_unique<Muon>(options);
}

}  // namespace pipeline::strategies
