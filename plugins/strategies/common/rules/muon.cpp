// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024): the direction is the
// momentum's nearest orthogonal matrix, by Newton-Schulz iterations. Its size is 0.2 sqrt(max(rows,
// columns)), as large as an update of AdamW (Liu et al., "Muon is scalable for LLM training", arXiv
// 2502.16982, section 2.2), so that one learning rate and weight decay are right for both. As
// torch.optim.Muon with adjust_lr_fn="match_rms_adamw".
#include <algorithm>
#include <cmath>

#include <ATen/ops/addmm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>

#include "plugins/strategies/common/rules/built_in.hpp"

namespace pipeline::strategies {
namespace {

// The coefficients of the quintic polynomial that moves all singular values towards 1 (Jordan et al.).
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-7;

// Computes in bfloat16, as PyTorch does: where processors compute in it the products take a quarter of the
// time, and a rounding error of the direction does not add up.
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

struct MuonConfig {
  double momentum = 0.95;
  int64_t steps = 5;

  void describe(Options& o) {
    o("momentum", momentum, "decay of the gradient's moving average");
    o("steps", steps, "of Newton and Schulz");
  }
  void validate(const ConfigErrors& /*errors*/) const {
    require_option(momentum >= 0 && momentum < 1, "muon_momentum", momentum, "at least 0 and below 1");
    require_option(steps >= 1, "muon_steps", static_cast<double>(steps), "1 or more");
  }
};

class Muon : public pipeline::Optimizer<MuonConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = true;

  std::vector<std::string> state() const override { return {"momentum"}; }

  void directions(const Update& u) override {
    const auto divisor = to_torch(u.divisor());
    for (size_t run = 0; run < u.runs(); ++run) {
      const at::Tensor gradient = to_torch(u.gradient(run)), momentum = to_torch(u.state(0, run));
      if (divisor) gradient.div_(*divisor);
      const at::Tensor moved = at::lerp(momentum, gradient, 1 - config().momentum);
      replace(momentum, moved, u);
      gradient.lerp_(moved, config().momentum);  // Nesterov's
    }
  }

  void transform(const pl_tensor& directions) override {
    const at::Tensor matrix = to_torch(directions);
    const auto longest = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
    matrix.copy_(orthogonal(matrix, config().steps).mul_(0.2 * std::sqrt(longest)));
  }

  void update(const Update& u) override {
    for (size_t run = 0; run < u.runs(); ++run) {
      const at::Tensor weights = to_torch(u.weights(run)), transformed = to_torch(u.gradient(run));
      replace(weights,
              (weights * (1 - u.learning_rate() * u.weight_decay())).sub_(transformed, u.learning_rate()), u);
    }
  }

 private:
  static void replace(const at::Tensor& values, const at::Tensor& next, const Update& u) {
    const auto found_inf = to_torch(u.found_inf());
    values.copy_(found_inf ? at::where(found_inf->gt(0), values, next) : next);
  }
};

}  // namespace

const BuiltIn kMuon = built_in<Muon>("muon");

}  // namespace pipeline::strategies
