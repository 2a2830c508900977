// What training relies on: the bits of a step do not depend on threads, on recomputation, or on where the
// parameters are stored.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/support/unit_recorder.hpp"
#include "tiny_model.hpp"

namespace pipeline::language::testing {
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

  static Config with_dropout() {
    Config config = tiny_config();
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0.1;
    return config;
  }

  Result step(const ForwardPass& pass = {.training = true, .dropout_seed = 3}) {
    zero_gradients(model_);
    const LossSum loss = model_.loss(tiny_batch(), pass);
    loss.scaled.backward();
    if (pass.units != nullptr) pass.units->finish_backward();
    Result result{loss.sum.item<double>(), {}};
    for (const at::Tensor& parameter : tensors(model_)) result.gradients.push_back(parameter.grad().clone());
    return result;
  }

  LanguageModel model_;
};

TEST_F(InvariantsTest, TheDropoutSeedDecidesEverything) {
  const Result first = step();
  EXPECT_EQ(step(), first);
  EXPECT_FALSE(step({.training = true, .dropout_seed = 4}) == first);
  EXPECT_FALSE(step({.training = false}) == first);
}

TEST_F(InvariantsTest, CheckpointedActivationsGiveTheSameBits) {
  Units units;
  units.set_checkpointing(true);
  EXPECT_EQ(step({.training = true, .dropout_seed = 3, .units = &units}), step());
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
  for (const at::Tensor& parameter : tensors(model_)) total += parameter.numel();
  const at::Tensor flat = at::empty({total});
  int64_t offset = 0;
  for (at::Tensor parameter : tensors(model_)) {
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
  const PackedBatch whole = tiny_batch();
  PackedBatch few = whole;
  std::vector<int64_t> kept;
  few.target_rows.clear();
  for (size_t t = 0; t < whole.target_rows.size(); ++t) {
    if (t % 2 == 0) continue;
    few.target_rows.push_back(whole.target_rows[t]);
    kept.push_back(whole.targets[static_cast<int64_t>(t)].item<int64_t>());
  }
  few.targets = at::tensor(kept);
  ASSERT_LT(few.target_rows.size(), 0.75 * static_cast<double>(few.tokens.size(0)));
  model_.loss(few, {}).scaled.backward();
  std::vector<at::Tensor> pruned;
  for (const at::Tensor& parameter : tensors(model_)) pruned.push_back(parameter.grad().clone());

  // All rows have a target here; those that should not count are taken away again.
  zero_gradients(model_);
  PackedBatch all = whole, rest = whole;
  all.targets = at::ones({whole.tokens.size(0)}, at::kLong);
  all.target_rows.clear();
  rest.target_rows.clear();
  size_t next = 0;
  for (int64_t row = 0; row < all.targets.numel(); ++row) {
    all.target_rows.push_back(row);
    if (next < few.target_rows.size() && few.target_rows[next] == row) {
      all.targets[row] = kept[next++];
    } else {
      rest.target_rows.push_back(row);
    }
  }
  rest.targets = at::ones({static_cast<int64_t>(rest.target_rows.size())}, at::kLong);
  model_.loss(all, {}).scaled.backward();
  model_.loss(rest, {.scale = -1}).scaled.backward();
  for (size_t i = 0; i < pruned.size(); ++i) {
    const auto& parameter = model_.parameters()[i];
    const double difference = (parameter.tensor.grad() - pruned[i]).norm().item<double>();
    EXPECT_LE(difference, 1e-4 * pruned[i].norm().item<double>()) << parameter.name;
  }
}

TEST_F(InvariantsTest, NoTargetAtAllGivesZeroGradients) {
  PackedBatch none = tiny_batch();
  none.targets = at::empty({0}, at::kLong);
  none.target_rows.clear();
  const LossSum loss = model_.loss(none, {});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  loss.scaled.backward();
  for (const at::Tensor& parameter : tensors(model_)) EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
}

TEST_F(InvariantsTest, UnitsAreEnteredInOrder) {
  const Result plain = step();
  tests::UnitRecorder recorder;
  EXPECT_EQ(step({.training = true, .dropout_seed = 3, .units = &recorder.units()}), plain);
  EXPECT_THAT(recorder.forward, ::testing::ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(recorder.backward, ::testing::ElementsAre(0, 3, 2, 1, 0));
}

// A strategy that sends gradients in rows takes the parts: together they are the gradient.
TEST_F(InvariantsTest, TheEmbeddingsGradientMayBeTakenInParts) {
  const Result plain = step();
  const at::Tensor &embedding = model_.token_embedding(), sum = at::zeros_like(embedding);
  std::vector<std::string> order;
  const ForwardPass in_parts{
      .training = true,
      .dropout_seed = 3,
      .deliver =
          [&](const at::Tensor& parameter, const at::Tensor& gradient) {
            EXPECT_TRUE(parameter.is_same(embedding));
            order.push_back("head");
            at::Tensor(sum).add_(gradient);
          },
      .deliver_rows =
          [&](const at::Tensor& parameter, const at::Tensor& rows, const at::Tensor& values) {
            EXPECT_TRUE(parameter.is_same(embedding));
            order.push_back("rows");
            at::Tensor(sum).index_add_(0, rows, values);
          }};
  zero_gradients(model_);
  model_.loss(tiny_batch(), in_parts).scaled.backward();
  EXPECT_EQ(order, (std::vector<std::string>{"head", "rows"}));
  EXPECT_FALSE(embedding.grad().defined());
  EXPECT_LT((sum - plain.gradients[0]).norm().item<double>(), 1e-6 * sum.norm().item<double>());
}

TEST_F(InvariantsTest, EachSequenceIsAloneInItsBatch) {
  const PackedBatch batch = tiny_batch();
  const at::Tensor together = model_.logits(batch, at::arange(batch.sequences.rows(), at::kLong));
  for (size_t s = 0; s < tiny_tokens().size(); ++s) {
    const PackedBatch alone = transformer::pack({tiny_tokens()[s]}, {tiny_targets()[s]});
    const at::Tensor logits = model_.logits(alone, at::arange(alone.sequences.rows(), at::kLong));
    const auto index = static_cast<int64_t>(s);
    EXPECT_TRUE(logits.equal(together.narrow(0, batch.sequences.start(index), batch.sequences.length(index))))
        << s;
  }
}

TEST_F(InvariantsTest, WithoutGradientsTheLossIsTheSame) {
  const Result trained = step({.training = false});
  const at::NoGradGuard no_grad;
  const LossSum loss = model_.loss(tiny_batch(), {});
  EXPECT_NEAR(loss.sum.item<double>(), trained.loss, 1e-6 * trained.loss);
  EXPECT_FALSE(loss.scaled.requires_grad());
}

TEST_F(InvariantsTest, LowPrecisionIsNear) {
  // Weights are as before training: the formula's regular ones magnify every rounding.
  tests::initialize(model_, 1);
  const Result exact = step({.training = false}), low = step({.training = false, .compute = at::kBFloat16});
  EXPECT_NEAR(low.loss, exact.loss, 2e-2 * exact.loss);
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    EXPECT_EQ(low.gradients[i].scalar_type(), at::kFloat);
    const double difference = (low.gradients[i] - exact.gradients[i]).norm().item<double>();
    EXPECT_LE(difference, 0.1 * exact.gradients[i].norm().item<double>() + 1e-3)
        << model_.parameters()[i].name;
  }
}

TEST(ConfigTest, WrongValuesAreNamed) {
  Config config = tiny_config();
  config.num_attention_heads = 7;
  EXPECT_THAT([&] { LanguageModel model(config); },
              ::testing::ThrowsMessage<Error>("n_head = 7: must divide n_embd (32)"));
  config = tiny_config();
  config.residual_dropout = 1;
  EXPECT_THAT([&] { config.check(); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("resid_pdrop = 1: must be")));
}

TEST(ConfigTest, TokensOutsideTheVocabularyAreNamed) {
  LanguageModel model(tiny_config());
  fill_by_formula(model);
  EXPECT_THROW(model.loss(transformer::pack({{1, 97}}, {{5, -1}}), {}), c10::IndexError);
  EXPECT_THROW(model.loss(transformer::pack({{1, 96}}, {{97, -1}}), {}), c10::IndexError);
}

}  // namespace
}  // namespace pipeline::language::testing
