#include "core/train/health.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace pipeline::train {
namespace {

// Steps with these losses, of which those in `skipped` had no update.
Health after(std::vector<double> losses, std::vector<uint64_t> skipped = {}) {
  Health health;
  for (size_t i = 0; i < losses.size(); ++i)
    health.add_step(i + 1, losses[i], std::ranges::find(skipped, i + 1) == skipped.end());
  return health;
}

const double kNan = std::nan("");

TEST(Health, WeightsAreSoundOnceALossOfTheirsIsFinite) {
  const Health health = after({3, 2, 1});
  EXPECT_EQ(health.sound(), 2u) << "of the third update nothing is known yet";
  EXPECT_EQ(health.skipped(), 0u);
  EXPECT_FALSE(health.ends_badly());
  EXPECT_EQ(health.last_finite_loss()->step, 3u);
}

TEST(Health, AnUpdateThatRuinsTheWeightsShowsOneStepLater) {
  const Health health = after({3, 2, 1, kNan, kNan}, {4, 5});
  EXPECT_EQ(health.sound(), 2u);
  EXPECT_EQ(health.first_skipped(), 4u);
  EXPECT_EQ(health.skipped(), 2u);
  EXPECT_TRUE(health.ends_badly());
  EXPECT_FALSE(health.skips_on_sound_weights());
  EXPECT_EQ(health.last_finite_loss()->value, 1);
  EXPECT_TRUE(after({3, kNan}, {2}).ends_badly());
}

TEST(Health, ALossThatExplodesIsNoProofOfGoodWeights) {
  const Health health = after({3, 2, 1e20, kNan, kNan}, {4, 5});
  EXPECT_EQ(health.sound(), 1u);
  EXPECT_EQ(after({1e-3, 5, 2}).sound(), 2u) << "next to nothing is no measure";
  EXPECT_EQ(after({1e20, 1e20}).sound(), 1u);
  Health evaluated = after({3, 2});
  evaluated.add_evaluation(2, 1e20, "");
  EXPECT_EQ(evaluated.sound(), 1u);
}

TEST(Health, ASingleSkipOnSoundWeightsIsHarmless) {
  const Health overflow = after({3, 2, 1}, {3});  // fp16: the loss is finite, a scaled gradient is not
  EXPECT_FALSE(overflow.ends_badly());
  EXPECT_EQ(overflow.sound(), 3u);
  EXPECT_EQ(overflow.sound_before_skips(), 2u);
  Health bad_batch = after({3, 2, kNan}, {3});
  EXPECT_TRUE(bad_batch.ends_badly());
  bad_batch.add_evaluation(3, 1, "");
  EXPECT_FALSE(bad_batch.ends_badly());
  EXPECT_EQ(bad_batch.sound(), 3u);
}

TEST(Health, SkippingIsNoEndWhateverTheWeights) {
  Health health = after({3, 2, 1}, {2, 3});
  EXPECT_TRUE(health.skips_on_sound_weights());
  EXPECT_TRUE(health.ends_badly());
  health.add_evaluation(3, 1, "");
  EXPECT_TRUE(health.ends_badly());
  health.add_step(4, 1, true);
  EXPECT_FALSE(health.ends_badly());
  EXPECT_TRUE(after({3}, {1}).ends_badly()) << "nothing was learnt at all";
}

TEST(Health, ABadLastEvaluationIsABadEnd) {
  Health health = after({3, 2});
  health.add_evaluation(2, kNan, "loss nan");
  EXPECT_TRUE(health.ends_badly());
  EXPECT_EQ(health.sound(), 1u);
  health.add_evaluation(2, 1, "");
  EXPECT_FALSE(health.ends_badly());
}

TEST(Health, ContinuesFromItsState) {
  Health health = after({3, 2, kNan}, {3});
  health.add_evaluation(3, kNan, "loss nan");
  Health continued;
  continued.load_state(health.state());
  EXPECT_EQ(continued.state(), health.state());
  EXPECT_FALSE(Health(40).ends_badly()) << "of a checkpoint that does not say";
}

TEST(Divergence, SaysWhatHappenedAndWhatToDo) {
  const config::Config config = config::load({.file = "",
                                              .sets = {"task.plugin=t", "optimizer.lr=0.5"},
                                              .changes = {},
                                              .stage = "",
                                              .find_plugins = {}});
  EXPECT_EQ(describe({.health = after({3, 2.5, kNan, kNan}, {3, 4}),
                      .signs = {"train.max_nonfinite_steps = 2 ends the run here"},
                      .last_good = "run/checkpoints/step-00000001",
                      .set_aside = {"diverged-step-00000002"}},
                     config, "fp16"),
            "the run has diverged: the gradient was not finite, and the update was skipped, in 2 steps in a "
            "row, from step 3 on; train.max_nonfinite_steps = 2 ends the run here\n"
            "  last finite loss: 2.5, in step 2\n"
            "  last good checkpoint: run/checkpoints/step-00000001\n"
            "  set aside, not to be gone on from: diverged-step-00000002\n"
            "  what to do: go on from there with --change optimizer.lr=0.05 (it was 0.5); "
            "schedule.warmup_steps (0) and train.clip_grad_norm (1.0) help, too; or start over with --fresh "
            "and another train.precision (it was fp16); or look at the data");
}

}  // namespace
}  // namespace pipeline::train
