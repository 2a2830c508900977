// The model against numbers recorded from Hugging Face transformers (tests/parity/record_gpt2_fixture.py),
// which padded the sequences that we pack.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tiny_model.hpp"

namespace pipeline::language::testing {
namespace {

void expect_checksums(const at::Tensor& tensor, const nlohmann::json& expected, const std::string& what,
                      double tolerance) {
  const std::vector<double> sums = checksums(tensor);
  const double norm = expected[1].get<double>();
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i], expected[i].get<double>(), tolerance * norm) << what << ", checksum " << i;
  }
}

class ReferenceTest : public ::testing::Test {
 protected:
  ReferenceTest() : model_(tiny_config()) { fill_by_formula(model_); }
  LanguageModel model_;
};

TEST_F(ReferenceTest, ParametersHaveTheNamesOfTransformers) {
  std::vector<std::string> ours;
  for (const auto& parameter : model_.parameters()) ours.push_back(parameter.name);
  for (const std::string& name : ours) EXPECT_TRUE(fixture()["gradients"].contains(name)) << name;
  EXPECT_EQ(ours.size(), fixture()["gradients"].size());
}

TEST_F(ReferenceTest, LogitsOfEveryPosition) {
  const PackedBatch batch = tiny_batch();
  const at::Tensor logits = model_.logits(batch, at::arange(batch.sequences.rows(), at::kLong));
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    const at::Tensor rows = logits.narrow(0, batch.sequences.start(s), batch.sequences.length(s));
    expect_checksums(rows, fixture()["logits"][static_cast<size_t>(s)], "sequence " + std::to_string(s),
                     2e-6);
    const auto last = fixture()["last_logits"][static_cast<size_t>(s)].get<std::vector<float>>();
    const at::Tensor expected = at::tensor(last);
    EXPECT_LT((rows[-1] - expected).abs().max().item<float>(), 2e-5f);
  }
}

TEST_F(ReferenceTest, LossAndEveryGradient) {
  const LossSum loss = model_.loss(tiny_batch(), {});
  const double expected = fixture()["loss"].get<double>();
  EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-6 * expected);
  EXPECT_NEAR(loss.scaled.item<double>(), expected, 1e-6 * expected);
  loss.scaled.backward();
  for (const auto& [name, parameter] : named(model_)) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    expect_checksums(parameter.grad(), fixture()["gradients"][name], name, 3e-5);
  }
}

TEST_F(ReferenceTest, TenStepsOfAdamW) {
  const PackedBatch batch = tiny_batch();
  const double count = fixture()["targets"].get<double>();
  struct State {
    at::Tensor first, second;
  };
  std::vector<State> states;
  const std::vector<at::Tensor> parameters = tensors(model_);
  for (const at::Tensor& p : parameters) states.push_back({at::zeros_like(p), at::zeros_like(p)});
  for (int step = 1; step <= 10; ++step) {
    zero_gradients(model_);
    const LossSum loss = model_.loss(batch, {.scale = 1 / count});
    const double expected = fixture()["adamw_losses"][static_cast<size_t>(step - 1)].get<double>();
    EXPECT_NEAR(loss.sum.item<double>() / count, expected, 1e-4 * expected) << "step " << step;
    loss.scaled.backward();
    const at::NoGradGuard no_grad;
    size_t i = 0;
    for (at::Tensor p : parameters) {
      const at::Tensor& g = p.grad();
      State& state = states[i++];
      if (p.dim() >= 2) p.mul_(1 - 1e-2 * 0.1);
      state.first.mul_(0.9).add_(g, 0.1);
      state.second.mul_(0.95).addcmul_(g, g, 0.05);
      const at::Tensor denominator = state.second.div(1 - std::pow(0.95, step)).sqrt_().add_(1e-8);
      p.addcdiv_(state.first, denominator, -1e-2 / (1 - std::pow(0.9, step)));
    }
  }
}

}  // namespace
}  // namespace pipeline::language::testing
