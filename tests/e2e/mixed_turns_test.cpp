// What the ABI offers beside one loss over one stack of layers, through the whole program.
#include <gmock/gmock.h>

#include "core/safetensors/file.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

class MixedTurnsJob : public Job {
 public:
  MixedTurnsJob() {
    write_text(path("train.toml"), std::string("[run]\ndir = \"run\"\ndevice = \"cpu\"\nreproducible = "
                                               "true\n[task]\nplugin = \"mixed_turns\"\n") +
                                       kShortTraining);
  }
};

using MixedTurns = SameRunOf<MixedTurnsJob>;

std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : read_lines(file)) {
    lines.push_back(nlohmann::json::parse(line));
    for (const char* varies : {"seconds", "data_wait_seconds"}) lines.back().erase(varies);
  }
  return lines;
}

// Micro-batches of one step use different units; stage 3 holds one unit's weights at a time, on all ranks the
// same.
TEST_F(MixedTurns, HaveTheSameBitsWhereWeightsComeUnitByUnit) {
  train({"single", 1});
  for (const Arrangement& arrangement : {Arrangement{"ddp", 2}, Arrangement{"sharded2", 2},
                                         Arrangement{"sharded3", 2}, Arrangement{"sharded3", 4}}) {
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << arrangement.name();
  }

  // The task has no form of its own to export: its parameters are one that does not depend on the strategy.
  EXPECT_EQ(exported("single_1"), exported("sharded3_2"));
  const auto file = safetensors::File::open(path("single_1/export/model.safetensors"));
  EXPECT_EQ(file.tensors().size(), 8u);
  EXPECT_EQ(file.at("head.weight").shape, (safetensors::Shape{1, 8}));
  const std::string readme = read_text(path("single_1/export/README.md"));
  EXPECT_THAT(readme, HasSubstr("| `head.weight` | 1 x 8 |\n"));
  EXPECT_EQ(read_text(path("sharded3_2/export/README.md")), readme);
  EXPECT_EQ(read_text(path("single_1/export/extra_state.bin")), "turns");
}

TEST_F(MixedTurns, StepMetricsAndFiguresOfRecordsAreTheSameOnAllProcesses) {
  train({"single", 1});
  train({"ddp", 2});
  const auto steps = lines_of(path("single_1/metrics.jsonl")),
             evaluations = lines_of(path("single_1/eval.jsonl"));
  ASSERT_EQ(steps.size(), 12u);
  for (const auto& step : steps)
    EXPECT_NEAR(step["squares"].get<double>(), step["loss"].get<double>(), 1e-6) << step;
  EXPECT_GT(evaluations.back()["auroc"].get<double>(), 0.7) << evaluations.back();
  EXPECT_TRUE(evaluations.back().contains("right_even"));
  EXPECT_EQ(lines_of(path("ddp_2/eval.jsonl")), evaluations);
}

TEST_F(MixedTurns, ParametersThatNeverHaveAGradientAreNamed) {
  for (const Words& set : {Words{"strategy.plugin=single"},
                           {"strategy.plugin=ddp", "launch.processes=2"},
                           {"strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"}}) {
    Words more = Words{"run.dir=" + set[0]} + set;
    const Result used = call("run", more).ended(0);
    EXPECT_THAT(used.out + used.err, Not(HasSubstr("no gradient")));
    more[0] += "-unused";
    more.push_back("task.pictures=false");
    const Result unused = call("run", more).ended(0);
    EXPECT_THAT(unused.out + unused.err,
                HasSubstr("4 of 8 trainable parameters had no gradient in 12 steps"));
    EXPECT_THAT(unused.out + unused.err,
                HasSubstr("tower0.weight, tower0.bias, tower1.weight, tower1.bias: the loss"));
  }
}

TEST_F(MixedTurns, AStageMayAddParametersAndALaterOneLeaveThemOut) {
  train({"single", 1}, {}, "plain");
  const Result with = call("run", {"run.dir=with", "train.init_from=plain", "task.adapter=true"}).ended(0);
  EXPECT_THAT(with.out, HasSubstr("2 parameter(s): adapter.weight, adapter.bias"));
  EXPECT_THAT(with.out, HasSubstr("new, not in "));
  const Result back = call("run", {"run.dir=back", "train.init_from=with"}).ended(0);
  EXPECT_THAT(back.out, HasSubstr("left out of "));
  EXPECT_THAT(back.out, HasSubstr("2 parameter(s): adapter.weight, adapter.bias"));
  // A run's own checkpoint, and one that is only used, must have it all.
  EXPECT_THAT(call("evaluate", {"run.dir=plain", "task.adapter=true"}).ended(2).err,
              HasSubstr("missing: adapter.weight [8, 8]"));
}

}  // namespace
}  // namespace pipeline::tests
