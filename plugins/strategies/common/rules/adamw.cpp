// AdamW (Loshchilov and Hutter, arXiv 1711.05101) by PyTorch's fused kernel: one pass over weights, gradients
// and state, which also scales the gradients. Moments in 16 or 8 bits are widened, and rounded again, piece
// by piece.
#include "plugins/strategies/common/rules/update_rule.hpp"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>

#include "plugins/strategies/common/rules/parallel.hpp"

namespace pipeline::strategies {
namespace {

// Weights at once: what is computed with them fits a core's cache; a device wants more, and has memory for
// it.
constexpr int64_t kPiece = int64_t{1} << 14, kDevicePiece = int64_t{1} << 22;

class AdamW : public UpdateRule {
 public:
  explicit AdamW(const OptimizerRule& rule) {
    OptimizerRule always = rule;
    if (always.options.erase("state_bits") > 0) bits_ = static_cast<int>(rule.option("state_bits"));
    always.require_options({"beta1", "beta2", "epsilon", "weight_decay"});
    beta1_ = rule.option("beta1"), beta2_ = rule.option("beta2"), epsilon_ = rule.option("epsilon");
    weight_decay_ = rule.option("weight_decay");
    require_option(beta1_ >= 0 && beta1_ < 1, "beta1", beta1_, "at least 0 and below 1");
    require_option(beta2_ >= 0 && beta2_ < 1, "beta2", beta2_, "at least 0 and below 1");
    require_option(epsilon_ > 0, "epsilon", epsilon_, "above 0");
    require_option(weight_decay_ >= 0, "weight_decay", weight_decay_, "0 or more");
    require_option(bits_ == 32 || bits_ == 16 || bits_ == 8, "state_bits", bits_, "32, 16 or 8");
  }

  std::vector<StateKind> kinds() const override {
    if (bits_ == 16) return {{"exp_avg", StateForm::kBFloat16}, {"exp_avg_sq", StateForm::kBFloat16}};
    if (bits_ == 8) return {{"exp_avg", StateForm::kSigned8}, {"exp_avg_sq", StateForm::kUnsigned8}};
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }

  void apply(const Update& update) const override {
    if (bits_ == 32) return run(update, update.weights, update.gradients, update.values(0), update.values(1));
    for (size_t i = 0; i < update.weights.size(); ++i) apply_narrow(update, i);
  }

 private:
  using Tensors = std::vector<at::Tensor>;

  void run(const Update& update, const Tensors& weights, const Tensors& gradients, const Tensors& moments,
           const Tensors& squares) const {
    // Kernels that take a list of step counts take one scalar many times.
    const Tensors steps(weights.size(), update.step_count);
    at::_fused_adamw_(weights, gradients, moments, squares, {}, steps, update.learning_rate, beta1_, beta2_,
                      weight_decay_, epsilon_, /*amsgrad=*/false, /*maximize=*/false, update.scale.divisor,
                      update.scale.found_inf);
  }

  void apply_narrow(const Update& update, size_t index) const {
    const at::Tensor &weights = update.weights[index], &gradients = update.gradients[index];
    const Update::Place& place = update.places[index];
    const int64_t length = weights.numel(), piece = weights.is_cpu() ? kPiece : kDevicePiece,
                  count_of_pieces = (length + piece - 1) / piece;
    const std::vector<StateKind> form = kinds();
    const auto update_piece = [&](int64_t index_of_piece) {
      const at::NoGradGuard no_grad;  // of this thread
      const int64_t begin = index_of_piece * piece, count = std::min(piece, length - begin);
      const Kept moment = narrow_state(update.state[0][index], begin, count),
                 square = narrow_state(update.state[1][index], begin, count);
      const at::Tensor wide[] = {widened(form[0].form, moment), widened(form[1].form, square)};
      run(update, {weights.narrow(0, begin, count)}, {gradients.narrow(0, begin, count)}, {wide[0]},
          {wide[1]});
      const at::Tensor random = noise(place.unit, place.first + begin, count, update.step_count);
      narrow_to(form[0].form, wide[0], random, moment);
      narrow_to(form[1].form, wide[1], random.bitwise_right_shift(16), square);
    };
    if (weights.is_cpu()) return parallel_tasks(count_of_pieces, update_piece);
    for (int64_t i = 0; i < count_of_pieces; ++i) update_piece(i);
  }

  double beta1_, beta2_, epsilon_, weight_decay_;
  int bits_ = 32;
};

}  // namespace

std::unique_ptr<UpdateRule> make_adamw(const OptimizerRule& options) {
  return std::make_unique<AdamW>(options);
}

}  // namespace pipeline::strategies
