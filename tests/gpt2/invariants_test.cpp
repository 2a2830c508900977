// What training relies on: the bits of a step do not depend on threads, on recomputation, or on where the
// parameters are stored.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parameters.hpp"
#include "tiny_model.hpp"

namespace pipeline::summarization::testing {
namespace {

struct Result {
  double loss;
  std::vector<at::Tensor> gradients;

  bool operator==(const Result& other) const {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].equal(other.gradients[i])) return false;
    }
    return loss == other.loss;
  }
};

class InvariantsTest : public ::testing::Test {
 protected:
  InvariantsTest() : model_(with_dropout()) { fill_by_formula(model_); }

  static Gpt2Config with_dropout() {
    Gpt2Config config = tiny_config();
    config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = 0.1;
    return config;
  }

  Result step(ForwardOptions options = {.training = true, .dropout_seed = 3}) {
    model_.zero_grad();
    const transformer::Loss loss = model_.loss(tiny_batch(), options);
    loss.scaled.backward();
    Result result{loss.sum.item<double>(), {}};
    for (const at::Tensor& parameter : model_.parameters())
      result.gradients.push_back(parameter.grad().clone());
    return result;
  }

  Gpt2 model_;
};

TEST_F(InvariantsTest, TheDropoutSeedDecidesEverything) {
  const Result first = step();
  EXPECT_EQ(step(), first);
  EXPECT_FALSE(step({.training = true, .dropout_seed = 4}) == first);
  EXPECT_FALSE(step({.training = false}) == first);
}

TEST_F(InvariantsTest, CheckpointedActivationsGiveTheSameBits) {
  EXPECT_EQ(step({.training = true, .dropout_seed = 3, .checkpoint_activations = true}), step());
}

TEST_F(InvariantsTest, ThreadsGiveTheSameBits) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Result one = step();
  at::set_num_threads(2);
  EXPECT_EQ(step(), one);
  at::set_num_threads(before);
}

TEST_F(InvariantsTest, ParametersMayMoveIntoOneBuffer) {
  const Result before = step();
  int64_t total = 0;
  for (const at::Tensor& parameter : model_.parameters()) total += parameter.numel();
  const at::Tensor flat = at::empty({total});
  int64_t offset = 0;
  for (at::Tensor& parameter : model_.parameters()) {
    const at::Tensor view = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    view.copy_(parameter.detach());
    parameter.set_data(view);
    offset += parameter.numel();
  }
  EXPECT_EQ(step(), before);
  flat.mul_(1.01);
  EXPECT_FALSE(step() == before);  // the forward pass reads the buffer
}

// The last layer is computed only where there is a target when those rows are few: the same function as over
// all rows.
TEST_F(InvariantsTest, FewTargetsGiveTheGradientsOfTheWhole) {
  PackedBatch few = tiny_batch();
  for (const int64_t row : {0, 3, 4, 8, 9, 12, 20, 21, 22, 30, 40}) few.targets[row] = -1;
  few.target_rows.clear();
  for (int64_t row = 0; row < few.targets.numel(); ++row) {
    if (few.targets[row].item<int64_t>() >= 0) few.target_rows.push_back(row);
  }
  ASSERT_LT(few.target_rows.size(), 0.75 * static_cast<double>(few.tokens.size(0)));
  model_.loss(few, {}).scaled.backward();
  std::vector<at::Tensor> pruned;
  for (const at::Tensor& parameter : model_.parameters()) pruned.push_back(parameter.grad().clone());

  // All rows have a target here; those that should not count are taken away again.
  model_.zero_grad();
  PackedBatch all = tiny_batch(), rest = tiny_batch();
  all.target_rows.clear();
  rest.target_rows.clear();
  for (int64_t row = 0; row < all.targets.numel(); ++row) {
    const int64_t wanted = few.targets[row].item<int64_t>();
    all.targets[row] = wanted >= 0 ? wanted : 1;
    all.target_rows.push_back(row);
    if (wanted < 0) {
      rest.targets[row] = 1;
      rest.target_rows.push_back(row);
    }
  }
  model_.loss(all, {}).scaled.backward();
  model_.loss(rest, {.scale = -1}).scaled.backward();
  const auto parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double difference = (parameters[i].grad() - pruned[i]).norm().item<double>();
    EXPECT_LE(difference, 1e-4 * pruned[i].norm().item<double>()) << parameter_list(tiny_config())[i].name;
  }
}

TEST_F(InvariantsTest, NoTargetAtAllGivesZeroGradients) {
  PackedBatch none = tiny_batch();
  none.targets.fill_(-1);
  none.target_rows.clear();
  const transformer::Loss loss = model_.loss(none, {});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  loss.scaled.backward();
  for (const at::Tensor& parameter : model_.parameters())
    EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
}

TEST_F(InvariantsTest, UnitsAreWrappedInOrder) {
  const Result plain = step();
  std::vector<int64_t> units;
  model_.set_unit_wrapper([&](int64_t unit, const Tensors& inputs, const UnitBody& body) {
    units.push_back(unit);
    return body(inputs);
  });
  EXPECT_EQ(step(), plain);
  EXPECT_THAT(units, ::testing::ElementsAre(0, 1, 2, 3, 0));
}

TEST_F(InvariantsTest, EachSequenceIsAloneInItsBatch) {
  const PackedBatch batch = tiny_batch();
  const at::Tensor together = model_.logits(batch, at::arange(batch.sequences.rows(), at::kLong));
  for (size_t s = 0; s < tiny_tokens().size(); ++s) {
    const PackedBatch alone = pack({tiny_tokens()[s]}, {tiny_targets()[s]});
    const at::Tensor logits = model_.logits(alone, at::arange(alone.sequences.rows(), at::kLong));
    const auto index = static_cast<int64_t>(s);
    EXPECT_TRUE(logits.equal(together.narrow(0, batch.sequences.start(index), batch.sequences.length(index))))
        << s;
  }
}

TEST_F(InvariantsTest, WithoutGradientsTheLossIsTheSame) {
  const Result trained = step({.training = false});
  const at::NoGradGuard no_grad;
  const transformer::Loss loss = model_.loss(tiny_batch(), {});
  EXPECT_NEAR(loss.sum.item<double>(), trained.loss, 1e-6 * trained.loss);
  EXPECT_FALSE(loss.scaled.requires_grad());
}

TEST_F(InvariantsTest, LowPrecisionIsNear) {
  // As before training: the formula's regular weights magnify every rounding.
  auto parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor value = parameters[i].detach();
    initial_value(tiny_config(), 1, i, value);
  }
  const Result exact = step({.training = false}), low = step({.training = false, .compute = at::kBFloat16});
  EXPECT_NEAR(low.loss, exact.loss, 2e-2 * exact.loss);
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    EXPECT_EQ(low.gradients[i].scalar_type(), at::kFloat);
    const double difference = (low.gradients[i] - exact.gradients[i]).norm().item<double>();
    EXPECT_LE(difference, 0.1 * exact.gradients[i].norm().item<double>() + 1e-3)
        << parameter_list(tiny_config())[i].name;
  }
}

TEST(ConfigTest, WrongValuesAreNamed) {
  Gpt2Config config = tiny_config();
  config.n_head = 7;
  EXPECT_THAT([&] { Gpt2 model(config); },
              ::testing::ThrowsMessage<std::invalid_argument>("n_head = 7: must divide n_embd (32)"));
  config = tiny_config();
  config.resid_pdrop = 1;
  EXPECT_THAT([&] { config.check(); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr("resid_pdrop = 1.0")));
}

TEST(ConfigTest, TokensOutsideTheVocabularyAreNamed) {
  Gpt2 model(tiny_config());
  fill_by_formula(model);
  EXPECT_THROW(model.loss(pack({{1, 97}}, {{5, -1}}), {}), c10::IndexError);
  EXPECT_THROW(model.loss(pack({{1, 96}}, {{97, -1}}), {}), c10::IndexError);
}

}  // namespace
}  // namespace pipeline::summarization::testing
