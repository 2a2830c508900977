// A model of whose weights nothing can be computed: every verb says so, with the sample, and none hands out
// what only looks like a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/jobs.hpp"

namespace pipeline::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class JobT>
class RuinedModel : public testing::Test, public JobT {
 protected:
  // One step that is far too large.
  void SetUp() override {
    const Result run = this->call(
        "run", {"--set", "optimizer.kind=sgd", "--set", "optimizer.lr=1e30", "--set", "train.max_steps=1",
                "--set", "evaluate.every=0", "--set", "evaluate.at_end=false"});
    ASSERT_EQ(run.code, 0) << run.out << run.err;
  }
  void expect_error(const std::string& verb, const std::vector<std::string>& more, const std::string& error) {
    const Result result = this->call(verb, more);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr(error), HasSubstr(" is nan, must be a number"))) << result.out;
  }
};
TYPED_TEST_SUITE(RuinedModel, Jobs, JobNames);

TYPED_TEST(RuinedModel, IsNotEvaluated) {
  this->expect_error("evaluate", {"--split", "val"}, "evaluate: sample");
}

using OfSummaries = RuinedModel<SmallJob>;
TEST_F(OfSummaries, WritesNone) {
  for (const char* method : {"greedy", "sample", "beam"})
    expect_error("predict", {"--set", std::string("task.generate.method=") + method},
                 "sample \"x1\": summary");
}

using OfProteins = RuinedModel<SmallEsm2Job>;
TEST_F(OfProteins, GivesNoScores) {
  expect_error("predict", {}, "sample \"");
  expect_error("predict", {"--set", "task.predict.what=[\"embeddings\"]"}, ": embedding");
}

using OfPictures = RuinedModel<SmallVlmJob>;
TEST_F(OfPictures, GivesNoAnswers) { expect_error("predict", {}, "sample \"c200\": answer"); }

}  // namespace
}  // namespace pipeline::tests
