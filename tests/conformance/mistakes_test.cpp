// check-plugin finds each mistake of mistakes.c, and says what it is.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <test_paths.hpp>

#include "core/base/child.hpp"
#include "core/plugins/check/check_plugin.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

using ::testing::HasSubstr;

constexpr const char *kSame = "the same ids and seed give the same loss and gradients, bit for bit",
                     *kGradients = "gradients are those of the loss",
                     *kScale = "gradients follow the scale, and are added to the bound ones",
                     *kSum = "the loss of a batch is a sum", *kWeight = "a batch says its weight and size",
                     *kId = "a sample follows from its id",
                     *kApart = "training and evaluation leave each other alone",
                     *kData = "data are the same for every object and process",
                     *kBehind = "what is loaded, trained and evaluated leaves nothing behind",
                     *kHandedOver = "gradients handed over equal gradients in place",
                     *kUnits = "values of a unit are used only while it is open",
                     *kRows = "a prediction has one row for each sample",
                     *kEvaluates = "evaluation reports the loss and what its metrics need",
                     *kThreads = "batches can be loaded by several threads at once";

struct Mistake {
  const char *name, *check, *says;
};

constexpr Mistake kMistakes[] = {
    {"scale_ignored", kScale, "with scale 0.25, element 0 of the gradient of 'weight' is "},
    {"gradient_overwritten", kScale,
     "trained twice without clearing the gradients between, element 0 of the"},
    {"mean_loss", kSum, "it must be the sum over the batch, not its mean"},
    {"wrong_sign", kGradients,
     "the gradient of 'bias' is not that of the loss: along a step the loss changes by"},
    {"lost_gradient", kGradients, "the gradient of 'bias' is not that of the loss"},
    {"doubled_gradient", kGradients, "the gradient of 'bias' is not that of the loss"},
    {"gradient_twice", kSame, "the gradient of 'bias' came twice, must come once in a micro-batch"},
    {"gradient_early", kSame, "the gradient of 'bias' changed after it was reported as ready"},
    {"gradient_unreported", kSame, "the gradient of 'bias' was never reported as ready, and is not zero"},
    {"gradient_of_none", kSame, "a gradient came for parameter 2 of 2"},
    {"gradient_of_shape", kHandedOver, "the gradient of 'bias' has the shape (2), the parameter (1)"},
    {"written_behind", kSame, "train wrote behind the gradient of 'bias', 1 elements"},
    {"written_before", kSame, "train wrote in front of the gradient of 'bias', 1 elements"},
    {"read_behind", kSame, "loss or gradients are not finite at the first step"},
    {"training_writes", kSame, "train changed a parameter's value: only the strategy may"},
    {"evaluation_writes", kEvaluates, "evaluate changed a parameter's value: only the strategy may"},
    {"loss_of_half", kSame, "the loss is neither float32 nor float64"},
    {"random_loss", kSame, "the same batch and seed gave another loss"},
    {"last_batch", kApart, "another loss or other gradients when another one was trained before it"},
    {"evaluation_remembers", kApart, "after training that changed no value"},
    {"training_remembers", kApart, "training gives another loss or other gradients after an evaluation"},
    {"mean_evaluation", kSum, "the mean of those that each has alone"},
    {"doubled_weight", kEvaluates,
     "evaluate gives the loss a weight of 2, batch_info says 4 for the same batch"},
    {"weight_of_batch", kWeight, "weight of samples 0, 1 is 1, of each alone 2 in sum"},
    {"weight_nan", kWeight, "batch_info: weight is nan"},
    {"weight_negative", kWeight, "batch_info: weight is -1"},
    {"place_for_id", kId, "the loss of any two samples is "},
    {"noise_of_place", kId, "in the other order: a sample must follow from its id"},
    {"noise_of_batch", kId,
     "what is random in a sample must follow from the run's seed, its id and the epoch"},
    {"noise_of_call", kSame, "the same ids, loaded again, gave another loss"},
#ifndef PIPELINE_SANITIZED  // the one ends at a race, the others count no memory
    {"shared_batch", kThreads, "batches loaded by several threads at once are not the same"},
    {"leaked_batch", kBehind, "a batch that was loaded and freed leaves "},
    {"leaked_step", kBehind, "a micro-batch that was trained leaves 80 bytes behind, each time"},
#endif
    {"fingerprint_of_call", kData, R"(it says "data_fingerprint 'call 1')"},
    {"fingerprint_of_object", kData, "as another object"},
    {"fingerprint_of_process", kData, "in another process"},
    {"growing_split", kData, "after training"},
    {"missing_row", kRows,
     "gave 2 rows for the 3 samples of its batch, none for sample 2: must give each one"},
    {"row_of_place", kRows, "a row is for the sample, not for its place in the batch"},
    {"unit_open", kUnits, "unit 0 was entered, and never left"},
    {"unit_closed", kUnits, "the gradient of 'bias' came when its unit 0 had been left"},
    {"unit_order", kUnits, "two micro-batches do not enter and leave the same units in the same order"},
};

// The check alone that is to find it: each in a process of its own, as check-plugin runs it.
TEST(CheckPlugin, FindsEachMistake) {
  CheckArgs args;
  args.plugin = PIPELINE_BUILD_DIR "/tests/zoo/mistakes.so";
  const CheckReport right = check_plugin(args);
  EXPECT_TRUE(right.passed()) << right.text;
  const std::vector<Promise> promises = task_promises();
  for (const Mistake& mistake : kMistakes) {
    args.sets = {fmt::format("task.mistake=\"{}\"", mistake.name)};
    const auto promise = std::ranges::find(promises, mistake.check, &Promise::name);
    ASSERT_NE(promise, promises.end()) << mistake.check;
    const ChildResult found = run_in_child(std::chrono::seconds(60), [&] {
      promise->test(args);
      return std::string();
    });
    EXPECT_THAT(found.problem, HasSubstr(mistake.says)) << mistake.name;
  }
}

}  // namespace
}  // namespace pipeline::plugins
