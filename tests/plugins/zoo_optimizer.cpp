// An update rule that keeps its promises, unless a macro says which one it breaks.
#include <pipeline/optimizer.hpp>

#ifndef ZOO_STATE
#define ZOO_STATE "sum"
#endif
#ifndef ZOO_SHARE
#define ZOO_SHARE 0
#endif

namespace {

class Rule : public pipeline::Optimizer<pipeline::NoConfig> {
 public:
  using Optimizer::Optimizer;
  std::vector<std::string> state() const override { return {ZOO_STATE}; }
  void update(const pipeline::Update& u) override {
#ifdef ZOO_THROWS
    pipeline::fail("nothing works today");
#endif
    for (size_t run = 0; run < u.runs(); ++run) {
      const auto weights = pipeline::floats(u.weights(run)), gradient = pipeline::floats(u.gradient(run)),
                 sum = pipeline::floats(u.state(0, run));
      const float share = ZOO_SHARE * static_cast<float>(weights.size());  // a rule must not know that
      for (size_t i = 0; i < weights.size(); ++i) {
        sum[i] += gradient[i];
        weights[i] -= static_cast<float>(u.learning_rate()) * (sum[i] + share);
      }
    }
  }
#ifdef ZOO_TRANSFORM
  void directions(const pipeline::Update&) override {}
  void transform(const pl_tensor& matrix) override {
    for (float& value : pipeline::floats(matrix)) value /= ZOO_TRANSFORM;
  }
#endif
};

}  // namespace

PIPELINE_OPTIMIZER(Rule, ZOO_NAME, "1.0", "an optimizer of the zoo")
