// An update rule that keeps its promises, unless a macro says which one it breaks.
#include <pipeline/optimizer.hpp>

#ifndef ZOO_STATE
#define ZOO_STATE "sum"
#endif
#ifndef ZOO_SHARE
#define ZOO_SHARE 0
#endif
#ifndef ZOO_TAKES_SCALE
#define ZOO_TAKES_SCALE false
#endif
#ifndef ZOO_SKIPS
#define ZOO_SKIPS true
#endif
#ifndef ZOO_DIVIDES
#define ZOO_DIVIDES true
#endif

namespace {

class Rule : public pipeline::Optimizer<pipeline::NoConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = ZOO_TAKES_SCALE;
  std::vector<std::string> state() const override { return {ZOO_STATE}; }
  void update(const pipeline::Update& u) override {
#ifdef ZOO_THROWS
    pipeline::fail("nothing works today");
#endif
    if (ZOO_SKIPS && u.found_inf() && pipeline::floats(*u.found_inf())[0] != 0) return;
    const float divisor = ZOO_DIVIDES && u.divisor() ? pipeline::floats(*u.divisor())[0] : 1;
    for (size_t run = 0; run < u.runs(); ++run) {
      const auto weights = pipeline::floats(u.weights(run)), gradient = pipeline::floats(u.gradient(run)),
                 sum = pipeline::floats(u.state(0, run));
      const float share = ZOO_SHARE * static_cast<float>(weights.size());  // a rule must not know that
      for (size_t i = 0; i < weights.size(); ++i) {
        sum[i] += gradient[i] / divisor;
        weights[i] -= static_cast<float>(u.learning_rate()) * (sum[i] + share);
      }
    }
  }
#ifdef ZOO_TRANSFORM
  void directions(const pipeline::Update&) override {}
  void transform(const pl_tensor& matrix) override {
    // Each row less the one before it: a part of a matrix would give another result.
    const auto values = pipeline::floats(matrix);
    const auto width = static_cast<size_t>(matrix.shape[1]);
    for (size_t i = values.size(); i-- > width;) values[i] = (values[i] - values[i - width]) / ZOO_TRANSFORM;
  }
#endif
};

}  // namespace

PIPELINE_OPTIMIZER(Rule, ZOO_NAME, "1.0", "an optimizer of the zoo")
